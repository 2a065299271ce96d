/* Settings from the files of a run, which may be a stranger's: what is taken of them. */
#ifndef GR_TRAIN_CONFIG_SAVED_H
#define GR_TRAIN_CONFIG_SAVED_H

#include "train/config/settings.h"
#include "train/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a value from there may have a say in that slot. */
bool gr_settings_may_take(const gr_settings *s, const gr_slot *slot, const gr_origin *from);
/* Lines "name = value", as GR_RECORD_SAVE has them. What is not taken is put into s->ignored. */
gr_status gr_settings_put_saved(gr_settings *s, const char *saved) GR_MUST_CHECK;
/* GR_ERR_ARG: what the recipe finds its data by was not taken, and nobody has given it. */
gr_status gr_train_options_check_away(const gr_train_options *o, const char *saved) GR_MUST_CHECK;

void gr_ignored_add(gr_ignored *g, const char *name);
void gr_ignored_fini(gr_ignored *g);

#ifdef __cplusplus
}
#endif

#endif

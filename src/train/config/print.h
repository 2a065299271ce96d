/* Values as text. No state; any thread. */
#ifndef GR_TRAIN_CONFIG_PRINT_H
#define GR_TRAIN_CONFIG_PRINT_H

#include "base/text.h"
#include "train/config/value.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gr_setting_form {
    GR_FORM_LINE, /* as a flag takes it, in one line */
    GR_FORM_YAML  /* as a file takes it: texts between quotes */
} gr_setting_form;

/* Reads back as the same value. Nothing when there is none. */
void gr_setting_print(const gr_key *key, const gr_setting *v, gr_setting_form form, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

/* The commands that recipes bring along. */
#ifndef GR_TRAIN_OWN_COMMAND_H
#define GR_TRAIN_OWN_COMMAND_H

#include <stdbool.h>

#include "train/train.h"

/* Whether a recipe has it. */
bool gr_own_command_is(const gr_command *c, const char *name);
/* c->verb, with c's words. */
gr_status gr_own_command_run(const gr_command *c) GR_MUST_CHECK;
/* That of `name`, of each recipe that has it, or of the one that c's first word names. */
void gr_own_command_help(const gr_command *c, const char *name, gr_text *out);
/* A line for each. */
void gr_own_commands_list(const gr_command *c, gr_text *out);
/* How many there are; their names, where there is a place for them. */
int gr_own_commands_names(const gr_command *c, const char **names);

#endif

/* The words to execute for one rank. */
#ifndef GR_LAUNCH_COMMAND_H
#define GR_LAUNCH_COMMAND_H

#include "launch/config.h"

typedef struct gr_command {
    char *path;       /* of the file to execute; owned */
    char **words;     /* ended by NULL; the list is owned, most words are not */
    char *local_rank; /* "--local-rank=N", rewritten for each rank; owned, or NULL */
} gr_command;

/*
 * ".py" programs and modules run under python3 (or PYTHON_EXEC), unbuffered. A program without
 * a slash is looked for in PATH, then beside this one.
 */
gr_status gr_command_init(gr_command *m, const gr_launch_config *c) GR_MUST_CHECK;
void gr_command_set_rank(gr_command *m, int local_rank);
void gr_command_fini(gr_command *m);

#endif

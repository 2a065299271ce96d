/*
 * The commands of `gradus`: one table, and the choice among them. main() opens the streams,
 * chooses, runs, prints and makes an exit code; everything else is here.
 */
#ifndef GR_TRAIN_COMMAND_H
#define GR_TRAIN_COMMAND_H

#include <stdbool.h>

#include "train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GR_VERB_TASK = 1, /* one that `task:` and --task can name, too */
    GR_VERB_JOB = 2   /* of ranks: --nproc N starts them under gradrun */
};

typedef struct gr_verb {
    const char *name, *help; /* one line */
    unsigned use;
    /* Text for stdout goes to `out`; *signal as gr_train() has it. */
    gr_status (*run)(const gr_command *c, gr_text *out, int *signal);
    void (*show_help)(const gr_command *c, gr_text *out);
} gr_verb;

extern const gr_verb gr_verbs[]; /* ends with a NULL name */

/*
 * From main's words to a command: sets c->argc and c->argv to those after its name. Without a
 * name ("gradus --config F --task test") the task says which it is. *wants_help: --help or -h
 * is among the words. GR_ERR_ARG: no such command (with the nearest), or a --task that
 * contradicts the word.
 */
gr_status gr_command_choose(gr_command *c, int argc, char **argv, const gr_verb **verb,
                            bool *wants_help) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

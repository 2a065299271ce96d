/*
 * `gradus debug --nan`: the trainer's steps, checked node by node (gr_step_run_checked). It
 * opens the run as train does, a checkpoint with --resume included, but writes nothing: a run that
 * is looked at stays as it is, and may even be going on.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "train/stop.h"
#include "train/trainer.h"

#define DEFAULT_STEPS 20
#define WORD          "--nan"

/* The words without --nan, which must be among them. */
static gr_status take_word(const gr_command *c, char **argv, int *argc)
{
    bool found = false;

    *argc = 0;
    for (int i = 0; i < c->argc; i++) {
        if (!found && strcmp(c->argv[i], WORD) == 0)
            found = true;
        else
            argv[(*argc)++] = c->argv[i];
    }
    if (found)
        return GR_OK;
    return gr_fail(GR_ERR_ARG, "debug: say what to look for: gradus debug " WORD " RECIPE");
}

/* What the ranks found, to rank 0's output. */
static gr_status tell(gr_trainer *t)
{
    const gr_check_report *r = t->check;
    bool is_own = r->kind != GR_CHECK_CLEAN && r->kind != GR_CHECK_PEER;
    char **texts = NULL;

    GR_TRY(gr_pg_gather_bytes(t->pg, r->text, is_own ? strlen(r->text) : 0, &texts, NULL));
    for (int i = 0; i < t->n_ranks; i++)
        if (texts[i][0] != '\0' && t->n_ranks > 1)
            gr_trainer_say(t, "rank %d, step %" PRId64 ": %s", i, t->at + 1, texts[i]);
        else if (texts[i][0] != '\0')
            gr_trainer_say(t, "step %" PRId64 ": %s", t->at + 1, texts[i]);
    free(texts);
    return GR_OK;
}

static gr_status run_steps(gr_trainer *t)
{
    int64_t first = t->at, end = t->end;
    int signal = 0;

    GR_TRY(gr_trainer_seek(t));
    if (t->o.max_steps == 0 && end > first + DEFAULT_STEPS)
        end = first + DEFAULT_STEPS;
    while (t->at < end && signal == 0) {
        gr_status st = gr_trainer_step(t, true);
        gr_error error;

        if (st != GR_OK && t->check->kind != GR_CHECK_CLEAN) {
            gr_error_take(&error, st);
            GR_TRY(tell(t));
            return gr_error_raise(&error);
        }
        GR_TRY(st);
        gr_trainer_say(t, "step %" PRId64 ": loss %.6g, every value is finite", t->at, t->loss);
        GR_TRY(gr_trainer_agree_to_stop(t, &signal));
    }
    gr_trainer_say(t, "%" PRId64 " step%s from %" PRId64 " on: every value is finite.",
                   t->at - first, gr_plural(t->at - first), first + 1);
    return gr_pg_barrier(t->pg);
}

static gr_status debug_words(const gr_command *c)
{
    gr_check_report report = { .kind = GR_CHECK_CLEAN };
    gr_trainer t;
    gr_status st;

    st = gr_trainer_open_unsaved(&t, c);
    t.check = &report;
    t.is_quiet = false; /* what it finds is what it is asked for */
    if (st == GR_OK)
        st = run_steps(&t);
    st = gr_trainer_end(&t, st);
    gr_stop_unwatch();
    return st;
}

gr_status gr_debug(const gr_command *c)
{
    gr_command rest = *c;
    gr_status st;

    rest.argv = gr_calloc((size_t)(c->argc > 0 ? c->argc : 0) + 1, sizeof(*rest.argv));
    if (!rest.argv)
        return GR_ERR_NOMEM;
    st = take_word(c, rest.argv, &rest.argc);
    if (st == GR_OK)
        st = debug_words(&rest);
    gr_free(rest.argv);
    return st;
}

void gr_debug_help(const gr_command *c, gr_text *out)
{
    gr_text_addf(out,
                 "usage: gradus debug " WORD " RECIPE [OPTION...]\n\n"
                 "Trains operator by operator and names the first value that is not finite: node,\n"
                 "operator, source line, element, and the ranges of what it was computed from.\n"
                 "Ends there, or after --max_steps steps (%d without it); writes nothing. Begins\n"
                 "at a checkpoint with --resume. Takes the options of train:\n\n",
                 DEFAULT_STEPS);
    gr_train_help(c, out);
}

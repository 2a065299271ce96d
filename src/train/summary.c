/* model_summary.txt: every parameter and buffer, counts, memory, and how the step is run. */
#include "train/trainer.h"

#include "base/outfile.h"
#include "graph/vars.h"
#include "step/inspect.h"
#include "train/layers.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct totals {
    int64_t trainable, frozen, buffers; /* elements */
    int64_t n_bytes;                    /* of all state */
} totals;

static void add_row(gr_text *out, const gr_var *v, totals *sum)
{
    char shape[GR_SHAPE_TEXT];
    int64_t n = gr_shape_count(&v->shape);
    const char *what = "optimiser";

    sum->n_bytes += n * (int64_t)gr_dtype_bytes(v->dtype);
    if (v->kind != GR_VAR_PARAM && v->kind != GR_VAR_BUFFER)
        return;
    if (v->kind == GR_VAR_BUFFER) {
        what = "buffer";
        sum->buffers += n;
    } else if (v->frozen) {
        what = "frozen";
        sum->frozen += n;
    } else {
        what = "trainable";
        sum->trainable += n;
    }
    gr_text_addf(out, "%-48s %-20s %-5s %12" PRId64 "  %s\n", v->name,
                 gr_shape_text(&v->shape, shape, sizeof(shape)), gr_dtype_name(v->dtype), n, what);
}

static gr_status add_layers(const gr_trainer *t, const gr_vars *vars, gr_text *out)
{
    const gr_graph *g = gr_step_first_graph(t->step);

    gr_text_add(out, "layers, with the arithmetic of one sample forward\n");
    GR_TRY(gr_layers_text(g, vars, t->largest_n, out));
    gr_text_add(out, "\n");
    return GR_OK;
}

static gr_status make_text(const gr_trainer *t, gr_text *out)
{
    const gr_vars *vars = gr_step_vars(t->step);
    totals sum = { 0 };
    char *how;

    gr_text_addf(out, "recipe %s\n\n%-48s %-20s %-5s %12s\n", t->recipe->name, "name", "shape",
                 "type", "elements");
    for (int i = 0; i < vars->n; i++)
        add_row(out, vars->list[i], &sum);
    gr_text_addf(out,
                 "\ntrainable parameters %" PRId64 "\nfrozen parameters    %" PRId64
                 "\nbuffers              %" PRId64 "\nstate, with optimiser %" PRId64 " bytes\n\n",
                 sum.trainable, sum.frozen, sum.buffers, sum.n_bytes);
    GR_TRY(add_layers(t, vars, out));
    GR_TRY(gr_step_describe(t->step, &how));
    gr_text_add(out, how);
    free(how);
    return gr_text_status(out);
}

gr_status gr_trainer_write_summary(gr_trainer *t)
{
    const char *path = gr_arena_printf(t->arena, "%s/model_summary.txt", t->folder);
    gr_text text = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st;

    if (!path)
        return GR_ERR_NOMEM;
    GR_TRY_GOTO(st, make_text(t, &text), done);
    GR_TRY_GOTO(st, gr_outfile_open(&f, path), done);
    gr_outfile_write(f, text.str, text.len);
    st = gr_outfile_commit(f);

done:
    gr_text_fini(&text);
    return st;
}

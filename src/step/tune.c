/*
 * Choosing kernels by measuring them: all ranks time the same candidates at the same moment,
 * as they will run, and the slowest rank's time counts. So every rank chooses alike, and a
 * choice that only pays alone on the machine (units shared by cores) is not taken.
 *
 * A choice is kept by what the node looks like, "matmul trans_b f32 [128,784], ...", and
 * holds for every plan of the step.
 */
#include "exec/tune.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/fusion.h"
#include "step/private.h"

#include <stdlib.h>
#include <string.h>

struct gr_choice {
    const char *look, *kernel; /* of the step's arena */
};

/* Operator, attributes, types and shapes, in one line. */
static gr_status look_of(const gr_node *n, gr_text *out)
{
    char text[GR_ERROR_TEXT / 2], shape[GR_SHAPE_TEXT];

    out->len = 0;
    gr_node_describe(n, text, sizeof(text));
    gr_text_addf(out, "%s >", text);
    for (int i = 0; i < n->n_out; i++)
        gr_text_addf(out, " %s %s", gr_dtype_name(n->out[i].dtype),
                     gr_shape_text(&n->out[i].shape, shape, sizeof(shape)));
    gr_node_print_attr(n, out);
    return gr_text_status(out);
}

static const struct gr_choice *find(const gr_step *s, const char *look)
{
    for (int i = 0; i < s->n_choices; i++)
        if (strcmp(s->choices[i].look, look) == 0)
            return &s->choices[i];
    return NULL;
}

static gr_status add(gr_step *s, const char *look, size_t n_look, const char *kernel,
                     size_t n_kernel)
{
    struct gr_choice c = { gr_arena_printf(s->arena, "%.*s", (int)n_look, look),
                           gr_arena_printf(s->arena, "%.*s", (int)n_kernel, kernel) };

    if (!c.look || !c.kernel)
        return GR_ERR_NOMEM;
    GR_TRY(gr_grow((void **)&s->choices, &s->cap_choices, s->n_choices + 1, sizeof(*s->choices)));
    s->choices[s->n_choices++] = c;
    return GR_OK;
}

const char *gr_step_choose(void *step, const gr_node *n)
{
    const gr_step *s = step;
    const struct gr_choice *c = NULL;
    gr_text look = GR_TEXT_INIT;

    if (s->n_choices > 0 && n->op->tunes && look_of(n, &look) == GR_OK)
        c = find(s, gr_text_str(&look));
    gr_text_fini(&look);
    return c ? c->kernel : NULL;
}

/* ---- measuring ---- */

/* The time of the slowest rank; all begin together. */
static gr_status time_together(gr_step *s, const gr_node *n, const gr_kernel *k, double *seconds)
{
    gr_tune t = { .device = s->device, .pool = s->pool, .n_threads = s->n_threads };

    if (gr_pg_size(s->c.pg) > 1)
        GR_TRY(gr_pg_barrier(s->c.pg));
    GR_TRY(gr_tune_time(&t, n, k, seconds));
    if (gr_pg_size(s->c.pg) > 1)
        GR_TRY(gr_pg_allreduce(s->c.pg, (gr_vec){ seconds, 1, GR_F64 }, GR_REDUCE_MAX));
    return GR_OK;
}

static gr_status measure(gr_step *s, const gr_node *n, const char *look)
{
    const gr_kernel *candidates[GR_TUNE_CANDIDATES];
    int count = gr_tune_candidates(n, candidates), best = 0;
    double seconds, least = 0;

    if (count < 2)
        return GR_OK;
    for (int i = 0; i < count; i++) {
        GR_TRY(gr_wrap(time_together(s, n, candidates[i], &seconds), "measuring kernel '%s'",
                       candidates[i]->name));
        gr_log(STEP, DEBUG, "%s: %s takes %.1f us", look, candidates[i]->name, seconds * 1e6);
        if (i == 0 || seconds < least) {
            least = seconds;
            best = i;
        }
    }
    return add(s, look, strlen(look), candidates[best]->name, strlen(candidates[best]->name));
}

/* Every node of `g` that is worth it and not yet known: its look to *looks, or measured. */
static gr_status each_node(gr_step *s, const gr_graph *g, gr_text *looks)
{
    const gr_kernel *candidates[GR_TUNE_CANDIDATES];
    gr_text look = GR_TEXT_INIT;
    gr_status st = GR_OK;

    for (int i = 0; i < g->n_nodes && st == GR_OK; i++) {
        if (gr_tune_candidates(g->nodes[i], candidates) < 2)
            continue;
        st = look_of(g->nodes[i], &look);
        if (st != GR_OK || find(s, gr_text_str(&look)))
            continue;
        if (looks)
            gr_text_addf(looks, "%s\n", gr_text_str(&look));
        else
            st = measure(s, g->nodes[i], gr_text_str(&look));
    }
    gr_text_fini(&look);
    return st;
}

/* Ranks whose plans differ (a short batch on one) would wait for each other in vain. */
static gr_status is_alike(gr_step *s, const gr_graph *g, bool *alike)
{
    gr_text looks = GR_TEXT_INIT;
    char **all = NULL;
    gr_status st;

    *alike = true;
    if (gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    st = each_node(s, g, &looks);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(s->c.pg, gr_text_str(&looks), looks.len, &all, NULL);
    for (int r = 1; st == GR_OK && r < gr_pg_size(s->c.pg); r++)
        *alike = *alike && strcmp(all[r], all[0]) == 0;
    free(all);
    gr_text_fini(&looks);
    return st;
}

gr_status gr_step_tune(gr_step *s, const gr_graph *g)
{
    int64_t begin = gr_now_ns();
    bool alike;

    if (!s->c.tune || s->is_tuned || !s->device->ops->runs_at_once)
        return GR_OK;
    s->is_tuned = true;
    GR_TRY(is_alike(s, g, &alike));
    if (!alike) {
        gr_log(STEP, WARN, "kernels are not measured: the ranks' first batches differ in shape");
        return GR_OK;
    }
    GR_TRY(each_node(s, g, NULL));
    if (gr_pg_rank(s->c.pg) == 0)
        gr_log(STEP, INFO, "%d kernels chosen by measuring, in %.0f ms", s->n_choices,
               (double)(gr_now_ns() - begin) * 1e-6);
    return GR_OK;
}

/* ---- as text ---- */

gr_status gr_step_parse_choices(gr_step *s, const char *text)
{
    while (text && *text) {
        size_t len = strcspn(text, "\n");
        const char *mark = memmem(text, len, " = ", 3);

        if (!mark)
            return gr_fail(GR_ERR_ARG, "step: choices: line '%.*s' has no ' = '",
                           (int)(len < 100 ? len : 100), text);
        GR_TRY(add(s, text, (size_t)(mark - text), mark + 3, len - (size_t)(mark - text) - 3));
        text += len + (text[len] == '\n');
    }
    s->is_tuned = s->is_tuned || s->n_choices > 0;
    return GR_OK;
}

gr_status gr_step_choices(gr_step *s, char **out)
{
    gr_text text = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(gr_step_check_given(s));
    if (!out)
        return gr_fail(GR_ERR_ARG, "step: there is no place for the choices (NULL)");
    for (int i = 0; i < s->n_choices; i++)
        gr_text_addf(&text, "%s = %s\n", s->choices[i].look, s->choices[i].kernel);
    st = gr_text_status(&text);
    if (st == GR_OK) {
        *out = strdup(gr_text_str(&text));
        st = *out ? GR_OK : gr_fail(GR_ERR_NOMEM, "no memory for the choices");
    }
    gr_text_fini(&text);
    return st;
}

/*
 * Choosing kernels and their variants by measuring them, in the arena, before the first step:
 * all ranks time the candidates that rank 0 names, at the same moment, as they will run, and
 * the slowest rank's time counts. So every rank chooses identically, and a choice that only
 * pays alone on the machine (units shared by cores) is not taken.
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

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct gr_choice {
    const char *look, *kernel; /* "kernel" or "kernel:variant"; both of the step's arena */
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

/* Where nodes are measured: the arena, before a step lies in it. */
static gr_tune tune_of(const gr_step *s)
{
    return (gr_tune){ .device = s->device,
                      .kernels = s->module ? s->module->kernels : NULL,
                      .pool = s->pool,
                      .n_threads = s->n_threads,
                      .mem = s->bases.arena };
}

/* Rank 0's text, on all: another library on another rank may offer other algorithms. */
static gr_status share_text(gr_step *s, gr_text *t)
{
    int64_t len = (int64_t)t->len;
    char *mem;
    gr_status st;

    if (gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    GR_TRY(gr_pg_broadcast(s->c.pg, (gr_vec){ &len, 1, GR_I64 }, 0));
    mem = gr_calloc((size_t)len + 1, 1);
    if (!mem)
        return GR_ERR_NOMEM;
    if (gr_pg_rank(s->c.pg) == 0)
        memcpy(mem, gr_text_str(t), (size_t)len);
    st = len > 0 ? gr_pg_broadcast(s->c.pg, (gr_vec){ mem, (size_t)len, GR_U8 }, 0) : GR_OK;
    gr_text_fini(t);
    *t = (gr_text)GR_TEXT_INIT;
    if (st == GR_OK)
        gr_text_addn(t, mem, (size_t)len);
    gr_free(mem);
    return st == GR_OK ? gr_text_status(t) : st;
}

/* The time of the slowest rank; all begin together. Infinite where one cannot run it. */
static gr_status time_together(gr_step *s, const gr_node *n, const char *candidate, size_t work,
                               double *seconds)
{
    gr_tune t = tune_of(s);

    if (gr_pg_size(s->c.pg) > 1)
        GR_TRY(gr_pg_barrier(s->c.pg));
    GR_TRY(gr_tune_time(&t, n, candidate, work, seconds));
    if (gr_pg_size(s->c.pg) > 1)
        GR_TRY(gr_pg_allreduce(s->c.pg, (gr_vec){ seconds, 1, GR_F64 }, GR_REDUCE_MAX));
    return GR_OK;
}

/* Times all lines of `candidates`; *best is the fastest, within them; NULL: none runs. */
static gr_status find_best(gr_step *s, const gr_node *n, const char *look, char *candidates,
                           const char **best)
{
    gr_tune t = tune_of(s);
    double seconds, least = (double)INFINITY;
    size_t work;

    *best = NULL;
    GR_TRY(gr_tune_reserve(&t, n, &work));
    for (char *rest = NULL, *c = strtok_r(candidates, "\n", &rest); c;
         c = strtok_r(NULL, "\n", &rest)) {
        GR_TRY(gr_wrap(time_together(s, n, c, work, &seconds), "measuring kernel '%s'", c));
        gr_log(STEP, DEBUG, "%s: %s takes %.1f us", look, c, seconds * 1e6);
        if (seconds < least) {
            least = seconds;
            *best = c;
        }
    }
    return GR_OK;
}

static gr_status measure(gr_step *s, const gr_node *n, const char *look)
{
    gr_tune t = tune_of(s);
    gr_text lines = GR_TEXT_INIT;
    const char *best = NULL;
    int count;
    gr_status st = gr_tune_candidates(&t, n, &lines, &count);

    if (st == GR_OK)
        st = share_text(s, &lines);
    if (st == GR_OK && lines.len > 0)
        st = find_best(s, n, look, lines.str, &best);
    if (st == GR_OK && lines.len > 0 && best)
        st = add(s, look, strlen(look), best, strlen(best));
    gr_text_fini(&lines);
    return st;
}

/* Whether there is a choice. */
static gr_status has_choice(const gr_step *s, const gr_node *n, bool *has)
{
    gr_tune t = tune_of(s);
    gr_text lines = GR_TEXT_INIT;
    int count;
    gr_status st = gr_tune_candidates(&t, n, &lines, &count);

    gr_text_fini(&lines);
    *has = count > 1;
    return st;
}

/* Every node of `g` that is worth it and not yet known: its look to *looks, or measured. The
 * ranks' looks were compared before, so that all measure the same nodes. */
static gr_status each_node(gr_step *s, const gr_graph *g, gr_text *looks)
{
    gr_text look = GR_TEXT_INIT;
    gr_status st = GR_OK;
    bool has;

    for (int i = 0; i < g->n_nodes && st == GR_OK; i++) {
        st = has_choice(s, g->nodes[i], &has);
        if (st != GR_OK || !has)
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

/* In an arena that has room for any candidate: that of a plan made before the choice. */
static gr_status measure_all(gr_step *s, gr_graph *g)
{
    gr_plan *plan;
    size_t n_bytes;

    GR_TRY(gr_step_make_plan(s, g, &plan));
    n_bytes = gr_plan_arena_bytes(plan);
    gr_plan_destroy(plan);
    GR_TRY(gr_step_grow_arena(s, n_bytes));
    s->last = NULL; /* its outputs lay there */
    return each_node(s, g, NULL);
}

gr_status gr_step_tune(gr_step *s, gr_graph *g)
{
    int64_t begin = gr_now_ns();
    gr_status st;
    bool alike;

    if (!s->c.tune || s->is_tuned)
        return GR_OK;
    GR_TRY(is_alike(s, g, &alike));
    if (!alike) {
        s->is_tuned = true;
        gr_log(STEP, WARN, "kernels are not measured: the ranks' first batches differ in shape");
        return GR_OK;
    }
    st = measure_all(s, g);
    s->is_tuned = true; /* from here on plans need not reserve */
    GR_TRY(st);
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

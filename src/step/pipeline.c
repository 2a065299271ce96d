/*
 * The pipeline: the ordered table of passes that turns a trace into a step. After each
 * pass the graph is sorted and verified, so a broken one is named by the pass that broke
 * it; and it can be dumped.
 */
#include <string.h>

#include "base/log.h"
#include "op/assign/assign.h"
#include "op/loss/terms.h"
#include "op/map/program.h"
#include "op/norm/norm.h"
#include "op/update/many.h"
#include "step/private.h"

typedef struct build {
    gr_step *s;
    gr_role role;
    int trace; /* as gr_purpose.trace */
    gr_graph *g;
    int n_again; /* blocks that the backward pass computes anew; -1: all */
    bool quiet;  /* tried out, not dumped */
} build;

static bool trains(const build *b)
{
    return gr_role_trains(b->role);
}

static bool has_amp(const build *b)
{
    return b->s->c.amp != GR_AMP_NONE;
}

static bool accumulates(const build *b)
{
    return b->role == GR_ROLE_MICRO || b->role == GR_ROLE_LAST;
}

static bool updates(const build *b)
{
    return b->role == GR_ROLE_WHOLE || b->role == GR_ROLE_LAST;
}

static bool exchanges(const build *b)
{
    return updates(b) && gr_pg_size(b->s->group) > 1;
}

static bool always(const build *b)
{
    (void)b;
    return true;
}

/* The user's function may fail with a code alone, and must not be blamed with an older message. */
static gr_status call_trace(build *b)
{
    const gr_error silence = { .status = GR_ERR_ARG };
    gr_trace_fn *trace;
    gr_status st;

    GR_IGNORE(gr_error_raise(&silence));
    trace = b->trace < 0 ? b->s->c.trace : b->s->c.traces[b->trace].trace;
    st = trace(b->g, b->s->c.user);
    if (st != GR_OK && !*gr_error_message())
        return gr_fail(st, "the trace function returned '%s'", gr_status_text(st));
    return st;
}

static gr_status trace(build *b)
{
    GR_TRY(call_trace(b));
    GR_TRY(gr_graph_status(b->g));
    if (b->g->block_depth > 0)
        return gr_fail(GR_ERR_ARG, "block '%s' was begun and not ended",
                       b->g->blocks[b->g->n_blocks - 1]);
    if (b->g->frozen_depth > 0)
        return gr_fail(GR_ERR_ARG, "%s: the frozen part that begins here was not ended",
                       b->g->frozen_site);
    GR_TRY(gr_terms_close(b->g));
    if (trains(b) && !b->g->loss)
        return gr_fail(GR_ERR_ARG, "the training trace has no loss: it calls neither gr_loss() nor "
                                   "gr_loss_add() with a weight above 0");
    if (!trains(b))
        return GR_OK;
    b->s->n_frozen = b->g->n_frozen;
    GR_TRY(gr_vars_check_freeze(b->g->vars));
    return gr_optim_check_names(&b->s->c.optim, b->g->vars);
}

static bool averages(const build *b)
{
    return b->role == GR_ROLE_AVERAGE;
}

static gr_status average(build *b)
{
    return gr_pass_average(b->g);
}

/* An output that is an input, or a parameter in training, would show the caller's memory or
 * the value after the update: it gets a copy of its own. */
static gr_status outputs(build *b)
{
    for (int i = 0; i < b->g->n_outputs; i++) {
        gr_value **v = &b->g->outputs[i].value;
        gr_space space = gr_value_root(*v)->space;
        gr_program copy = { .shape = (*v)->shape, .dtype = (*v)->dtype, .n_src = 1 };

        if (space != GR_SPACE_INPUT && !(space == GR_SPACE_STATE && trains(b)))
            continue;
        *v = gr_map_add(b->g, (*v)->node->site, v, &copy);
        GR_TRY(gr_graph_status(b->g));
    }
    return GR_OK;
}

/* One rank with one micro-step has all there is to count. */
static bool is_global(const build *b)
{
    return trains(b) && b->s->c.loss_reduction == GR_LOSS_GLOBAL &&
           (gr_pg_size(b->s->group) > 1 || accumulates(b));
}

static gr_status global(build *b)
{
    return gr_pass_global(b->g, gr_pg_size(b->s->group), accumulates(b));
}

static gr_status autodiff(build *b)
{
    gr_var *scale;

    GR_TRY(gr_loss_scale_var(b->s->vars, &b->s->update, &scale));
    GR_TRY(gr_pass_autodiff(b->g, b->g->loss_count ? 1.0 : 1.0 / b->s->c.accumulate, scale));
    GR_TRY(gr_step_make_buckets(b->s, b->g));
    if (b->s->buckets.n_slots == 0)
        return gr_fail(GR_ERR_ARG, "nothing to train: the loss depends on no parameter that is "
                                   "not frozen");
    GR_TRY(gr_step_check_slots(b->s, b->g));
    return gr_pass_fill_slots(b->g, &b->s->buckets);
}

static gr_dtype low_type(const build *b)
{
    return b->s->c.amp == GR_AMP_BF16 ? GR_BF16 : GR_F16;
}

static gr_status amp(build *b)
{
    return gr_pass_amp(b->g, low_type(b));
}

/* With recompute a cast lives as long as its block: a copy would take memory that was asked to be
 * saved. With shards parameters come from other ranks, in f32. */
static bool copies(const build *b)
{
    const gr_step *s = b->s;

    return trains(b) && has_amp(b) && s->device->ops->keeps_low && !gr_step_shards(s) &&
           s->c.recompute == GR_RECOMPUTE_NONE;
}

static gr_status copy_params(build *b)
{
    return gr_pass_copies(b->g, low_type(b));
}

/* Once types are decided, normalisations are maps like others. */
static bool lowers(const build *b)
{
    return gr_norm_can_lower(b->g);
}

static gr_status lower(build *b)
{
    return gr_norm_lower(b->g);
}

static bool syncs_norm(const build *b)
{
    return b->g->sync_norm;
}

static gr_status sync_norm(build *b)
{
    gr_meetings_open(&b->s->meetings, b->s->buckets.n_bytes, b->s->vars->align);
    return gr_pass_sync_norm(b->g, &b->s->meetings, b->s->arena, b->s->group);
}

static gr_status sync_counts(build *b)
{
    gr_meetings_open(&b->s->meetings, b->s->buckets.n_bytes, b->s->vars->align);
    return gr_pass_sync_counts(b->g, &b->s->meetings, b->s->arena, b->s->group);
}

static gr_status accumulate(build *b)
{
    if (b->g->loss_count) {
        gr_meetings_open(&b->s->meetings, b->s->buckets.n_bytes, b->s->vars->align);
        GR_TRY(gr_pass_count(b->g, &b->s->meetings, b->s->arena, b->s->group, updates(b)));
    }
    return gr_pass_accumulate(b->g, &b->s->buckets);
}

static gr_status sync(build *b)
{
    if (gr_step_has_shares(b->s))
        return gr_pass_scatter(b->g, &b->s->shard);
    return gr_pass_sync(b->g, &b->s->buckets, b->s->group);
}

/* Buckets alone stand in their order already. */
static bool orders(const build *b)
{
    return trains(b) && b->s->meetings.n > 0;
}

static gr_status order(build *b)
{
    return gr_pass_order(b->g, &b->s->meetings, &b->s->buckets, updates(b));
}

static bool watches(const build *b)
{
    return trains(b) && b->s->update.watches;
}

static gr_status vote(build *b)
{
    if (gr_pg_size(b->s->group) > 1)
        gr_meetings_open(&b->s->meetings, b->s->buckets.n_bytes, b->s->vars->align);
    return gr_pass_vote(b->g, &b->s->meetings, b->s->arena, b->s->group, updates(b));
}

static gr_status update(build *b)
{
    return gr_pass_update(b->g, &b->s->update);
}

/* In every graph that trains: what is held in one is given back in another. */
static bool guards(const build *b)
{
    bool assigns = false;

    for (int i = 0; i < b->g->n_nodes && !assigns; i++)
        assigns = b->g->nodes[i]->op == &gr_op_assign;
    return trains(b) && assigns && (gr_update_has_control(&b->s->update) || b->g->loss_count);
}

static gr_status guard(build *b)
{
    return gr_pass_guard(b->g, accumulates(b));
}

/* Updates right behind their gradients, which are then still in the cache. With several
 * ranks they stay at the end, where the exchange has had its time. */
static bool hoists(const build *b)
{
    return updates(b) && !exchanges(b);
}

static gr_status hoist(build *b)
{
    return gr_graph_hoist(b->g, GR_PHASE_UPDATE);
}

/* What a training graph keeps is what has an effect: gradients alone are none. */
static gr_status prune(build *b)
{
    b->g->n_grads = 0;
    return gr_graph_prune(b->g);
}

/* NULL on the host: the operators' own. */
static const gr_kernel_set *kernels_of(const build *b)
{
    return b->s->module ? b->s->module->kernels : NULL;
}

static gr_status fuse(build *b)
{
    return gr_pass_fuse(b->g, kernels_of(b));
}

static bool recomputes(const build *b)
{
    return trains(b) && b->n_again != 0 && b->g->n_blocks > 0;
}

/* After fusing, so that what is joined does not depend on it: with and without, the same
 * operators run, and give the same bits. */
static gr_status recompute(build *b)
{
    return gr_pass_recompute(b->g, b->n_again);
}

static bool has_rows(const build *b)
{
    return exchanges(b) && gr_step_has_shares(b->s) && b->s->shard.has_rows;
}

static gr_status rows(build *b)
{
    return gr_pass_rows(b->g);
}

/* A device whose module has no kernel for many at once keeps one node per parameter. */
static bool joins(const build *b)
{
    return updates(b) && gr_kernel_list(kernels_of(b), &gr_op_many_updates);
}

static gr_status join(build *b)
{
    return gr_pass_join(b->g);
}

static bool gathers(const build *b)
{
    return exchanges(b) && gr_step_shards(b->s);
}

/* Behind join, so that it knows which node updates what. */
static gr_status gather(build *b)
{
    return gr_pass_gather(b->g, &b->s->shard);
}

static bool meets(const build *b)
{
    return exchanges(b) && b->s->is_common;
}

/* Behind everything that makes new readers of parameters. */
static gr_status meet(build *b)
{
    return gr_pass_meet(b->g, &b->s->shard);
}

/* The memory plan does it (exec/layout.c), where a kernel can. */
static gr_status in_place(build *b)
{
    b->g->in_place = true;
    return GR_OK;
}

static const struct pass {
    const char *name;
    bool (*wanted)(const build *b);
    gr_status (*run)(build *b);
    enum {
        NEEDED,
        OPTIONAL,
        CHOSEN
    } kind; /* the latter two make a step faster or smaller, not
             * another one; CHOSEN is decided for all plans */
} passes[] = {
    /* clang-format off */
    { "trace", always, trace, NEEDED },
    { "average", averages, average, NEEDED },
    { "outputs", always, outputs, NEEDED },
    { "global", is_global, global, NEEDED },
    { "autodiff", trains, autodiff, NEEDED },
    { "amp", has_amp, amp, NEEDED },
    { "copies", copies, copy_params, OPTIONAL },
    { "lower", lowers, lower, NEEDED },
    { "sync_bn", syncs_norm, sync_norm, NEEDED },
    { "counts", is_global, sync_counts, NEEDED },
    { "accumulate", accumulates, accumulate, NEEDED },
    { "sync", exchanges, sync, NEEDED },
    { "vote", watches, vote, NEEDED },
    { "update", updates, update, NEEDED },
    { "guard", guards, guard, NEEDED },
    { "order", orders, order, NEEDED },
    { "prune", always, prune, NEEDED },
    { "fuse", always, fuse, OPTIONAL },
    { "recompute", recomputes, recompute, NEEDED },
    { "rows", has_rows, rows, NEEDED },
    { "join", joins, join, OPTIONAL },
    { "gather", gathers, gather, NEEDED },
    { "common", meets, meet, CHOSEN },
    { "hoist", hoists, hoist, OPTIONAL },
    { "in_place", always, in_place, OPTIONAL },
    /* clang-format on */
};

#define N_PASSES ((int)(sizeof(passes) / sizeof(passes[0])))

gr_status gr_step_check_pass_name(const char *name)
{
    gr_text known = GR_TEXT_INIT;
    gr_status st;

    if (strcmp(name, "all") == 0)
        return GR_OK;
    for (int i = 0; i < N_PASSES; i++) {
        if (strcmp(name, passes[i].name) == 0) {
            gr_text_fini(&known);
            return GR_OK;
        }
        gr_text_addf(&known, "%s, ", passes[i].name);
    }
    st = gr_fail(GR_ERR_ARG, "no pass is called '%s'; there are %sand all", name,
                 gr_text_str(&known));
    gr_text_fini(&known);
    return st;
}

/* The length of the first name in a list parted by commas. */
static size_t name_length(const char *list)
{
    return strcspn(list, ",");
}

static bool is_in_list(const char *list, const char *name)
{
    while (*list) {
        size_t n = name_length(list);

        if (n == strlen(name) && strncmp(list, name, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

bool gr_step_leaves_out(const gr_step *s, const char *pass)
{
    return is_in_list(s->c.without, pass);
}

static bool is_optional(const char *name, size_t n)
{
    for (int i = 0; i < N_PASSES; i++)
        if (passes[i].kind != NEEDED && strlen(passes[i].name) == n &&
            strncmp(passes[i].name, name, n) == 0)
            return true;
    return false;
}

gr_status gr_step_check_without(const char *list)
{
    gr_text known = GR_TEXT_INIT;
    gr_status st = GR_OK;

    while (*list && is_optional(list, name_length(list)))
        list += name_length(list) + (list[name_length(list)] == ',');
    if (*list) {
        for (int i = 0; i < N_PASSES; i++)
            gr_text_addf(&known, "%s%s", passes[i].kind != NEEDED ? " " : "",
                         passes[i].kind != NEEDED ? passes[i].name : "");
        st = gr_fail(GR_ERR_ARG, "without: '%.*s' is not among the passes that may be left out:%s",
                     (int)name_length(list), list, gr_text_str(&known));
    }
    gr_text_fini(&known);
    return st;
}

static gr_status dump(const build *b, const char *pass)
{
    const gr_step_config *c = &b->s->c;
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    if (b->quiet || !c->dump || !c->dump_after ||
        (strcmp(c->dump_after, pass) != 0 && strcmp(c->dump_after, "all") != 0))
        return GR_OK;
    gr_graph_print(b->g, &t);
    st = gr_text_status(&t);
    if (st == GR_OK)
        c->dump(c->dump_arg, pass, gr_text_str(&t));
    gr_text_fini(&t);
    return st;
}

static gr_status run_pass(build *b, const struct pass *p)
{
    if (!p->wanted(b))
        return GR_OK;
    if (p->kind == OPTIONAL && (b->s->checks || is_in_list(b->s->c.without, p->name)))
        return GR_OK;
    GR_TRY(p->run(b));
    GR_TRY(gr_graph_sort(b->g));
    GR_TRY(gr_graph_verify(b->g, p->name));
    return dump(b, p->name);
}

static gr_status build_graph(build *b, const gr_named *feeds, int n_feeds)
{
    gr_status st = GR_OK;

    GR_TRY(gr_graph_create(&b->g, b->s->vars, gr_role_trains(b->role), feeds, n_feeds));
    if (is_global(b))
        b->g->sum_ranks = accumulates(b) ? -1 : gr_pg_size(b->s->group);
    b->g->sync_norm = b->s->c.sync_bn && trains(b) && gr_pg_size(b->s->group) > 1;
    for (int i = 0; i < N_PASSES && st == GR_OK; i++)
        st = run_pass(b, &passes[i]);
    if (st != GR_OK) {
        gr_graph_destroy(b->g);
        b->g = NULL;
    }
    return st;
}

/* What a step needs in which the backward pass computes n_again blocks anew, and how many
 * blocks there are to choose from. */
static gr_status try_again(const build *like, const gr_named *feeds, int n_feeds, int n_again,
                           size_t *n_bytes, int *n_blocks)
{
    build b = *like;
    gr_plan *plan = NULL;
    gr_status st;

    b.n_again = n_again;
    b.quiet = true;
    GR_TRY(build_graph(&b, feeds, n_feeds));
    st = gr_step_make_plan(b.s, b.g, &plan);
    if (st == GR_OK)
        *n_bytes = gr_step_total_bytes(b.s, plan, true);
    *n_blocks = b.g->n_blocks;
    gr_plan_destroy(plan);
    gr_graph_destroy(b.g);
    return st;
}

/* The least number of blocks that keeps within the limit; all when none does. */
static gr_status choose_again(build *b, const gr_named *feeds, int n_feeds)
{
    int low = 0, high, n_blocks = 0;
    size_t n_bytes = 0;

    GR_TRY(try_again(b, feeds, n_feeds, 0, &n_bytes, &n_blocks));
    if (n_bytes <= b->s->c.memory_limit)
        return GR_OK;
    for (high = n_blocks; high - low > 1;) { /* low is too few */
        int middle = low + (high - low) / 2;

        GR_TRY(try_again(b, feeds, n_feeds, middle, &n_bytes, &n_blocks));
        if (n_bytes <= b->s->c.memory_limit)
            high = middle;
        else
            low = middle;
    }
    b->n_again = high;
    return GR_OK;
}

gr_status gr_step_build(gr_step *s, gr_purpose purpose, const gr_named *feeds, int n_feeds,
                        gr_graph **out)
{
    build b = { .s = s, .role = purpose.role, .trace = purpose.trace };

    if (s->c.recompute == GR_RECOMPUTE_ALL)
        b.n_again = -1;
    if (s->c.recompute == GR_RECOMPUTE_LIMIT && trains(&b))
        GR_TRY(choose_again(&b, feeds, n_feeds));
    GR_TRY(build_graph(&b, feeds, n_feeds));
    gr_log(STEP, DEBUG, "built a graph of %d nodes; %d of %d blocks are computed again",
           b.g->n_nodes, b.g->n_recomputed, b.g->n_blocks);
    *out = b.g;
    return GR_OK;
}

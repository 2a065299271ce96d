/*
 * `gradus check` goes through the data: every sample is looked at (the recipe's inspect()), and
 * some are loaded whole, or all with data.check: all. Ranks take samples in turn and each has
 * as many threads as it has cores. Broken ones are counted and the first few named; then the
 * check fails, unless the run would skip them.
 *
 * Each slice of the work has its own list; they are put together in the order of samples, so
 * what is said depends on neither threads nor ranks.
 */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define N_NAMED     10  /* broken samples that are told */
#define N_LOADED    100 /* samples of a split that are loaded whole */
#define MAX_THREADS 64
#define N_SLICES    64

typedef struct broken {
    int64_t index;
    gr_error error;
} broken;

typedef struct part {
    broken first[N_NAMED];
    int64_t n_broken, n_loaded;
    gr_status st; /* no memory */
} part;

typedef struct slice_memory {
    gr_feed_worker worker;
    void **mem; /* owned: of one sample */
} slice_memory;

typedef struct survey {
    const gr_trainer *t;
    gr_feed_source from;
    gr_split split;
    int64_t n_mine, stride; /* every stride-th sample is loaded */
    part parts[N_SLICES];
} survey;

static void free_sample(void **mem, int n_feeds)
{
    for (int i = 0; mem && i < n_feeds; i++)
        gr_free(mem[i]);
    gr_free(mem);
}

/* Memory for one sample at any size; freed with free_sample(). */
static gr_status make_sample(const gr_feed_source *from, void ***out)
{
    const gr_recipe_view *view = from->view;
    void **mem = gr_calloc((size_t)view->n_feeds + 1, sizeof(*mem));
    int n_sizes = from->sizes ? from->sizes->n_sizes : 1;

    for (int i = 0; mem && i < view->n_feeds; i++) {
        size_t most = 0;

        for (int k = 0; k < n_sizes; k++) {
            size_t bytes = gr_field_bytes(&view->feeds[i], gr_feed_size(from->sizes, k));

            most = bytes > most ? bytes : most;
        }
        mem[i] = gr_malloc(most + 1);
        if (!mem[i]) {
            free_sample(mem, view->n_feeds);
            mem = NULL;
        }
    }
    *out = mem;
    return mem ? GR_OK : GR_ERR_NOMEM;
}

static gr_status look(const survey *s, const gr_sample *sample, slice_memory *m, part *p)
{
    const gr_trainer *t = s->t;
    const gr_sizes *sizes = s->from.sizes;

    if (t->recipe->data->check)
        GR_TRY(t->recipe->data->check(t->user, sample));
    if (sample->index % s->stride != 0)
        return GR_OK;
    p->n_loaded++;
    return gr_feed_load(&s->from, &m->worker, sample, sizes ? sizes->kind[sample->index] : 0,
                        m->mem);
}

static gr_status open_slice(const survey *s, slice_memory *m)
{
    GR_TRY(make_sample(&s->from, &m->mem));
    return gr_feed_open_worker(&s->from, &m->worker);
}

static void look_at_slice(void *arg, int slice, int n_slices)
{
    survey *s = arg;
    part *p = &s->parts[slice];
    slice_memory m = { .mem = NULL };
    int64_t lo, hi;

    gr_pool_cut(s->n_mine, 1, slice, n_slices, &lo, &hi);
    p->st = open_slice(s, &m);
    for (int64_t k = lo; k < hi && p->st == GR_OK; k++) {
        gr_sample sample = { .split = s->split,
                             .index = s->t->rank + k * s->t->n_ranks,
                             .seed = (uint64_t)s->t->o.seed };
        gr_status st = look(s, &sample, &m, p);

        if (st == GR_ERR_NOMEM)
            p->st = st;
        if (st == GR_OK)
            continue;
        if (p->n_broken < N_NAMED) {
            p->first[p->n_broken].index = sample.index;
            gr_error_take(&p->first[p->n_broken].error, st);
        }
        p->n_broken++;
    }
    gr_feed_close_worker(&s->from, &m.worker);
    free_sample(m.mem, s->t->view.n_feeds);
}

/* This rank's first ones as lines "index: text". */
static void list_broken(const survey *s, gr_text *out)
{
    int n = 0;

    for (int i = 0; i < N_SLICES; i++)
        for (int k = 0; k < s->parts[i].n_broken && k < N_NAMED && n < N_NAMED; k++, n++) {
            const broken *b = &s->parts[i].first[k];

            gr_text_addf(out, "%" PRId64 ": %.*s\n", b->index, (int)strcspn(b->error.text, "\n"),
                         b->error.text);
        }
}

/* The first ones of all ranks, whose lists are in order: always the least head. */
static void say_broken(gr_trainer *t, char **lists, int64_t n_broken)
{
    int64_t n;

    for (n = 0; n < N_NAMED; n++) {
        int best = -1;

        for (int r = 0; r < t->n_ranks; r++)
            if (*lists[r] &&
                (best < 0 || strtoll(lists[r], NULL, 10) < strtoll(lists[best], NULL, 10)))
                best = r;
        if (best < 0)
            break;
        gr_trainer_say(t, "  sample %.*s", (int)strcspn(lists[best], "\n"), lists[best]);
        lists[best] += strcspn(lists[best], "\n");
        lists[best] += *lists[best] == '\n';
    }
    if (n_broken > n)
        gr_trainer_say(t, "  and %" PRId64 " more", n_broken - n);
}

static gr_status share_broken(gr_trainer *t, const survey *s, int64_t n_broken)
{
    gr_text list = GR_TEXT_INIT;
    char **lists = NULL;
    gr_status st;

    list_broken(s, &list);
    st = gr_text_status(&list);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(t->pg, gr_text_str(&list), list.len, &lists, NULL);
    if (st == GR_OK)
        say_broken(t, lists, n_broken);
    free(lists);
    gr_text_fini(&list);
    return st;
}

static gr_status look_at_split(gr_trainer *t, gr_pool *pool, survey *s, int64_t *n_broken)
{
    int64_t from_ns = gr_now_ns(), size = t->size[s->split];
    int64_t sums[2] = { 0 }; /* broken, loaded */

    s->t = t;
    s->from = (gr_feed_source){ .recipe = t->recipe,
                                .user = t->user,
                                .view = &t->view,
                                .split = s->split,
                                .seed = (uint64_t)t->o.seed };
    GR_TRY(gr_trainer_sizes(t, s->split, &s->from.sizes));
    s->n_mine = gr_eval_count(size, t->rank, t->n_ranks);
    s->stride = t->o.check_data == GR_LOOK_ALL || size <= N_LOADED ? 1 : size / N_LOADED;
    gr_pool_run(pool, look_at_slice, s, N_SLICES);
    for (int i = 0; i < N_SLICES; i++) {
        if (s->parts[i].st != GR_OK)
            return gr_fail(GR_ERR_NOMEM, "no memory to look at the data");
        sums[0] += s->parts[i].n_broken;
        sums[1] += s->parts[i].n_loaded;
    }
    GR_TRY(gr_pg_allreduce(t->pg, (gr_vec){ sums, 2, GR_I64 }, GR_REDUCE_SUM));
    *n_broken += sums[0];
    gr_trainer_say(t,
                   "Data: %" PRId64 " %s samples, %s%" PRId64 " loaded, %" PRId64
                   " broken (%.1f s, %d thread%s on each rank)%s",
                   size, gr_split_name(s->split), t->recipe->data->check ? "all looked at, " : "",
                   sums[1], sums[0], (double)(gr_now_ns() - from_ns) * 1e-9, gr_pool_size(pool),
                   gr_plural(gr_pool_size(pool)), sums[0] > 0 ? ":" : "");
    return sums[0] > 0 ? share_broken(t, s, sums[0]) : GR_OK;
}

static gr_status look_at_all(gr_trainer *t, gr_pool *pool, survey *s)
{
    int64_t n_broken = 0;

    for (int split = 0; split < GR_N_SPLITS; split++) {
        if (t->size[split] < 1)
            continue;
        memset(s, 0, sizeof(*s));
        s->split = (gr_split)split;
        GR_TRY(look_at_split(t, pool, s, &n_broken));
    }
    if (n_broken == 0)
        return GR_OK;
    if (t->o.on_bad_sample == GR_BAD_SKIP) {
        if (gr_trainer_writes(t))
            gr_log(TRAIN, WARN, "%" PRId64 " broken sample%s; the run would skip %s", n_broken,
                   gr_plural(n_broken), n_broken == 1 ? "it" : "them");
        return GR_OK;
    }
    t->told_all = true;
    return gr_fail(GR_ERR_FORMAT,
                   "%" PRId64 " sample%s cannot be used, %s named above; mend or "
                   "remove such samples, or pass them over with --on_bad_sample skip",
                   n_broken, gr_plural(n_broken),
                   n_broken == 1 ? "which is" : "the first ones are");
}

gr_status gr_trainer_survey(gr_trainer *t)
{
    int n_threads = t->n_cores < 1 ? 1 : t->n_cores > MAX_THREADS ? MAX_THREADS : t->n_cores;
    survey *s;
    gr_pool *pool = NULL;
    gr_status st;

    if (t->o.check_data == GR_LOOK_NONE)
        return GR_OK;
    s = gr_malloc(sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    st = gr_pool_create(&pool, n_threads);
    if (st == GR_OK)
        st = look_at_all(t, pool, s);
    gr_pool_destroy(pool);
    gr_free(s);
    return st;
}

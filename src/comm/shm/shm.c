/* The shared-memory group: making and ending it, and its table of functions. */
#include "comm/shm/shm.h"

#include "base/alloc.h"
#include "base/size.h"
#include "comm/create.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)

static size_t ranks_at(void)
{
    return gr_round_up(sizeof(shm_head), PAGE_BYTES);
}

static size_t staging_at(int n_ranks)
{
    return gr_round_up(ranks_at() + (size_t)n_ranks * sizeof(shm_rank), PAGE_BYTES);
}

static size_t rings_at(int n_ranks)
{
    return staging_at(n_ranks) + (size_t)n_ranks * SHM_SLOT_BYTES;
}

size_t shm_control_bytes(int n_ranks)
{
    return rings_at(n_ranks) + shm_rings_bytes(n_ranks);
}

shm_world *shm_world_create(int n_ranks)
{
    shm_world *w = (shm_world *)gr_calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    atom32_set(&w->n_refs, 1);
    w->n_ranks = n_ranks;
    w->control = (shm_segment)SHM_SEGMENT_NONE;
    w->exchange = (shm_segment)SHM_SEGMENT_NONE;
    return w;
}

void shm_world_unref(shm_world *w)
{
    if (!w || atom32_add(&w->n_refs, -1) > 0)
        return;
    shm_segment_close(&w->exchange);
    shm_segment_close(&w->control);
    gr_free(w);
}

/* A descriptor of a process becomes readable when it dies, and is not fooled by a new
 * process with an old number. Where the system has none, the number must do. */
static gr_status watch_peers(gr_shm *s, const int *pids)
{
    size_t n = (size_t)s->pg.size;

    s->pids = (int *)gr_calloc(n, sizeof(*s->pids));
    s->pid_fds = (int *)gr_calloc(n, sizeof(*s->pid_fds));
    if (!s->pids || !s->pid_fds)
        return GR_ERR_NOMEM;
    memcpy(s->pids, pids, n * sizeof(*pids));
    for (size_t r = 0; r < n; r++)
        s->pid_fds[r] = -1;
    for (int r = 0; r < s->pg.size; r++) {
        if (r == s->pg.rank)
            continue;
        s->pid_fds[r] = (int)syscall(SYS_pidfd_open, pids[r], 0);
        if (s->pid_fds[r] < 0 && errno == ESRCH)
            return gr_fail(GR_ERR_PEER, "rank %d (process %d) died before the group was made", r,
                           pids[r]);
    }
    return GR_OK;
}

static void describe(const gr_pg *pg, gr_text *text)
{
    const gr_shm *s = (const gr_shm *)pg;

    gr_text_addf(text,
                 "shared memory of one host; %s\n"
                 "all-reduce, broadcast and barrier in slots of %zu bytes, in pieces; reductions "
                 "in the exchange space in place, by shares or as they come; else by messages:\n",
                 s->spin != SHM_SLEEPS ? "waits spin for up to 1 ms, then sleep"
                                       : "more ranks than cores: waits sleep at once",
                 SHM_SLOT_BYTES);
    if (s->engine.wire)
        s->engine.wire->ops->describe(s->engine.wire, text);
    gr_choose_print(text);
}

static const gr_pg_ops shm_ops = {
    .name = "shm",
    .can_capture = false,
    .exchange = shm_exchange,
    .common = shm_common,
    .has_shares = true,
    .start = shm_start,
    .finish = shm_finish,
    .poll = shm_poll,
    .rows = shm_rows,
    .gather_bytes = shm_gather_bytes,
    .run = shm_run,
    .begin = shm_begin,
    .work_test = shm_work_test,
    .work_finish = shm_work_finish,
    .split = shm_split,
    .describe = describe,
    .abort = shm_abort,
    .destroy = shm_destroy,
};

/* A set that is too small for this machine counts as one with cores to spare. */
static void note_cores(cpu_set_t *cores)
{
    if (sched_getaffinity(0, sizeof(*cores), cores) != 0)
        memset(cores, 0xff, sizeof(*cores));
}

static gr_status make_engine(gr_shm *s)
{
    gr_hosts hosts = { .n = 1 };
    gr_wire *wire;

    s->rings = (shm_ring *)((char *)s->world->control.mem + rings_at(s->pg.size));
    GR_TRY(shm_ring_wire(&wire, s));
    return gr_engine_init(&s->engine, &s->pg, wire, &hosts);
}

gr_status shm_create(gr_shm **out, shm_world *w, int rank, const gr_pg_config *config,
                     const int *pids)
{
    gr_shm *s = (gr_shm *)gr_calloc(1, sizeof(*s));
    char *mem = (char *)w->control.mem;
    gr_status st = GR_OK;

    if (!s) {
        shm_world_unref(w);
        return GR_ERR_NOMEM;
    }
    s->pg = (gr_pg){ .ops = &shm_ops,
                     .rank = rank,
                     .size = w->n_ranks,
                     .local_rank = rank,
                     .timeout_ms = config->timeout_ms };
    s->world = w;
    s->head = (shm_head *)mem;
    s->ranks = (shm_rank *)(mem + ranks_at());
    s->staging = mem + staging_at(w->n_ranks);
    s->part = (void **)gr_calloc((size_t)w->n_ranks, sizeof(*s->part));
    s->n_done = (uint64_t *)gr_calloc((size_t)w->n_ranks, sizeof(*s->n_done));
    if (!s->part || !s->n_done)
        st = GR_ERR_NOMEM;
    if (st == GR_OK && pids)
        st = watch_peers(s, pids);
    if (st == GR_OK)
        st = make_engine(s);
    if (st != GR_OK) {
        shm_destroy(&s->pg);
        return st;
    }
    note_cores(&s->ranks[rank].cores);
    atom32_set(&s->ranks[rank].state, SHM_HERE);
    *out = s;
    return GR_OK;
}

void shm_destroy(gr_pg *pg)
{
    gr_shm *s = (gr_shm *)pg;

    if (!s)
        return;
    atom32_set(&s->ranks[pg->rank].state, SHM_LEFT);
    shm_wake_all(s);
    for (int r = 0; r < pg->size && s->pid_fds; r++)
        if (s->pid_fds[r] >= 0)
            close(s->pid_fds[r]);
    gr_engine_fini(&s->engine);
    shm_world_unref(s->world);
    gr_free(s->pid_fds);
    gr_free(s->pids);
    gr_free(s->n_done);
    gr_free(s->part);
    gr_free(s);
}

static gr_status make_threads(gr_pg **out, shm_world *w, const gr_pg_config *config)
{
    w->is_threads = true;
    w->owner_pid = (int)getpid();
    GR_TRY(shm_segment_anonymous(&w->control, shm_control_bytes(w->n_ranks)));
    for (int r = 0; r < w->n_ranks; r++) {
        gr_shm *s;

        atom32_add(&w->n_refs, 1);
        GR_TRY(shm_create(&s, w, r, config, NULL));
        out[r] = &s->pg;
    }
    return GR_OK;
}

gr_status gr_shm_create_threads(gr_pg **out, int n, const gr_pg_config *config)
{
    shm_world *w = shm_world_create(n);
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    for (int r = 0; r < n; r++)
        out[r] = NULL;
    st = make_threads(out, w, config);
    shm_world_unref(w);
    for (int r = 0; r < n && st != GR_OK; r++) {
        gr_pg_destroy(out[r]);
        out[r] = NULL;
    }
    return st;
}

/* Sub-groups of a shared-memory group: the first rank of a part makes their memory. */
#include "comm/shm/join.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the first rank of a part tells the others, through the group they come from. */
typedef struct split_card {
    uint64_t is_ok, token;
    shm_world *world; /* threads */
    int32_t pid, fd;  /* processes */
    char why[128];
} split_card;

static gr_status make_world(gr_shm *parent, const gr_part *part, shm_world **out)
{
    shm_world *w = shm_world_create(part->n);
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    w->is_threads = parent->world->is_threads;
    w->owner_pid = (int)getpid();
    if (w->is_threads)
        st = shm_segment_anonymous(&w->control, shm_control_bytes(part->n));
    else
        st = shm_make_control(w);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    /* Threads share the world: one reference each, taken before anybody can drop one. */
    for (int i = 1; i < part->n && w->is_threads; i++)
        atom32_add(&w->n_refs, 1);
    *out = w;
    return GR_OK;
}

/* The others' way to the world. */
static gr_status open_world(const split_card *c, const gr_part *part, shm_world **out)
{
    const shm_head *head;
    shm_world *w = c->world;
    gr_status st;

    if (!c->is_ok)
        return gr_fail(GR_ERR_PEER, "the first rank could not make it: %.*s",
                       (int)sizeof(c->why) - 1, c->why);
    *out = w;
    if (w)
        return GR_OK;
    w = shm_world_create(part->n);
    if (!w)
        return GR_ERR_NOMEM;
    w->owner_pid = c->pid;
    st = shm_segment_open(&w->control, c->pid, c->fd, shm_control_bytes(part->n), SHM_SMALL_PAGES);
    head = (const shm_head *)w->control.mem;
    if (st == GR_OK && (head->magic != SHM_MAGIC || head->token != c->token))
        st = gr_fail(GR_ERR_FORMAT, "descriptor %d of process %d is not this group's memory", c->fd,
                     c->pid);
    if (st != GR_OK) {
        shm_world_unref(w);
        return st;
    }
    *out = w;
    return GR_OK;
}

/* Meets the others of the part once, with or without something to show. */
static gr_status meet_part(gr_shm *s, const gr_part *part, split_card *card)
{
    char **all = NULL;

    GR_TRY(shm_gather_bytes(&s->pg, card, part->n > 0 && part->rank == 0 ? sizeof(*card) : 0, &all,
                            NULL));
    if (part->n > 0)
        memcpy(card, all[part->ranks[0]], sizeof(*card));
    free(all);
    return GR_OK;
}

static gr_status join_world(gr_shm *s, const gr_part *part, shm_world *w, gr_shm **out)
{
    gr_pg_config config = { .timeout_ms = s->pg.timeout_ms };
    gr_what what = { .kind = GR_WHAT_JOIN };
    int *pids = NULL;
    gr_status st;

    if (s->pids) {
        pids = (int *)gr_calloc((size_t)part->n, sizeof(*pids));
        if (!pids) {
            shm_world_unref(w);
            return GR_ERR_NOMEM;
        }
        for (int i = 0; i < part->n; i++)
            pids[i] = s->pids[part->ranks[i]];
    }
    st = shm_create(out, w, part->rank, &config, pids);
    gr_free(pids);
    if (st != GR_OK)
        return st;
    (*out)->pg.local_rank = s->pg.local_rank;
    st = shm_round(*out, &what, "sub-group", 0);
    if (st == GR_OK && !w->is_threads)
        shm_segment_hide(&w->control); /* all have mapped it */
    return st;
}

gr_status shm_split(gr_pg *pg, const gr_part *part, gr_pg **out)
{
    gr_shm *s = (gr_shm *)pg, *made = NULL;
    split_card card;
    shm_world *w = NULL;
    gr_status st = GR_OK, met;

    memset(&card, 0, sizeof(card));
    if (part->n > 0 && part->rank == 0) {
        st = make_world(s, part, &w);
        card.is_ok = st == GR_OK;
        if (w && !w->is_threads)
            card.token = ((shm_head *)w->control.mem)->token;
        card.world = w && w->is_threads ? w : NULL;
        card.pid = (int32_t)getpid();
        card.fd = w ? w->control.fd : -1;
        snprintf(card.why, sizeof(card.why), "%s", st == GR_OK ? "" : gr_error_message());
    }
    met = meet_part(s, part, &card);
    if (met != GR_OK || part->n == 0 || st != GR_OK)
        return met != GR_OK ? met : st;
    if (part->rank != 0)
        GR_TRY(open_world(&card, part, &w));
    st = join_world(s, part, w, &made);
    if (st != GR_OK && made) {
        gr_error e;

        gr_error_take(&e, st);
        shm_abort(&made->pg, e.text);
        shm_destroy(&made->pg);
        return gr_error_raise(&e);
    }
    *out = st == GR_OK ? &made->pg : NULL;
    return st;
}

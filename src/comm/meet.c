/* Meeting: through a store, through a group, through memory. */
#include "comm/meet.h"

#include "base/alloc.h"
#include "base/size.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_TEXT 96
#define LEN_TEXT 16 /* hexadecimal digits before each value in the store */

gr_status gr_bytes_table(char ***out, const char *bytes, const size_t *sizes, int n)
{
    size_t total = (size_t)n * sizeof(char *);
    char **all, *to;

    for (int r = 0; r < n; r++) {
        GR_TRY(gr_size_add(&total, total, 1));
        GR_TRY(gr_size_add(&total, total, sizes[r]));
    }
    all = (char **)gr_malloc(total);
    if (!all)
        return GR_ERR_NOMEM;
    to = (char *)(all + n);
    for (int r = 0; r < n; r++) {
        all[r] = to;
        memcpy(to, bytes, sizes[r]);
        to[sizes[r]] = '\0';
        to += sizes[r] + 1;
        bytes += sizes[r];
    }
    *out = all;
    return GR_OK;
}

/* ---- the store ---- */

static void key_of(const gr_meet_store *s, char *key, int rank)
{
    snprintf(key, KEY_TEXT, "gradus/%d/%" PRId64 "/meet%d/%d", s->restart, s->n, s->round, rank);
}

static gr_status put_own(gr_meet *m, gr_meet_store *s, const void *src, size_t n_bytes)
{
    char *value = (char *)gr_malloc(LEN_TEXT + n_bytes + 1), key[KEY_TEXT];
    gr_status st;

    if (!value)
        return GR_ERR_NOMEM;
    snprintf(value, LEN_TEXT + 1, "%016zx", n_bytes);
    if (n_bytes > 0)
        memcpy(value + LEN_TEXT, src, n_bytes);
    key_of(s, key, m->rank);
    st = gr_store_set(s->store, key, value, LEN_TEXT + n_bytes, m->deadline);
    gr_free(value);
    return st;
}

/* Values of all ranks, one after the other, and their lengths. */
static gr_status read_values(char **values, int n, gr_text *bytes, size_t *sizes)
{
    for (int r = 0; r < n; r++) {
        char digits[LEN_TEXT + 1] = "", *end;

        memcpy(digits, values[r], strnlen(values[r], LEN_TEXT));
        errno = 0;
        sizes[r] = (size_t)strtoull(digits, &end, 16);
        /* The store's answer is bounded (8 MiB), so a length that lies cannot be large. */
        if (errno != 0 || end != digits + LEN_TEXT || sizes[r] > ((size_t)8 << 20))
            return gr_fail(GR_ERR_FORMAT, "rank %d told the store something else", r);
        gr_text_addn(bytes, values[r] + LEN_TEXT, sizes[r]);
    }
    return gr_text_status(bytes);
}

static gr_status gather_at_store(gr_meet *m, const void *src, size_t n_bytes, char ***out,
                                 size_t *sizes)
{
    gr_meet_store *s = (gr_meet_store *)m->arg;
    size_t n = (size_t)m->size;
    char *names = (char *)gr_calloc(n, KEY_TEXT), **values = (char **)gr_calloc(n, sizeof(*values));
    const char **keys = (const char **)gr_calloc(n, sizeof(*keys));
    size_t *lengths = (size_t *)gr_calloc(n, sizeof(*lengths));
    gr_text bytes = GR_TEXT_INIT;
    gr_status st = names && keys && values && lengths ? GR_OK : GR_ERR_NOMEM;

    if (st == GR_OK)
        st = put_own(m, s, src, n_bytes);
    for (int r = 0; r < m->size && st == GR_OK; r++) {
        key_of(s, names + (size_t)r * KEY_TEXT, r);
        keys[r] = names + (size_t)r * KEY_TEXT;
    }
    if (st == GR_OK)
        st = gr_wrap(gr_store_get_many(s->store, keys, m->size, values, m->deadline),
                     "not all ranks have come");
    s->round += st == GR_OK;
    if (st == GR_OK)
        st = read_values(values, m->size, &bytes, lengths);
    if (st == GR_OK)
        st = gr_bytes_table(out, gr_text_str(&bytes), lengths, m->size);
    if (st == GR_OK && sizes)
        memcpy(sizes, lengths, n * sizeof(*lengths));
    for (size_t r = 0; r < n && values; r++)
        gr_free(values[r]);
    gr_text_fini(&bytes);
    gr_free(lengths);
    gr_free(values);
    gr_free((void *)keys);
    gr_free(names);
    return st;
}

gr_status gr_meet_at_store(gr_meet *m, gr_meet_store *s, gr_store *store, const gr_job *job)
{
    char key[KEY_TEXT];

    *s = (gr_meet_store){ .store = store, .restart = job->restart };
    m->rank = job->rank;
    m->size = job->n_ranks;
    m->gather = gather_at_store;
    m->arg = s;
    snprintf(key, sizeof(key), "gradus/%d/joined/%d", job->restart, job->rank);
    return gr_store_add(store, key, 1, &s->n, m->deadline);
}

/* ---- a group ---- */

static gr_status gather_in_pg(gr_meet *m, const void *src, size_t n_bytes, char ***out,
                              size_t *sizes)
{
    gr_meet_pg *g = (gr_meet_pg *)m->arg;
    size_t n = (size_t)g->pg->size;
    size_t *all_sizes = (size_t *)gr_calloc(n, sizeof(*all_sizes));
    size_t *some = (size_t *)gr_calloc(n, sizeof(*some));
    gr_text bytes = GR_TEXT_INIT;
    char **all = NULL;
    gr_status st = all_sizes && some ? GR_OK : GR_ERR_NOMEM;

    if (st == GR_OK)
        st = gr_pg_gather_bytes(g->pg, src, n_bytes, &all, all_sizes);
    for (int i = 0; i < g->part->n && st == GR_OK; i++) {
        some[i] = all_sizes[g->part->ranks[i]];
        gr_text_addn(&bytes, all[g->part->ranks[i]], some[i]);
    }
    if (st == GR_OK)
        st = gr_text_status(&bytes);
    if (st == GR_OK)
        st = gr_bytes_table(out, gr_text_str(&bytes), some, g->part->n);
    if (st == GR_OK && sizes)
        memcpy(sizes, some, (size_t)g->part->n * sizeof(*some));
    free(all);
    gr_text_fini(&bytes);
    gr_free(some);
    gr_free(all_sizes);
    return st;
}

void gr_meet_in_pg(gr_meet *m, gr_meet_pg *g, gr_pg *pg, const gr_part *part)
{
    *g = (gr_meet_pg){ pg, part };
    *m = (gr_meet){ .rank = part->rank,
                    .size = part->n,
                    .deadline = gr_deadline_in_ms(pg->timeout_ms),
                    .gather = gather_in_pg,
                    .arg = g };
}

gr_status gr_meet_outside(gr_meet_pg *g)
{
    char **all;

    GR_TRY(gr_pg_gather_bytes(g->pg, "", 0, &all, NULL));
    free(all);
    return GR_OK;
}

/* ---- threads ---- */

struct gr_meet_room {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    int size;   /* fixed at creation */
    int n_here; /* these are guarded by lock */
    bool gave_up;
    char **bytes;
    size_t *sizes;
};

gr_status gr_meet_room_create(gr_meet_room **out, int size)
{
    gr_meet_room *r = (gr_meet_room *)gr_calloc(1, sizeof(*r));

    if (!r)
        return GR_ERR_NOMEM;
    r->size = size;
    r->bytes = (char **)gr_calloc((size_t)size, sizeof(*r->bytes));
    r->sizes = (size_t *)gr_calloc((size_t)size, sizeof(*r->sizes));
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->all_here, NULL);
    *out = r;
    if (r->bytes && r->sizes)
        return GR_OK;
    gr_meet_room_destroy(r);
    return GR_ERR_NOMEM;
}

void gr_meet_room_destroy(gr_meet_room *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->size && r->bytes; i++)
        gr_free(r->bytes[i]);
    gr_free(r->bytes);
    gr_free(r->sizes);
    pthread_cond_destroy(&r->all_here);
    pthread_mutex_destroy(&r->lock);
    gr_free(r);
}

void gr_meet_room_give_up(gr_meet_room *r)
{
    pthread_mutex_lock(&r->lock);
    r->gave_up = true;
    pthread_cond_broadcast(&r->all_here);
    pthread_mutex_unlock(&r->lock);
}

static gr_status copy_table(const gr_meet_room *r, char ***out, size_t *sizes)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; i < r->size; i++)
        gr_text_addn(&bytes, r->bytes[i], r->sizes[i]);
    st = gr_text_status(&bytes);
    if (st == GR_OK)
        st = gr_bytes_table(out, gr_text_str(&bytes), r->sizes, r->size);
    if (st == GR_OK && sizes)
        memcpy(sizes, r->sizes, (size_t)r->size * sizeof(*sizes));
    gr_text_fini(&bytes);
    return st;
}

/* Once per room. */
static gr_status gather_in_room(gr_meet *m, const void *src, size_t n_bytes, char ***out,
                                size_t *sizes)
{
    gr_meet_room *r = (gr_meet_room *)m->arg;
    char *own = (char *)gr_malloc(n_bytes + 1);
    gr_status st = GR_OK;

    if (!own)
        return GR_ERR_NOMEM;
    if (n_bytes > 0)
        memcpy(own, src, n_bytes);
    pthread_mutex_lock(&r->lock);
    r->bytes[m->rank] = own;
    r->sizes[m->rank] = n_bytes;
    if (++r->n_here == r->size)
        pthread_cond_broadcast(&r->all_here);
    while (r->n_here < r->size && !r->gave_up)
        pthread_cond_wait(&r->all_here, &r->lock);
    if (r->n_here < r->size)
        st = gr_fail(GR_ERR_PEER, "another rank could not join");
    pthread_mutex_unlock(&r->lock);
    return st == GR_OK ? copy_table(r, out, sizes) : st;
}

void gr_meet_in_room(gr_meet *m, gr_meet_room *r, int rank)
{
    m->rank = rank;
    m->size = r->size;
    m->is_threads = true;
    m->gather = gather_in_room;
    m->arg = r;
}

/*
 * A hash table with chains. An entry is a plain value, a queue, a barrier's counter, or
 * several of them: they live under one key without knowing of each other. Entries that
 * are none of them any more are removed.
 */
#include "net/store_table.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64

typedef struct item {
    struct item *next;
    size_t len;
    uint8_t mem[];
} item;

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    bool has_value;
    uint8_t *value; /* owned */
    size_t value_len, value_cap;
    item *first, *last; /* queue; owned */
    int64_t n_queued, n_arrived;
    size_t key_len;
    uint8_t key[];
} entry;

struct gr_store_table {
    entry **slots;
    size_t n_slots; /* a power of two */
    size_t n_entries;
    int64_t n_values;
};

/* FNV-1a; keys come from ranks of the own job. */
static uint64_t hash_of(gr_span key)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < key.len; i++)
        h = (h ^ key.mem[i]) * 1099511628211u;
    return h;
}

/* Where the pointer to the key's entry stands, or the chain's end. */
static entry **place(const gr_store_table *t, gr_span key, uint64_t hash)
{
    entry **at = &t->slots[hash & (t->n_slots - 1)];

    while (*at && ((*at)->hash != hash || (*at)->key_len != key.len ||
                   (key.len > 0 && memcmp((*at)->key, key.mem, key.len) != 0)))
        at = &(*at)->next;
    return at;
}

static entry *find(const gr_store_table *t, gr_span key)
{
    return *place(t, key, hash_of(key));
}

gr_status gr_store_table_create(gr_store_table **out)
{
    gr_store_table *t = (gr_store_table *)gr_calloc(1, sizeof(*t));

    if (!t)
        return GR_ERR_NOMEM;
    t->n_slots = FIRST_SLOTS;
    t->slots = (entry **)gr_calloc(t->n_slots, sizeof(*t->slots));
    if (!t->slots) {
        gr_free(t);
        return GR_ERR_NOMEM;
    }
    *out = t;
    return GR_OK;
}

static void free_entry(entry *e)
{
    while (e->first) {
        item *i = e->first;

        e->first = i->next;
        gr_free(i);
    }
    gr_free(e->value);
    gr_free(e);
}

void gr_store_table_destroy(gr_store_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_slots; i++)
        while (t->slots[i]) {
            entry *e = t->slots[i];

            t->slots[i] = e->next;
            free_entry(e);
        }
    gr_free(t->slots);
    gr_free(t);
}

/* Twice the slots; when there is no memory for them the chains just get longer. */
static void spread(gr_store_table *t)
{
    size_t n = 2 * t->n_slots;
    entry **slots = (entry **)gr_calloc(n, sizeof(*slots));

    if (!slots)
        return;
    for (size_t i = 0; i < t->n_slots; i++)
        while (t->slots[i]) {
            entry *e = t->slots[i];

            t->slots[i] = e->next;
            e->next = slots[e->hash & (n - 1)];
            slots[e->hash & (n - 1)] = e;
        }
    gr_free(t->slots);
    t->slots = slots;
    t->n_slots = n;
}

/* The key's entry, made if need be; NULL when out of memory. */
static entry *obtain(gr_store_table *t, gr_span key)
{
    uint64_t hash = hash_of(key);
    entry **at = place(t, key, hash);
    entry *e = *at;

    if (e)
        return e;
    e = (entry *)gr_calloc(1, sizeof(*e) + key.len);
    if (!e)
        return NULL;
    e->hash = hash;
    e->key_len = key.len;
    if (key.len > 0)
        memcpy(e->key, key.mem, key.len);
    *at = e;
    if (++t->n_entries > t->n_slots)
        spread(t);
    return e;
}

static void drop_if_bare(gr_store_table *t, gr_span key)
{
    entry **at = place(t, key, hash_of(key));
    entry *e = *at;

    if (!e || e->has_value || e->first || e->n_arrived > 0)
        return;
    *at = e->next;
    t->n_entries--;
    free_entry(e);
}

static gr_status put(gr_store_table *t, entry *e, gr_span value, size_t at)
{
    size_t len = at + value.len;

    if (len > GR_STORE_MAX_REQUEST)
        return gr_fail(GR_ERR_FORMAT, "a value grows beyond %zu bytes", GR_STORE_MAX_REQUEST);
    if (len > e->value_cap || !e->value) {
        size_t cap = at > 0 ? 2 * len : len;
        uint8_t *grown = (uint8_t *)gr_realloc(e->value, cap);

        if (!grown)
            return GR_ERR_NOMEM;
        e->value = grown;
        e->value_cap = cap;
    }
    if (value.len > 0)
        memcpy(e->value + at, value.mem, value.len);
    e->value_len = len;
    t->n_values += !e->has_value;
    e->has_value = true;
    return GR_OK;
}

gr_status gr_store_table_set(gr_store_table *t, gr_span key, gr_span value)
{
    entry *e = obtain(t, key);

    return e ? put(t, e, value, 0) : GR_ERR_NOMEM;
}

gr_status gr_store_table_append(gr_store_table *t, gr_span key, gr_span value)
{
    entry *e = obtain(t, key);

    return e ? put(t, e, value, e->has_value ? e->value_len : 0) : GR_ERR_NOMEM;
}

gr_span gr_store_table_get(const gr_store_table *t, gr_span key)
{
    const entry *e = find(t, key);

    return e && e->has_value ? (gr_span){ e->value, e->value_len } : (gr_span){ NULL, 0 };
}

gr_status gr_store_table_compare_set(gr_store_table *t, gr_span key, gr_span expected,
                                     gr_span desired, gr_span *now)
{
    const entry *e = find(t, key);
    bool is_there = e && e->has_value;
    gr_span old = gr_store_table_get(t, key);

    if (is_there ? old.len == expected.len &&
                       (old.len == 0 || memcmp(old.mem, expected.mem, old.len) == 0)
                 : expected.len == 0) {
        GR_TRY(gr_store_table_set(t, key, desired));
        *now = gr_store_table_get(t, key);
    } else {
        *now = is_there ? old : expected;
    }
    return GR_OK;
}

static gr_status parse_counter(gr_span value, int64_t *out)
{
    char text[32], *end;

    if (value.len == 0 || value.len >= sizeof(text))
        return gr_fail(GR_ERR_FORMAT, "add to a value of %zu bytes that is no number", value.len);
    memcpy(text, value.mem, value.len);
    text[value.len] = '\0';
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0')
        return gr_fail(GR_ERR_FORMAT, "add to a value that is no number");
    return GR_OK;
}

gr_status gr_store_table_add(gr_store_table *t, gr_span key, int64_t by, int64_t *now)
{
    const entry *e = find(t, key);
    int64_t old = 0;
    char text[32];
    int len;

    if (e && e->has_value)
        GR_TRY(parse_counter(gr_store_table_get(t, key), &old));
    *now = (int64_t)((uint64_t)old + (uint64_t)by); /* wraps, as the original does */
    len = snprintf(text, sizeof(text), "%" PRId64, *now);
    return gr_store_table_set(t, key, (gr_span){ (const uint8_t *)text, (size_t)len });
}

bool gr_store_table_delete(gr_store_table *t, gr_span key)
{
    entry *e = find(t, key);

    if (!e || !e->has_value)
        return false;
    e->has_value = false;
    t->n_values--;
    drop_if_bare(t, key);
    return true;
}

int64_t gr_store_table_count(const gr_store_table *t)
{
    return t->n_values;
}

void gr_store_table_each(const gr_store_table *t, void (*fn)(void *arg, gr_span key), void *arg)
{
    for (size_t i = 0; i < t->n_slots; i++)
        for (const entry *e = t->slots[i]; e; e = e->next)
            if (e->has_value)
                fn(arg, (gr_span){ e->key, e->key_len });
}

bool gr_store_table_has(const gr_store_table *t, gr_span key)
{
    const entry *e = find(t, key);

    return e && (e->has_value || e->n_queued > 0);
}

gr_status gr_store_table_push(gr_store_table *t, gr_span key, gr_span value)
{
    item *i = (item *)gr_malloc(sizeof(*i) + value.len);
    entry *e = i ? obtain(t, key) : NULL;

    if (!e) {
        gr_free(i);
        return GR_ERR_NOMEM;
    }
    i->next = NULL;
    i->len = value.len;
    if (value.len > 0)
        memcpy(i->mem, value.mem, value.len);
    if (e->last)
        e->last->next = i;
    else
        e->first = i;
    e->last = i;
    e->n_queued++;
    return GR_OK;
}

int64_t gr_store_table_queued(const gr_store_table *t, gr_span key)
{
    const entry *e = find(t, key);

    return e ? e->n_queued : 0;
}

gr_span gr_store_table_front(const gr_store_table *t, gr_span key)
{
    const entry *e = find(t, key);

    return e && e->first ? (gr_span){ e->first->mem, e->first->len } : (gr_span){ NULL, 0 };
}

void gr_store_table_pop(gr_store_table *t, gr_span key)
{
    entry *e = find(t, key);
    item *i = e ? e->first : NULL;

    if (!i)
        return;
    e->first = i->next;
    if (!e->first)
        e->last = NULL;
    e->n_queued--;
    gr_free(i);
    drop_if_bare(t, key);
}

gr_status gr_store_table_arrive(gr_store_table *t, gr_span key, int64_t *n)
{
    entry *e = obtain(t, key);

    if (!e)
        return GR_ERR_NOMEM;
    *n = ++e->n_arrived;
    return GR_OK;
}

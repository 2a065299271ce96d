/*
 * Snapshots: named tensors and text entries in host memory.
 *
 * (1) Entries keep the order in which they were added, and never move: a gr_named that was
 *     lent stays good until the snapshot is destroyed.
 * (2) `slots` finds a name in constant time: open addressing, at most half full, each slot
 *     the entry's number plus one, 0 for free. Nothing is ever removed.
 * (3) A call that fails leaves the snapshot as it was.
 *
 * Not thread-safe.
 */
#include "gradus/tensor.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"

#include <string.h>

typedef struct text_entry {
    char *key, *text; /* both owned */
} text_entry;

struct gr_snapshot {
    gr_arena *arena;    /* owned; the gr_named and their names */
    gr_named **tensors; /* owned array; each in the arena, its mem owned */
    int n_tensors, cap_tensors;
    int *slots;        /* owned */
    int n_slots;       /* a power of two, or 0 */
    text_entry *texts; /* owned; few, so they are searched one by one */
    int n_texts, cap_texts;
};

gr_status gr_snapshot_create(gr_snapshot **out)
{
    gr_snapshot *s;
    gr_status st;

    if (!out)
        return gr_fail(GR_ERR_ARG, "snapshot: out is NULL");
    s = gr_calloc(1, sizeof(*s));
    if (!s)
        return GR_ERR_NOMEM;
    st = gr_arena_create(&s->arena);
    if (st != GR_OK) {
        gr_snapshot_destroy(s);
        return st;
    }
    *out = s;
    return GR_OK;
}

void gr_snapshot_destroy(gr_snapshot *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_tensors; i++)
        gr_free(s->tensors[i]->mem);
    for (int i = 0; i < s->n_texts; i++) {
        gr_free(s->texts[i].key);
        gr_free(s->texts[i].text);
    }
    gr_free(s->texts);
    gr_free(s->slots);
    gr_free(s->tensors);
    gr_arena_destroy(s->arena);
    gr_free(s);
}

/* FNV-1a: short, and good enough for names. */
static uint64_t hash_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h ^ (h >> 32);
}

/* The slot of `name`, or the free one where it belongs. */
static int *slot_of(const gr_snapshot *s, const char *name)
{
    uint64_t mask = (uint64_t)s->n_slots - 1;
    uint64_t i = hash_of(name) & mask;

    while (s->slots[i] != 0 && strcmp(s->tensors[s->slots[i] - 1]->name, name) != 0)
        i = (i + 1) & mask;
    return &s->slots[i];
}

static gr_status grow_slots(gr_snapshot *s)
{
    int n_slots = s->n_slots ? 2 * s->n_slots : 64;
    int *slots;

    if (2 * (s->n_tensors + 1) <= s->n_slots)
        return GR_OK;
    slots = gr_calloc((size_t)n_slots, sizeof(*slots));
    if (!slots)
        return GR_ERR_NOMEM;
    gr_free(s->slots);
    s->slots = slots;
    s->n_slots = n_slots;
    for (int i = 0; i < s->n_tensors; i++)
        *slot_of(s, s->tensors[i]->name) = i + 1;
    return GR_OK;
}

static gr_status grow_tensors(gr_snapshot *s)
{
    void *items = s->tensors;
    gr_status st = gr_grow(&items, &s->cap_tensors, s->n_tensors + 1, sizeof(*s->tensors));

    s->tensors = (gr_named **)items;
    return st;
}

/* A gr_named with its name in the arena and zeroed memory of its own. */
static gr_status make_tensor(gr_snapshot *s, const char *name, gr_dtype t, gr_shape shape,
                             gr_named **out)
{
    gr_named *named = gr_arena_new(s->arena, gr_named);
    size_t n_bytes;

    if (!named)
        return GR_ERR_NOMEM;
    *named = (gr_named){ .name = gr_arena_strdup(s->arena, name), .dtype = t, .shape = shape };
    if (!named->name)
        return GR_ERR_NOMEM;
    GR_TRY(gr_size_mul(&n_bytes, (size_t)gr_shape_count(&shape), gr_dtype_bytes(t)));
    named->mem = gr_malloc_aligned(n_bytes);
    if (!named->mem)
        return GR_ERR_NOMEM;
    memset(named->mem, 0, n_bytes);
    *out = named;
    return GR_OK;
}

gr_status gr_snapshot_add(gr_snapshot *s, const char *name, gr_dtype t, gr_shape shape, void **mem)
{
    gr_arena_mark before;
    gr_named *named;
    gr_status st;

    if (!s || !name || !mem)
        return gr_fail(GR_ERR_ARG, "snapshot: the snapshot, a name or a place for it is NULL");
    before = gr_arena_save(s->arena);
    st = gr_shape_check(&shape, t);
    if (st != GR_OK)
        return gr_wrap(st, "tensor '%s'", name);
    if (gr_snapshot_find(s, name))
        return gr_fail(GR_ERR_ARG, "tensor '%s' is already in the snapshot", name);
    GR_TRY(grow_tensors(s));
    GR_TRY(grow_slots(s));
    st = make_tensor(s, name, t, shape, &named);
    if (st != GR_OK) {
        gr_arena_reset(s->arena, before);
        return gr_wrap(st, "tensor '%s'", name);
    }
    s->tensors[s->n_tensors] = named;
    *slot_of(s, name) = ++s->n_tensors;
    *mem = named->mem;
    return GR_OK;
}

int gr_snapshot_count(const gr_snapshot *s)
{
    return s->n_tensors;
}

const gr_named *gr_snapshot_at(const gr_snapshot *s, int i)
{
    GR_BUG_IF(i < 0 || i >= s->n_tensors);
    return s->tensors[i];
}

const gr_named *gr_snapshot_find(const gr_snapshot *s, const char *name)
{
    int number = s->n_slots ? *slot_of(s, name) : 0;

    return number ? s->tensors[number - 1] : NULL;
}

static text_entry *find_text(const gr_snapshot *s, const char *key)
{
    for (int i = 0; i < s->n_texts; i++)
        if (strcmp(s->texts[i].key, key) == 0)
            return &s->texts[i];
    return NULL;
}

static gr_status add_text(gr_snapshot *s, const char *key, char *owned)
{
    void *items = s->texts;
    gr_status st = gr_grow(&items, &s->cap_texts, s->n_texts + 1, sizeof(*s->texts));
    char *owned_key;

    s->texts = (text_entry *)items;
    if (st != GR_OK)
        return st;
    owned_key = gr_strdup(key);
    if (!owned_key)
        return GR_ERR_NOMEM;
    s->texts[s->n_texts++] = (text_entry){ .key = owned_key, .text = owned };
    return GR_OK;
}

gr_status gr_snapshot_set(gr_snapshot *s, const char *key, const char *text)
{
    gr_status st = GR_OK;
    text_entry *e;
    char *owned;

    if (!s || !key || !text)
        return gr_fail(GR_ERR_ARG, "snapshot: the snapshot, a key or its text is NULL");
    e = find_text(s, key);
    owned = gr_strdup(text);
    if (!owned)
        return GR_ERR_NOMEM;
    if (e) {
        gr_free(e->text);
        e->text = owned;
    } else {
        st = add_text(s, key, owned);
    }
    if (st != GR_OK)
        gr_free(owned);
    return st;
}

const char *gr_snapshot_get(const gr_snapshot *s, const char *key)
{
    const text_entry *e = find_text(s, key);

    return e ? e->text : NULL;
}

int gr_snapshot_n_texts(const gr_snapshot *s)
{
    return s->n_texts;
}

void gr_snapshot_text_at(const gr_snapshot *s, int i, const char **key, const char **text)
{
    GR_BUG_IF(i < 0 || i >= s->n_texts);
    *key = s->texts[i].key;
    *text = s->texts[i].text;
}

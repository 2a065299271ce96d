/*
 * Opens the two containers of PyTorch's files and finds the storages in them.
 *
 *     zip:     FOLDER/data.pkl, FOLDER/data/KEY, FOLDER/version, FOLDER/byteorder
 *     legacy:  pickles of magic number, protocol, system, the object, a list of keys;
 *              then for each key an i64 (elements) and the bytes
 *
 * The file is in memory as a whole (a mapping) and every tensor is copied once, from there
 * to where it stays. CRCs of the zip container are compared before bytes are used; the
 * legacy one has none. Any thread.
 */
#include "ckpt/pt.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they are");

#define MAX_VERSION     10
#define LEGACY_PROTOCOL 1001

/* The number 0x1950a86a20f9469cfc6c and STOP, behind PROTO and, from protocol 4 on, FRAME. */
static const unsigned char legacy_magic[] = { 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                              0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e };
#define PROTO_BYTES 2
#define FRAME_BYTES 9
_Static_assert(PROTO_BYTES + FRAME_BYTES + sizeof(legacy_magic) <= GR_PT_LEAD_BYTES,
               "it is within the lead");

/* How long the first pickle of a legacy file is; 0 when these bytes are none. */
static size_t legacy_lead(const unsigned char *bytes, size_t n_bytes)
{
    size_t at = PROTO_BYTES;

    if (n_bytes < PROTO_BYTES + FRAME_BYTES || bytes[0] != 0x80)
        return 0;
    if (bytes[at] == 0x95)
        at += FRAME_BYTES;
    if (n_bytes - at < sizeof(legacy_magic) ||
        memcmp(bytes + at, legacy_magic, sizeof(legacy_magic)) != 0)
        return 0;
    return at + sizeof(legacy_magic);
}

bool gr_pt_is_zip(const unsigned char *bytes, size_t n_bytes)
{
    /* A safetensors file may begin alike, but its byte 8 is '{': here it is the method. */
    return n_bytes >= 4 && memcmp(bytes, "PK\3\4", 4) == 0 && (n_bytes < 9 || bytes[8] != '{');
}

bool gr_pt_is_legacy(const unsigned char *bytes, size_t n_bytes)
{
    return legacy_lead(bytes, n_bytes) > 0;
}

typedef struct archive {
    gr_zip zip;
    const unsigned char *folder; /* name of the top folder, with its slash */
    size_t n_folder;
} archive;

static gr_status find_record(archive *a, const char *name, const gr_zip_entry **out)
{
    gr_zip_name full = { a->folder, (const unsigned char *)name, a->n_folder, strlen(name) };

    return gr_wrap(gr_zip_find(&a->zip, full, out), "record '%s'", name);
}

/* The one top folder that all records lie in. */
static gr_status find_folder(archive *a)
{
    const gr_zip_entry *e = a->zip.entries;
    const unsigned char *slash = NULL;

    if (a->zip.n_entries > 0)
        slash = memchr(e[0].name, '/', e[0].n_name);
    if (!slash)
        return gr_fail(GR_ERR_FORMAT, "a zip archive, but without the top folder of PyTorch's");
    a->folder = e[0].name;
    a->n_folder = (size_t)(slash - e[0].name) + 1;
    for (int i = 1; i < a->zip.n_entries; i++)
        if (e[i].n_name < a->n_folder || memcmp(e[i].name, a->folder, a->n_folder) != 0)
            return gr_fail(GR_ERR_FORMAT, "the record at byte %zu lies outside the top folder",
                           e[i].offset);
    return GR_OK;
}

static gr_status check_version(archive *a)
{
    const gr_zip_entry *e;
    int version = 0;

    GR_TRY(find_record(a, "version", &e));
    if (!e)
        GR_TRY(find_record(a, ".data/version", &e)); /* where torch 2 puts it for some files */
    if (!e)
        return gr_fail(GR_ERR_FORMAT, "a zip archive, but not of PyTorch: no record 'version'");
    for (size_t i = 0; i < e->n_bytes && e->bytes[i] >= '0' && e->bytes[i] <= '9'; i++)
        version = version > MAX_VERSION ? version : 10 * version + (e->bytes[i] - '0');
    if (version < 1 || version > MAX_VERSION)
        return gr_fail(GR_ERR_FORMAT, "version %d in record 'version', 1 to %d are read", version,
                       MAX_VERSION);
    GR_TRY(find_record(a, "byteorder", &e));
    if (e && (e->n_bytes != 6 || memcmp(e->bytes, "little", 6) != 0))
        return gr_fail(GR_ERR_FORMAT, "record 'byteorder' does not say 'little'");
    return GR_OK;
}

static gr_status zip_storage(void *arg, const gr_pk_storage *s, const unsigned char **out)
{
    archive *a = arg;
    char shown[GR_PK_SHOWN_BYTES];
    const gr_zip_entry *e = NULL;
    gr_zip_name name = { NULL, s->key.at, 0, s->key.n };
    unsigned char folder[GR_PK_SHOWN_BYTES + sizeof("data/")];
    gr_status st;

    name.n_folder = a->n_folder + 5;
    if (name.n_folder > sizeof(folder))
        return gr_fail(GR_ERR_FORMAT, "the top folder's name has %zu bytes", a->n_folder);
    memcpy(folder, a->folder, a->n_folder);
    memcpy(folder + a->n_folder, "data/", 5);
    name.folder = folder;
    st = gr_zip_find(&a->zip, name, &e);
    if (st != GR_OK)
        return gr_wrap(st, "record 'data/%s'", gr_pk_shown(s->key, shown));
    if (!e)
        return gr_fail(GR_ERR_FORMAT, "there is no record 'data/%s'", gr_pk_shown(s->key, shown));
    if (e->n_bytes != s->n_elem * gr_dtype_bytes(s->dtype))
        return gr_fail(GR_ERR_FORMAT,
                       "record 'data/%s' has %zu bytes, %zu elements of %s are meant",
                       gr_pk_shown(s->key, shown), e->n_bytes, s->n_elem, gr_dtype_name(s->dtype));
    *out = e->bytes;
    return GR_OK;
}

static gr_status read_zip(archive *a, gr_pk *pk, gr_pt_source *src, gr_snapshot *snap)
{
    const gr_zip_entry *e;
    gr_pk_value *value;
    size_t n_used;

    GR_TRY(find_folder(a));
    GR_TRY(check_version(a));
    GR_TRY(find_record(a, "data.pkl", &e));
    if (!e)
        return gr_fail(GR_ERR_FORMAT, "a zip archive, but not of PyTorch: no record 'data.pkl'");
    GR_TRY(gr_pk_load(pk, e->bytes, e->n_bytes, e->offset, &value, &n_used));
    if (n_used != e->n_bytes)
        return gr_fail(GR_ERR_FORMAT, "record 'data.pkl' has %zu bytes, its pickle ends after %zu",
                       e->n_bytes, n_used);
    src->value = value;
    src->storage = zip_storage;
    src->arg = a;
    return gr_pt_flatten(src, snap);
}

/* The part of a legacy file that holds a storage. */
typedef struct part {
    gr_pk_text key;
    const unsigned char *bytes;
    size_t n_elem;
    size_t elem_bytes;
} part;

typedef struct legacy {
    const unsigned char *bytes;
    size_t n_bytes, pos;
    part *parts; /* owned; sorted by key */
    int n_parts;
} legacy;

static int compare_texts(gr_pk_text a, gr_pk_text b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.at, b.at, n) : 0;

    if (order != 0)
        return order;
    return a.n < b.n ? -1 : a.n > b.n;
}

static int parts_by_key(const void *a, const void *b)
{
    return compare_texts(((const part *)a)->key, ((const part *)b)->key);
}

static int storages_by_key(const void *a, const void *b)
{
    const gr_pk_storage *x = *(const gr_pk_storage *const *)a,
                        *y = *(const gr_pk_storage *const *)b;

    return compare_texts(x->key, y->key);
}

static gr_status legacy_storage(void *arg, const gr_pk_storage *s, const unsigned char **out)
{
    const legacy *l = arg;
    const part key = { .key = s->key };
    char shown[GR_PK_SHOWN_BYTES];
    const part *p = NULL;

    if (l->n_parts > 0)
        p = bsearch(&key, l->parts, (size_t)l->n_parts, sizeof(key), parts_by_key);
    if (!p)
        return gr_fail(GR_ERR_FORMAT, "there is no storage '%s'", gr_pk_shown(s->key, shown));
    if (p->n_elem != s->n_elem || p->elem_bytes != gr_dtype_bytes(s->dtype))
        return gr_fail(GR_ERR_FORMAT,
                       "storage '%s' holds %zu elements of %zu bytes, %zu of %s are meant",
                       gr_pk_shown(s->key, shown), p->n_elem, p->elem_bytes, s->n_elem,
                       gr_dtype_name(s->dtype));
    *out = p->bytes;
    return GR_OK;
}

static gr_status next_pickle(legacy *l, gr_pk *pk, gr_pk_value **out)
{
    size_t n_used;

    GR_TRY(gr_pk_load(pk, l->bytes + l->pos, l->n_bytes - l->pos, l->pos, out, &n_used));
    l->pos += n_used;
    return GR_OK;
}

static gr_status check_system(const gr_pk_value *system)
{
    if (system->kind != GR_PK_DICT)
        return gr_fail(GR_ERR_FORMAT, "the third pickle is %s, not the dict of the system",
                       gr_pk_kind_name(system->kind));
    for (int i = 0; i < system->items.n; i += 2) {
        const gr_pk_value *key = system->items.at[i], *v = system->items.at[i + 1];

        if (key->kind == GR_PK_TEXT && gr_pk_text_is(key->text, "little_endian") &&
            !(v->kind == GR_PK_BOOL && v->b))
            return gr_fail(GR_ERR_FORMAT, "its numbers are not little-endian");
    }
    return GR_OK;
}

/* One storage at l->pos: its count, then its bytes. */
static gr_status read_part(legacy *l, const gr_pk *pk, const gr_pk_value *key, part *p)
{
    const gr_pk_storage wanted = { .key = key->text };
    const gr_pk_storage *wanted_at = &wanted;
    const gr_pk_storage *const *s = NULL;
    size_t left = l->n_bytes - l->pos;
    uint64_t n = 0;

    if (key->kind == GR_PK_TEXT && pk->n_storages > 0)
        s = bsearch(&wanted_at, pk->storages, (size_t)pk->n_storages, sizeof(wanted_at),
                    storages_by_key);
    if (!s)
        return gr_fail(GR_ERR_FORMAT, "a storage that no tensor uses");
    if (left < 8)
        return gr_fail(GR_ERR_FORMAT, "the file ends at byte %zu, before a storage", l->n_bytes);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | l->bytes[l->pos + (size_t)i];
    *p = (part){ .key = key->text, .elem_bytes = gr_dtype_bytes((*s)->dtype) };
    if (n > (left - 8) / p->elem_bytes)
        return gr_fail(GR_ERR_FORMAT, "%llu elements of %s at byte %zu, %zu bytes are left",
                       (unsigned long long)n, gr_dtype_name((*s)->dtype), l->pos, left - 8);
    p->n_elem = (size_t)n;
    p->bytes = l->bytes + l->pos + 8;
    l->pos += 8 + p->n_elem * p->elem_bytes;
    return GR_OK;
}

static gr_status read_parts(legacy *l, gr_pk *pk, const gr_pk_value *keys)
{
    if (keys->kind != GR_PK_LIST)
        return gr_fail(GR_ERR_FORMAT, "the fifth pickle is %s, not the list of storages",
                       gr_pk_kind_name(keys->kind));
    l->parts = gr_calloc((size_t)keys->items.n, sizeof(*l->parts));
    if (!l->parts)
        return GR_ERR_NOMEM;
    if (pk->n_storages > 0)
        qsort(pk->storages, (size_t)pk->n_storages, sizeof(*pk->storages), storages_by_key);
    for (int i = 0; i < keys->items.n; i++)
        GR_TRY(read_part(l, pk, keys->items.at[i], &l->parts[i]));
    l->n_parts = keys->items.n;
    if (l->n_parts > 0)
        qsort(l->parts, (size_t)l->n_parts, sizeof(*l->parts), parts_by_key);
    for (int i = 1; i < l->n_parts; i++)
        if (parts_by_key(&l->parts[i - 1], &l->parts[i]) == 0)
            return gr_fail(GR_ERR_FORMAT, "a storage comes twice");
    if (l->pos != l->n_bytes)
        return gr_fail(GR_ERR_FORMAT, "the storages end at byte %zu, the file has %zu", l->pos,
                       l->n_bytes);
    return GR_OK;
}

static gr_status read_legacy(legacy *l, gr_pk *pk, gr_pt_source *src, gr_snapshot *snap)
{
    gr_pk_value *protocol, *system, *value, *keys;

    l->pos = legacy_lead(l->bytes, l->n_bytes);
    GR_TRY(next_pickle(l, pk, &protocol));
    if (protocol->kind != GR_PK_INT || protocol->i != LEGACY_PROTOCOL)
        return gr_fail(GR_ERR_FORMAT, "a legacy file whose protocol is not %d", LEGACY_PROTOCOL);
    GR_TRY(next_pickle(l, pk, &system));
    GR_TRY(check_system(system));
    GR_TRY(next_pickle(l, pk, &value));
    GR_TRY(next_pickle(l, pk, &keys));
    GR_TRY(read_parts(l, pk, keys));
    src->value = value;
    src->storage = legacy_storage;
    src->arg = l;
    return gr_pt_flatten(src, snap);
}

static gr_status parse(const unsigned char *bytes, size_t n_bytes, bool texts_only,
                       gr_snapshot **out)
{
    gr_pt_source src = { .n_file = n_bytes, .texts_only = texts_only };
    legacy l = { .bytes = bytes, .n_bytes = n_bytes };
    gr_snapshot *snap = NULL;
    archive a = { 0 };
    gr_pk pk;
    gr_status st;

    *out = NULL;
    GR_TRY_GOTO(st, gr_pk_init(&pk), done);
    GR_TRY_GOTO(st, gr_snapshot_create(&snap), done);
    if (gr_pt_is_legacy(bytes, n_bytes)) {
        GR_TRY_GOTO(st, read_legacy(&l, &pk, &src, snap), done);
    } else {
        GR_TRY_GOTO(st, gr_zip_parse(&a.zip, bytes, n_bytes), done);
        GR_TRY_GOTO(st, read_zip(&a, &pk, &src, snap), done);
    }
    *out = snap;
    snap = NULL;

done:
    gr_snapshot_destroy(snap);
    gr_free(l.parts);
    gr_zip_fini(&a.zip);
    gr_pk_fini(&pk);
    /* What the snapshot refuses as an argument is here the content of a file. */
    return st == GR_ERR_ARG ? GR_ERR_FORMAT : st;
}

gr_status gr_pt_parse(const unsigned char *bytes, size_t n_bytes, gr_snapshot **out)
{
    return parse(bytes, n_bytes, false, out);
}

gr_status gr_pt_parse_texts(const unsigned char *bytes, size_t n_bytes, gr_snapshot **out)
{
    return parse(bytes, n_bytes, true, out);
}

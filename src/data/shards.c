/*
 * Data sets of shards: all files of a set are mapped, and their indices checked, when it is
 * opened. A record's bytes are checked against its checksum each time it is read, which is some
 * thousand times cheaper than decoding it.
 */
#include "data/codec.h"
#include "data/dataset.h"
#include "data/listing.h"
#include "data/mapped.h"
#include "data/shard.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

typedef struct shards {
    gr_mapped *map;  /* owned, n of them */
    gr_shard *shard; /* owned, in order of their numbers */
    int64_t *first;  /* owned, n + 1: place of each file's first sample */
    const char **path;
    int n;
    int *class_map; /* in the arena; NULL: as stored */
} shards;

static const shards *shards_of(const gr_dataset *ds)
{
    return (const shards *)ds->impl;
}

static int find_shard(const shards *s, int64_t i)
{
    int lo = 0, hi = s->n; /* first[lo] <= i < first[hi] */

    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;

        if (s->first[mid] <= i)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static gr_status get_record(const gr_dataset *ds, int64_t i, gr_shard_record *r)
{
    const shards *s = shards_of(ds);
    int k = find_shard(s, i);
    gr_status st = gr_shard_get(&s->shard[k], (uint32_t)(i - s->first[k]), r);

    return st == GR_OK ? GR_OK : gr_wrap(st, "sample %lld in '%s'", (long long)i, s->path[k]);
}

static gr_status wrap_sample(gr_status st, const gr_dataset *ds, int64_t i)
{
    const shards *s = shards_of(ds);
    char name[GR_DATASET_NAME];

    return gr_wrap(st, "sample %lld '%s' in '%s'", (long long)i,
                   gr_dataset_name(ds, i, name, sizeof(name)), s->path[find_shard(s, i)]);
}

static gr_status shards_image(const gr_dataset *ds, int64_t i, gr_image *out)
{
    gr_shard_record r;
    gr_status st;

    GR_TRY(get_record(ds, i, &r));
    st = gr_image_decode(out, r.image, r.n_image, &ds->decode);
    return st == GR_OK ? GR_OK : wrap_sample(st, ds, i);
}

static gr_status shards_mask(const gr_dataset *ds, int64_t i, gr_image *out)
{
    gr_decode how = { .as = ds->mask_as };
    gr_shard_record r;
    gr_status st;

    GR_TRY(get_record(ds, i, &r));
    st = gr_image_decode(out, r.mask, r.n_mask, &how);
    return st == GR_OK ? GR_OK : wrap_sample(st, ds, i);
}

static int shards_label(const gr_dataset *ds, int64_t i)
{
    const shards *s = shards_of(ds);
    int k = find_shard(s, i);
    int label = gr_shard_label(&s->shard[k], (uint32_t)(i - s->first[k]));

    return label >= 0 && s->class_map ? s->class_map[label] : label;
}

static gr_status shards_stored(const gr_dataset *ds, int64_t i, bool mask, gr_text *out)
{
    gr_shard_record r;

    GR_TRY(get_record(ds, i, &r));
    gr_text_addn(out, (const char *)(mask ? r.mask : r.image), mask ? r.n_mask : r.n_image);
    return gr_text_status(out);
}

static gr_status shards_probe(const gr_dataset *ds, int64_t i, bool mask, gr_image *out)
{
    gr_decode how = { .as = mask ? ds->mask_as : ds->decode.as };
    gr_shard_record r;
    gr_status st;

    GR_TRY(get_record(ds, i, &r));
    st = mask ? gr_image_probe(out, r.mask, r.n_mask, &how)
              : gr_image_probe(out, r.image, r.n_image, &how);
    return st == GR_OK ? GR_OK : wrap_sample(st, ds, i);
}

static void shards_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes)
{
    const shards *s = shards_of(ds);
    int k = find_shard(s, i);
    const char *name;
    uint32_t n;

    gr_shard_name(&s->shard[k], (uint32_t)(i - s->first[k]), &name, &n);
    snprintf(text, n_bytes, "%.*s", (int)(n < 4096 ? n : 4096), name);
}

static void shards_destroy(void *impl)
{
    shards *s = (shards *)impl;

    if (!s)
        return;
    for (int i = 0; s->map && i < s->n; i++)
        gr_mapped_close(&s->map[i]);
    gr_free(s->map);
    gr_free(s->shard);
    gr_free(s->first);
    gr_free(s->path);
    gr_free(s);
}

static const gr_dataset_ops ops = {
    .name = "shards",
    .image = shards_image,
    .mask = shards_mask,
    .label = shards_label,
    .stored = shards_stored,
    .probe = shards_probe,
    .name_of = shards_name,
    .destroy = shards_destroy,
};

static gr_status begin(gr_dataset *ds, int n, shards **out)
{
    shards *s = gr_calloc(1, sizeof(*s));

    if (!s)
        return GR_ERR_NOMEM;
    ds->ops = &ops;
    ds->impl = s;
    s->n = n;
    s->map = gr_calloc((size_t)n, sizeof(*s->map));
    s->shard = gr_calloc((size_t)n, sizeof(*s->shard));
    s->first = gr_calloc((size_t)n + 1, sizeof(*s->first));
    s->path = gr_calloc((size_t)n, sizeof(*s->path));
    *out = s;
    return s->map && s->shard && s->first && s->path ? GR_OK : GR_ERR_NOMEM;
}

static gr_status open_one(shards *s, int i, const char *path)
{
    gr_status st;

    s->path[i] = path;
    GR_TRY(gr_mapped_open(&s->map[i], path));
    st = gr_shard_parse(&s->shard[i], s->map[i].mem, s->map[i].n_bytes);
    return st == GR_OK ? GR_OK : gr_wrap(st, "'%s'", path);
}

/* Names are numbered, so the files come in order; each must fit to the one before. */
static gr_status check_set(const shards *s, const char *folder)
{
    const gr_shard_head *zero = &s->shard[0].head;
    uint64_t first = 0;

    for (int i = 0; i < s->n; i++) {
        const gr_shard_head *h = &s->shard[i].head;

        if (h->number != (uint32_t)i || h->n_shards != (uint32_t)s->n)
            return gr_fail(GR_ERR_FORMAT,
                           "'%s' is number %u of %u, but it is file %d of %d in '%s': "
                           "one is missing or of another set",
                           s->path[i], h->number, h->n_shards, i, s->n, folder);
        if (h->first != first || h->n_total != zero->n_total || h->n_classes != zero->n_classes ||
            h->has_names != zero->has_names || h->has_masks != zero->has_masks)
            return gr_fail(GR_ERR_FORMAT, "'%s' and '%s' are not of the same set", s->path[0],
                           s->path[i]);
        first += h->n_records;
    }
    if (first != zero->n_total)
        return gr_fail(GR_ERR_FORMAT, "%llu samples in '%s', expected %llu",
                       (unsigned long long)first, folder, (unsigned long long)zero->n_total);
    return GR_OK;
}

static gr_status set_classes(gr_dataset *ds, shards *s, const gr_dataset *classes_of)
{
    const gr_shard *shard = &s->shard[0];
    const char **names, *name;
    const uint8_t *at = NULL;
    uint32_t n_bytes;
    int n = 0;

    if (!shard->head.has_names)
        return gr_classes_count(ds, classes_of, (int)shard->head.n_classes);
    names = gr_arena_array(ds->arena, (size_t)shard->head.n_classes + 1, sizeof(*names));
    s->class_map =
        gr_arena_array(ds->arena, (size_t)shard->head.n_classes + 1, sizeof(*s->class_map));
    if (!names || !s->class_map)
        return GR_ERR_NOMEM;
    while (gr_shard_next_class(shard, &at, &name, &n_bytes)) {
        names[n] = gr_arena_printf(ds->arena, "%.*s", (int)n_bytes, name);
        if (!names[n++])
            return GR_ERR_NOMEM;
    }
    return gr_classes_set(ds, classes_of, names, n, s->class_map);
}

static gr_status settle(gr_dataset *ds, shards *s, const gr_dataset_config *config)
{
    for (int i = 0; i < s->n; i++)
        s->first[i + 1] = s->first[i] + s->shard[i].head.n_records;
    ds->size = s->first[s->n];
    ds->has_masks = s->shard[0].head.has_masks;
    if (ds->has_masks)
        ds->decode.min_height = ds->decode.min_width = 0;
    if (ds->size == 0)
        return gr_fail(GR_ERR_FORMAT, "'%s' holds no samples", config->path);
    return set_classes(ds, s, config->classes_of);
}

static gr_status open_set(gr_dataset *ds, const gr_listing *files, const gr_dataset_config *config)
{
    shards *s = NULL;
    int n = 0;

    for (int i = 0; i < files->n; i++)
        n += gr_ends_with(files->at[i].name, GR_SHARD_SUFFIX);
    if (n == 0)
        return gr_fail(GR_ERR_IO, "there are no shards (*%s) in '%s'", GR_SHARD_SUFFIX,
                       config->path);
    GR_TRY(begin(ds, n, &s));
    n = 0;
    for (int i = 0; i < files->n; i++) {
        const char *path;

        if (!gr_ends_with(files->at[i].name, GR_SHARD_SUFFIX))
            continue;
        path = gr_arena_printf(ds->arena, "%s/%s", config->path, files->at[i].name);
        if (!path)
            return GR_ERR_NOMEM;
        GR_TRY(open_one(s, n++, path));
    }
    GR_TRY(check_set(s, config->path));
    return settle(ds, s, config);
}

gr_status gr_open_shards(gr_dataset *ds, const gr_dataset_config *config)
{
    gr_listing files = { 0 };
    const char *path = gr_arena_strdup(ds->arena, config->path);
    shards *s = NULL;
    gr_status st;

    if (!path)
        return GR_ERR_NOMEM;
    if (!gr_is_folder(path)) {
        GR_TRY(begin(ds, 1, &s));
        GR_TRY(open_one(s, 0, path));
        return settle(ds, s, config);
    }
    st = gr_listing_files(&files, ds->arena, path);
    if (st == GR_OK)
        st = open_set(ds, &files, config);
    gr_listing_fini(&files);
    return st;
}

/*
 * Packing: a data set of any format becomes a set of shards.
 *
 * (1) Every image and mask is decoded once here, so what is broken shows now and not in the middle
 *     of a training run. What is to be left out is found before the first file is written, since
 *     every file says how many samples the set has.
 * (2) Files are stored as they are, byte for byte, unless they are made smaller; then a JPEG stays
 *     a JPEG and everything else becomes a PNG. Arrays become PNG too.
 * (3) All files of the set are there, or none: after a failure those that were finished are
 *     removed again.
 *
 * One thread.
 */
#include "data/codec.h"
#include "data/dataset.h"
#include "data/listing.h"
#include "data/shard.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "gradus/augment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHARD_SIZE 10000

typedef struct packer {
    const gr_pack_config *config;
    gr_dataset *whole; /* the source */
    gr_dataset *ds;    /* what is packed: the source, or what of it is whole */
    gr_pack_result result;
    int64_t shard_size;
    gr_text image_bytes, mask_bytes;
    gr_image image, mask;
    gr_augment *smaller; /* NULL: files as they are */
} packer;

static void clear(gr_text *t)
{
    t->len = 0; /* its memory is kept */
}

static gr_status load_image(packer *p, int64_t i)
{
    if (!p->ds->ops->stored)
        return gr_dataset_image(p->ds, i, &p->image);
    GR_TRY(p->ds->ops->stored(p->ds, i, false, &p->image_bytes));
    return gr_image_decode(&p->image, p->image_bytes.str, p->image_bytes.len, NULL);
}

static gr_status load_mask(packer *p, int64_t i)
{
    gr_decode how = { .as = p->ds->mask_as };

    if (!p->ds->ops->stored)
        return gr_dataset_mask(p->ds, i, &p->mask);
    GR_TRY(p->ds->ops->stored(p->ds, i, true, &p->mask_bytes));
    return gr_image_decode(&p->mask, p->mask_bytes.str, p->mask_bytes.len, &how);
}

/* Makes image and mask smaller together, if the shorter side is too long. */
static gr_status shrink(packer *p, bool *smaller)
{
    const gr_image *img = &p->image;
    gr_image *masks[1] = { &p->mask };

    *smaller = p->smaller && img->height > p->config->resize && img->width > p->config->resize;
    if (!*smaller)
        return GR_OK;
    return gr_augment_apply(p->smaller, (gr_augment_key){ 0 }, &p->image, masks,
                            p->ds->has_masks ? 1 : 0);
}

/* What is stored: the file's bytes if there is one and it keeps its size. */
static gr_status make_image(packer *p, bool smaller)
{
    bool was_jpeg = gr_jpeg_is(p->image_bytes.str, p->image_bytes.len);

    if (!smaller && p->image_bytes.len > 0)
        return GR_OK;
    clear(&p->image_bytes);
    return was_jpeg ? gr_jpeg_encode(&p->image, &p->image_bytes)
                    : gr_png_write(&p->image, false, &p->image_bytes);
}

static gr_status make_mask(packer *p, bool smaller)
{
    if (!p->ds->has_masks || (!smaller && p->mask_bytes.len > 0))
        return GR_OK;
    clear(&p->mask_bytes);
    return gr_png_write(&p->mask, p->ds->mask_as == GR_IMAGE_LABELS, &p->mask_bytes);
}

static gr_status load_sample(packer *p, int64_t i)
{
    clear(&p->image_bytes);
    clear(&p->mask_bytes);
    GR_TRY(load_image(p, i));
    if (!p->ds->has_masks)
        return GR_OK;
    GR_TRY(load_mask(p, i));
    if (p->image.height != p->mask.height || p->image.width != p->mask.width)
        return gr_fail(GR_ERR_FORMAT, "the image has %d x %d pixels, its mask %d x %d",
                       p->image.width, p->image.height, p->mask.width, p->mask.height);
    return GR_OK;
}

static gr_status make_sample(packer *p, int64_t i)
{
    bool smaller = false;

    GR_TRY(load_sample(p, i));
    GR_TRY(shrink(p, &smaller));
    GR_TRY(make_mask(p, smaller));
    GR_TRY(make_image(p, smaller));
    if (p->image_bytes.len > UINT32_MAX || p->mask_bytes.len > UINT32_MAX)
        return gr_fail(GR_ERR_FORMAT, "files of more than 4 GiB are not packed");
    return GR_OK;
}

static gr_status add_sample(packer *p, gr_shard_writer *w, int64_t i)
{
    char name[GR_DATASET_NAME];
    gr_shard_record r = { .label = gr_dataset_class(p->ds, i) };
    gr_status st = make_sample(p, i);

    gr_dataset_name(p->ds, i, name, sizeof(name));
    if (st != GR_OK)
        return gr_wrap(st, "sample %lld '%s'", (long long)i, name);
    r.name = name;
    r.n_name = (uint32_t)strlen(name);
    r.image = p->image_bytes.str;
    r.n_image = (uint32_t)p->image_bytes.len;
    r.mask = p->mask_bytes.str;
    r.n_mask = (uint32_t)p->mask_bytes.len;
    return gr_shard_add(w, &r);
}

static gr_status shard_path(const packer *p, int64_t number, char *path, size_t n_bytes)
{
    int n = snprintf(path, n_bytes, "%s/shard-%05lld%s", p->config->out, (long long)number,
                     GR_SHARD_SUFFIX);

    if (n < 0 || (size_t)n >= n_bytes)
        return gr_fail(GR_ERR_ARG, "the path '%.80s...' is too long", p->config->out);
    return GR_OK;
}

static gr_status write_shard(packer *p, int64_t number)
{
    int64_t first = number * p->shard_size, n_bytes = 0;
    int64_t end = first + p->shard_size < p->ds->size ? first + p->shard_size : p->ds->size;
    gr_shard_head head = { .number = (uint32_t)number,
                           .n_shards = (uint32_t)p->result.n_shards,
                           .first = (uint64_t)first,
                           .n_total = (uint64_t)p->ds->size,
                           .n_classes = (uint32_t)p->ds->n_classes,
                           .has_masks = p->ds->has_masks };
    gr_shard_writer *w = NULL;
    gr_status st = GR_OK;
    char path[4096];

    GR_TRY(shard_path(p, number, path, sizeof(path)));
    GR_TRY(gr_shard_begin(&w, path, &head, p->ds->class_names));
    for (int64_t i = first; i < end && st == GR_OK; i++)
        st = add_sample(p, w, i);
    if (st != GR_OK) {
        gr_shard_discard(w);
        return st;
    }
    GR_TRY(gr_shard_commit(w, &n_bytes));
    p->result.n_bytes += n_bytes;
    return GR_OK;
}

static void remove_shards(const packer *p, int64_t n)
{
    char path[4096];

    for (int64_t i = 0; i < n; i++)
        if (shard_path(p, i, path, sizeof(path)) == GR_OK)
            unlink(path);
    rmdir(p->config->out); /* if nothing else is in it */
}

static gr_status write_shards(packer *p)
{
    gr_error failure;
    gr_status st = GR_OK;
    int64_t n = 0;

    p->result.n_samples = p->ds->size;
    p->result.n_shards = (p->ds->size + p->shard_size - 1) / p->shard_size;
    if (p->result.n_shards > 99999)
        return gr_fail(GR_ERR_ARG, "%lld shards of %lld samples; at most 99999",
                       (long long)p->result.n_shards, (long long)p->shard_size);
    while (n < p->result.n_shards && st == GR_OK) {
        st = write_shard(p, n);
        n += st == GR_OK;
    }
    if (st == GR_OK)
        return GR_OK;
    gr_error_take(&failure, st);
    remove_shards(p, n);
    return gr_error_raise(&failure);
}

/* ---- what is left out ---- */

/* This thread's message says why sample i is. */
static void tell(packer *p, int64_t i)
{
    char name[GR_DATASET_NAME];

    p->result.n_skipped++;
    p->config->left_out(p->config->arg, i, gr_dataset_name(p->whole, i, name, sizeof(name)),
                        gr_error_message());
}

static gr_status find_good(packer *p, int64_t *index, int64_t *n)
{
    for (int64_t i = 0; i < p->whole->size; i++) {
        gr_status st = load_sample(p, i);

        if (st == GR_OK)
            index[(*n)++] = i;
        else if (st == GR_ERR_FORMAT || st == GR_ERR_IO)
            tell(p, i);
        else
            return st;
    }
    if (*n == 0 && p->whole->size > 0)
        return gr_fail(GR_ERR_FORMAT, "none of the %lld samples can be used",
                       (long long)p->whole->size);
    return GR_OK;
}

static gr_status leave_out(packer *p)
{
    int64_t *index, n = 0;
    gr_dataset *good = NULL;
    gr_status st;

    if (!p->config->left_out)
        return GR_OK;
    index = gr_calloc((size_t)p->whole->size + 1, sizeof(*index));
    if (!index)
        return GR_ERR_NOMEM;
    st = find_good(p, index, &n);
    if (st == GR_OK && n < p->whole->size)
        st = gr_dataset_subset(&good, p->whole, index, n);
    if (good)
        p->ds = good;
    if (st != GR_OK)
        rmdir(p->config->out); /* if nothing else is in it */
    gr_free(index);
    return st;
}

/* ---- all of it ---- */

static gr_status check_out(const char *out)
{
    gr_listing there = { 0 };
    gr_arena *a = NULL;
    gr_status st;

    GR_TRY(gr_make_folders(out));
    GR_TRY(gr_arena_create(&a));
    st = gr_listing_files(&there, a, out);
    if (st == GR_OK)
        st = gr_listing_folders(&there, a, out);
    if (st == GR_OK && there.n > 0)
        st = gr_fail(GR_ERR_ARG, "the folder '%s' is not empty ('%s'): nothing is overwritten", out,
                     there.at[0].name);
    gr_listing_fini(&there);
    gr_arena_destroy(a);
    return st;
}

static gr_status check_config(const gr_pack_config *c)
{
    if (!c->out || c->out[0] == '\0')
        return gr_fail(GR_ERR_ARG, "say where the shards shall go");
    if (c->shard_size < 0 || c->shard_size > INT32_MAX)
        return gr_fail(GR_ERR_ARG, "shards of %lld samples", (long long)c->shard_size);
    if (c->resize < 0)
        return gr_fail(GR_ERR_ARG, "a size of %d", c->resize);
    return GR_OK;
}

/* The shorter side to `resize`, nothing by chance. */
static gr_status make_smaller(packer *p)
{
    const double side = p->config->resize;
    const gr_transform resize = { .name = "RESIZE", .numbers = &side, .n_numbers = 1 };

    return p->config->resize > 0 ? gr_augment_create(&p->smaller, &resize, 1, true) : GR_OK;
}

gr_status gr_pack(const gr_pack_config *config, gr_pack_result *out)
{
    packer p = { .config = config,
                 .shard_size = config->shard_size > 0 ? config->shard_size : SHARD_SIZE };
    gr_status st;

    GR_TRY(check_config(config));
    GR_TRY(gr_dataset_open(&p.whole, &config->source));
    p.ds = p.whole;
    st = make_smaller(&p);
    if (st == GR_OK)
        st = check_out(config->out);
    if (st == GR_OK)
        st = leave_out(&p);
    if (st == GR_OK)
        st = write_shards(&p);
    if (st == GR_OK)
        *out = p.result;
    if (p.ds != p.whole)
        gr_dataset_destroy(p.ds);
    gr_dataset_destroy(p.whole);
    gr_augment_destroy(p.smaller);
    gr_text_fini(&p.image_bytes);
    gr_text_fini(&p.mask_bytes);
    gr_image_fini(&p.image);
    gr_image_fini(&p.mask);
    return st;
}

/* Data sets of files: each is read and decoded when it is asked for. Any thread. */
#include "data/files.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

static gr_status path_of(const char *dir, const char *name, char path[PATH_BYTES])
{
    int n = snprintf(path, PATH_BYTES, "%s%s%s", dir, dir[0] != '\0' ? "/" : "", name);

    if (n < 0 || n >= PATH_BYTES)
        return gr_fail(GR_ERR_IO, "a path of %d bytes is too long: '%.60s...'", n, path);
    return GR_OK;
}

static const gr_file_sample *sample_at(const gr_dataset *ds, int64_t i)
{
    return &((const gr_files *)ds->impl)->at[i];
}

static gr_status path_at(const gr_dataset *ds, int64_t i, bool mask, char path[PATH_BYTES])
{
    const gr_file_sample *s = sample_at(ds, i);

    return mask ? path_of(s->mask_dir, s->mask, path) : path_of(s->dir, s->name, path);
}

static gr_status decode(const gr_dataset *ds, int64_t i, bool mask, gr_image *out)
{
    gr_decode how = ds->decode;
    gr_buffer b = gr_buffers_take(ds->buffers);
    char path[PATH_BYTES];
    gr_status st;

    if (mask)
        how = (gr_decode){ .as = ds->mask_as };
    GR_TRY_GOTO(st, path_at(ds, i, mask, path), end);
    GR_TRY_GOTO(st, gr_buffer_read(&b, path), end); /* names the path itself */
    st = gr_image_decode(out, b.mem, b.n_bytes, &how);
    if (st != GR_OK)
        gr_wrap(st, "%s '%s'", mask ? "mask" : "image", path);
end:
    gr_buffers_give(ds->buffers, b);
    return st;
}

static gr_status files_image(const gr_dataset *ds, int64_t i, gr_image *out)
{
    return decode(ds, i, false, out);
}

static gr_status files_mask(const gr_dataset *ds, int64_t i, gr_image *out)
{
    return decode(ds, i, true, out);
}

static int files_label(const gr_dataset *ds, int64_t i)
{
    return sample_at(ds, i)->label;
}

static gr_status files_stored(const gr_dataset *ds, int64_t i, bool mask, gr_text *out)
{
    gr_buffer b = gr_buffers_take(ds->buffers);
    char path[PATH_BYTES];
    gr_status st;

    GR_TRY_GOTO(st, path_at(ds, i, mask, path), end);
    GR_TRY_GOTO(st, gr_buffer_read(&b, path), end);
    gr_text_addn(out, b.mem, b.n_bytes);
    st = gr_text_status(out);
end:
    gr_buffers_give(ds->buffers, b);
    return st;
}

static gr_status files_probe(const gr_dataset *ds, int64_t i, bool mask, gr_image *out)
{
    gr_decode how = { .as = mask ? ds->mask_as : ds->decode.as };
    char path[PATH_BYTES];

    GR_TRY(path_at(ds, i, mask, path));
    return gr_image_probe_file(out, path, &how);
}

static void files_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes)
{
    const gr_file_sample *s = sample_at(ds, i);
    size_t n_root = ((const gr_files *)ds->impl)->n_root, n = strlen(s->dir);
    const char *dir = n > n_root ? s->dir + n_root + 1 : ""; /* without the slash */

    snprintf(text, n_bytes, "%s%s%s", dir, dir[0] != '\0' ? "/" : "", s->name);
}

static void files_destroy(void *impl)
{
    gr_files *f = (gr_files *)impl;

    if (!f)
        return;
    gr_free(f->at);
    gr_free(f);
}

static const gr_dataset_ops ops = {
    .name = "files",
    .image = files_image,
    .mask = files_mask,
    .label = files_label,
    .stored = files_stored,
    .probe = files_probe,
    .name_of = files_name,
    .destroy = files_destroy,
};

gr_status gr_files_begin(gr_dataset *ds, gr_files **out)
{
    gr_files *f = gr_calloc(1, sizeof(*f));

    if (!f)
        return GR_ERR_NOMEM;
    ds->ops = &ops;
    ds->impl = f;
    *out = f;
    return GR_OK;
}

gr_status gr_files_add(gr_files *f, gr_file_sample sample)
{
    GR_TRY(gr_grow((void **)&f->at, &f->cap, f->n + 1, sizeof(*f->at)));
    f->at[f->n++] = sample;
    return GR_OK;
}

gr_status gr_files_end(gr_dataset *ds, const char *where)
{
    const gr_files *f = (const gr_files *)ds->impl;

    ds->size = f->n;
    if (f->n == 0)
        return gr_fail(GR_ERR_IO, "there are no images (.jpg, .jpeg, .png) in '%s'", where);
    ds->has_masks = f->at[0].mask != NULL;
    if (ds->has_masks) /* both must keep the same size */
        ds->decode.min_height = ds->decode.min_width = 0;
    return GR_OK;
}

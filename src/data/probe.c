/*
 * A look at an image without decoding it: its head says the size, its last bytes whether it is
 * whole. Of a file some 64 KiB are read, so that a large data set is looked through in little
 * time. Whatever is not plain from that (a head behind large profiles, bytes behind the end,
 * damage) is decoded whole, which has the last word: a good image is never called broken.
 *
 * Any thread.
 */
#include "data/codec.h"
#include "data/dataset.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES ((size_t)64 << 10)
#define TAIL_BYTES ((size_t)32)

/* What there is to look at: both may be the same bytes. */
typedef struct ends {
    const uint8_t *head, *tail;
    size_t n_head, n_tail;
    size_t n_bytes; /* of the whole file */
} ends;

/* False where in doubt. */
static bool looks_whole(const ends *e, const gr_decode *how, gr_image *out)
{
    if (gr_jpeg_is(e->head, e->n_head))
        return memmem(e->tail, e->n_tail, "\xff\xd9", 2) &&
               gr_jpeg_head(out, e->head, e->n_head, e->n_bytes, how) == GR_OK;
    if (gr_png_is(e->head, e->n_head))
        return memmem(e->tail, e->n_tail, "IEND\xae\x42\x60\x82", 8) &&
               gr_png_head(out, e->head, e->n_head, e->n_bytes, how) == GR_OK;
    return false;
}

gr_status gr_image_probe(gr_image *out, const void *src, size_t n_bytes, const gr_decode *how)
{
    static const gr_decode plain = GR_DECODE_INIT;
    size_t n_tail = n_bytes < TAIL_BYTES ? n_bytes : TAIL_BYTES;
    ends e = { .head = src,
               .tail = n_bytes > 0 ? (const uint8_t *)src + (n_bytes - n_tail) : src,
               .n_head = n_bytes,
               .n_tail = n_tail,
               .n_bytes = n_bytes };

    if (!out || (!src && n_bytes > 0))
        return gr_fail(GR_ERR_ARG, "image: out or its bytes are NULL");
    how = how ? how : &plain;
    return src && looks_whole(&e, how, out) ? GR_OK : gr_image_decode(out, src, n_bytes, how);
}

static gr_status read_at(int fd, uint8_t *to, size_t n, size_t from)
{
    while (n > 0) {
        ssize_t got = pread(fd, to, n, (off_t)from);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return gr_fail(GR_ERR_IO, "cannot read it: %s",
                           got < 0 ? strerror(errno) : "it became shorter");
        to += got;
        from += (size_t)got;
        n -= (size_t)got;
    }
    return GR_OK;
}

/* *whole: the ends tell that nothing is wrong. */
static gr_status look_at(int fd, uint8_t *mem, const gr_decode *how, gr_image *out, bool *whole)
{
    ends e = { .head = mem };
    struct stat about;

    if (fstat(fd, &about) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at it: %s", strerror(errno));
    *whole = false;
    if (!S_ISREG(about.st_mode))
        return GR_OK; /* reading it tells what is wrong */
    e.n_bytes = (size_t)about.st_size;
    e.n_head = e.n_bytes < HEAD_BYTES ? e.n_bytes : HEAD_BYTES;
    e.n_tail = e.n_bytes < TAIL_BYTES ? e.n_bytes : TAIL_BYTES;
    GR_TRY(read_at(fd, mem, e.n_head, 0));
    e.tail = e.n_bytes <= HEAD_BYTES ? mem + (e.n_bytes - e.n_tail) : mem + HEAD_BYTES;
    if (e.n_bytes > HEAD_BYTES)
        GR_TRY(read_at(fd, mem + HEAD_BYTES, e.n_tail, e.n_bytes - e.n_tail));
    *whole = looks_whole(&e, how, out);
    return GR_OK;
}

gr_status gr_image_probe_file(gr_image *out, const char *path, const gr_decode *how)
{
    static const gr_decode plain = GR_DECODE_INIT;
    uint8_t *mem;
    bool whole = false;
    gr_status st;
    int fd;

    if (!out || !path)
        return gr_fail(GR_ERR_ARG, "image: out or path is NULL");
    fd = gr_open_input(path);
    if (fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    mem = gr_malloc(HEAD_BYTES + TAIL_BYTES);
    st = mem ? look_at(fd, mem, how ? how : &plain, out, &whole) : GR_ERR_NOMEM;
    gr_free(mem);
    close(fd);
    if (st != GR_OK)
        return gr_wrap(st, "image '%s'", path);
    return whole ? GR_OK : gr_image_read(out, path, how);
}

gr_status gr_dataset_probe(const gr_dataset *ds, int64_t i, gr_image *scratch)
{
    char name[GR_DATASET_NAME];
    int height, width;

    GR_TRY(gr_dataset_check_index(ds, i));
    if (!ds->ops->probe)
        return GR_OK;
    GR_TRY(ds->ops->probe(ds, i, false, scratch));
    if (!ds->has_masks)
        return GR_OK;
    height = scratch->height;
    width = scratch->width;
    GR_TRY(ds->ops->probe(ds, i, true, scratch));
    if (height == scratch->height && width == scratch->width)
        return GR_OK;
    return gr_fail(GR_ERR_FORMAT,
                   "sample %lld '%s': the image has %d x %d pixels, its mask %d x %d", (long long)i,
                   gr_dataset_name(ds, i, name, sizeof(name)), width, height, scratch->width,
                   scratch->height);
}

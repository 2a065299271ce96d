/* Mapped files, and gzip files unpacked in their place. Any thread. */
#include "data/mapped.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static gr_status map_open(gr_mapped *m, int fd)
{
    struct stat info;
    void *mem;

    if (fstat(fd, &info) != 0)
        return gr_fail(GR_ERR_IO, "fstat: %s", strerror(errno));
    if (!S_ISREG(info.st_mode))
        return gr_fail(GR_ERR_IO, "not a file");
    if (info.st_size == 0) /* nothing to map; whoever reads it finds it too short */
        return GR_OK;
    mem = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (mem == MAP_FAILED)
        return gr_fail(GR_ERR_IO, "cannot map %lld bytes: %s", (long long)info.st_size,
                       strerror(errno));
    m->mem = (const uint8_t *)mem;
    m->n_bytes = (size_t)info.st_size;
    return GR_OK;
}

gr_status gr_mapped_open(gr_mapped *m, const char *path)
{
    int fd = gr_open_input(path);
    gr_status st;

    *m = (gr_mapped){ 0 };
    if (fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    st = map_open(m, fd);
    close(fd);
    return st == GR_OK ? GR_OK : gr_wrap(st, "'%s'", path);
}

void gr_mapped_close(gr_mapped *m)
{
    if (m->unpacked)
        gr_free(m->unpacked);
    else if (m->mem)
        munmap((void *)(uintptr_t)m->mem, m->n_bytes);
    *m = (gr_mapped){ 0 };
}

static gr_status grow(uint8_t **mem, size_t *cap, size_t limit)
{
    size_t more = *cap < 65536 ? 65536 : *cap * 2;
    uint8_t *p;

    if (*cap >= limit)
        return gr_fail(GR_ERR_FORMAT, "more than %zu bytes when unpacked", limit);
    if (more > limit)
        more = limit;
    p = gr_realloc(*mem, more);
    if (!p)
        return GR_ERR_NOMEM;
    *mem = p;
    *cap = more;
    return GR_OK;
}

/* Feeds and drains zlib in pieces that fit its 32-bit counters. One gzip member, as everybody
 * writes; what follows it is an error. */
static gr_status inflate_all(z_stream *z, const uint8_t *src, size_t n_bytes, size_t limit,
                             uint8_t **mem, size_t *n_out)
{
    size_t at = 0, cap = 0, n = 0;
    int rc = Z_OK;

    while (rc != Z_STREAM_END) {
        size_t room;

        if (n == cap)
            GR_TRY(grow(mem, &cap, limit));
        room = cap - n < UINT_MAX ? cap - n : UINT_MAX;
        z->next_out = *mem + n;
        z->avail_out = (unsigned)room;
        if (z->avail_in == 0) {
            z->avail_in = (unsigned)(n_bytes - at < UINT_MAX ? n_bytes - at : UINT_MAX);
            z->next_in = (unsigned char *)(uintptr_t)(src + at);
            at += z->avail_in;
        }
        rc = inflate(z, Z_NO_FLUSH);
        n += room - z->avail_out;
        if (rc == Z_BUF_ERROR)
            return gr_fail(GR_ERR_FORMAT, "gzip data are cut short");
        if (rc != Z_OK && rc != Z_STREAM_END)
            return gr_fail(rc == Z_MEM_ERROR ? GR_ERR_NOMEM : GR_ERR_FORMAT, "gzip: %s",
                           z->msg ? z->msg : "damaged data");
    }
    if (z->avail_in > 0 || at < n_bytes)
        return gr_fail(GR_ERR_FORMAT, "bytes after the end of the gzip data");
    *n_out = n;
    return GR_OK;
}

gr_status gr_gunzip(const void *src, size_t n_bytes, size_t limit, uint8_t **out, size_t *n_out)
{
    z_stream z = { 0 };
    gr_status st;

    *out = NULL;
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return gr_fail(GR_ERR_NOMEM, "no memory to unpack gzip data");
    st = inflate_all(&z, (const uint8_t *)src, n_bytes, limit, out, n_out);
    inflateEnd(&z);
    if (st != GR_OK) {
        gr_free(*out);
        *out = NULL;
    }
    return st;
}

gr_status gr_mapped_open_packed(gr_mapped *m, const char *path)
{
    uint8_t *mem = NULL;
    size_t n = 0;
    gr_status st;

    GR_TRY(gr_mapped_open(m, path));
    if (m->n_bytes < 2 || m->mem[0] != 0x1f || m->mem[1] != 0x8b)
        return GR_OK;
    st = gr_gunzip(m->mem, m->n_bytes, GR_UNPACKED_MAX, &mem, &n);
    gr_mapped_close(m);
    if (st != GR_OK)
        return gr_wrap(st, "'%s'", path);
    *m = (gr_mapped){ .mem = mem, .n_bytes = n, .unpacked = mem };
    return GR_OK;
}

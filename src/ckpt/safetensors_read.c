/*
 * Reads a safetensors file into a snapshot, front to back, once: the checksum is taken
 * while the bytes pass, and each tensor is read to where it stays. Nothing is handed out
 * before the checksum has been compared.
 *
 * Any thread.
 */
#include "ckpt/safetensors.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they are");

/* A piece that stays in the cache between reading and summing. */
#define PIECE_BYTES ((size_t)1 << 18)

typedef struct reader {
    const gr_st_source *src;
    uint32_t crc; /* of what has passed */
    char *header; /* owned */
    size_t n_header;
    gr_st_header parsed;
    gr_snapshot *snap; /* owned until it is handed out */
    bool texts_only;
} reader;

static gr_status read_summed(reader *r, void *dst, size_t n_bytes)
{
    char *at = dst;

    while (n_bytes > 0) {
        size_t n = n_bytes < PIECE_BYTES ? n_bytes : PIECE_BYTES;

        GR_TRY(r->src->read(r->src->arg, at, n));
        r->crc = gr_crc32c(r->crc, at, n);
        at += n;
        n_bytes -= n;
    }
    return GR_OK;
}

static gr_status read_lead(reader *r)
{
    unsigned char lead[GR_ST_LEAD_BYTES];
    uint64_t n = 0;

    if (r->src->n_bytes < GR_ST_LEAD_BYTES)
        return gr_fail(GR_ERR_FORMAT, "%zu bytes are no safetensors file: it begins with %d",
                       r->src->n_bytes, GR_ST_LEAD_BYTES);
    GR_TRY(read_summed(r, lead, sizeof(lead)));
    for (int i = GR_ST_LEAD_BYTES - 1; i >= 0; i--)
        n = n << 8 | lead[i];
    if (n > GR_ST_MAX_HEADER_BYTES)
        return gr_fail(GR_ERR_FORMAT, "the header would have %llu bytes, at most %d are possible",
                       (unsigned long long)n, GR_ST_MAX_HEADER_BYTES);
    if (n > r->src->n_bytes - GR_ST_LEAD_BYTES)
        return gr_fail(GR_ERR_FORMAT, "the header takes %llu bytes, the file holds %zu",
                       (unsigned long long)n, r->src->n_bytes - GR_ST_LEAD_BYTES);
    r->n_header = (size_t)n;
    return GR_OK;
}

static gr_status read_header(reader *r)
{
    r->header = (char *)gr_malloc(r->n_header);
    if (!r->header)
        return GR_ERR_NOMEM;
    GR_TRY(r->src->read(r->src->arg, r->header, r->n_header));
    GR_TRY(gr_st_header_parse(&r->parsed, r->header, r->n_header,
                              r->src->n_bytes - GR_ST_LEAD_BYTES - r->n_header));
    /* The checksum cannot cover its own digits: they count as zeros. */
    if (r->parsed.has_crc)
        memset(r->header + r->parsed.crc_at, '0', GR_ST_CRC_DIGITS);
    r->crc = gr_crc32c(r->crc, r->header, r->n_header);
    return GR_OK;
}

static gr_status read_tensors(reader *r)
{
    char shown[GR_ST_SHOWN_BYTES];

    GR_TRY(gr_snapshot_create(&r->snap));
    GR_TRY(gr_st_header_texts(&r->parsed, r->snap));
    if (r->texts_only)
        return GR_OK;
    for (int i = 0; i < r->parsed.n_tensors; i++) {
        const gr_st_tensor *t = &r->parsed.tensors[i];
        gr_status st;
        void *mem;

        GR_TRY(gr_snapshot_add(r->snap, t->name, t->dtype, t->shape, &mem));
        st = read_summed(r, mem, t->end - t->begin);
        if (st != GR_OK)
            return gr_wrap(st, "tensor '%s'", gr_st_shown(t->name, shown));
    }
    if (r->parsed.has_crc && r->crc != r->parsed.crc)
        return gr_fail(GR_ERR_FORMAT, "damaged: '" GR_ST_KEY_CRC "' says %08x, the bytes give %08x",
                       (unsigned)r->parsed.crc, (unsigned)r->crc);
    return GR_OK;
}

static gr_status read_source(const gr_st_source *src, bool texts_only, gr_snapshot **out)
{
    reader r = { .src = src, .texts_only = texts_only };
    gr_status st;

    *out = NULL;
    GR_TRY_GOTO(st, read_lead(&r), done);
    GR_TRY_GOTO(st, read_header(&r), done);
    GR_TRY_GOTO(st, read_tensors(&r), done);
    *out = r.snap;
    r.snap = NULL;

done:
    gr_snapshot_destroy(r.snap);
    gr_st_header_fini(&r.parsed);
    gr_free(r.header);
    /* What the snapshot refuses as an argument is here the content of a file. */
    return st == GR_ERR_ARG ? GR_ERR_FORMAT : st;
}

gr_status gr_st_read(const gr_st_source *src, gr_snapshot **out)
{
    return read_source(src, false, out);
}

/* The bytes not yet read; gr_st_read() asks for no more than there are. */
static gr_status read_memory(void *arg, void *dst, size_t n_bytes)
{
    const char **next = arg;

    if (n_bytes > 0)
        memcpy(dst, *next, n_bytes);
    *next += n_bytes;
    return GR_OK;
}

gr_status gr_safetensors_parse(const char *bytes, size_t n_bytes, gr_snapshot **out)
{
    const gr_st_source src = { .read = read_memory, .arg = &bytes, .n_bytes = n_bytes };

    return gr_st_read(&src, out);
}

static gr_status read_fd(void *arg, void *dst, size_t n_bytes)
{
    const int *fd = arg;
    char *at = dst;

    while (n_bytes > 0) {
        ssize_t n = read(*fd, at, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gr_fail(GR_ERR_IO, "read: %s", strerror(errno));
        if (n == 0)
            return gr_fail(GR_ERR_FORMAT, "the file became shorter: %zu bytes missing", n_bytes);
        at += n;
        n_bytes -= (size_t)n;
    }
    return GR_OK;
}

gr_status gr_st_read_fd(int fd, size_t n_bytes, gr_snapshot **out)
{
    const gr_st_source src = { .read = read_fd, .arg = &fd, .n_bytes = n_bytes };

    return gr_st_read(&src, out);
}

gr_status gr_st_read_texts(int fd, size_t n_bytes, gr_snapshot **out)
{
    const gr_st_source src = { .read = read_fd, .arg = &fd, .n_bytes = n_bytes };

    return read_source(&src, true, out);
}

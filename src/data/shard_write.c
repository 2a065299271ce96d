/* Writing a shard: records as they come, then the index, then the tail that says where it is. One
 * thread. */
#include "data/shard.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"
#include "data/shard_bytes.h"

#include <string.h>

struct gr_shard_writer {
    gr_outfile *file;
    gr_shard_head head;
    const char *const *class_names; /* borrowed */
    uint64_t place;
    gr_text index;
};

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static void make_start(uint8_t start[SHARD_HEAD_BYTES])
{
    memset(start, 0, SHARD_HEAD_BYTES);
    memcpy(start, SHARD_MAGIC, 8);
    put32(start + 8, SHARD_VERSION);
}

static void write_out(gr_shard_writer *w, const void *src, size_t n_bytes)
{
    gr_outfile_write(w->file, src, n_bytes);
    w->place += n_bytes;
}

void gr_shard_discard(gr_shard_writer *w)
{
    if (!w)
        return;
    gr_outfile_discard(w->file);
    gr_text_fini(&w->index);
    gr_free(w);
}

gr_status gr_shard_begin(gr_shard_writer **out, const char *path, const gr_shard_head *head,
                         const char *const *class_names)
{
    gr_shard_writer *w = gr_calloc(1, sizeof(*w));
    uint8_t start[SHARD_HEAD_BYTES];
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    w->head = *head;
    w->head.n_records = 0;
    w->head.has_names = class_names != NULL;
    w->class_names = class_names;
    st = gr_outfile_open(&w->file, path);
    if (st != GR_OK) {
        gr_shard_discard(w);
        return st;
    }
    make_start(start);
    write_out(w, start, sizeof(start));
    *out = w;
    return GR_OK;
}

gr_status gr_shard_add(gr_shard_writer *w, const gr_shard_record *r)
{
    static const uint8_t zeros[SHARD_ALIGN] = { 0 };
    uint8_t e[ENTRY_BYTES] = { 0 };
    uint32_t crc = gr_crc32c(0, r->name, r->n_name);

    crc = gr_crc32c(crc, r->image, r->n_image);
    crc = gr_crc32c(crc, r->mask, r->n_mask);
    put64(e + ENTRY_PLACE, w->place);
    put32(e + ENTRY_IMAGE, r->n_image);
    put32(e + ENTRY_MASK, r->n_mask);
    put32(e + ENTRY_NAME, r->n_name);
    put32(e + ENTRY_CLASS, (uint32_t)r->label);
    put32(e + ENTRY_CRC, crc);
    gr_text_addn(&w->index, (const char *)e, sizeof(e));
    write_out(w, r->name, r->n_name);
    write_out(w, r->image, r->n_image);
    write_out(w, r->mask, r->n_mask);
    write_out(w, zeros, (SHARD_ALIGN - w->place % SHARD_ALIGN) % SHARD_ALIGN);
    w->head.n_records++;
    return gr_text_status(&w->index);
}

static void add_class_names(gr_shard_writer *w)
{
    for (uint32_t i = 0; w->class_names && i < w->head.n_classes; i++) {
        uint8_t n[4];

        put32(n, (uint32_t)strlen(w->class_names[i]));
        gr_text_addn(&w->index, (const char *)n, sizeof(n));
        gr_text_add(&w->index, w->class_names[i]);
    }
}

static void make_tail(const gr_shard_writer *w, uint8_t tail[TAIL_BYTES])
{
    uint8_t start[SHARD_HEAD_BYTES];

    memset(tail, 0, TAIL_BYTES);
    put64(tail + TAIL_INDEX, w->place);
    put64(tail + TAIL_INDEX_BYTES, w->index.len);
    put32(tail + TAIL_RECORDS, w->head.n_records);
    put32(tail + TAIL_CLASSES, w->head.n_classes);
    put32(tail + TAIL_NUMBER, w->head.number);
    put32(tail + TAIL_SHARDS, w->head.n_shards);
    put64(tail + TAIL_FIRST, w->head.first);
    put64(tail + TAIL_TOTAL, w->head.n_total);
    put32(tail + TAIL_INDEX_CRC, gr_crc32c(0, w->index.str, w->index.len));
    put32(tail + TAIL_FLAGS,
          (w->head.has_names ? FLAG_NAMES : 0) | (w->head.has_masks ? FLAG_MASKS : 0));
    make_start(start);
    put32(tail + TAIL_CRC, gr_crc32c(gr_crc32c(0, start, sizeof(start)), tail, TAIL_CRC));
    memcpy(tail + TAIL_END, SHARD_END, 4);
}

gr_status gr_shard_commit(gr_shard_writer *w, int64_t *n_bytes)
{
    uint8_t tail[TAIL_BYTES];
    gr_outfile *f = w->file;
    gr_status st;

    add_class_names(w);
    st = gr_text_status(&w->index);
    if (st == GR_OK) {
        make_tail(w, tail);
        write_out(w, w->index.str, w->index.len);
        write_out(w, tail, sizeof(tail));
        *n_bytes = (int64_t)w->place;
        w->file = NULL;
        st = gr_outfile_commit(f);
    }
    gr_shard_discard(w);
    return st;
}

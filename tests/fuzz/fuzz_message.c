/*
 * Bytes from strangers to the transports between ranks: greetings, heads of messages, and a
 * stream of messages cut into pieces as a network would.
 */
#include "base/outfile.h"
#include "comm/stream.h"
#include "comm/tcp/mesh.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct source {
    const uint8_t *at;
    size_t left, piece;
} source;

static ssize_t feed(void *arg, const struct iovec *parts, int n_parts)
{
    source *s = (source *)arg;
    size_t most = s->left < s->piece ? s->left : s->piece, done = 0;

    for (int k = 0; k < n_parts && done < most; k++) {
        size_t n = parts[k].iov_len < most - done ? parts[k].iov_len : most - done;

        memcpy(parts[k].iov_base, s->at + done, n);
        done += n;
    }
    s->at += done;
    s->left -= done;
    return (ssize_t)done;
}

static gr_status on_head(void *arg, int peer, const gr_head *h, const char *text)
{
    (void)arg;
    (void)text;
    if (peer != 1 || h->n_bytes > GR_HEAD_DATA || !memchr(h->label, 0, GR_LABEL))
        abort();
    return GR_OK;
}

/* A patient message holds up the stream: its receive comes now. */
static bool post_held(gr_wire *w, const gr_stream *in, gr_msg *m, const gr_what *what)
{
    *m = (gr_msg){ .peer = 1, .slot = in->in.slot, .seq = in->in.seq, .what = what, .label = "" };
    m->n_bytes = in->in.n_bytes;
    m->mem = (char *)malloc(m->n_bytes);
    return m->mem && gr_inbox_post(&w->inboxes[1], m) == GR_OK && !gr_stream_is_held(in);
}

/* A receive waits for the first message; the others become parcels, or wait if they can. */
static void stream(const uint8_t *data, size_t size, size_t piece)
{
    gr_wire w = { .size = 2, .user = { NULL, on_head }, .has_patience = piece % 2 == 0 };
    source s = { data, size, piece ? piece : 1000 };
    gr_pipe p = { .arg = &s, .read = feed };
    gr_what what = { .kind = GR_CALL_ALLREDUCE };
    char *mem = (char *)malloc(16);
    gr_msg m = { .peer = 1, .mem = mem, .n_bytes = 16, .what = &what, .label = "" };
    gr_msg held = { .mem = NULL };
    gr_stream in = { .in_at = 0 };
    bool moved = false;

    if (!mem || gr_inboxes_create(&w.inboxes, 2) != GR_OK ||
        gr_inbox_post(&w.inboxes[1], &m) != GR_OK)
        abort();
    while (s.left > 0 && gr_stream_in(&in, &p, &w, 1, &moved) == GR_OK) {
        if (!gr_stream_is_held(&in))
            continue;
        free(held.mem);
        if (!post_held(&w, &in, &held, &what))
            abort();
    }
    free(held.mem);
    gr_inboxes_destroy(w.inboxes, 2);
    free(mem);
}

/* Checksums keep damage out; with a right one, strange heads get further. */
static void stream_with_crc(const uint8_t *data, size_t size)
{
    uint8_t *copy = (uint8_t *)malloc(size);
    uint32_t crc = gr_crc32c(0, data, GR_HEAD_BYTES - 4);

    if (!copy)
        abort();
    memcpy(copy, data, size);
    for (size_t i = 0; i < 4; i++)
        copy[GR_HEAD_BYTES - 4 + i] = (uint8_t)(crc >> (8 * i));
    stream(copy, size, 50);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gr_head h;
    mesh_hello hello, mine = { .rank = 0, .size = 4 };

    if (size < 1)
        return 0;
    if (size > GR_HEAD_BYTES && gr_head_get(data + 1, &h) == GR_OK) {
        uint8_t again[GR_HEAD_BYTES];

        gr_head_put(again, &h);
        if (memcmp(again, data + 1, GR_HEAD_BYTES) != 0)
            abort(); /* what is accepted says exactly what it says */
    }
    if (size > MESH_HELLO && mesh_hello_get(data + 1, &hello) == GR_OK &&
        mesh_hello_check(&hello, &mine, 2) == GR_OK && (hello.rank <= 0 || hello.rank >= 4))
        abort();
    stream(data + 1, size - 1, data[0]);
    if (size > GR_HEAD_BYTES)
        stream_with_crc(data + 1, size - 1);
    return 0;
}

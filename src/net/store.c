/* The store's client. */
#include "net/store.h"

#include "base/alloc.h"
#include "base/text.h"
#include "net/socket.h"
#include "net/store_wire.h"

#include <string.h>
#include <unistd.h>

#define CANCEL_MS 2000 /* for the answer to a cancelled wait */

struct gr_store {
    int fd;
    gr_text request; /* being written; used again and again */
};

static void begin(gr_store *s, gr_store_op op)
{
    char byte = (char)op;

    s->request.len = 0;
    gr_text_addn(&s->request, &byte, 1);
}

static void put(gr_store *s, const void *src, size_t n_bytes)
{
    gr_text_addn(&s->request, (const char *)src, n_bytes);
}

static void put_span(gr_store *s, const void *src, size_t n_bytes)
{
    uint64_t len = n_bytes;

    put(s, &len, sizeof(len));
    put(s, src, n_bytes);
}

/* TCPStore's clients put a slash before every key of theirs. */
static void put_key(gr_store *s, const char *key)
{
    uint64_t len = strlen(key) + 1;

    put(s, &len, sizeof(len));
    put(s, "/", 1);
    put(s, key, len - 1);
}

static void put_keys(gr_store *s, const char *const *keys, int n_keys)
{
    uint64_t n = (uint64_t)n_keys;

    put(s, &n, sizeof(n));
    for (int i = 0; i < n_keys; i++)
        put_key(s, keys[i]);
}

static gr_status send_request(gr_store *s, gr_deadline d)
{
    GR_TRY(gr_text_status(&s->request));
    return gr_socket_send(s->fd, s->request.str, s->request.len, d);
}

static gr_status receive_span(gr_store *s, char **out, size_t *n_bytes, gr_deadline d)
{
    gr_status st;
    uint64_t len;
    char *mem;

    GR_TRY(gr_socket_recv(s->fd, &len, sizeof(len), d));
    if (len > GR_STORE_MAX_VALUE)
        return gr_fail(GR_ERR_FORMAT, "the store sends a value of %llu bytes",
                       (unsigned long long)len);
    mem = (char *)gr_malloc((size_t)len + 1);
    if (!mem)
        return GR_ERR_NOMEM;
    st = gr_socket_recv(s->fd, mem, (size_t)len, d);
    if (st != GR_OK) {
        gr_free(mem);
        return st;
    }
    mem[len] = '\0';
    *out = mem;
    if (n_bytes)
        *n_bytes = (size_t)len;
    return GR_OK;
}

static gr_status greet(gr_store *s, gr_deadline d)
{
    uint32_t magic = GR_STORE_MAGIC, nonce = (uint32_t)getpid(), answer;
    char op = GR_STORE_PING;

    begin(s, GR_STORE_VALIDATE);
    put(s, &magic, sizeof(magic));
    put(s, &op, 1);
    put(s, &nonce, sizeof(nonce));
    GR_TRY(send_request(s, d));
    GR_TRY(gr_socket_recv(s->fd, &answer, sizeof(answer), d));
    if (answer != nonce)
        return gr_fail(GR_ERR_FORMAT, "something answers there that is no key-value store");
    return GR_OK;
}

gr_status gr_store_connect(gr_store **out, const char *host, int port, gr_deadline d)
{
    gr_store *s = (gr_store *)gr_calloc(1, sizeof(*s));
    gr_status st;

    if (!s)
        return GR_ERR_NOMEM;
    s->fd = -1;
    st = gr_socket_connect(&s->fd, host, port, d);
    if (st == GR_OK)
        st = gr_wrap(greet(s, d), "'%s' port %d", host, port);
    if (st != GR_OK) {
        gr_store_close(s);
        return gr_wrap(st, "key-value store");
    }
    *out = s;
    return GR_OK;
}

void gr_store_close(gr_store *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    gr_text_fini(&s->request);
    gr_free(s);
}

gr_status gr_store_set(gr_store *s, const char *key, const void *value, size_t n_bytes,
                       gr_deadline d)
{
    begin(s, GR_STORE_SET);
    put_key(s, key);
    put_span(s, value, n_bytes);
    return gr_wrap(send_request(s, d), "store: set '%s'", key);
}

gr_status gr_store_add(gr_store *s, const char *key, int64_t by, int64_t *now, gr_deadline d)
{
    gr_status st;

    begin(s, GR_STORE_ADD);
    put_key(s, key);
    put(s, &by, sizeof(by));
    st = send_request(s, d);
    if (st == GR_OK)
        st = gr_socket_recv(s->fd, now, sizeof(*now), d);
    return gr_wrap(st, "store: add to '%s'", key);
}

/* Nothing came in time. The server still has the wait, so it is taken back; its answer to
 * the wait may be under way already and then comes first. */
static gr_status cancel(gr_store *s)
{
    gr_deadline d = gr_deadline_in_ms(CANCEL_MS);
    uint8_t answer;

    begin(s, GR_STORE_CANCEL_WAIT);
    GR_TRY(send_request(s, d));
    do
        GR_TRY(gr_socket_recv(s->fd, &answer, 1, d));
    while (answer == GR_STORE_STOP_WAITING);
    return GR_OK;
}

/* Which of the keys is the first that is not there; for a message. */
static const char *first_missing(gr_store *s, const char *const *keys, int n_keys)
{
    gr_deadline d = gr_deadline_in_ms(CANCEL_MS);

    for (int i = 0; i < n_keys; i++) {
        uint8_t answer;

        begin(s, GR_STORE_CHECK);
        put_keys(s, keys + i, 1);
        if (send_request(s, d) != GR_OK || gr_socket_recv(s->fd, &answer, 1, d) != GR_OK)
            break;
        if (answer != GR_STORE_READY)
            return keys[i];
    }
    return keys[0];
}

gr_status gr_store_wait(gr_store *s, const char *const *keys, int n_keys, gr_deadline d)
{
    int64_t start = gr_now_ns();
    uint8_t answer;
    gr_status st;

    begin(s, GR_STORE_WAIT);
    put_keys(s, keys, n_keys);
    st = send_request(s, d);
    if (st == GR_OK)
        st = gr_socket_recv(s->fd, &answer, 1, d);
    if (st == GR_OK && answer != GR_STORE_STOP_WAITING)
        st = gr_fail(GR_ERR_FORMAT, "answer %d", answer);
    if (st != GR_ERR_TIMEOUT)
        return gr_wrap(st, "store: wait for '%s'", keys[0]);
    GR_TRY(gr_wrap(cancel(s), "store: cancel a wait"));
    return gr_fail(GR_ERR_TIMEOUT, "store: '%s' was not set within %.1f s",
                   first_missing(s, keys, n_keys), (double)(gr_now_ns() - start) * 1e-9);
}

gr_status gr_store_get(gr_store *s, const char *key, char **out, size_t *n_bytes, gr_deadline d)
{
    gr_status st;

    GR_TRY(gr_store_wait(s, &key, 1, d));
    begin(s, GR_STORE_GET);
    put_key(s, key);
    st = send_request(s, d);
    if (st == GR_OK)
        st = receive_span(s, out, n_bytes, d);
    return gr_wrap(st, "store: get '%s'", key);
}

gr_status gr_store_get_many(gr_store *s, const char *const *keys, int n_keys, char **out,
                            gr_deadline d)
{
    gr_status st;
    int n = 0;

    GR_TRY(gr_store_wait(s, keys, n_keys, d));
    begin(s, GR_STORE_MULTI_GET);
    put_keys(s, keys, n_keys);
    st = send_request(s, d);
    while (st == GR_OK && n < n_keys) {
        st = receive_span(s, &out[n], NULL, d);
        n += st == GR_OK;
    }
    while (st != GR_OK && n > 0)
        gr_free(out[--n]);
    return gr_wrap(st, "store: get %d keys", n_keys);
}

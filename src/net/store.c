/* The store's client. */
#include "net/store.h"

#include "base/alloc.h"
#include "base/text.h"
#include "net/silence.h"
#include "net/socket.h"
#include "net/store_wire.h"

#include <string.h>
#include <unistd.h>

#define CANCEL_MS 10000 /* for the answer to a cancelled wait: a busy host needs seconds */

struct gr_store {
    int fd;
    gr_text request; /* being written; used again and again */
    /* Answers that did not come in time and are still to come: */
    bool is_cancelled; /* to a wait that was taken back */
    bool is_checked;   /* whether a key is there */
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

static void put_text(gr_store *s, const char *text)
{
    put_span(s, text, strlen(text));
}

static void put_keys(gr_store *s, const char *const *keys, int n_keys)
{
    uint64_t n = (uint64_t)n_keys;

    put(s, &n, sizeof(n));
    for (int i = 0; i < n_keys; i++)
        put_key(s, keys[i]);
}

/* Reads late answers, so that the next one is to the next request. The answer to a wait may have
 * been under way when it was cancelled, and then comes first. */
static gr_status settle(gr_store *s, gr_deadline d)
{
    while (s->is_cancelled) {
        uint8_t answer;

        GR_TRY(gr_socket_recv(s->fd, &answer, 1, d));
        s->is_cancelled = answer == GR_STORE_STOP_WAITING;
    }
    if (s->is_checked) {
        uint8_t answer;

        GR_TRY(gr_socket_recv(s->fd, &answer, 1, d));
        s->is_checked = false;
    }
    return GR_OK;
}

static gr_status send_request(gr_store *s, gr_deadline d)
{
    GR_TRY(settle(s, d));
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

/* A rank may wait for an answer as long as for another rank. */
static gr_status endure(gr_store *s, gr_deadline d)
{
    int limit_ms;

    GR_TRY(gr_silence_limit(gr_deadline_left_ms(d), &limit_ms));
    gr_socket_endure(s->fd, limit_ms, false);
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
    if (st == GR_OK) {
        st = endure(s, d);
        if (st == GR_OK)
            st = gr_wrap(greet(s, d), "'%s' port %d", host, port);
    }
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

/* Nothing came in time. The server still has the wait, so it is taken back. On a slow network
 * the answer to that takes its time: whatever is asked next waits for it. */
static gr_status cancel(gr_store *s)
{
    gr_deadline d = gr_deadline_in_ms(CANCEL_MS);

    begin(s, GR_STORE_CANCEL_WAIT);
    GR_TRY(send_request(s, d));
    s->is_cancelled = true;
    return settle(s, d);
}

/* Which of the keys is the first that is not there; for a message. */
static const char *first_missing(gr_store *s, const char *const *keys, int n_keys)
{
    gr_deadline d = gr_deadline_in_ms(CANCEL_MS);

    for (int i = 0; i < n_keys; i++) {
        uint8_t answer;
        gr_status st;

        begin(s, GR_STORE_CHECK);
        put_keys(s, keys + i, 1);
        if (send_request(s, d) != GR_OK)
            break;
        st = gr_socket_recv(s->fd, &answer, 1, d);
        s->is_checked = st == GR_ERR_TIMEOUT;
        if (st != GR_OK)
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
    if (st != GR_ERR_TIMEOUT || s->is_cancelled || s->is_checked) /* then it was not even asked */
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

gr_status gr_store_set_many(gr_store *s, const char *const *keys, const char *const *values,
                            int n_keys, gr_deadline d)
{
    int64_t n = n_keys;

    begin(s, GR_STORE_MULTI_SET);
    put(s, &n, sizeof(n));
    for (int i = 0; i < n_keys; i++) {
        put_key(s, keys[i]);
        put_text(s, values[i]);
    }
    return gr_wrap(send_request(s, d), "store: set %d keys", n_keys);
}

gr_status gr_store_compare_set(gr_store *s, const char *key, const char *expected,
                               const char *desired, char **now, gr_deadline d)
{
    gr_status st;

    begin(s, GR_STORE_COMPARE_SET);
    put_key(s, key);
    put_text(s, expected);
    put_text(s, desired);
    st = send_request(s, d);
    if (st == GR_OK)
        st = receive_span(s, now, NULL, d);
    return gr_wrap(st, "store: compare and set '%s'", key);
}

gr_status gr_store_append(gr_store *s, const char *key, const void *value, size_t n_bytes,
                          gr_deadline d)
{
    begin(s, GR_STORE_APPEND);
    put_key(s, key);
    put_span(s, value, n_bytes);
    return gr_wrap(send_request(s, d), "store: append to '%s'", key);
}

gr_status gr_store_check(gr_store *s, const char *const *keys, int n_keys, bool *all, gr_deadline d)
{
    uint8_t answer = GR_STORE_NOT_READY;
    gr_status st;

    begin(s, GR_STORE_CHECK);
    put_keys(s, keys, n_keys);
    st = send_request(s, d);
    if (st == GR_OK)
        st = gr_socket_recv(s->fd, &answer, 1, d);
    *all = answer == GR_STORE_READY;
    return gr_wrap(st, "store: check %d keys", n_keys);
}

/* The request that was begun is answered with a number. */
static gr_status ask_number(gr_store *s, int64_t *out, gr_deadline d)
{
    GR_TRY(send_request(s, d));
    return gr_socket_recv(s->fd, out, sizeof(*out), d);
}

gr_status gr_store_delete(gr_store *s, const char *key, bool *was_there, gr_deadline d)
{
    int64_t n = 0;
    gr_status st;

    begin(s, GR_STORE_DELETE_KEY);
    put_key(s, key);
    st = ask_number(s, &n, d);
    *was_there = n > 0;
    return gr_wrap(st, "store: delete '%s'", key);
}

gr_status gr_store_count(gr_store *s, int64_t *n_keys, gr_deadline d)
{
    begin(s, GR_STORE_GETNUMKEYS);
    return gr_wrap(ask_number(s, n_keys, d), "store: count keys");
}

gr_status gr_store_push(gr_store *s, const char *key, const void *value, size_t n_bytes,
                        gr_deadline d)
{
    begin(s, GR_STORE_QUEUE_PUSH);
    put_key(s, key);
    put_span(s, value, n_bytes);
    return gr_wrap(send_request(s, d), "store: push to '%s'", key);
}

gr_status gr_store_pop(gr_store *s, const char *key, char **out, size_t *n_bytes, gr_deadline d)
{
    int64_t n = 0;
    gr_status st;

    do { /* somebody else may take what was waited for */
        GR_TRY(gr_store_wait(s, &key, 1, d));
        begin(s, GR_STORE_QUEUE_POP);
        put_key(s, key);
        st = ask_number(s, &n, d);
    } while (st == GR_OK && n == 0);
    if (st == GR_OK)
        st = receive_span(s, out, n_bytes, d);
    return gr_wrap(st, "store: pop from '%s'", key);
}

gr_status gr_store_queued(gr_store *s, const char *key, int64_t *n, gr_deadline d)
{
    begin(s, GR_STORE_QUEUE_LEN);
    put_key(s, key);
    return gr_wrap(ask_number(s, n, d), "store: length of '%s'", key);
}

gr_status gr_store_list(gr_store *s, char ***out, int *n_keys, gr_deadline d)
{
    int64_t n = 0;
    char **list = NULL;
    int k = 0;
    gr_status st;

    begin(s, GR_STORE_LIST_KEYS);
    st = ask_number(s, &n, d);
    if (st == GR_OK && (n < 0 || n > INT32_MAX))
        st = gr_fail(GR_ERR_FORMAT, "%lld keys", (long long)n);
    if (st == GR_OK && !(list = (char **)gr_calloc((size_t)n + 1, sizeof(*list))))
        st = GR_ERR_NOMEM;
    for (; st == GR_OK && k < n; k += st == GR_OK) {
        st = receive_span(s, &list[k], NULL, d);
        if (st == GR_OK && list[k][0] == '/')
            memmove(list[k], list[k] + 1, strlen(list[k]));
    }
    if (st != GR_OK) {
        while (k > 0)
            gr_free(list[--k]);
        gr_free(list);
        return gr_wrap(st, "store: list of keys");
    }
    *out = list;
    *n_keys = (int)n;
    return GR_OK;
}

gr_status gr_store_barrier(gr_store *s, const char *key, int64_t n, gr_deadline d)
{
    uint8_t answer = GR_STORE_STOP_WAITING;
    gr_status st;

    begin(s, GR_STORE_BARRIER);
    put_key(s, key);
    put(s, &n, sizeof(n));
    st = send_request(s, d);
    if (st == GR_OK)
        st = gr_socket_recv(s->fd, &answer, 1, d);
    if (st == GR_OK && answer != GR_STORE_STOP_WAITING)
        st = gr_fail(GR_ERR_FORMAT, "answer %d", answer);
    return gr_wrap(st, "store: barrier '%s'", key);
}

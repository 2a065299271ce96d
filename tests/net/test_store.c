/*
 * The store: the hub byte by byte against the wire format, then server and client over
 * real sockets, with clients that misbehave. P11.
 */
#include "check.h"
#include "net/socket.h"
#include "net/store.h"
#include "net/store_hub.h"
#include "net/store_server.h"
#include "net/store_wire.h"

#include <pthread.h>
#include <unistd.h>

/* ---- requests as a TCPStore client writes them ---- */

typedef struct bytes {
    uint8_t mem[512];
    size_t len;
} bytes;

static void put(bytes *b, const void *src, size_t n)
{
    GR_CHECK(b->len + n <= sizeof(b->mem));
    memcpy(b->mem + b->len, src, n);
    b->len += n;
}

static void put_op(bytes *b, uint8_t op)
{
    put(b, &op, 1);
}

static void put_i64(bytes *b, int64_t v)
{
    put(b, &v, sizeof(v));
}

static void put_text(bytes *b, const char *s)
{
    put_i64(b, (int64_t)strlen(s));
    put(b, s, strlen(s));
}

static void hello(gr_store_session *s)
{
    static const uint8_t magic[5] = { 0, 0xce, 0xf7, 0x85, 0x3c };

    GR_CHECK_OK(gr_store_session_feed(s, magic, sizeof(magic)));
}

/* Feeds a request and expects exactly these bytes back. */
static void expect(gr_store_session *s, const bytes *answer)
{
    size_t n;
    const uint8_t *mem = gr_store_session_pending(s, &n);

    GR_CHECK_EQ(n, answer->len);
    GR_CHECK(n == 0 || memcmp(mem, answer->mem, n) == 0);
    GR_CHECK_OK(gr_store_session_sent(s, n));
}

static void ask(gr_store_session *s, const bytes *request, const bytes *answer)
{
    GR_CHECK_OK(gr_store_session_feed(s, request->mem, request->len));
    expect(s, answer);
}

static bytes request(uint8_t op, const char *key, const char *value)
{
    bytes b = { .len = 0 };

    put_op(&b, op);
    if (key)
        put_text(&b, key);
    if (value)
        put_text(&b, value);
    return b;
}

static bytes text_answer(const char *s)
{
    bytes b = { .len = 0 };

    put_text(&b, s);
    return b;
}

static bytes number_answer(int64_t v)
{
    bytes b = { .len = 0 };

    put_i64(&b, v);
    return b;
}

static const bytes nothing = { .len = 0 };
static const bytes zero = { .mem = { 0 }, .len = 1 };
static const bytes one = { .mem = { 1 }, .len = 1 };

static void test_values(gr_store_session *s)
{
    bytes q = request(GR_STORE_SET, "/a", "1"), a = text_answer("1");

    ask(s, &q, &nothing);
    q = request(GR_STORE_GET, "/a", NULL);
    ask(s, &q, &a);
    q = request(GR_STORE_GET, "/missing", NULL);
    a = text_answer("");
    ask(s, &q, &a);
    q = request(GR_STORE_ADD, "/a", NULL);
    put_i64(&q, 41);
    a = number_answer(42);
    ask(s, &q, &a);
    q = request(GR_STORE_APPEND, "/a", "0");
    ask(s, &q, &nothing);
    q = request(GR_STORE_GET, "/a", NULL);
    a = text_answer("420");
    ask(s, &q, &a);

    q = request(GR_STORE_COMPARE_SET, "/c", "old");
    put_text(&q, "new");
    a = text_answer("old"); /* missing and something expected: the expectation comes back */
    ask(s, &q, &a);
    q = request(GR_STORE_COMPARE_SET, "/c", "");
    put_text(&q, "new");
    a = text_answer("new");
    ask(s, &q, &a);
    q = request(GR_STORE_COMPARE_SET, "/c", "other");
    put_text(&q, "newest");
    ask(s, &q, &a);

    q = request(GR_STORE_GETNUMKEYS, NULL, NULL);
    a = number_answer(2);
    ask(s, &q, &a);
    q = request(GR_STORE_DELETE_KEY, "/c", NULL);
    a = number_answer(1);
    ask(s, &q, &a);
    a = number_answer(0);
    ask(s, &q, &a);
    q = request(GR_STORE_LIST_KEYS, NULL, NULL);
    a = number_answer(1);
    put_text(&a, "/a");
    ask(s, &q, &a);
    q = request(GR_STORE_PING, NULL, NULL);
    put(&q, "abcd", 4);
    a = nothing;
    put(&a, "abcd", 4);
    ask(s, &q, &a);
}

static void test_many(gr_store_session *s)
{
    bytes q = request(GR_STORE_MULTI_SET, NULL, NULL), a = text_answer("1");

    put_i64(&q, 2);
    put_text(&q, "/x");
    put_text(&q, "1");
    put_text(&q, "/y");
    put_text(&q, "22");
    ask(s, &q, &nothing);
    q = request(GR_STORE_MULTI_GET, NULL, NULL);
    put_i64(&q, 3);
    put_text(&q, "/x");
    put_text(&q, "/none");
    put_text(&q, "/y");
    put_text(&a, "");
    put_text(&a, "22");
    ask(s, &q, &a);
    q = request(GR_STORE_CHECK, NULL, NULL);
    put_i64(&q, 1);
    put_text(&q, "/y");
    ask(s, &q, &zero);
    q = request(GR_STORE_CHECK, NULL, NULL);
    put_i64(&q, 2);
    put_text(&q, "/y");
    put_text(&q, "/none");
    ask(s, &q, &one);
}

static bytes wait_for(const char *key)
{
    bytes q = request(GR_STORE_WAIT, NULL, NULL);

    put_i64(&q, 1);
    put_text(&q, key);
    return q;
}

static void test_waits(gr_store_session *s, gr_store_session *t, gr_store_session *u)
{
    bytes q = wait_for("/w"), a;

    ask(s, &q, &nothing);
    ask(t, &q, &nothing);
    q = request(GR_STORE_SET, "/w", "");
    ask(u, &q, &nothing);
    expect(s, &zero);
    expect(t, &zero);
    q = wait_for("/never");
    ask(s, &q, &nothing);
    q = request(GR_STORE_CANCEL_WAIT, NULL, NULL);
    ask(s, &q, &one);

    /* One value in a queue ends one wait: the longest. */
    q = wait_for("/q");
    ask(t, &q, &nothing);
    ask(s, &q, &nothing);
    q = request(GR_STORE_QUEUE_PUSH, "/q", "job");
    ask(u, &q, &nothing);
    expect(t, &zero);
    expect(s, &nothing);
    q = request(GR_STORE_QUEUE_POP, "/q", NULL);
    a = number_answer(1);
    put_text(&a, "job");
    ask(t, &q, &a);
    a = number_answer(0);
    ask(t, &q, &a);
    q = request(GR_STORE_QUEUE_LEN, "/q", NULL);
    ask(t, &q, &a);

    q = request(GR_STORE_BARRIER, "/b", NULL);
    put_i64(&q, 2);
    ask(t, &q, &nothing);
    ask(u, &q, &zero);
    expect(t, &zero);
}

/* Anything may arrive byte by byte. */
static void test_pieces(gr_store_session *s)
{
    bytes q = request(GR_STORE_SET, "/slow", "value"), a = text_answer("value");
    bytes get = request(GR_STORE_GET, "/slow", NULL);

    for (size_t i = 0; i < q.len; i++)
        GR_CHECK_OK(gr_store_session_feed(s, q.mem + i, 1));
    ask(s, &get, &a);
}

static void test_limits(gr_store_hub *hub)
{
    static const struct {
        uint8_t op;
        int64_t n; /* first number */
        const char *part;
    } bad[] = {
        { GR_STORE_GET, 8193, "a key of 8193 bytes" },
        { GR_STORE_GET, -1, "a key of 18446744073709551615 bytes" },
        { GR_STORE_WAIT, 131073, "131073 keys" },
        { GR_STORE_MULTI_SET, -1, "keys" },
        { 19, 0, "unknown operation 19" },
    };
    gr_store_session *s;
    bytes q = request(GR_STORE_SET, "/k", NULL);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        bytes b = request(bad[i].op, NULL, NULL);

        GR_CHECK_OK(gr_store_session_open(&s, hub));
        hello(s);
        put_i64(&b, bad[i].n);
        GR_CHECK_FAILS(gr_store_session_feed(s, b.mem, b.len), GR_ERR_FORMAT, bad[i].part);
        gr_store_session_close(s);
    }
    GR_CHECK_OK(gr_store_session_open(&s, hub));
    hello(s);
    put_i64(&q, (8 << 20) + 1);
    GR_CHECK_FAILS(gr_store_session_feed(s, q.mem, q.len), GR_ERR_FORMAT, "a value of 8388609");
    gr_store_session_close(s);
    GR_CHECK_OK(gr_store_session_open(&s, hub));
    q = request(GR_STORE_SET, "/k", "v"); /* without the magic number first */
    GR_CHECK_FAILS(gr_store_session_feed(s, q.mem, q.len), GR_ERR_FORMAT, "language");
    gr_store_session_close(s);
}

static void test_hub(void)
{
    gr_store_session *s[3];
    gr_store_hub *hub;

    GR_CHECK_OK(gr_store_hub_create(&hub));
    for (int i = 0; i < 3; i++) {
        GR_CHECK_OK(gr_store_session_open(&s[i], hub));
        hello(s[i]);
    }
    test_values(s[0]);
    test_many(s[1]);
    test_waits(s[0], s[1], s[2]);
    test_pieces(s[2]);
    test_limits(hub);
    gr_store_hub_destroy(hub);
}

/* ---- over sockets ---- */

typedef struct peer {
    int port;
    int rank;
} peer;

static void *late_setter(void *arg)
{
    const peer *p = (const peer *)arg;
    gr_deadline d = gr_deadline_in_ms(120000);
    gr_store *s;

    GR_CHECK_OK(gr_store_connect(&s, "127.0.0.1", p->port, d));
    usleep(30000);
    GR_CHECK_OK(gr_store_set(s, "late", "here", 4, d));
    gr_store_close(s);
    return NULL;
}

static void *counter(void *arg)
{
    const peer *p = (const peer *)arg;
    gr_deadline d = gr_deadline_in_ms(120000);
    gr_store *s;
    int64_t now = 0;

    GR_CHECK_OK(gr_store_connect(&s, "127.0.0.1", p->port, d));
    for (int i = 0; i < 200; i++)
        GR_CHECK_OK(gr_store_add(s, "n", 1, &now, d));
    gr_store_close(s);
    return NULL;
}

static void test_client(int port)
{
    static const char *const keys[] = { "one", "two" };
    gr_deadline d = gr_deadline_in_ms(120000);
    peer p = { .port = port };
    size_t big = (size_t)4 << 20, n;
    char *mem = (char *)malloc(big), *text, *texts[2];
    pthread_t t[3];
    gr_store *s;
    int64_t now;

    GR_CHECK_OK(gr_store_connect(&s, "localhost", port, d));
    GR_CHECK_EQ(pthread_create(&t[0], NULL, late_setter, &p), 0);
    GR_CHECK_OK(gr_store_get(s, "late", &text, &n, d));
    GR_CHECK_STR(text, "here");
    free(text);
    pthread_join(t[0], NULL);

    for (int i = 0; i < 3; i++)
        GR_CHECK_EQ(pthread_create(&t[i], NULL, counter, &p), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    GR_CHECK_OK(gr_store_add(s, "n", 0, &now, d));
    GR_CHECK_EQ(now, 600);

    memset(mem, 'x', big);
    GR_CHECK_OK(gr_store_set(s, "one", mem, big, d));
    GR_CHECK_FAILS(gr_store_wait(s, keys, 2, gr_deadline_in_ms(50)), GR_ERR_TIMEOUT, "'two'");
    GR_CHECK_OK(gr_store_set(s, "two", "2", 1, d));
    GR_CHECK_OK(gr_store_get_many(s, keys, 2, texts, d));
    GR_CHECK(strlen(texts[0]) == big && memcmp(texts[0], mem, big) == 0);
    GR_CHECK_STR(texts[1], "2");
    free(texts[0]);
    free(texts[1]);
    free(mem);
    gr_store_close(s);
}

/* Garbage, half a request, silence: nothing of it disturbs the others. */
static void test_bad_clients(int port)
{
    gr_deadline d = gr_deadline_in_ms(120000);
    uint8_t junk[64], byte;
    int fd, silent;

    GR_CHECK_OK(gr_socket_connect(&silent, "127.0.0.1", port, d));
    memset(junk, 0xff, sizeof(junk));
    GR_CHECK_OK(gr_socket_connect(&fd, "127.0.0.1", port, d));
    GR_CHECK_OK(gr_socket_send(fd, junk, sizeof(junk), d));
    GR_CHECK(gr_socket_recv(fd, &byte, 1, d) == GR_ERR_IO); /* closed by the server */
    close(fd);
    GR_CHECK_OK(gr_socket_connect(&fd, "127.0.0.1", port, d));
    GR_CHECK_OK(gr_socket_send(fd, "\0\xce", 2, d));
    close(fd);
    test_client(port);
    GR_CHECK_FAILS(gr_socket_recv(silent, &byte, 1, gr_deadline_in_ms(20)), GR_ERR_TIMEOUT, "");
    close(silent);
}

int main(void)
{
    gr_store_server *server, *second;
    gr_store *s;

    test_hub();
    GR_CHECK_OK(gr_store_server_create(&server, "127.0.0.1", 0));
    GR_CHECK_OK(gr_store_server_start(server));
    GR_CHECK_FAILS(gr_store_server_create(&second, "127.0.0.1", gr_store_server_port(server)),
                   GR_ERR_IO, "is taken");
    GR_CHECK_FAILS(gr_store_server_create(&second, "192.0.2.1", 0), GR_ERR_IO,
                   "no address of this host");
    test_bad_clients(gr_store_server_port(server));
    gr_store_server_drain(server, gr_deadline_in_ms(60000));
    int port = gr_store_server_port(server);

    gr_store_server_destroy(server);
    GR_CHECK_FAILS(gr_store_connect(&s, "127.0.0.1", port, gr_deadline_in_ms(100)), GR_ERR_IO,
                   "cannot connect to '127.0.0.1'");
    gr_store_server_destroy(NULL);
    return 0;
}

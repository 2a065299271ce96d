/*
 * The store's server as launchers use it: who may come, two languages on one port, and a clean
 * table for another round. Then every call of the client.
 */
#include "check.h"
#include "net/socket.h"
#include "net/store.h"
#include "net/store_ops.h"
#include "net/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int other_pipe[2];

static void take_other(void *arg, int fd)
{
    GR_CHECK(arg == other_pipe);
    GR_CHECK_EQ(write(other_pipe[1], &fd, sizeof(fd)), (ssize_t)sizeof(fd));
}

/* From another address of this host than 127.0.0.1. */
static int connect_from(const char *address, int port)
{
    struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    GR_CHECK_EQ(inet_pton(AF_INET, address, &from.sin_addr), 1);
    GR_CHECK_EQ(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    to.sin_port = htons((uint16_t)port);
    GR_CHECK_EQ(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    GR_CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    GR_CHECK_OK(gr_socket_prepare(fd));
    return fd;
}

/* Says hello as a store's client; whether an answer to the ping comes. */
static bool is_served(const char *address, int port)
{
    static const uint8_t hello[] = { 0, 0xce, 0xf7, 0x85, 0x3c, 13, 1, 2, 3, 4 };
    gr_deadline d = gr_deadline_in_ms(120000);
    int fd = connect_from(address, port);
    uint8_t answer[4];
    gr_status st = gr_socket_send(fd, hello, sizeof(hello), d);

    if (st == GR_OK)
        st = gr_socket_recv(fd, answer, sizeof(answer), d);
    close(fd);
    GR_CHECK(st == GR_OK || st == GR_ERR_IO); /* never a timeout: who is refused hears it */
    return st == GR_OK;
}

static void test_guard(gr_store_server *s, int port)
{
    GR_CHECK(is_served("127.0.0.1", port)); /* the server's own address */
    GR_CHECK(!is_served("127.0.0.2", port));
    GR_CHECK_OK(gr_store_server_allow(s, "127.0.0.2"));
    GR_CHECK_OK(gr_store_server_allow(s, "127.0.0.2"));
    GR_CHECK(is_served("127.0.0.2", port));
    gr_store_server_forbid(s, "127.0.0.2");
    GR_CHECK(is_served("127.0.0.2", port)); /* said twice, taken back once */
    gr_store_server_forbid(s, "127.0.0.2");
    GR_CHECK(!is_served("127.0.0.2", port));
    GR_CHECK(!is_served("127.0.0.3", port));
}

/* A connection that begins with the other letter arrives elsewhere, whole, from any address. */
static void test_other(int port)
{
    gr_deadline d = gr_deadline_in_ms(120000);
    int mine = connect_from("127.0.0.9", port), theirs;
    char text[6] = "";

    GR_CHECK_OK(gr_socket_send(mine, "GRL1x", 5, d));
    GR_CHECK_EQ(read(other_pipe[0], &theirs, sizeof(theirs)), (ssize_t)sizeof(theirs));
    GR_CHECK_OK(gr_socket_recv(theirs, text, 5, d));
    GR_CHECK_STR(text, "GRL1x");
    close(mine);
    close(theirs);
}

static void test_clear(gr_store_server *server, int port)
{
    gr_deadline d = gr_deadline_in_ms(120000);
    gr_store *s, *t;
    int64_t n;

    GR_CHECK_OK(gr_store_connect(&s, "127.0.0.1", port, d));
    GR_CHECK_OK(gr_store_add(s, "n", 7, &n, d));
    gr_store_server_clear(server);
    GR_CHECK(gr_store_add(s, "n", 1, &n, d) == GR_ERR_IO); /* its connection is closed */
    gr_store_close(s);
    GR_CHECK_OK(gr_store_connect(&t, "127.0.0.1", port, d));
    GR_CHECK_OK(gr_store_add(t, "n", 1, &n, d));
    GR_CHECK_EQ(n, 1);
    gr_store_server_clear(server);
    gr_store_close(t);
}

int main(void)
{
    gr_store_server_config config = {
        .host = "127.0.0.1", .is_guarded = true, .other = take_other, .arg = other_pipe
    };
    gr_store_server *server;

    GR_CHECK_EQ(pipe(other_pipe), 0);
    GR_CHECK_OK(gr_store_server_create_with(&server, &config));
    GR_CHECK_OK(gr_store_server_start(server));
    test_guard(server, gr_store_server_port(server));
    test_other(gr_store_server_port(server));
    test_clear(server, gr_store_server_port(server));
    store_ops_check("127.0.0.1", gr_store_server_port(server));
    gr_store_server_destroy(server);
    close(other_pipe[0]);
    close(other_pipe[1]);
    return 0;
}

/* How long hosts may be silent, and what a knock at a port tells. */
#include "check.h"
#include "net/silence.h"
#include "net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int limit(int timeout_ms, const char *heartbeat)
{
    int ms = -1;

    if (heartbeat)
        setenv("GR_HEARTBEAT_TIMEOUT", heartbeat, 1);
    else
        unsetenv("GR_HEARTBEAT_TIMEOUT");
    GR_CHECK_OK(gr_silence_limit(timeout_ms, &ms));
    return ms;
}

static void test_limits(void)
{
    static const char *const wrong[] = { "0", "0.5", "-3", "8s", "soon", "nan", "1e99" };
    int ms;

    GR_CHECK_EQ(limit(300000, NULL), 302000);
    GR_CHECK_EQ(limit(300000, ""), 302000);
    GR_CHECK_EQ(limit(1000, NULL), 7000); /* who waits for a second says so first */
    GR_CHECK_EQ(limit(300000, "8"), 10000);
    GR_CHECK_EQ(limit(300000, "1.5"), 3500);
    GR_CHECK_EQ(limit(20000, "60"), 22000); /* the shorter one counts */
    GR_CHECK_EQ(limit(2000000000, "2000000"), 2000002000);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        setenv("GR_HEARTBEAT_TIMEOUT", wrong[i], 1);
        GR_CHECK_FAILS(gr_silence_limit(1000, &ms), GR_ERR_ARG, "GR_HEARTBEAT_TIMEOUT is '");
    }
    unsetenv("GR_HEARTBEAT_TIMEOUT");
}

static int user_timeout(int fd)
{
    int ms = 0;
    socklen_t n = sizeof(ms);

    GR_CHECK(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &n) == 0);
    return ms;
}

static void test_sockets(void)
{
    int listener, fd = -1, port;
    bool is_refused = true;

    GR_CHECK_OK(gr_socket_listen(&listener, "127.0.0.1", 0, &port));
    GR_CHECK_OK(gr_socket_knock(&fd, "127.0.0.1", port, gr_deadline_in_ms(5000), &is_refused));
    GR_CHECK(!is_refused);
    gr_socket_endure(fd, 10000, false);
    GR_CHECK_EQ(user_timeout(fd), 10000);
    gr_socket_endure(fd, 10000, true);
    GR_CHECK_EQ(user_timeout(fd), 900000); /* a stopped process may take no data for long */
    gr_socket_endure(fd, 600000, true);
    GR_CHECK_EQ(user_timeout(fd), 1200000);
    gr_socket_endure(fd, 2000002000, true);
    GR_CHECK(user_timeout(fd) > 2000002000);
    close(fd);
    close(listener);
    /* Nobody listens there now. */
    GR_CHECK_FAILS(gr_socket_knock(&fd, "127.0.0.1", port, gr_deadline_in_ms(5000), &is_refused),
                   GR_ERR_IO, "cannot connect to '127.0.0.1' port ");
    GR_CHECK(is_refused);
}

int main(void)
{
    test_limits();
    test_sockets();
    return 0;
}

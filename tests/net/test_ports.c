/* Ports and interfaces: ranges, owners, names. P11. */
#include "check.h"
#include "net/interface.h"
#include "net/ports.h"
#include "net/socket.h"

#include <unistd.h>

static void test_ranges(void)
{
    static const char *const bad[] = { "", "1", "5:4", "0:4", "1:65536", "1:2:3", "a:b", " 1:2" };
    gr_port_range r;
    int a, b, c, port, other;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        GR_CHECK_FAILS(gr_port_range_parse(&r, bad[i]), GR_ERR_ARG, "no range of ports");
    unsetenv("GR_PORT_RANGE");
    GR_CHECK_OK(gr_port_range_from_env(&r));
    GR_CHECK(r.first == 0 && r.last == 0);

    /* Two ports of which one is taken, then both. */
    GR_CHECK_OK(gr_socket_listen(&a, "127.0.0.1", 0, &port));
    r = (gr_port_range){ port, port == 65535 ? port : port + 1 };
    if (gr_port_listen(&b, "127.0.0.1", 0, r, &other) == GR_OK) {
        GR_CHECK_EQ(other, port + 1);
        GR_CHECK_FAILS(gr_port_listen(&c, "127.0.0.1", 0, r, &other), GR_ERR_IO, "are taken");
        close(b);
    }
    close(a);
}

/* The owner of a taken port is named, with a free one. */
static void test_owner(void)
{
    char want[64], owner[128];
    int a, b, port, unused;

    GR_CHECK_OK(gr_socket_listen(&a, NULL, 0, &port));
    snprintf(want, sizeof(want), "(process %d)", (int)getpid());
    GR_CHECK(gr_port_owner(port, owner, sizeof(owner)));
    GR_CHECK(strstr(owner, want) && strstr(owner, "'test_net_ports'"));
    GR_CHECK_FAILS(gr_socket_listen(&b, "127.0.0.1", port, &unused), GR_ERR_IO, want);
    GR_CHECK(strstr(gr_error_message(), " is free"));
    close(a);
    GR_CHECK(!gr_port_owner(port, owner, sizeof(owner)));
    GR_CHECK(gr_port_free() > 0);
}

static void test_interfaces(void)
{
    char address[GR_ADDRESS_TEXT];

    unsetenv("GR_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_IFNAME");
    GR_CHECK_OK(gr_interface_address(address));
    GR_CHECK_STR(address, "");
    setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    GR_CHECK_OK(gr_interface_address(address));
    GR_CHECK_STR(address, "127.0.0.1");
    setenv("NCCL_SOCKET_IFNAME", "^e,d,v,w", 1);
    GR_CHECK_OK(gr_interface_address(address));
    GR_CHECK_STR(address, "127.0.0.1");
    setenv("GR_SOCKET_IFNAME", "nosuch", 1);
    GR_CHECK_FAILS(gr_interface_address(address), GR_ERR_ARG,
                   "GR_SOCKET_IFNAME is 'nosuch', but no network interface");
    unsetenv("GR_SOCKET_IFNAME");
    GR_CHECK(gr_interface_is_local("localhost") && gr_interface_is_local("127.0.0.2"));
    GR_CHECK(gr_interface_is_loopback("127.0.0.2") && !gr_interface_is_loopback("192.0.2.1"));
    GR_CHECK(!gr_interface_is_local("192.0.2.1") && !gr_interface_is_local("no.such.host.invalid"));
}

int main(void)
{
    test_ranges();
    test_owner();
    test_interfaces();
    return 0;
}

/* Ports between 10000 and 30000; Linux gives away 32768 and up. */
#include "net/quiet_port.h"

#include "base/clock.h"
#include "check.h"
#include "net/socket.h"

#include <unistd.h>

int quiet_port(void)
{
    static uint32_t drawn;

    for (int i = 0; i < 1000; i++) {
        int port, fd;

        drawn = (drawn ^ (uint32_t)gr_now_ns() ^ (uint32_t)getpid() << 8) * 2654435761u + 1;
        port = 10000 + (int)((drawn >> 8) % 20000);
        if (gr_socket_try_listen(&fd, NULL, port) != 0)
            continue;
        close(fd);
        return port;
    }
    fprintf(stderr, "no port is free\n");
    exit(1);
}

/*
 * Ports. The owner of one is found as ss(8) does: the kernel's table of sockets has the number
 * of the socket's inode, and a process that has it shows it among its descriptors.
 */
#include "net/ports.h"

#include "net/socket.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATE_LISTEN 0x0A

static bool take_port(const char **at, int *out)
{
    char *end;
    long v;

    errno = 0;
    v = strtol(*at, &end, 10);
    if (!isdigit((unsigned char)**at) || errno != 0 || v < 1 || v > 65535)
        return false;
    *at = end;
    *out = (int)v;
    return true;
}

gr_status gr_port_range_parse(gr_port_range *out, const char *text)
{
    const char *at = text;
    gr_port_range r = { 0, 0 };

    if (take_port(&at, &r.first) && (*at == ':' || *at == '-')) {
        at++;
        if (take_port(&at, &r.last) && !*at && r.first <= r.last) {
            *out = r;
            return GR_OK;
        }
    }
    return gr_fail(GR_ERR_ARG, "'%.40s' is no range of ports; write it as 20000:20100", text);
}

gr_status gr_port_range_from_env(gr_port_range *out)
{
    const char *text = getenv("GR_PORT_RANGE");

    *out = (gr_port_range){ 0, 0 };
    if (!text || !*text)
        return GR_OK;
    return gr_wrap(gr_port_range_parse(out, text), "GR_PORT_RANGE");
}

gr_status gr_port_listen(int *fd, const char *host, int port, gr_port_range range, int *real_port)
{
    if (port != 0 || range.first == 0)
        return gr_socket_listen(fd, host, port, real_port);
    for (int p = range.first; p <= range.last; p++)
        if (gr_socket_try_listen(fd, host, p) == 0) {
            *real_port = p;
            return GR_OK;
        } else if (errno != EADDRINUSE) {
            return gr_socket_listen(fd, host, p, real_port); /* for its message */
        }
    return gr_fail(GR_ERR_IO, "all ports from %d to %d of '%s' are taken; choose a wider range",
                   range.first, range.last, host ? host : "this host");
}

int gr_port_free(void)
{
    int fd, port = 0;

    if (gr_socket_try_listen(&fd, NULL, 0) != 0)
        return 0;
    port = gr_socket_port(fd);
    close(fd);
    return port;
}

/* ---- owners ---- */

/* The n-th word of a line, from 0; "" when there are fewer. */
static const char *word(const char *line, int n)
{
    line += strspn(line, " ");
    for (; n > 0; n--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

/* The inode of the socket that listens on the port, or 0. A line of the table is
 *     number local:port remote:port state queues timer retransmits user timeout inode ... */
static unsigned long find_inode(const char *table, int port)
{
    FILE *f = fopen(table, "re");
    char line[512];
    unsigned long inode = 0;

    if (!f)
        return 0;
    while (inode == 0 && fgets(line, sizeof(line), f)) {
        const char *colon = strchr(word(line, 1), ':');

        if (colon && strtol(colon + 1, NULL, 16) == port &&
            strtol(word(line, 3), NULL, 16) == STATE_LISTEN)
            inode = strtoul(word(line, 9), NULL, 10);
    }
    fclose(f);
    return inode;
}

static bool has_socket(const char *pid, unsigned long inode)
{
    char path[300], link[64], want[64];
    struct dirent *e;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    snprintf(want, sizeof(want), "socket:[%lu]", inode);
    d = opendir(path);
    while (d && !found && (e = readdir(d)) != NULL) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

        if (n > 0) {
            link[n] = '\0';
            found = strcmp(link, want) == 0;
        }
    }
    if (d)
        closedir(d);
    return found;
}

static void name_of(const char *pid, char *out, size_t out_bytes)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    f = fopen(path, "re");
    if (!f || !fgets(out, (int)out_bytes, f))
        snprintf(out, out_bytes, "?");
    if (f)
        fclose(f);
    out[strcspn(out, "\n")] = '\0';
}

bool gr_port_owner(int port, char *out, size_t out_bytes)
{
    unsigned long inode = find_inode("/proc/net/tcp", port);
    struct dirent *e;
    bool found = false;
    DIR *d;

    if (inode == 0)
        inode = find_inode("/proc/net/tcp6", port);
    d = inode ? opendir("/proc") : NULL;
    while (d && !found && (e = readdir(d)) != NULL) {
        char name[64];

        if (!isdigit((unsigned char)e->d_name[0]) || !has_socket(e->d_name, inode))
            continue;
        name_of(e->d_name, name, sizeof(name));
        snprintf(out, out_bytes, "'%s' (process %.20s)", name, e->d_name);
        found = true;
    }
    if (d)
        closedir(d);
    return found;
}

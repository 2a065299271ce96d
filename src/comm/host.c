/* "<boot id>|<host name>|<pid namespace>|<pid>|<start>|<id>|<ranks>|<transport>" */
#include "comm/host.h"

#include "comm/field.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One field of a line: no separators in it, and never empty. */
static void put_field(char *field, size_t n_bytes, ssize_t len)
{
    field[len < 0 ? 0 : (size_t)len < n_bytes ? (size_t)len : n_bytes - 1] = '\0';
    field[strcspn(field, "| \n")] = '\0';
    if (!*field)
        snprintf(field, n_bytes, "?");
}

static ssize_t read_file(const char *path, char *text, size_t n_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, n_bytes - 1) : -1;

    if (fd >= 0)
        close(fd);
    return n;
}

/* Field 22 of its line in /proc, in ticks since the system started; 0: there is none. */
static uint64_t born_when(int pid)
{
    char path[64], text[1024];
    const char *at;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    n = read_file(path, text, sizeof(text));
    text[n < 0 ? 0 : n] = '\0';
    at = strrchr(text, ')'); /* the name before it may contain anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

void gr_host_describe(gr_host *h, int n_ranks, const char *transport)
{
    const char *id = getenv("GR_HOSTID");

    *h = (gr_host){ .pid = (int)getpid(), .n_ranks = n_ranks };
    h->born = born_when(h->pid);
    put_field(h->boot, sizeof(h->boot),
              read_file("/proc/sys/kernel/random/boot_id", h->boot, sizeof(h->boot)));
    put_field(h->name, sizeof(h->name),
              gethostname(h->name, sizeof(h->name)) == 0 ? (ssize_t)strnlen(h->name, 255) : 0);
    put_field(h->space, sizeof(h->space),
              readlink("/proc/self/ns/pid", h->space, sizeof(h->space) - 1));
    put_field(h->id, sizeof(h->id), snprintf(h->id, sizeof(h->id), "%s", id ? id : ""));
    /* What does not fit is refused later. */
    put_field(h->transport, sizeof(h->transport),
              snprintf(h->transport, sizeof(h->transport), "%s", transport ? transport : "auto"));
}

void gr_host_write(const gr_host *h, char line[GR_HOST_LINE])
{
    snprintf(line, GR_HOST_LINE, "%s|%s|%s|%d|%" PRIu64 "|%s|%d|%s", h->boot, h->name, h->space,
             h->pid, h->born, h->id, h->n_ranks, h->transport);
}

gr_status gr_host_parse(const char *line, int rank, gr_host *h)
{
    uint64_t pid, n_ranks;
    const char *at = line;

    if (!gr_field_text(&at, h->boot, sizeof(h->boot)) ||
        !gr_field_text(&at, h->name, sizeof(h->name)) ||
        !gr_field_text(&at, h->space, sizeof(h->space)) || !gr_field_number(&at, INT32_MAX, &pid) ||
        !gr_field_number(&at, UINT64_MAX, &h->born) || !gr_field_text(&at, h->id, sizeof(h->id)) ||
        !gr_field_number(&at, INT32_MAX, &n_ranks) ||
        !gr_field_text(&at, h->transport, sizeof(h->transport)))
        return gr_fail(GR_ERR_FORMAT, "rank %d told the store '%.80s' about itself", rank, line);
    h->pid = (int)pid;
    h->n_ranks = (int)n_ranks;
    return GR_OK;
}

bool gr_host_sees(const gr_host *a, const gr_host *b)
{
    return strcmp(a->boot, b->boot) == 0 && strcmp(a->space, b->space) == 0;
}

bool gr_host_is_alive(const gr_host *h)
{
    return h->born > 0 && born_when(h->pid) == h->born;
}

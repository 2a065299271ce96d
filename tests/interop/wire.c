/*
 * A bad network between hosts that are network namespaces: a switch in user space, for kernels
 * without netem. Each namespace gets a TAP device eth0; frames are carried between them late,
 * slowly, or not at all.
 *
 *     wire [--seed N] [--delay MS] [--jitter MS] [--loss PERCENT] [--rate BYTES_PER_S] NAMESPACE...
 *
 * Delay, loss and rate hold for each direction. Frames from one host to another keep their order.
 * The k-th frame of a direction is lost or not by seed and k alone.
 *
 * Says "ready", then takes a command per line, where hosts are numbered as they were named:
 *
 *     cut A B      nothing comes from A to B any more; the other direction is as it was
 *     heal         cuts nothing any more
 *     hold, go     keeps all frames; lets them go on, all that were kept at once
 *     delay MS, jitter MS, loss PERCENT, rate BYTES_PER_S
 *
 * and answers each with a line of how many frames were carried, lost and cut so far.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MAX_HOSTS  8
#define FRAME      1600  /* bytes; the devices' limit is 1514 */
#define MAX_QUEUED 20000 /* frames on their way in one direction; more are lost */
#define BURST      64    /* frames of a host before others have a turn */
#define NEVER      INT64_MAX

typedef struct frame {
    struct frame *next;
    int64_t due_ns;
    size_t n_bytes;
    uint8_t bytes[FRAME];
} frame;

typedef struct direction {
    frame *first, *last;
    int n_queued;
    bool is_cut;
    uint64_t random; /* the state of its own generator */
    int64_t free_ns; /* when the last frame has gone out */
} direction;

typedef struct wire {
    int n_hosts;
    int fd[MAX_HOSTS];
    uint8_t mac[MAX_HOSTS][6]; /* zeros: it has not said anything yet */
    direction to[MAX_HOSTS][MAX_HOSTS];
    double delay_ms, jitter_ms, loss, rate;
    bool holds;
    uint64_t seed, n_carried, n_lost, n_cut;
} wire;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "wire: %s '%s': %s\n", what, name, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* splitmix64, as a fraction of one. */
static double draw(direction *d)
{
    uint64_t z = d->random += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* A device eth0 in the namespace; it goes when this process does. */
static int open_host(const char *name)
{
    struct ifreq r = { .ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI };
    char path[300];
    int space, fd;

    snprintf(path, sizeof(path), "/run/netns/%s", name);
    space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0)
        die("namespace", name);
    close(space);
    fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        die("open", "/dev/net/tun");
    if (ioctl(fd, TUNSETIFF, &r) != 0)
        die("a device in", name);
    return fd;
}

static void deliver(wire *w, int to, frame *f)
{
    if (write(w->fd[to], f->bytes, f->n_bytes) == (ssize_t)f->n_bytes)
        w->n_carried++;
    else
        w->n_lost++; /* a device that is down, or full, as in life */
    free(f);
}

/* One frame in one direction: when it is to arrive, if ever. */
static void carry(wire *w, int from, int to, const frame *f)
{
    direction *d = &w->to[from][to];
    int64_t now = now_ns(), start = d->free_ns > now ? d->free_ns : now;
    double chance = draw(d), late = draw(d);
    frame *copy;

    if (d->is_cut) {
        w->n_cut++;
        return;
    }
    if (chance * 100 < w->loss || d->n_queued == MAX_QUEUED) {
        w->n_lost++;
        return;
    }
    copy = malloc(sizeof(*copy));
    if (!copy)
        die("memory for", "a frame");
    memcpy(copy->bytes, f->bytes, f->n_bytes);
    copy->n_bytes = f->n_bytes;
    copy->next = NULL;
    d->free_ns = start + (w->rate > 0 ? (int64_t)((double)f->n_bytes / w->rate * 1e9) : 0);
    copy->due_ns = d->free_ns + (int64_t)((w->delay_ms + late * w->jitter_ms) * 1e6);
    if (d->last && d->last->due_ns > copy->due_ns)
        copy->due_ns = d->last->due_ns;
    if (d->last)
        d->last->next = copy;
    else
        d->first = copy;
    d->last = copy;
    d->n_queued++;
}

static int host_of(const wire *w, const uint8_t *mac)
{
    for (int h = 0; h < w->n_hosts; h++)
        if (memcmp(w->mac[h], mac, 6) == 0)
            return h;
    return -1;
}

/* Like a switch: to the one who has that address, or to all. */
static void take_in(wire *w, int from)
{
    for (int i = 0; i < BURST; i++) {
        frame f;
        ssize_t n = read(w->fd[from], f.bytes, sizeof(f.bytes));
        int to;

        if (n < 14)
            return;
        f.n_bytes = (size_t)n;
        memcpy(w->mac[from], f.bytes + 6, 6);
        to = host_of(w, f.bytes);
        for (int h = 0; h < w->n_hosts; h++)
            if (h != from && (to < 0 || to == h))
                carry(w, from, h, &f);
    }
}

/* What is due goes out; returns when the next frame will be. */
static int64_t give_out(wire *w)
{
    int64_t next = NEVER;

    if (w->holds)
        return NEVER;
    for (int a = 0; a < w->n_hosts; a++)
        for (int b = 0; b < w->n_hosts; b++) {
            direction *d = &w->to[a][b];

            while (d->first && d->first->due_ns <= now_ns()) {
                frame *f = d->first;

                d->first = f->next;
                d->last = d->first ? d->last : NULL;
                d->n_queued--;
                deliver(w, b, f);
            }
            if (d->first && d->first->due_ns < next)
                next = d->first->due_ns;
        }
    return next;
}

static bool set_number(wire *w, const char *name, double value)
{
    const struct {
        const char *name;
        double *to;
    } numbers[] = { { "delay", &w->delay_ms },
                    { "jitter", &w->jitter_ms },
                    { "loss", &w->loss },
                    { "rate", &w->rate } };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].to = value;
            return true;
        }
    return false;
}

static void obey(wire *w, const char *line)
{
    char word[32] = "";
    double value = 0;
    int a = 0, b = 0;
    bool is_known = true;

    sscanf(line, "%31s %lf", word, &value);
    if (sscanf(line, "cut %d %d", &a, &b) == 2 && a >= 0 && a < w->n_hosts && b >= 0 &&
        b < w->n_hosts) {
        w->to[a][b].is_cut = true;
    } else if (strcmp(word, "heal") == 0) {
        for (int i = 0; i < MAX_HOSTS * MAX_HOSTS; i++)
            w->to[i / MAX_HOSTS][i % MAX_HOSTS].is_cut = false;
    } else if (strcmp(word, "hold") == 0 || strcmp(word, "go") == 0) {
        w->holds = *word == 'h';
    } else {
        is_known = set_number(w, word, value);
    }
    printf("%s: %llu frames carried, %llu lost, %llu cut\n", is_known ? word : "what?",
           (unsigned long long)w->n_carried, (unsigned long long)w->n_lost,
           (unsigned long long)w->n_cut);
    fflush(stdout);
}

/* Commands, line by line; at their end this process ends, too. */
static void hear(wire *w)
{
    static char text[1000];
    static size_t len;
    ssize_t n = read(0, text + len, sizeof(text) - 1 - len);
    char *end;

    if (n <= 0)
        exit(0);
    len += (size_t)n;
    text[len] = '\0';
    while ((end = strchr(text, '\n')) != NULL) {
        *end = '\0';
        obey(w, text);
        len -= (size_t)(end + 1 - text);
        memmove(text, end + 1, len + 1);
    }
}

static void run(wire *w)
{
    for (;;) {
        struct pollfd p[MAX_HOSTS + 1];
        int64_t next = give_out(w), left = next - now_ns();
        struct timespec t = { .tv_sec = 3600 };

        if (next != NEVER)
            t = (struct timespec){ .tv_sec = left > 0 ? left / 1000000000 : 0,
                                   .tv_nsec = left > 0 ? left % 1000000000 : 0 };
        for (int h = 0; h < w->n_hosts; h++)
            p[h] = (struct pollfd){ .fd = w->fd[h], .events = POLLIN };
        p[w->n_hosts] = (struct pollfd){ .fd = 0, .events = POLLIN };
        if (ppoll(p, (nfds_t)w->n_hosts + 1, &t, NULL) < 0 && errno != EINTR)
            die("poll", "");
        for (int h = 0; h < w->n_hosts; h++)
            if (p[h].revents)
                take_in(w, h);
        if (p[w->n_hosts].revents)
            hear(w);
    }
}

int main(int argc, char **argv)
{
    static wire w = { .seed = 1 };
    int i = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        if (strcmp(argv[i], "--seed") == 0)
            w.seed = strtoull(argv[i + 1], NULL, 10);
        else if (!set_number(&w, argv[i] + 2, strtod(argv[i + 1], NULL)))
            break;
    if (i >= argc || argc - i > MAX_HOSTS || argv[i][0] == '-') {
        fprintf(stderr, "usage: wire [--seed N] [--delay MS] [--jitter MS] [--loss PERCENT] "
                        "[--rate BYTES_PER_S] NAMESPACE...\n");
        return 2;
    }
    for (; i < argc; i++)
        w.fd[w.n_hosts++] = open_host(argv[i]);
    for (int d = 0; d < MAX_HOSTS * MAX_HOSTS; d++)
        w.to[d / MAX_HOSTS][d % MAX_HOSTS].random = w.seed * 1000 + (uint64_t)d;
    printf("ready\n");
    fflush(stdout);
    run(&w);
}

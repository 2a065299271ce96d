/* The witness. After fork() it calls only what is safe there: other threads of ours may run. */
#include "launch/witness.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME       "rank-witness"
#define MAX_TITLE  4096
#define MOST_FILES 4096 /* to close on kernels before 5.9 */

/* Where the kernel reads this process's words for /proc/PID/cmdline; an empty place when it does
 * not say. */
typedef struct title_place {
    char *at;
    size_t n_bytes;
} title_place;

static title_place find_title(void)
{
    title_place place = { NULL, 0 };
    unsigned long begin = 0, end = 0;
    char text[2048];
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    const char *at;

    if (f)
        fclose(f);
    text[n] = '\0';
    at = strrchr(text, ')'); /* the name may have anything in it; after it is field 3 */
    for (int field = 2; at && field < 48; field++)
        at = strchr(at + 1, ' ');
    if (at && sscanf(at, "%lu %lu", &begin, &end) == 2 && begin != 0 && end > begin + 1)
        place = (title_place){ (char *)(uintptr_t)begin, (size_t)(end - begin) };
    return place;
}

static void make_title(gr_text *out, char *const *words)
{
    gr_text_add(out, NAME);
    for (int i = 0; words[i] && out->len < MAX_TITLE; i++)
        gr_text_addf(out, " %s", words[i]);
}

static void close_all_but(int fd)
{
    if (close_range(0, (unsigned)fd - 1, 0) == 0 && close_range((unsigned)fd + 1, ~0U, 0) == 0)
        return;
    for (int i = 0; i < MOST_FILES; i++)
        if (i != fd)
            close(i);
}

static void be_witness(int fd, const sigset_t *signals, pid_t parent) __attribute__((noreturn));
static void be_witness(int fd, const sigset_t *signals, pid_t parent)
{
    siginfo_t info;

    setsid();
    prctl(PR_SET_NAME, NAME);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != parent)
        _exit(0);
    close_all_but(fd);
    for (;;) {
        int number = sigwaitinfo(signals, &info);
        unsigned char byte = (unsigned char)number;

        if (number > 0 && write(fd, &byte, 1) != 1)
            _exit(0);
    }
}

gr_status gr_witness_start(gr_witness *w, const sigset_t *signals, char *const *words)
{
    title_place place = find_title();
    gr_text title = GR_TEXT_INIT;
    pid_t parent = getpid();
    int ends[2], error;

    *w = (gr_witness){ .fd = -1 };
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return gr_fail(GR_ERR_IO, "pipe: %s", strerror(errno));
    make_title(&title, words);
    w->pid = fork();
    if (w->pid == 0) {
        if (place.at && gr_text_status(&title) == GR_OK) {
            memset(place.at, 0, place.n_bytes);
            memcpy(place.at, title.str, title.len < place.n_bytes ? title.len : place.n_bytes - 1);
        }
        be_witness(ends[1], signals, parent);
    }
    error = errno;
    close(ends[1]);
    gr_text_fini(&title);
    w->fd = ends[0];
    if (w->pid < 0) {
        w->pid = 0;
        gr_witness_end(w);
        return gr_fail(GR_ERR_IO, "fork: %s%s", strerror(error),
                       error == EAGAIN ? " (raise the limit on processes: ulimit -u)" : "");
    }
    return GR_OK;
}

int gr_witness_heard(gr_witness *w)
{
    unsigned char byte;
    ssize_t n = w->fd >= 0 ? read(w->fd, &byte, 1) : -1;

    if (n == 0) { /* somebody killed it */
        close(w->fd);
        w->fd = -1;
    }
    return n == 1 ? byte : 0;
}

void gr_witness_end(gr_witness *w)
{
    if (w->pid > 0) {
        kill(w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (w->fd >= 0)
        close(w->fd);
    *w = (gr_witness){ .fd = -1 };
}

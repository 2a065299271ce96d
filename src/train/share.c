/* Claims on files that several processes build together: share.h. */
#include "train/share.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STILL_NS  (5 * (int64_t)1000000000)  /* a count that stands, where the lock is free */
#define SILENT_NS (60 * (int64_t)1000000000) /* ... and where it is not */
#define MAX_TOKEN 200
#define MAX_TEXT  300 /* of a claim: "<host> <pid> <token> <count>" */

typedef struct claim_text {
    char host[80], token[MAX_TOKEN];
    long pid;
    uint64_t hash; /* of all of it, the count too */
} claim_text;

/* ---- who we are ---- */

/* A host by its boot, so that a number of a process means one process. */
static void host_name(char out[80])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    snprintf(out, 80, "unknown");
    if (f && !fgets(out, 80, f))
        snprintf(out, 80, "unknown");
    if (f)
        fclose(f);
    out[strcspn(out, "\n ")] = '\0';
}

/* Of this process and this moment. */
static void make_token(char out[MAX_TOKEN])
{
    static _Atomic int count;
    char name[64] = "";

    if (gethostname(name, sizeof(name) - 1) != 0 || strpbrk(name, "/ \n"))
        snprintf(name, sizeof(name), "host");
    snprintf(out, MAX_TOKEN, "%s.%ld.%" PRIx64 ".%d", name, (long)getpid(), (uint64_t)gr_now_ns(),
             count++);
}

/* ---- texts ---- */

static gr_status write_claim(gr_claim *c, const char *token)
{
    char text[MAX_TEXT], host[80];
    int n;

    host_name(host);
    n = snprintf(text, sizeof(text), "%s %ld %s %020" PRId64 "\n", host, (long)getpid(), token,
                 c->beats);
    if (n < (int)sizeof(text) && pwrite(c->fd, text, (size_t)n, 0) == n)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "cannot write '%s': %s", c->path, strerror(errno));
}

/* false: there is none, or it is being written. *fd stays open for who wants its lock. */
static bool read_claim(const char *path, claim_text *out, int *fd)
{
    char text[MAX_TEXT] = "";
    ssize_t n;

    *out = (claim_text){ .hash = 0xcbf29ce484222325u };
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0)
        return false;
    n = pread(*fd, text, sizeof(text) - 1, 0);
    for (ssize_t i = 0; i < n; i++)
        out->hash = (out->hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    if (n > 0 && sscanf(text, "%79s %ld %199s", out->host, &out->pid, out->token) == 3)
        return true;
    out->token[0] = '\0';
    return true; /* an empty one ages, too */
}

/* ---- dead or alive ---- */

static bool is_dead(const claim_text *t, int fd, gr_claim_watch *w)
{
    int64_t now = gr_now_ns(), still;
    char host[80];
    bool is_free;

    if (w->since_ns == 0 || w->seen != t->hash)
        *w = (gr_claim_watch){ .seen = t->hash, .since_ns = now };
    still = now - w->since_ns;
    is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_free)
        flock(fd, LOCK_UN);
    host_name(host);
    if (is_free && t->token[0] && strcmp(host, "unknown") != 0 && strcmp(host, t->host) == 0 &&
        kill((pid_t)t->pid, 0) != 0 && errno == ESRCH)
        return true;
    return still > SILENT_NS || (is_free && still > STILL_NS);
}

/* ---- taking ---- */

/* "a/b.bin" to "a%b.bin" */
static gr_status inside(const char *folder, const char *name, const char *mark, const char *token,
                        char **out)
{
    gr_text t = GR_TEXT_INIT;
    size_t at;
    gr_status st;

    gr_text_addf(&t, "%s/" GR_CLAIMS_FOLDER "/", folder);
    at = t.len;
    gr_text_addf(&t, "%s%s%s", name, mark, token);
    st = gr_text_status(&t);
    for (; st == GR_OK && at < t.len; at++)
        t.str[at] = t.str[at] == '/' ? '%' : t.str[at];
    *out = st == GR_OK ? gr_malloc(t.len + 1) : NULL;
    if (*out)
        memcpy(*out, t.str, t.len + 1);
    gr_text_fini(&t);
    return *out ? GR_OK : st != GR_OK ? st : GR_ERR_NOMEM;
}

static gr_status make_folder(const char *folder)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&t, "%s/" GR_CLAIMS_FOLDER, folder);
    st = gr_text_status(&t);
    if (st == GR_OK)
        st = gr_make_folders(t.str);
    gr_text_fini(&t);
    return st;
}

static void clear(gr_claim *c)
{
    if (c->fd >= 0)
        close(c->fd); /* and with it the lock */
    gr_free(c->path);
    gr_free(c->aside);
    *c = (gr_claim)GR_CLAIM_INIT;
}

/* A claim file of ours at `path`, which nobody has. *taken false: somebody has. */
static gr_status create(gr_claim *c, const char *path, const char *token, bool *taken)
{
    c->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *taken = c->fd >= 0;
    if (c->fd < 0)
        return errno == EEXIST ? GR_OK
                               : gr_fail(GR_ERR_IO, "cannot make '%s': %s", path, strerror(errno));
    if (flock(c->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        GR_IGNORE(flock(c->fd, LOCK_EX)); /* somebody looks whether it is free, for a moment */
    return write_claim(c, token);
}

/* What the dead one left goes, and our claim comes to its place. Two may come to do so: the second
 * has it, and the first finds that out now or builds in vain. */
static gr_status take_over(gr_claim *c, const char *folder, const char *name,
                           const claim_text *dead, const char *token, bool *taken)
{
    char *aside = NULL, *mine = NULL;
    claim_text now;
    int fd;
    gr_status st;

    if (dead->token[0]) {
        GR_TRY(inside(folder, name, ".", dead->token, &aside));
        unlink(aside);
        gr_free(aside);
    }
    GR_TRY(inside(folder, name, ".claim.", token, &mine));
    st = create(c, mine, token, taken);
    if (st == GR_OK && *taken && rename(mine, c->path) != 0)
        st = gr_fail(GR_ERR_IO, "cannot make '%s': %s", c->path, strerror(errno));
    if (st != GR_OK)
        unlink(mine);
    gr_free(mine);
    if (st != GR_OK || !*taken)
        return st;
    *taken = read_claim(c->path, &now, &fd) && strcmp(now.token, token) == 0;
    if (fd >= 0)
        close(fd);
    return GR_OK;
}

static gr_status try_claim(gr_claim *c, const char *folder, const char *name, gr_claim_watch *w,
                           bool *taken)
{
    char token[MAX_TOKEN];
    claim_text t;
    bool is_there;
    int fd;

    make_token(token);
    GR_TRY(inside(folder, name, ".claim", "", &c->path));
    GR_TRY(inside(folder, name, ".", token, &c->aside));
    GR_TRY(create(c, c->path, token, taken));
    if (*taken)
        return GR_OK;
    is_there = read_claim(c->path, &t, &fd);
    if (is_there && is_dead(&t, fd, w)) {
        close(fd);
        return take_over(c, folder, name, &t, token, taken);
    }
    if (fd >= 0)
        close(fd);
    return GR_OK;
}

gr_status gr_claim_try(gr_claim *c, const char *folder, const char *name, gr_claim_watch *w)
{
    bool taken = false;
    gr_status st;

    *c = (gr_claim)GR_CLAIM_INIT;
    GR_TRY(make_folder(folder));
    st = try_claim(c, folder, name, w, &taken);
    if (st != GR_OK || !taken)
        clear(c);
    return st;
}

/* ---- holding and ending ---- */

void gr_claim_beat(gr_claim *c)
{
    char text[32];
    struct stat info;

    if (c->fd < 0 || fstat(c->fd, &info) != 0 || info.st_size < 22)
        return;
    snprintf(text, sizeof(text), "%020" PRId64 "\n", ++c->beats);
    if (pwrite(c->fd, text, 21, info.st_size - 21) != 21)
        c->beats--; /* a full disk: who waits takes it for silence, at worst */
}

/* The claim's file, unless it is another's by now. */
static void unlink_claim(const gr_claim *c)
{
    struct stat ours, there;

    if (fstat(c->fd, &ours) == 0 && stat(c->path, &there) == 0 && ours.st_ino == there.st_ino &&
        ours.st_dev == there.st_dev)
        unlink(c->path);
}

static gr_status put(const gr_claim *c, const char *path)
{
    int fd = open(c->aside, O_RDONLY | O_CLOEXEC);
    int failed = fd < 0 ? errno : fsync(fd) != 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    if (failed == ENOENT)
        return gr_fail(GR_ERR_IO, "'%s' was not built: nothing was written to '%s'", path,
                       c->aside);
    if (failed == 0 && rename(c->aside, path) != 0)
        failed = errno;
    return failed == 0 ? GR_OK
                       : gr_fail(GR_ERR_IO, "cannot write '%s': %s", path, strerror(failed));
}

gr_status gr_claim_keep(gr_claim *c, const char *path)
{
    gr_status st = put(c, path);

    gr_claim_drop(c);
    return st;
}

void gr_claim_drop(gr_claim *c)
{
    if (c->fd < 0)
        return;
    unlink(c->aside);
    unlink_claim(c);
    clear(c);
}

/*
 *     head  { magic, n_key, n_data, crc of the key, crc of the data, crc of the head } | key | data
 *
 * in the byte order of the machine, which alone reads it. The name of an entry is a hash of its
 * key; two keys of one hash take turns.
 */
#include "base/filecache.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/outfile.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC    0x31656863617267ull /* "grache1" */
#define SUFFIX   ".gr"
#define STALE_S  3600 /* a file that was written aside and never renamed */
#define MAX_DATA ((uint64_t)1 << 30)

struct gr_filecache {
    size_t max_bytes;
    char folder[];
};

typedef struct head {
    uint64_t magic, n_key, n_data;
    uint32_t crc_key, crc_data;
    uint32_t unused, crc_head; /* of all before it */
} head;

/* ---- the folder ---- */

static gr_status folder_of(gr_text *out, const char *kind)
{
    const char *own = getenv("GR_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (own && own[0])
        gr_text_addf(out, "%s/%s", own, kind);
    else if (xdg && xdg[0] == '/')
        gr_text_addf(out, "%s/gradus/%s", xdg, kind);
    else
        gr_text_addf(out, "%s/.cache/gradus/%s", home, kind);
    return gr_text_status(out);
}

static bool is_off(void)
{
    const char *own = getenv("GR_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (own && own[0])
        return strcmp(own, "off") == 0;
    return !(xdg && xdg[0] == '/') && !(home && home[0]);
}

gr_status gr_filecache_open(gr_filecache **out, const char *kind, size_t max_bytes)
{
    gr_text folder = GR_TEXT_INIT;
    gr_filecache *c = NULL;
    gr_status st;

    *out = NULL;
    if (is_off())
        return GR_OK;
    GR_TRY_GOTO(st, folder_of(&folder, kind), done);
    c = gr_calloc(1, sizeof(*c) + strlen(gr_text_str(&folder)) + 1);
    if (!c) {
        st = GR_ERR_NOMEM;
        goto done;
    }
    memcpy(c->folder, gr_text_str(&folder), strlen(gr_text_str(&folder)) + 1);
    c->max_bytes = max_bytes;
    *out = c;
done:
    gr_text_fini(&folder);
    return st;
}

void gr_filecache_close(gr_filecache *c)
{
    gr_free(c);
}

const char *gr_filecache_folder(const gr_filecache *c)
{
    return c->folder;
}

/* ---- entries ---- */

static uint64_t hash_of(const char *key) /* FNV-1a */
{
    uint64_t h = 0xcbf29ce484222325ull;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3ull;
    return h;
}

/* Into `path`; false: too long a name. */
static bool entry_path(const gr_filecache *c, const char *key, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%016" PRIx64 SUFFIX, c->folder, hash_of(key));

    return n > 0 && n < PATH_MAX;
}

static bool read_all(int fd, void *mem, size_t n_bytes)
{
    char *at = mem;

    while (n_bytes > 0) {
        ssize_t n = read(fd, at, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *mem, size_t n_bytes)
{
    const char *at = mem;

    while (n_bytes > 0) {
        ssize_t n = write(fd, at, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

static uint32_t crc_of_head(const head *h)
{
    return gr_crc32c(0, h, offsetof(head, crc_head));
}

/* The head, if the file is ours, whole, and an entry of this key. */
static bool read_head(int fd, const char *key, head *h)
{
    struct stat s;
    size_t n_key = strlen(key);

    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid())
        return false;
    if (!read_all(fd, h, sizeof(*h)) || h->magic != MAGIC || h->crc_head != crc_of_head(h))
        return false;
    return h->n_key == n_key && h->n_data <= MAX_DATA && h->crc_key == gr_crc32c(0, key, n_key) &&
           (uint64_t)s.st_size == sizeof(*h) + h->n_key + h->n_data;
}

static bool same_key(int fd, const char *key)
{
    char part[4096];
    size_t n = strlen(key);

    while (n > 0) {
        size_t now = n < sizeof(part) ? n : sizeof(part);

        if (!read_all(fd, part, now) || memcmp(part, key, now) != 0)
            return false;
        key += now;
        n -= now;
    }
    return true;
}

static bool read_entry(int fd, const char *key, char **mem, size_t *n_bytes)
{
    char *data;
    head h;

    if (!read_head(fd, key, &h) || !same_key(fd, key))
        return false;
    data = gr_malloc(h.n_data ? (size_t)h.n_data : 1);
    if (!data)
        return false;
    if (!read_all(fd, data, (size_t)h.n_data) ||
        gr_crc32c(0, data, (size_t)h.n_data) != h.crc_data) {
        gr_free(data);
        return false;
    }
    *mem = data;
    *n_bytes = (size_t)h.n_data;
    return true;
}

bool gr_filecache_get(const gr_filecache *c, const char *key, char **mem, size_t *n_bytes)
{
    char path[PATH_MAX];
    bool found;
    int fd;

    if (!c || !entry_path(c, key, path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    found = read_entry(fd, key, mem, n_bytes);
    if (found) /* it was of use: it is young again */
        (void)futimens(fd, NULL);
    else
        gr_log(BASE, DEBUG, "cache: '%s' is damaged or another key's", path);
    close(fd);
    return found;
}

/* ---- bounds ---- */

typedef struct entry {
    struct timespec used;
    size_t n_bytes;
    char name[32];
} entry;

typedef struct listing {
    entry *e;
    size_t n, room, n_bytes;
} listing;

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);

    return n >= n_end && strcmp(name + n - n_end, end) == 0;
}

static bool list_add(listing *l, const char *name, const struct stat *s)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        entry *e = gr_realloc(l->e, room * sizeof(*e));

        if (!e)
            return false;
        l->e = e;
        l->room = room;
    }
    l->e[l->n].used = s->st_mtim;
    l->e[l->n].n_bytes = (size_t)s->st_size;
    memcpy(l->e[l->n].name, name, strlen(name) + 1);
    l->n_bytes += (size_t)s->st_size;
    l->n++;
    return true;
}

/* Lists entries and removes what writers that died have left. */
static void list_folder(listing *l, DIR *d)
{
    time_t now = time(NULL);
    struct dirent *f;

    while ((f = readdir(d)) != NULL) {
        struct stat s;

        if (fstatat(dirfd(d), f->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
            continue;
        if (strncmp(f->d_name, "new.", 4) == 0 && now - s.st_mtime > STALE_S)
            unlinkat(dirfd(d), f->d_name, 0);
        else if (ends_with(f->d_name, SUFFIX) && strlen(f->d_name) < sizeof(l->e[0].name))
            if (!list_add(l, f->d_name, &s))
                return;
    }
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const entry *)a)->used, *y = &((const entry *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static void remove_oldest(const gr_filecache *c)
{
    listing l = { 0 };
    DIR *d = opendir(c->folder);

    if (!d)
        return;
    list_folder(&l, d);
    if (l.n_bytes > c->max_bytes && l.n > 0)
        qsort(l.e, l.n, sizeof(l.e[0]), by_use);
    for (size_t i = 0; i < l.n && l.n_bytes > c->max_bytes; i++) {
        unlinkat(dirfd(d), l.e[i].name, 0);
        l.n_bytes -= l.e[i].n_bytes;
    }
    closedir(d);
    gr_free(l.e);
}

/* ---- writing ---- */

static bool write_entry(int fd, const char *key, const void *mem, size_t n_bytes)
{
    head h = { MAGIC, strlen(key), n_bytes, 0, gr_crc32c(0, mem, n_bytes), 0, 0 };

    h.crc_key = gr_crc32c(0, key, (size_t)h.n_key);
    h.crc_head = crc_of_head(&h);
    return write_all(fd, &h, sizeof(h)) && write_all(fd, key, (size_t)h.n_key) &&
           write_all(fd, mem, n_bytes);
}

void gr_filecache_put(const gr_filecache *c, const char *key, const void *mem, size_t n_bytes)
{
    char path[PATH_MAX], aside[PATH_MAX];
    bool ok;
    int fd, n;

    if (!c || n_bytes > MAX_DATA || n_bytes > c->max_bytes || !entry_path(c, key, path))
        return;
    n = snprintf(aside, sizeof(aside), "%s/new.XXXXXX", c->folder);
    if (n <= 0 || n >= PATH_MAX)
        return;
    GR_IGNORE(gr_make_folders(c->folder)); /* if it fails, so does what follows */
    fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0) {
        gr_log(BASE, DEBUG, "cache: nothing is kept in '%s': %s", c->folder, strerror(errno));
        return;
    }
    ok = write_entry(fd, key, mem, n_bytes);
    ok = close(fd) == 0 && ok;
    if (!ok || rename(aside, path) != 0) {
        gr_log(BASE, DEBUG, "cache: '%s' is not kept: %s", path, strerror(errno));
        unlink(aside);
        return;
    }
    remove_oldest(c);
}

/*
 * A file that is old or new, never half; reading files whole; making folders.
 *
 *     open "<path>.tmp" ─► write … ─► fsync ─► rename to <path> ─► fsync the folder
 *
 * (1) `path` is touched by rename alone, so a reader or a crash sees the old file or the
 *     new one. The first fsync puts the bytes on disk before the name points to them, the
 *     second puts the name there.
 * (2) The first failure is kept with its message; writes after it do nothing.
 * (3) Every message names the path and the system's reason.
 *
 * An outfile belongs to one thread at a time.
 */
#include "base/outfile.h"

#include "base/alloc.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)

struct gr_outfile {
    int fd;         /* -1 when closed */
    char *path;     /* owned */
    char *tmp_path; /* owned */
    char *buffer;   /* owned, BUFFER_BYTES */
    size_t n_buffered;
    gr_error failure; /* the first one */
};

static gr_status io_failure(const char *doing, const char *path)
{
    return gr_fail(GR_ERR_IO, "cannot %s '%s': %s", doing, path, strerror(errno));
}

static char *joined(const char *path, const char *suffix)
{
    size_t n_bytes = strlen(path) + strlen(suffix) + 1;
    char *text = gr_malloc(n_bytes);

    if (text)
        snprintf(text, n_bytes, "%s%s", path, suffix);
    return text;
}

static void outfile_free(gr_outfile *f)
{
    if (f->fd >= 0)
        close(f->fd); /* what mattered was synced before; the rest is discarded */
    gr_free(f->buffer);
    gr_free(f->tmp_path);
    gr_free(f->path);
    gr_free(f);
}

static gr_status outfile_init(gr_outfile *f, const char *path)
{
    f->path = gr_strdup(path);
    f->tmp_path = joined(path, ".tmp");
    f->buffer = gr_malloc(BUFFER_BYTES);
    if (!f->path || !f->tmp_path || !f->buffer)
        return GR_ERR_NOMEM;
    /* One that was left behind goes, and a link of that name is not followed: it may lead to a
     * file that has nothing to do with this one. */
    unlink(f->tmp_path);
    f->fd = open(f->tmp_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return f->fd >= 0 ? GR_OK : io_failure("create", f->tmp_path);
}

gr_status gr_outfile_open(gr_outfile **out, const char *path)
{
    gr_outfile *f = gr_calloc(1, sizeof(*f));
    gr_status st;

    if (!f)
        return GR_ERR_NOMEM;
    f->fd = -1;
    st = outfile_init(f, path);
    if (st != GR_OK) {
        outfile_free(f);
        return st;
    }
    *out = f;
    return GR_OK;
}

static void write_through(gr_outfile *f, const char *src, size_t n_bytes)
{
    while (n_bytes > 0 && f->failure.status == GR_OK) {
        ssize_t n = write(f->fd, src, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            gr_error_take(&f->failure, io_failure("write", f->tmp_path));
            return;
        }
        src += n;
        n_bytes -= (size_t)n;
    }
}

static void flush_buffer(gr_outfile *f)
{
    write_through(f, f->buffer, f->n_buffered);
    f->n_buffered = 0;
}

void gr_outfile_write(gr_outfile *f, const void *src, size_t n_bytes)
{
    if (f->failure.status != GR_OK || n_bytes == 0)
        return;
    if (n_bytes > BUFFER_BYTES - f->n_buffered)
        flush_buffer(f);
    if (n_bytes >= BUFFER_BYTES) {
        write_through(f, (const char *)src, n_bytes);
        return;
    }
    memcpy(f->buffer + f->n_buffered, src, n_bytes);
    f->n_buffered += n_bytes;
}

/* The folder that holds `path`, as a new string: "a/b" gives "a", "b" gives ".". */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder;

    if (!slash)
        return gr_strdup(".");
    folder = gr_strdup(path);
    if (folder)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}

gr_status gr_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    gr_status st = GR_OK;

    if (fd < 0)
        return io_failure("open folder", folder);
    /* EINVAL: this file system cannot sync folders, and renames are as safe as it gets. */
    if (fsync(fd) != 0 && errno != EINVAL)
        st = io_failure("sync folder", folder);
    close(fd);
    return st;
}

static gr_status close_synced(gr_outfile *f)
{
    int fd = f->fd;

    if (fsync(fd) != 0)
        return io_failure("sync", f->tmp_path);
    f->fd = -1; /* closed even when close() reports a failure */
    if (close(fd) != 0)
        return io_failure("close", f->tmp_path);
    return GR_OK;
}

static gr_status finish(gr_outfile *f, const char *folder)
{
    flush_buffer(f);
    GR_TRY(gr_error_raise(&f->failure));
    GR_TRY(close_synced(f));
    if (rename(f->tmp_path, f->path) != 0)
        return gr_fail(GR_ERR_IO, "cannot rename '%s' to '%s': %s", f->tmp_path, f->path,
                       strerror(errno));
    return gr_sync_folder(folder);
}

gr_status gr_outfile_commit(gr_outfile *f)
{
    char *folder = folder_of(f->path); /* before anything is renamed: this may fail */
    gr_status st = folder ? finish(f, folder) : GR_ERR_NOMEM;

    if (st != GR_OK)
        unlink(f->tmp_path); /* gone already when the rename was done */
    gr_free(folder);
    outfile_free(f);
    return st;
}

void gr_outfile_discard(gr_outfile *f)
{
    if (!f)
        return;
    unlink(f->tmp_path);
    outfile_free(f);
}

/* Reads to the end, whatever fstat says: files in /proc and pipes tell no size. */
static gr_status read_all(int fd, const char *path, size_t cap, char **text, size_t *len)
{
    for (;;) {
        ssize_t n;

        if (*len + 1 >= cap || !*text) {
            char *grown;

            if (*text)
                GR_TRY(gr_size_mul(&cap, cap, 2));
            grown = gr_realloc(*text, cap);
            if (!grown)
                return GR_ERR_NOMEM;
            *text = grown;
        }
        n = read(fd, *text + *len, cap - 1 - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return io_failure("read", path);
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    (*text)[*len] = '\0';
    return GR_OK;
}

int gr_open_input(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* regular files do not mind */
}

gr_status gr_file_read(const char *path, char **out, size_t *n_bytes)
{
    int fd = gr_open_input(path);
    size_t cap = 4096;
    char *text = NULL;
    struct stat s;
    gr_status st;

    if (fd < 0)
        return io_failure("open", path);
    *n_bytes = 0;
    /* A pipe may stay silent, and a device (/dev/zero) may never end. */
    if (fstat(fd, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISBLK(s.st_mode) || S_ISCHR(s.st_mode))) {
        close(fd);
        return gr_fail(GR_ERR_IO, "cannot read '%s': it is a %s, not a file", path,
                       S_ISFIFO(s.st_mode) ? "pipe" : "device");
    }
    /* Two more than the size: the NUL, and a byte that lets the last read see the end. */
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0)
        cap = (size_t)s.st_size + 2;
    st = read_all(fd, path, cap, &text, n_bytes);
    close(fd);
    if (st != GR_OK) {
        gr_free(text);
        return st;
    }
    *out = text;
    return GR_OK;
}

static gr_status make_folder(const char *path)
{
    struct stat s;

    if (mkdir(path, 0777) == 0)
        return GR_OK;
    if (errno != EEXIST)
        return io_failure("make folder", path);
    if (stat(path, &s) != 0)
        return io_failure("look at", path);
    if (!S_ISDIR(s.st_mode))
        return gr_fail(GR_ERR_IO, "cannot make folder '%s': a file of that name exists", path);
    return GR_OK;
}

gr_status gr_make_folders(const char *path)
{
    char *part = gr_strdup(path);
    gr_status st = GR_OK;

    if (!part)
        return GR_ERR_NOMEM;
    /* Each prefix that ends before a slash, then the whole; a leading slash is no name. */
    for (size_t i = 1; part[0] && part[i] && st == GR_OK; i++)
        if (part[i] == '/' && part[i - 1] != '/') {
            part[i] = '\0';
            st = make_folder(part);
            part[i] = '/';
        }
    if (st == GR_OK)
        st = make_folder(part);
    gr_free(part);
    return st;
}

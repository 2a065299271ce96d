/*
 * Buffers for reading files. Files are read, not mapped: mapping and unmapping small files from
 * many threads makes them wait for one another, and a file that is cut meanwhile would end the
 * process instead of giving an error.
 */
#include "data/buffers.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_KEPT 256 /* more threads than that give theirs back to the system */

struct gr_buffers {
    pthread_mutex_t lock;
    gr_buffer kept[MAX_KEPT]; /* guarded by lock */
    int n_kept;               /* guarded by lock */
};

gr_status gr_buffers_create(gr_buffers **out)
{
    gr_buffers *b = gr_calloc(1, sizeof(*b));

    if (!b)
        return GR_ERR_NOMEM;
    pthread_mutex_init(&b->lock, NULL);
    *out = b;
    return GR_OK;
}

void gr_buffers_destroy(gr_buffers *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->n_kept; i++)
        gr_free(b->kept[i].mem);
    pthread_mutex_destroy(&b->lock);
    gr_free(b);
}

gr_buffer gr_buffers_take(gr_buffers *b)
{
    gr_buffer buffer = { 0 };

    pthread_mutex_lock(&b->lock);
    if (b->n_kept > 0)
        buffer = b->kept[--b->n_kept];
    pthread_mutex_unlock(&b->lock);
    return buffer;
}

void gr_buffers_give(gr_buffers *b, gr_buffer buffer)
{
    if (!buffer.mem)
        return;
    pthread_mutex_lock(&b->lock);
    if (b->n_kept < MAX_KEPT) {
        b->kept[b->n_kept++] = buffer;
        buffer.mem = NULL;
    }
    pthread_mutex_unlock(&b->lock);
    gr_free(buffer.mem);
}

static gr_status make_room(gr_buffer *b, size_t n_bytes)
{
    size_t cap = b->cap < 65536 ? 65536 : b->cap;
    char *mem;

    if (n_bytes <= b->cap)
        return GR_OK;
    while (cap < n_bytes && cap <= SIZE_MAX / 2)
        cap *= 2; /* so that a few slightly larger files do not each make it grow */
    mem = gr_realloc(b->mem, cap);
    if (!mem)
        return GR_ERR_NOMEM;
    b->mem = mem;
    b->cap = cap;
    return GR_OK;
}

static gr_status read_open(gr_buffer *b, int fd, const char *path)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return gr_fail(GR_ERR_IO, "cannot read '%s': it is not a file", path);
    /* One more than its size: the last read then sees the end without growing. */
    GR_TRY(make_room(b, (size_t)info.st_size + 1));
    b->n_bytes = 0;
    for (;;) {
        ssize_t n = read(fd, b->mem + b->n_bytes, b->cap - b->n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gr_fail(GR_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
        if (n == 0)
            return GR_OK;
        b->n_bytes += (size_t)n;
        GR_TRY(make_room(b, b->n_bytes + 1)); /* it grew while being read */
    }
}

gr_status gr_buffer_read(gr_buffer *b, const char *path)
{
    int fd = gr_open_input(path);
    gr_status st;

    if (fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    st = read_open(b, fd, path);
    close(fd);
    return st;
}

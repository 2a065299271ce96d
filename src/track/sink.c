/* A buffered file that is only appended to. The buffer keeps its memory, so a steady run
 * allocates nothing here after a while. */
#include "track/sink.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)

gr_status gr_sink_create(gr_sink *s, const char *path)
{
    *s = (gr_sink){ .fd = -1, .flushed_at_ns = gr_now_ns() };
    s->path = gr_strdup(path);
    if (!s->path)
        return GR_ERR_NOMEM;
    s->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (s->fd >= 0)
        return GR_OK;
    gr_error_take(&s->failure, gr_fail(GR_ERR_IO, "cannot create '%s': %s", path, strerror(errno)));
    GR_IGNORE(gr_sink_close(s)); /* says the same again */
    return s->failure.status;
}

void gr_sink_add(gr_sink *s, const void *src, size_t n_bytes)
{
    if (s->failure.status != GR_OK)
        return;
    gr_text_addn(&s->buffer, src, n_bytes);
    s->n_bytes += (int64_t)n_bytes;
}

static void write_out(gr_sink *s)
{
    const char *at = s->buffer.str;
    size_t left = s->buffer.len;

    while (left > 0) {
        ssize_t n = write(s->fd, at, left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            gr_error_take(&s->failure,
                          gr_fail(GR_ERR_IO, "cannot write '%s': %s", s->path, strerror(errno)));
            break;
        }
        at += n;
        left -= (size_t)n;
    }
    s->buffer.len = 0;
}

gr_status gr_sink_flush(gr_sink *s, int64_t after_ns)
{
    if (s->failure.status == GR_OK && s->buffer.status != GR_OK)
        gr_error_take(&s->failure, gr_text_status(&s->buffer));
    if (s->failure.status == GR_OK &&
        (s->buffer.len >= BUFFER_BYTES || gr_now_ns() - s->flushed_at_ns >= after_ns)) {
        write_out(s);
        s->flushed_at_ns = gr_now_ns();
    }
    return gr_error_raise(&s->failure);
}

gr_status gr_sync_records(int fd, const char *path)
{
    int rc;

    do
        rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 || errno == EINVAL || errno == EROFS)
        return GR_OK;
    return gr_fail(GR_ERR_IO, "cannot sync '%s': %s", path, strerror(errno));
}

gr_status gr_sink_sync(gr_sink *s)
{
    GR_TRY(gr_sink_flush(s, 0));
    gr_error_take(&s->failure, gr_sync_records(s->fd, s->path));
    return gr_error_raise(&s->failure);
}

gr_status gr_sink_close(gr_sink *s)
{
    gr_status st;

    if (!s->path)
        return GR_OK;
    st = gr_sink_flush(s, 0);
    if (s->fd >= 0 && close(s->fd) != 0 && st == GR_OK)
        st = gr_fail(GR_ERR_IO, "cannot write '%s': %s", s->path, strerror(errno));
    s->fd = -1;
    gr_text_fini(&s->buffer);
    gr_free(s->path);
    s->path = NULL;
    return st;
}

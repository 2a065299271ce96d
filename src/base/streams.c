/* The standard streams: none closed, no text lost in silence, no codes on a dumb terminal. */
#include "base/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gr_status gr_streams_open(void)
{
    /* open() takes the lowest number that is free, so going upwards fills each gap. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        if (open("/dev/null", O_RDWR) != fd)
            return gr_fail(GR_ERR_IO, "descriptor %d is closed, and cannot open '/dev/null': %s",
                           fd, strerror(errno));
    }
    return GR_OK;
}

gr_status gr_stream_flush(FILE *out)
{
    bool lost = ferror(out) != 0;

    if (fflush(out) != 0)
        return gr_fail(GR_ERR_IO, "cannot write the output: %s", strerror(errno));
    return lost ? gr_fail(GR_ERR_IO, "cannot write the output: a part of it is lost") : GR_OK;
}

gr_status gr_stream_write(FILE *out, const char *text, size_t n)
{
    size_t at = 0;

    GR_TRY(gr_stream_flush(out));
    while (at < n) {
        ssize_t done = write(fileno(out), text + at, n - at);

        if (done < 0 && errno != EINTR)
            return gr_fail(GR_ERR_IO, "cannot write the output: %s", strerror(errno));
        at += done > 0 ? (size_t)done : 0;
    }
    return GR_OK;
}

bool gr_terminal_redraws(int fd)
{
    const char *term = getenv("TERM");

    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

/*
 * Metrics as JSON lines. The step stands first in each line and no value is an object, so old
 * lines can be sorted out, and a cut one seen, without a parser.
 */
#include "track/metrics.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"
#include "track/sink.h"
#include "track/value.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "{\"step\": "

struct gr_metrics {
    int fd;
    gr_text line;
    char *path;
};

/* The step of a line; -1 when it is none of ours or was cut while being written. */
static int64_t step_of(const char *line, size_t len)
{
    char *end;
    long long step;

    if (len < strlen(HEAD) || strncmp(line, HEAD, strlen(HEAD)) != 0 || line[len - 1] != '}')
        return -1;
    step = strtoll(line + strlen(HEAD), &end, 10);
    return *end == ',' || *end == '}' ? step : -1;
}

/* The line has a value that comes again. */
static bool comes_again(const char *line, size_t len, const gr_keep *keep)
{
    gr_text mark = GR_TEXT_INIT;
    bool found = false;

    for (int i = 0; i < keep->n_again && !found; i++) {
        mark.len = 0;
        gr_text_add(&mark, ", ");
        gr_json_add_string(&mark, keep->again[i]);
        gr_text_add(&mark, ": ");
        found = memmem(line, len, gr_text_str(&mark), mark.len) != NULL;
    }
    gr_text_fini(&mark);
    return found;
}

static bool stays(const char *line, size_t len, const gr_keep *keep)
{
    int64_t step = step_of(line, len);

    return step >= 0 && step <= keep->last_step &&
           !(step == keep->last_step && comes_again(line, len, keep));
}

static gr_status write_kept(const char *path, const char *text, const gr_keep *keep)
{
    gr_outfile *f;

    GR_TRY(gr_outfile_open(&f, path));
    while (*text) {
        size_t len = strcspn(text, "\n");

        if (stays(text, len, keep)) {
            gr_outfile_write(f, text, len);
            gr_outfile_write(f, "\n", 1);
        }
        text += len + (text[len] == '\n');
    }
    return gr_outfile_commit(f);
}

static gr_status drop_rest(const char *path, const gr_keep *keep)
{
    struct stat about;
    char *text;
    size_t n_bytes;
    gr_status st;

    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return GR_OK;
    GR_TRY(gr_file_read(path, &text, &n_bytes));
    st = write_kept(path, text, keep);
    gr_free(text);
    return st;
}

gr_status gr_metrics_open(gr_metrics **out, const char *path, const gr_keep *keep)
{
    gr_metrics *m;
    gr_status st;

    GR_TRY(drop_rest(path, keep));
    m = gr_calloc(1, sizeof(*m));
    if (!m)
        return GR_ERR_NOMEM;
    m->fd = -1;
    m->path = gr_strdup(path);
    GR_TRY_GOTO(st, m->path ? GR_OK : GR_ERR_NOMEM, fail);
    m->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (m->fd < 0)
        GR_TRY_GOTO(st, gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno)), fail);
    *out = m;
    return GR_OK;

fail:
    gr_metrics_close(m);
    return st;
}

void gr_metrics_close(gr_metrics *m)
{
    if (!m)
        return;
    if (m->fd >= 0)
        close(m->fd);
    gr_text_fini(&m->line);
    gr_free(m->path);
    gr_free(m);
}

void gr_metrics_begin(gr_metrics *m, int64_t step)
{
    m->line.len = 0;
    gr_text_addf(&m->line, HEAD "%" PRId64, step);
}

static void add_name(gr_metrics *m, const char *name)
{
    gr_text_add(&m->line, ", ");
    gr_json_add_string(&m->line, name);
    gr_text_add(&m->line, ": ");
}

void gr_metrics_i64(gr_metrics *m, const char *name, int64_t value)
{
    add_name(m, name);
    gr_text_addf(&m->line, "%" PRId64, value);
}

void gr_metrics_f64(gr_metrics *m, const char *name, double value)
{
    add_name(m, name);
    if (isfinite(value))
        gr_text_addf(&m->line, "%.9g", value);
    else
        gr_text_add(&m->line, "null");
}

gr_status gr_metrics_end(gr_metrics *m)
{
    ssize_t n;

    gr_text_add(&m->line, "}\n");
    GR_TRY(gr_text_status(&m->line));
    do
        n = write(m->fd, m->line.str, m->line.len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return gr_fail(GR_ERR_IO, "cannot write '%s': %s", m->path, strerror(errno));
    if ((size_t)n != m->line.len)
        return gr_fail(GR_ERR_IO, "cannot write '%s': %zd of %zu bytes fit", m->path, n,
                       m->line.len);
    return GR_OK;
}

gr_status gr_metrics_sync(gr_metrics *m)
{
    return gr_sync_records(m->fd, m->path);
}

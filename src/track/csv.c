/* The table of metrics. Invariant: every row of the file ends with a line break and has at most
 * as many cells as the header; readers take missing cells at the end as empty. */
#include "track/csv.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"
#include "track/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct column {
    gr_text name;
    double value; /* of the row that is being built */
    bool is_set;
} column;

struct gr_csv {
    int fd;
    char *path;
    gr_text line;
    int64_t step;
    column *columns; /* without the step */
    int n_columns, cap;
    int n_in_file; /* of these, how many the header in the file has */
};

static gr_status add_column(gr_csv *c, const char *name, size_t len)
{
    column *new;

    GR_TRY(gr_grow((void **)&c->columns, &c->cap, c->n_columns + 1, sizeof(*new)));
    new = &c->columns[c->n_columns];
    *new = (column){ 0 };
    gr_text_addn(&new->name, name, len);
    for (size_t i = 0; i < new->name.len; i++)
        if (strchr(",\"", new->name.str[i]) || (unsigned char)new->name.str[i] < 0x20)
            new->name.str[i] = '_';
    c->n_columns++;
    return gr_text_status(&new->name);
}

/* Is this the column of `name`? The forbidden characters count as equal to '_'. */
static bool is_named(const column *col, const char *name)
{
    const char *have = gr_text_str(&col->name);

    for (; *name && *have; name++, have++)
        if (*name != *have &&
            !(*have == '_' && (strchr(",\"", *name) || (unsigned char)*name < 0x20)))
            return false;
    return !*name && !*have;
}

static void write_header(const gr_csv *c, gr_outfile *f)
{
    gr_outfile_write(f, "step", 4);
    for (int i = 0; i < c->n_columns; i++) {
        gr_outfile_write(f, ",", 1);
        gr_outfile_write(f, c->columns[i].name.str, c->columns[i].name.len);
    }
    gr_outfile_write(f, "\n", 1);
}

/* The step of a whole row of ours; -1 for anything else. */
static int64_t step_of(const char *line, size_t len)
{
    char *end;
    long long step;

    if (len == 0 || line[len] != '\n' || line[0] < '0' || line[0] > '9')
        return -1;
    step = strtoll(line, &end, 10);
    return *end == ',' || *end == '\n' ? step : -1;
}

static void visit_row(const gr_csv *c, const char *line, gr_csv_visit *visit, void *arg)
{
    int64_t step = step_of(line, strcspn(line, "\n"));

    line += strcspn(line, ",\n");
    for (int i = 0; i < c->n_in_file && *line == ','; i++) {
        char *end;
        double value = strtod(line + 1, &end);

        if (end != line + 1 && line[1] != '\n')
            visit(arg, step, gr_text_str(&c->columns[i].name), value);
        line += 1 + strcspn(line + 1, ",\n");
    }
}

/* The columns that the first line of a file names. */
static gr_status read_header(gr_csv *c, const char *text)
{
    size_t len = strcspn(text, "\n");
    const char *at = text + strcspn(text, ",\n");

    if (text[len] != '\n' || strncmp(text, "step", 4) != 0 || at != text + 4)
        return GR_OK; /* cut, or none of ours: no row is kept either */
    while (*at == ',') {
        size_t n = strcspn(at + 1, ",\n");

        GR_TRY(add_column(c, at + 1, n));
        at += 1 + n;
    }
    c->n_in_file = c->n_columns;
    return GR_OK;
}

typedef struct keeping {
    const gr_keep *keep; /* NULL: everything */
    gr_csv_visit *visit;
    void *arg;
} keeping;

/* Cell i of a row, 0 the first behind the step, holds something. */
static bool has_cell(const char *row, size_t len, int i)
{
    const char *end = row + len, *at = memchr(row, ',', len);

    for (; at && i > 0; i--)
        at = memchr(at + 1, ',', (size_t)(end - at - 1));
    return at && at + 1 < end && at[1] != ',';
}

static bool comes_again(const gr_csv *c, const char *row, size_t len, const gr_keep *keep)
{
    for (int i = 0; i < keep->n_again; i++)
        for (int k = 0; k < c->n_in_file; k++)
            if (is_named(&c->columns[k], keep->again[i]) && has_cell(row, len, k))
                return true;
    return false;
}

static bool stays(const gr_csv *c, const char *row, size_t len, const gr_keep *keep)
{
    int64_t step = step_of(row, len);

    if (step < 0 || !keep)
        return step >= 0;
    return step < keep->last_step || (step == keep->last_step && !comes_again(c, row, len, keep));
}

/* A row that is older than some columns has empty cells there. */
static void write_row(const gr_csv *c, gr_outfile *f, const char *row, size_t len)
{
    int n_cells = 0;

    for (size_t i = 0; i < len; i++)
        n_cells += row[i] == ',';
    gr_outfile_write(f, row, len);
    for (; n_cells < c->n_columns; n_cells++)
        gr_outfile_write(f, ",", 1);
    gr_outfile_write(f, "\n", 1);
}

/* Writes the file anew: the header as it is now, and the rows of `text` that are kept. */
static gr_status rewrite(gr_csv *c, const char *text, const keeping *keep)
{
    gr_outfile *f;

    GR_TRY(gr_outfile_open(&f, c->path));
    write_header(c, f);
    while (*text) {
        size_t len = strcspn(text, "\n");

        if (stays(c, text, len, keep->keep)) {
            write_row(c, f, text, len);
            if (keep->visit)
                visit_row(c, text, keep->visit, keep->arg);
        }
        text += len + (text[len] == '\n');
    }
    GR_TRY(gr_outfile_commit(f));
    c->n_in_file = c->n_columns;
    return GR_OK;
}

static gr_status reopen(gr_csv *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = open(c->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (c->fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", c->path, strerror(errno));
    return GR_OK;
}

static gr_status take_over(gr_csv *c, const keeping *keep)
{
    struct stat about;
    char *text;
    size_t n_bytes;
    gr_status st;

    if (stat(c->path, &about) != 0 || !S_ISREG(about.st_mode))
        return GR_OK;
    GR_TRY(gr_file_read(c->path, &text, &n_bytes));
    st = read_header(c, text);
    if (st == GR_OK)
        st = rewrite(c, c->n_in_file > 0 ? text : "", keep);
    gr_free(text);
    return st;
}

gr_status gr_csv_open(gr_csv **out, const char *path, const gr_keep *keep, gr_csv_visit *visit,
                      void *arg)
{
    keeping how = { keep, visit, arg };
    gr_csv *c = gr_calloc(1, sizeof(*c));
    gr_status st;

    if (!c)
        return GR_ERR_NOMEM;
    c->fd = -1;
    c->path = gr_strdup(path);
    GR_TRY_GOTO(st, c->path ? GR_OK : GR_ERR_NOMEM, fail);
    GR_TRY_GOTO(st, take_over(c, &how), fail);
    GR_TRY_GOTO(st, reopen(c), fail);
    *out = c;
    return GR_OK;

fail:
    gr_csv_close(c);
    return st;
}

void gr_csv_close(gr_csv *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    for (int i = 0; i < c->n_columns; i++)
        gr_text_fini(&c->columns[i].name);
    gr_free(c->columns);
    gr_text_fini(&c->line);
    gr_free(c->path);
    gr_free(c);
}

void gr_csv_begin(gr_csv *c, int64_t step)
{
    c->step = step;
    for (int i = 0; i < c->n_columns; i++)
        c->columns[i].is_set = false;
}

gr_status gr_csv_value(gr_csv *c, const char *name, double value)
{
    int i = 0;

    while (i < c->n_columns && !is_named(&c->columns[i], name))
        i++;
    if (i == c->n_columns)
        GR_TRY(add_column(c, name, strlen(name)));
    c->columns[i].value = value;
    c->columns[i].is_set = true;
    return GR_OK;
}

static void add_cell(gr_text *line, const column *col)
{
    double v = col->value;

    gr_text_add(line, ",");
    if (!col->is_set)
        return;
    if (isnan(v))
        gr_text_add(line, "nan");
    else if (isinf(v))
        gr_text_add(line, v > 0 ? "inf" : "-inf");
    else if (v == floor(v) && fabs(v) < 1e15)
        gr_text_addf(line, "%.0f", v);
    else
        gr_text_addf(line, "%.9g", v);
}

static gr_status widen(gr_csv *c)
{
    keeping all = { 0 };
    char *text = NULL;
    size_t n_bytes;
    gr_status st;

    if (c->n_in_file > 0) /* without a header there are no rows */
        GR_TRY(gr_file_read(c->path, &text, &n_bytes));
    st = rewrite(c, text ? text : "", &all);
    gr_free(text);
    return st == GR_OK ? reopen(c) : st;
}

gr_status gr_csv_end(gr_csv *c)
{
    ssize_t n;

    if (c->n_in_file < c->n_columns)
        GR_TRY(widen(c));
    c->line.len = 0;
    gr_text_addf(&c->line, "%" PRId64, c->step);
    for (int i = 0; i < c->n_columns; i++)
        add_cell(&c->line, &c->columns[i]);
    gr_text_add(&c->line, "\n");
    GR_TRY(gr_text_status(&c->line));
    do
        n = write(c->fd, c->line.str, c->line.len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return gr_fail(GR_ERR_IO, "cannot write '%s': %s", c->path, strerror(errno));
    if ((size_t)n != c->line.len)
        return gr_fail(GR_ERR_IO, "cannot write '%s': %zd of %zu bytes fit", c->path, n,
                       c->line.len);
    return GR_OK;
}

gr_status gr_csv_sync(gr_csv *c)
{
    return gr_sync_records(c->fd, c->path);
}

/*
 * Results: each rank collects the rows and pictures of its units; rank 0 writes them all in the
 * order of the units, those of one unit in the order in which they came.
 */
#include "train/results.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "gradus/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 6 /* of a number that says nothing else */

struct gr_results {
    gr_results_config c;
    gr_text rows;     /* entries: a head, the CSV line, the JSON line */
    gr_text pictures; /* entries: a head, the name, the pixels */
    char **all;       /* rank 0, once written: the pictures of every rank, from malloc */
    size_t *sizes;
    int n_ranks;
    int64_t n_pictures;
};

/* What stands before an entry in a rank's bytes. */
typedef struct head {
    int64_t unit;
    int64_t n_first, n_second; /* bytes of its two parts, each with a NUL behind */
    int32_t height, width, channels;
    int32_t unused;
} head;

typedef struct entry {
    head h;
    const char *first, *second;
} entry;

gr_status gr_results_create(gr_results **out, const gr_results_config *c)
{
    gr_results *r = gr_calloc(1, sizeof(*r));

    if (!r)
        return GR_ERR_NOMEM;
    r->c = *c;
    *out = r;
    return GR_OK;
}

static void free_pictures(gr_results *r)
{
    free(r->all); /* one block, as gr_pg_gather_bytes() gives it */
    gr_free(r->sizes);
    r->all = NULL;
    r->sizes = NULL;
}

void gr_results_destroy(gr_results *r)
{
    if (!r)
        return;
    free_pictures(r);
    gr_text_fini(&r->rows);
    gr_text_fini(&r->pictures);
    gr_free(r);
}

const char *gr_results_folder(const gr_results *r)
{
    return r->c.folder;
}

/* ---- one rank's ---- */

static gr_status add_entry(gr_text *to, const head *h, const char *first, const char *second)
{
    gr_text_addn(to, (const char *)h, sizeof(*h));
    gr_text_addn(to, first, (size_t)h->n_first);
    gr_text_addn(to, "", 1);
    gr_text_addn(to, second, (size_t)h->n_second);
    gr_text_addn(to, "", 1);
    return gr_text_status(to);
}

/* Between quotes where it needs them. A row is one line, so the end of a line within a text becomes
 * a space. */
static void add_csv_text(gr_text *out, const char *s)
{
    bool quotes = strpbrk(s, ",\"\r\n");

    if (quotes)
        gr_text_add(out, "\"");
    for (; *s; s++)
        if (*s == '"')
            gr_text_add(out, "\"\"");
        else
            gr_text_addn(out, *s == '\r' || *s == '\n' ? " " : s, 1);
    if (quotes)
        gr_text_add(out, "\"");
}

static void add_number(gr_text *out, const gr_column *c, double x, bool json)
{
    if (json && !isfinite(x))
        gr_text_add(out, "null");
    else
        gr_text_addf(out, "%.*g", c->digits > 0 ? c->digits : DIGITS, isnan(x) ? fabs(x) : x);
}

static void add_cell(gr_text *out, const gr_column *c, const gr_cell *cell, bool json)
{
    switch (c->kind) {
    case GR_COLUMN_INT: gr_text_addf(out, "%" PRId64, cell->i); return;
    case GR_COLUMN_F64: add_number(out, c, cell->f, json); return;
    case GR_COLUMN_TEXT: break;
    }
    if (json && cell->text)
        gr_json_add_string(out, cell->text);
    else if (json)
        gr_text_add(out, "null");
    else if (cell->text)
        add_csv_text(out, cell->text);
}

gr_status gr_results_row(gr_results *r, int64_t unit, const gr_cell *cells)
{
    gr_text csv = GR_TEXT_INIT, json = GR_TEXT_INIT;
    head h = { .unit = unit };
    gr_status st;

    if (r->c.n_columns == 0)
        return gr_fail(GR_ERR_ARG, "a row of unit %" PRId64 ", but the recipe names no columns",
                       unit);
    for (int i = 0; i < r->c.n_columns; i++) {
        const gr_column *c = &r->c.columns[i];

        gr_text_add(&csv, i > 0 ? "," : "");
        add_cell(&csv, c, &cells[i], false);
        gr_text_add(&json, i > 0 ? ", " : "{");
        gr_json_add_string(&json, c->name);
        gr_text_add(&json, ": ");
        add_cell(&json, c, &cells[i], true);
    }
    gr_text_add(&json, "}");
    h.n_first = (int64_t)csv.len;
    h.n_second = (int64_t)json.len;
    st = gr_text_status(&csv);
    if (st == GR_OK)
        st = gr_text_status(&json);
    if (st == GR_OK)
        st = add_entry(&r->rows, &h, gr_text_str(&csv), gr_text_str(&json));
    gr_text_fini(&csv);
    gr_text_fini(&json);
    return st;
}

/* A name becomes a file in one folder. */
static bool is_plain(const char *name)
{
    return *name && *name != '.' && strlen(name) < 200 && !strpbrk(name, "/\\\r\n");
}

gr_status gr_results_picture(gr_results *r, int64_t unit, const char *name, const gr_image *image)
{
    head h = { .unit = unit };

    if (!name || !is_plain(name))
        return gr_fail(GR_ERR_ARG,
                       "'%s' names no picture: it becomes a file, without a folder and a dot in "
                       "front",
                       name ? name : "");
    if (!image || !image->px || image->height < 1 || image->width < 1 || image->channels < 1 ||
        image->channels > 4)
        return gr_fail(GR_ERR_ARG, "picture '%s' holds no pixels of 1 to 4 channels", name);
    h.n_first = (int64_t)strlen(name);
    h.n_second = (int64_t)image->height * image->width * image->channels;
    h.height = image->height;
    h.width = image->width;
    h.channels = image->channels;
    return add_entry(&r->pictures, &h, name, (const char *)image->px);
}

/* ---- those of all ranks, in order ---- */

/* The next entry of a rank's bytes; false: there is none. */
static bool take(const char **at, const char *end, entry *e)
{
    if (*at >= end)
        return false;
    memcpy(&e->h, *at, sizeof(e->h));
    e->first = *at + sizeof(e->h);
    e->second = e->first + e->h.n_first + 1;
    *at = e->second + e->h.n_second + 1;
    return true;
}

/* Those of one unit come from one rank, where they lie in their order. */
static int by_unit(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->h.unit != y->h.unit)
        return x->h.unit > y->h.unit ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The entries of all ranks, sorted; to be freed. */
static gr_status sorted(char *const *bytes, const size_t *sizes, int n_ranks, entry **out,
                        size_t *n_out)
{
    size_t n = 0, at = 0;
    const char *p;
    entry *list, e;

    for (int k = 0; k < n_ranks; k++)
        for (p = bytes[k]; take(&p, bytes[k] + sizes[k], &e);)
            n++;
    list = gr_calloc(n + 1, sizeof(*list));
    if (!list)
        return GR_ERR_NOMEM;
    for (int k = 0; k < n_ranks; k++)
        for (p = bytes[k]; take(&p, bytes[k] + sizes[k], &e);)
            list[at++] = e;
    qsort(list, n, sizeof(*list), by_unit);
    *out = list;
    *n_out = n;
    return GR_OK;
}

static gr_status open_in(gr_outfile **f, const char *folder, const char *name)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&path, "%s/%s", folder, name);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_outfile_open(f, gr_text_str(&path));
    gr_text_fini(&path);
    return st;
}

static gr_status write_csv(const gr_results *r, const entry *rows, size_t n)
{
    gr_text header = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st;

    for (int i = 0; i < r->c.n_columns; i++) {
        gr_text_add(&header, i > 0 ? "," : "");
        add_csv_text(&header, r->c.columns[i].name);
    }
    gr_text_add(&header, "\n");
    st = gr_text_status(&header);
    if (st == GR_OK)
        st = open_in(&f, r->c.folder, "predictions.csv");
    if (st == GR_OK)
        gr_outfile_write(f, gr_text_str(&header), header.len);
    gr_text_fini(&header);
    GR_TRY(st);
    for (size_t i = 0; i < n; i++) {
        gr_outfile_write(f, rows[i].first, (size_t)rows[i].h.n_first);
        gr_outfile_write(f, "\n", 1);
    }
    return gr_outfile_commit(f);
}

static gr_status write_jsonl(const gr_results *r, const entry *rows, size_t n)
{
    gr_outfile *f;

    GR_TRY(open_in(&f, r->c.folder, "predictions.jsonl"));
    for (size_t i = 0; i < n; i++) {
        gr_outfile_write(f, rows[i].second, (size_t)rows[i].h.n_second);
        gr_outfile_write(f, "\n", 1);
    }
    return gr_outfile_commit(f);
}

static gr_status write_rows(const gr_results *r, char *const *bytes, const size_t *sizes)
{
    entry *rows;
    size_t n;
    gr_status st;

    GR_TRY(sorted(bytes, sizes, r->n_ranks, &rows, &n));
    st = write_csv(r, rows, n);
    if (st == GR_OK)
        st = write_jsonl(r, rows, n);
    gr_free(rows);
    return st;
}

static gr_image image_of(const entry *e)
{
    return (gr_image){ .height = e->h.height,
                       .width = e->h.width,
                       .channels = e->h.channels,
                       .px = (uint8_t *)(uintptr_t)e->second };
}

static gr_status write_picture(const gr_results *r, const entry *e)
{
    gr_image image = image_of(e);
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&path, "%s/" GR_RESULTS_SAMPLES "/%s%s.png", r->c.folder,
                 r->c.prefix ? r->c.prefix : "", e->first);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_image_write(gr_text_str(&path), &image);
    gr_text_fini(&path);
    return st;
}

static gr_status write_pictures(gr_results *r)
{
    gr_text folder = GR_TEXT_INIT;
    entry *list;
    gr_status st;
    size_t n;

    GR_TRY(sorted(r->all, r->sizes, r->n_ranks, &list, &n));
    gr_text_addf(&folder, "%s/" GR_RESULTS_SAMPLES, r->c.folder);
    st = gr_text_status(&folder);
    if (st == GR_OK && n > 0)
        st = gr_make_folders(gr_text_str(&folder));
    for (size_t i = 0; i < n && st == GR_OK; i++)
        st = write_picture(r, &list[i]);
    r->n_pictures = (int64_t)n;
    gr_text_fini(&folder);
    gr_free(list);
    return st;
}

static gr_status share_rows(gr_results *r, gr_pg *pg, size_t *sizes)
{
    char **bytes = NULL;
    gr_status st;

    if (r->c.n_columns == 0)
        return GR_OK;
    st = gr_pg_gather_bytes(pg, gr_text_str(&r->rows), r->rows.len, &bytes, sizes);
    if (st == GR_OK && gr_pg_rank(pg) == 0)
        st = gr_wrap(write_rows(r, bytes, sizes), "predictions (--output names another folder)");
    free(bytes);
    return st;
}

static gr_status make_lists(gr_results *r, int n_ranks)
{
    r->n_ranks = n_ranks;
    free_pictures(r);
    r->sizes = gr_calloc((size_t)n_ranks, sizeof(*r->sizes));
    return r->sizes ? GR_OK : GR_ERR_NOMEM;
}

gr_status gr_results_write(gr_results *r, gr_pg *pg)
{
    GR_TRY(make_lists(r, gr_pg_size(pg)));
    GR_TRY(share_rows(r, pg, r->sizes));
    GR_TRY(gr_pg_gather_bytes(pg, gr_text_str(&r->pictures), r->pictures.len, &r->all, r->sizes));
    return gr_pg_rank(pg) == 0 ? gr_wrap(write_pictures(r), "pictures") : GR_OK;
}

gr_status gr_results_write_own(gr_results *r)
{
    char *rows = r->rows.str;

    GR_TRY(make_lists(r, 1));
    r->sizes[0] = r->rows.len;
    if (r->c.n_columns > 0)
        GR_TRY(gr_wrap(write_rows(r, &rows, r->sizes), "rows"));
    r->all = malloc(sizeof(*r->all)); /* as gr_pg_gather_bytes() gives it */
    if (!r->all)
        return gr_fail(GR_ERR_NOMEM, "no memory for pictures");
    r->all[0] = r->pictures.str;
    r->sizes[0] = r->pictures.len;
    return gr_wrap(write_pictures(r), "pictures");
}

int64_t gr_results_n_pictures(const gr_results *r)
{
    return r->n_pictures;
}

void gr_results_show(const gr_results *r, gr_track *track, int64_t step)
{
    entry *list;
    size_t n;

    if (!track || !r->all || sorted(r->all, r->sizes, r->n_ranks, &list, &n) != GR_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        gr_pixels p = { .width = list[i].h.width,
                        .height = list[i].h.height,
                        .channels = list[i].h.channels,
                        .data = (const uint8_t *)list[i].second };
        char tag[240];

        snprintf(tag, sizeof(tag), GR_RESULTS_SAMPLES "/%s", list[i].first);
        gr_track_picture(track, tag, step, &p);
    }
    gr_free(list);
}

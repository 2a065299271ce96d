/*
 * Predictions: each rank collects the rows of its samples; rank 0 writes them all in the
 * order of the samples.
 */
#include "train/predict.h"

#include "base/alloc.h"
#include "base/outfile.h"

#include <stdlib.h>
#include <string.h>

struct gr_prediction {
    const char *folder; /* borrowed */
    gr_text rows;       /* "index\0row\0", one after the other */
};

gr_status gr_prediction_create(gr_prediction **out, const char *folder)
{
    gr_prediction *p = gr_calloc(1, sizeof(*p));

    if (!p)
        return GR_ERR_NOMEM;
    p->folder = folder;
    *out = p;
    return GR_OK;
}

void gr_prediction_destroy(gr_prediction *p)
{
    if (p)
        gr_text_fini(&p->rows);
    gr_free(p);
}

const char *gr_prediction_folder(const gr_prediction *p)
{
    return p->folder;
}

gr_status gr_prediction_row(gr_prediction *p, int64_t index, const char *row)
{
    if (strpbrk(row, "\r\n"))
        return gr_fail(GR_ERR_ARG, "the row of sample %lld has more than one line",
                       (long long)index);
    gr_text_addf(&p->rows, "%lld", (long long)index);
    gr_text_addn(&p->rows, "", 1);
    gr_text_addn(&p->rows, row, strlen(row) + 1);
    return gr_text_status(&p->rows);
}

/* ---- all rows in order ---- */

typedef struct row {
    long long index;
    const char *text;
} row;

static int by_index(const void *a, const void *b)
{
    long long x = ((const row *)a)->index, y = ((const row *)b)->index;

    return (x > y) - (x < y);
}

/* The rows in one rank's bytes, counted, and taken where `rows` is not NULL. */
static size_t take_rows(const char *bytes, size_t n_bytes, row *rows)
{
    const char *end = bytes + n_bytes;
    size_t n = 0;

    for (; bytes < end; n++) {
        const char *text = bytes + strlen(bytes) + 1;

        if (rows)
            rows[n] = (row){ strtoll(bytes, NULL, 10), text };
        bytes = text + strlen(text) + 1;
    }
    return n;
}

static gr_status write_rows(const char *path, const char *header, const row *rows, size_t n)
{
    gr_outfile *f;

    GR_TRY(gr_outfile_open(&f, path));
    gr_outfile_write(f, header, strlen(header));
    gr_outfile_write(f, "\n", 1);
    for (size_t i = 0; i < n; i++) {
        gr_outfile_write(f, rows[i].text, strlen(rows[i].text));
        gr_outfile_write(f, "\n", 1);
    }
    return gr_outfile_commit(f);
}

static gr_status merge(const char *path, const char *header, char **texts, const size_t *sizes,
                       int n_ranks)
{
    size_t n = 0, at = 0;
    gr_status st;
    row *rows;

    for (int r = 0; r < n_ranks; r++)
        n += take_rows(texts[r], sizes[r], NULL);
    rows = gr_calloc(n + 1, sizeof(*rows));
    if (!rows)
        return GR_ERR_NOMEM;
    for (int r = 0; r < n_ranks; r++)
        at += take_rows(texts[r], sizes[r], rows + at);
    qsort(rows, n, sizeof(*rows), by_index);
    st = write_rows(path, header, rows, n);
    gr_free(rows);
    return st;
}

gr_status gr_prediction_write(gr_prediction *p, gr_pg *pg, const char *header, const char *path)
{
    size_t *sizes = gr_calloc((size_t)gr_pg_size(pg), sizeof(*sizes));
    char **texts = NULL;
    gr_status st;

    if (!sizes)
        return GR_ERR_NOMEM;
    st = gr_pg_gather_bytes(pg, gr_text_str(&p->rows), p->rows.len, &texts, sizes);
    if (st == GR_OK && gr_pg_rank(pg) == 0)
        st = gr_wrap(merge(path, header, texts, sizes, gr_pg_size(pg)),
                     "predictions (--output names another folder)");
    free(texts);
    gr_free(sizes);
    return st;
}

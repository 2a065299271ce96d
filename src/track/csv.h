/*
 * metrics.csv: the records of metrics.jsonl as a table. Rank 0 only; one thread.
 *
 * The first column is the step, the others are in the order in which names were first seen. A
 * row has an empty cell where its record has no such value. When a new name comes, the file is
 * written anew, aside and renamed, with one more column at the right. Commas, quotes and control
 * characters in names become '_'; values are numbers, "nan", "inf" or "-inf".
 */
#ifndef GR_TRACK_CSV_H
#define GR_TRACK_CSV_H

#include <stdint.h>

#include "base/status.h"
#include "track/keep.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_csv gr_csv;

/* Called for every value that an opened file already holds. */
typedef void gr_csv_visit(void *arg, int64_t step, const char *name, double value);

/*
 * Opens `path` for appending. Removed first: a last line that a crash cut, and rows that are not
 * kept. `visit` may be NULL.
 */
gr_status gr_csv_open(gr_csv **out, const char *path, const gr_keep *keep, gr_csv_visit *visit,
                      void *arg) GR_MUST_CHECK;
void gr_csv_close(gr_csv *c); /* NULL is fine */

/* begin, any number of values, end: one row, written by one write. */
void gr_csv_begin(gr_csv *c, int64_t step);
gr_status gr_csv_value(gr_csv *c, const char *name, double value) GR_MUST_CHECK;
gr_status gr_csv_end(gr_csv *c) GR_MUST_CHECK;
/* Until the disk has every row. */
gr_status gr_csv_sync(gr_csv *c) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/*
 * The terms of a loss, as a trace has them (gradus/loss.h), and what it records besides. In
 * training each sum is a number or a vector over the batch, an output of its own. In
 * evaluation sums are those of each sample, side by side in one output, so that they can be
 * added over whatever batches and ranks there are.
 */
#ifndef GR_OP_LOSS_TERMS_H
#define GR_OP_LOSS_TERMS_H

#include "gradus/loss.h"
#include "op/loss/formula.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_TERMS_OUTPUT "loss sums" /* of evaluation: f32 [samples, n_columns] */

typedef struct gr_term_sum {
    int64_t length;
    int64_t column;     /* its first place among the columns */
    gr_value *value;    /* of training: over the batch; NULL: see `mean` */
    const char *output; /* of training: its name; NULL: not given out */
} gr_term_sum;

typedef struct gr_term {
    const char *name;
    double weight;
    gr_formula formula;
    int n_sums;
    gr_term_sum *sums;
    gr_value
        *mean;     /* of training: a mean over all that its first sum adds up, of which there are */
    double n_mean; /* so many; NULL: it is made of its sums */
} gr_term;

typedef struct gr_term_record {
    const char *name;
    gr_record_kind kind;
    int64_t column;
    const char *output; /* of training */
} gr_term_record;

struct gr_terms {
    gr_term *list;
    int n, cap;
    gr_term_record *records;
    int n_records, cap_records;
    gr_value **parts; /* of evaluation: [samples, ..] each */
    int n_parts, cap_parts;
    int64_t n_columns;
    gr_value *loss; /* of training: what the terms add up to so far */
};

/* The end of a trace: the loss, or the output of the columns. */
gr_status gr_terms_close(gr_graph *g) GR_MUST_CHECK;

/* A copy that outlives the graph: what gr_term_value() and the records need. NULL: no memory. */
struct gr_terms *gr_terms_copy(const struct gr_terms *all, gr_arena *arena);

/* The value of a term from its totals, which lie where its columns do. */
double gr_term_value(const gr_term *t, const double *totals);

#ifdef __cplusplus
}
#endif

#endif

/*
 * Time of a run, for rates and shares: where it goes (data, exchange, computing), how fast
 * samples pass, when the end will be. A window lies between two records; what is not
 * training (evaluation, saving) lies in none.
 */
#ifndef GR_TRAIN_PACE_H
#define GR_TRAIN_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counters that only grow, as of now. */
typedef struct gr_pace_now {
    int64_t ns;          /* the clock */
    int64_t data_ns;     /* spent waiting for samples, or loading them */
    int64_t exchange_ns; /* spent in the process group */
    int64_t n_samples;   /* of all ranks */
} gr_pace_now;

typedef struct gr_pace {
    int64_t began_ns, began_at; /* the run: time and step */
    gr_pace_now mark;           /* where the window begins */
    double samples_per_s;       /* of the latest window; 0: not known yet */
    double data, exchange;      /* shares of it, 0 to 1 */
    gr_pace_now sum;            /* all windows so far */
} gr_pace;

void gr_pace_begin(gr_pace *p, const gr_pace_now *now, int64_t step);
/* A window begins: what came since the last one is not training. */
void gr_pace_mark(gr_pace *p, const gr_pace_now *now);
/* A window ends, and the next one begins. */
void gr_pace_measure(gr_pace *p, const gr_pace_now *now);

/* What is left of the latest window: computing. */
double gr_pace_compute(const gr_pace *p);

/* Shares of all windows. */
double gr_pace_data(const gr_pace *p);
double gr_pace_exchange(const gr_pace *p);

/* What ranks found in an epoch, and what the advice goes by. */
typedef struct gr_pace_shares {
    double data, worst_data; /* mean over the ranks, and the rank with the most */
    double exchange, least_exchange;
    int64_t n_workers, n_cores; /* loader threads and cores of a rank */
    const char *faster_loading; /* of the recipe's view */
} gr_pace_shares;

/* P29: one line that says what to change; nothing when neither takes a fifth of the time. */
void gr_pace_advice(const gr_pace_shares *s, gr_text *out);

#ifdef __cplusplus
}
#endif

#endif

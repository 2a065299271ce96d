/* Pauses between restarts: doubled each time, and short again after a round that went on. */
#ifndef GR_LAUNCH_BACKOFF_H
#define GR_LAUNCH_BACKOFF_H

#include <stdint.h>

#define GR_BACKOFF_MOST_MS 30000
#define GR_BACKOFF_CALM_NS ((int64_t)60 * 1000000000) /* a round this long was no quick failure */

typedef struct gr_backoff {
    int first_ms, next_ms;
} gr_backoff;

static inline gr_backoff gr_backoff_begin(int first_ms)
{
    gr_backoff b = { first_ms, first_ms };

    return b;
}

/* The pause to make now, after a round of this length. */
static inline int gr_backoff_next(gr_backoff *b, int64_t round_ns)
{
    int now = round_ns > GR_BACKOFF_CALM_NS ? b->first_ms : b->next_ms;

    b->next_ms = 2 * now < GR_BACKOFF_MOST_MS ? 2 * now : GR_BACKOFF_MOST_MS;
    return now;
}

#endif

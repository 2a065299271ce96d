/*
 * The checkpoints in a folder: which files count, and what is in them as far as their
 * headers tell.
 */
#ifndef GR_CKPT_LISTING_H
#define GR_CKPT_LISTING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_CKPT_NAME_BYTES 64
#define GR_CKPT_KEY_STEP   "gradus.step" /* the text that orders checkpoints */
#define GR_CKPT_ASIDE      ".tmp"        /* after a name: being written */

typedef enum gr_ckpt_kind { GR_CKPT_IS_LAST, GR_CKPT_IS_BEST, GR_CKPT_IS_NUMBERED } gr_ckpt_kind;

typedef struct gr_ckpt_entry {
    char name[GR_CKPT_NAME_BYTES]; /* in the folder */
    gr_ckpt_kind kind;
    bool is_aside; /* left half written */
    int64_t step;  /* by its header, else the number in its name; -1: neither can be known */
} gr_ckpt_entry;

typedef struct gr_ckpt_listing {
    gr_ckpt_entry *entries; /* owned */
    int n, cap;
} gr_ckpt_listing;

/* Lists the files whose names are exactly of our making. with_steps: opens each and finds its
 * step; a header that cannot be read leaves -1. Ended with _fini, after a failure too. */
gr_status gr_ckpt_list(gr_ckpt_listing *l, const char *folder, bool with_steps) GR_MUST_CHECK;
void gr_ckpt_listing_fini(gr_ckpt_listing *l);

/* In the order in which they are tried: last, then the highest step, best_model after one of
 * the same step. Those without a step come first of their kind: they are damaged, and that
 * will be said. */
void gr_ckpt_listing_sort(gr_ckpt_listing *l);

#ifdef __cplusplus
}
#endif

#endif

/* A snapshot with one of everything, and how to compare two: for tests of checkpoints. */
#ifndef GR_TESTS_CKPT_SAMPLE_H
#define GR_TESTS_CKPT_SAMPLE_H

#include <stdbool.h>

#include "base/text.h"
#include "gradus/tensor.h"

/* Every element type, a scalar, empty tensors, names and texts in several scripts, with
 * quotes, backslashes and control characters. The bytes of each tensor are 1, 2, 3 ...
 * plus its number; those of the bool are 0 and 1. */
gr_status ckpt_sample_make(gr_snapshot **out) GR_MUST_CHECK;

/* Same tensors (whatever their order) and same texts; says on stderr what differs. */
bool ckpt_sample_equal(const gr_snapshot *a, const gr_snapshot *b);

/* The file that the snapshot gives, appended to `out`. */
gr_status ckpt_sample_bytes(const gr_snapshot *s, gr_text *out) GR_MUST_CHECK;

/* A file of foreign making: the header as given, then n_data_bytes of zeros. */
gr_status ckpt_sample_raw(const char *header, size_t n_data_bytes, gr_text *out) GR_MUST_CHECK;

#endif

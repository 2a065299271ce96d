/* The files of tests/golden/pt, and what tests of PyTorch's files share. */
#ifndef GR_TESTS_CKPT_PT_GOLDEN_H
#define GR_TESTS_CKPT_PT_GOLDEN_H

#include "base/text.h"
#include "gradus/tensor.h"

/* Appends a file of tests/golden/pt to `out`. */
gr_status pt_golden_read(const char *name, gr_text *out) GR_MUST_CHECK;

/* Every tensor and text as a line, as make_pt.py writes them. */
gr_status pt_golden_describe(const gr_snapshot *s, gr_text *out) GR_MUST_CHECK;

/* A whole zip file with the pickle in it, and a storage '0' of 64 bytes: 0, 1, 2 ... */
gr_status pt_golden_wrap(const void *pickle, size_t n_bytes, gr_text *out) GR_MUST_CHECK;

/* The file that a snapshot gives. */
gr_status pt_golden_format(const gr_snapshot *s, uint64_t zip64_from, gr_text *out) GR_MUST_CHECK;

/* Parses a copy of exactly n_bytes, so that a read beyond the end is seen by ASan. */
gr_status pt_golden_parse(const char *bytes, size_t n_bytes, gr_snapshot **out) GR_MUST_CHECK;

#endif

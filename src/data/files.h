/* Samples that are files: an image, perhaps a mask, perhaps a class. */
#ifndef GR_DATA_FILES_H
#define GR_DATA_FILES_H

#include "data/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Paths are "dir/name", or the name alone where dir is "". Strings in the data set's arena. */
typedef struct gr_file_sample {
    const char *dir, *name;
    const char *mask_dir, *mask; /* NULL: none */
    int label;                   /* -1: none */
} gr_file_sample;

typedef struct gr_files {
    gr_file_sample *at; /* owned */
    int n, cap;
    size_t n_root; /* bytes of `dir` that a sample's name leaves out */
} gr_files;

/* Makes `ds` a data set of files; `ds` owns *out. */
gr_status gr_files_begin(gr_dataset *ds, gr_files **out) GR_MUST_CHECK;
gr_status gr_files_add(gr_files *f, gr_file_sample sample) GR_MUST_CHECK;
/* When all are there: sizes are settled. GR_ERR_IO for none at all, naming `where`. */
gr_status gr_files_end(gr_dataset *ds, const char *where) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

/* Samples that lie one after the other in mapped files: idx, CIFAR, npy. */
#ifndef GR_DATA_ARRAYS_H
#define GR_DATA_ARRAYS_H

#include "data/dataset.h"
#include "data/mapped.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a sample of bytes is an image. */
typedef enum gr_layout {
    GR_LAYOUT_NONE, /* it is none */
    GR_LAYOUT_HW,
    GR_LAYOUT_HWC,
    GR_LAYOUT_CHW
} gr_layout;

/* Some samples with a common distance. */
typedef struct gr_block {
    const uint8_t *samples;
    const uint8_t *labels; /* NULL: none */
    int64_t first, n;      /* place of the first sample in the data set */
    const char *name;      /* of the file, in the arena */
} gr_block;

/* A row of numbers of which only those of a byte's size count. */
typedef struct gr_numbers {
    gr_dtype dtype; /* U8, BOOL, I32, I64 */
    bool big_endian;
} gr_numbers;

typedef struct gr_arrays {
    gr_block *block; /* owned, n_blocks */
    int n_blocks;
    size_t stride, label_stride; /* bytes */
    gr_dtype dtype;
    gr_shape shape; /* of one sample */
    gr_layout layout;
    gr_numbers labels;
    const uint8_t *masks; /* npy: [N, height, width]; NULL: none */
    gr_numbers mask_numbers;
    int mask_height, mask_width;
    gr_mapped *map; /* owned, n_maps */
    int n_maps;
} gr_arrays;

/* Makes `ds` a data set of arrays with room for so many blocks and maps; `ds` owns *out. */
gr_status gr_arrays_begin(gr_dataset *ds, int n_blocks, int n_maps, gr_arrays **out) GR_MUST_CHECK;
/* Settles `first` of all blocks and the size. GR_ERR_FORMAT for no samples. */
gr_status gr_arrays_end(gr_dataset *ds) GR_MUST_CHECK;
/* Looks at all labels: sets n_classes. A negative one is GR_ERR_FORMAT with its place. */
gr_status gr_arrays_count_classes(gr_dataset *ds, const gr_dataset *classes_of) GR_MUST_CHECK;

/* The layout of samples of a shape, by its numbers; the type must be of bytes. */
gr_layout gr_layout_of(const gr_shape *sample, gr_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif

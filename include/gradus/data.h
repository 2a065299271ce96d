/*
 * Data: images, data sets of every supported format behind one type, token files, arrays.
 *
 * Nothing is read before it is asked for: folders are listed, flat files are mapped (shared
 * by all ranks of a host), images are decoded on demand. A missing or broken file is an
 * error with its path and the reason, never an image of zeros. A mapped file must not be
 * cut while it is open: the system would end the process.
 *
 * Opening, destroying: one thread. Everything that takes a const gr_dataset: any number of
 * threads at once. Nothing here is collective.
 */
#ifndef GRADUS_DATA_H
#define GRADUS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradus/status.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Images ------------------------------------------------------------------------- */

/* 8 bits a channel, rows from the top without gaps, the channels of a pixel side by side.
 * Memory is kept between calls and grows only, so a loop of equal images allocates once. */
typedef struct gr_image {
    int height, width, channels;
    uint8_t *px; /* owned */
    size_t cap;  /* bytes that px has room for */
} gr_image;

#define GR_IMAGE_INIT    \
    {                    \
        0, 0, 0, NULL, 0 \
    }

/* More pixels than this are refused before any memory is taken. */
#define GR_IMAGE_MAX_PIXELS ((int64_t)1 << 28)

/* Sets the sizes and makes room; pixels are undefined. GR_ERR_ARG for sizes below 1, more
 * than 4 channels or over the limit; the image is as before then. */
GR_API gr_status gr_image_reserve(gr_image *img, int height, int width, int channels) GR_MUST_CHECK;
GR_API gr_status gr_image_copy(gr_image *to, const gr_image *from) GR_MUST_CHECK;
/* Frees the pixels; the image is empty and may be used again. NULL is fine. */
GR_API void gr_image_fini(gr_image *img);

/*
 * STORED: 1 grey, 2 grey with alpha, 3 RGB, 4 RGB with alpha, as the file has it; a palette
 *         is looked up.
 * GRAY:   1 channel, weighted 299:587:114.   RGB: 3 channels. Alpha is dropped.
 * LABELS: 1 channel of numbers: the index into a palette, or the grey value as stored, not
 *         stretched (a 1-bit mask gives 0 and 1). RGB counts if its three channels are equal;
 *         16 bits if no value is above 255. A JPEG is refused: its numbers are not exact.
 * 16 bits a channel become 8 by taking the upper byte. Pixels are those of Pillow's
 * Image.open(f).convert(...): no gamma, no colour profile, no turning by EXIF.
 */
typedef enum gr_image_as {
    GR_IMAGE_STORED,
    GR_IMAGE_GRAY,
    GR_IMAGE_RGB,
    GR_IMAGE_LABELS
} gr_image_as;

typedef struct gr_decode {
    gr_image_as as;
    /* A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, which is several times as fast,
     * as long as it keeps at least so many pixels a side. 0: always whole. */
    int min_height, min_width;
} gr_decode;

#define GR_DECODE_INIT        \
    {                         \
        .as = GR_IMAGE_STORED \
    }

/* JPEG or PNG, by content. `how` NULL: GR_DECODE_INIT. GR_ERR_FORMAT for what is neither, cut
 * short, damaged, or larger than so few bytes can hold; *out is then undefined but may be
 * used again and must be ended. */
GR_API gr_status gr_image_decode(gr_image *out, const void *src, size_t n_bytes,
                                 const gr_decode *how) GR_MUST_CHECK;
/* The same from a file; also GR_ERR_IO. Messages begin with the path. */
GR_API gr_status gr_image_read(gr_image *out, const char *path, const gr_decode *how) GR_MUST_CHECK;

/* Only height and width of *out, from the image's head, and whether its end is there: many
 * times as fast as decoding, and a file is not read whole. What that does not settle is
 * decoded, so a good image is never refused; damage in the middle may go unseen. Pixels of *out
 * are undefined. Failures as above. */
GR_API gr_status gr_image_probe(gr_image *out, const void *src, size_t n_bytes,
                                const gr_decode *how) GR_MUST_CHECK;
GR_API gr_status gr_image_probe_file(gr_image *out, const char *path,
                                     const gr_decode *how) GR_MUST_CHECK;

/* Writes a PNG aside and renames it. 1 channel is grey, 3 RGB, 4 RGB with alpha. */
GR_API gr_status gr_image_write(const char *path, const gr_image *img) GR_MUST_CHECK;
/* Writes labels (1 channel) as a palette PNG: read with GR_IMAGE_LABELS it gives the labels,
 * a viewer shows the colours of gr_label_colour(). */
GR_API gr_status gr_image_write_labels(const char *path, const gr_image *img) GR_MUST_CHECK;
/* The colour of a label, 0 to 255, in the PASCAL VOC map: 0 black, 1 dark red, 2 green ... */
GR_API void gr_label_colour(int label, uint8_t rgb[3]);

/* ---- Data sets ---------------------------------------------------------------------- */

/*
 * id, name in settings, what `path` is.
 *
 * folder    a folder per class; classes are the sorted folder names; sub folders are entered
 * images    a folder of images without labels
 * pairs     a folder of images, and `labels`, a folder of masks of the same stems; or a folder
 *           that holds both: images|imgs and masks|labels|annotations|1st_manual
 * drive     training/images + training/1st_manual and test/... (retinal vessels)
 * list      a text file: "image label", "image mask" or "image" per line
 * csv       the same as a table: path,label
 * idx       MNIST: images file, with its labels beside it or in `labels`; or their folder; .gz
 *           is read too
 * cifar10, cifar100   the binary files, or their folder
 * npy       an array [N, ...]; `labels` is one of N numbers or of masks [N, H, W]
 * shards    what `gradus pack` wrote: a folder or one of its files
 */
#define GR_FORMAT_MAP(X)    \
    X(AUTO, "auto")         \
    X(FOLDER, "folder")     \
    X(IMAGES, "images")     \
    X(PAIRS, "pairs")       \
    X(DRIVE, "drive")       \
    X(LIST, "list")         \
    X(CSV, "csv")           \
    X(IDX, "idx")           \
    X(CIFAR10, "cifar10")   \
    X(CIFAR100, "cifar100") \
    X(NPY, "npy")           \
    X(SHARDS, "shards")

typedef enum gr_format {
#define X(id, name) GR_FORMAT_##id,
    GR_FORMAT_MAP(X)
#undef X
        GR_FORMAT_COUNT
} gr_format;

/* "npy": the name in settings; static. Any thread. */
GR_API const char *gr_format_name(gr_format f);
/* GR_ERR_ARG names the nearest. */
GR_API gr_status gr_format_find(const char *name, gr_format *out) GR_MUST_CHECK;

typedef struct gr_dataset gr_dataset;

typedef struct gr_dataset_config {
    gr_format format;   /* AUTO looks at the path and what is in it */
    const char *path;   /* required */
    const char *labels; /* masks or labels, where they are apart; NULL: beside the images */
    const char *root;   /* list and csv: names are relative to it; NULL: the file's folder */
    /* "train", "valid" or "test": that part, where the path holds several (sub folders
     * train|training, valid|val|validation, test|testing; files by their usual names).
     * NULL: the path itself. */
    const char *split;
    /* list and csv: how a name becomes a path, "JPEGImages/{}.jpg"; NULL: as it is. With
     * mask_pattern a line of one word is image and mask. */
    const char *image_pattern, *mask_pattern;
    gr_decode decode;    /* of images; the least size is ignored where there are masks */
    gr_image_as mask_as; /* LABELS, or GRAY for maps of numbers that are no classes */
    /* Take the class numbers of this data set (that of training): a class it does not know is
     * an error, one that is missing here shifts nothing. NULL: from the data itself. */
    const gr_dataset *classes_of;
} gr_dataset_config;

#define GR_DATASET_CONFIG_INIT                                                                    \
    {                                                                                             \
        .format = GR_FORMAT_AUTO, .decode = { .as = GR_IMAGE_STORED }, .mask_as = GR_IMAGE_LABELS \
    }

/* Lists or maps what the config names; decodes nothing. GR_ERR_IO for what is not there,
 * GR_ERR_FORMAT for what cannot be understood (with file and line), GR_ERR_ARG for settings.
 * An image without its mask, or a mask without its image, is an error that lists the first
 * few. Caller owns *out; texts of the config are copied, classes_of is only looked at. */
GR_API gr_status gr_dataset_open(gr_dataset **out, const gr_dataset_config *config) GR_MUST_CHECK;
/* One without samples that only knows classes by name, in this order: for classes_of where the
 * names were kept and the data were not. GR_ERR_ARG: a name twice. Caller owns *out; the names
 * are copied. */
GR_API gr_status gr_dataset_of_classes(gr_dataset **out, const char *const *names,
                                       int n) GR_MUST_CHECK;
GR_API void gr_dataset_destroy(gr_dataset *ds); /* NULL is fine */
/* Is there what the config names, the split above all? For "use the validation part if there is
 * one"; only folders are looked at. */
GR_API gr_status gr_dataset_has(const gr_dataset_config *config, bool *has) GR_MUST_CHECK;

/* Some of the samples of a data set, in the order given; indices are copied and checked.
 * Borrows `of`, which must outlive it. */
GR_API gr_status gr_dataset_subset(gr_dataset **out, const gr_dataset *of, const int64_t *index,
                                   int64_t n) GR_MUST_CHECK;

GR_API gr_format gr_dataset_format(const gr_dataset *ds); /* never AUTO */
GR_API int64_t gr_dataset_size(const gr_dataset *ds);
/* One more than the greatest class, or the number of names; 0 without labels. */
GR_API int gr_dataset_n_classes(const gr_dataset *ds);
/* Borrowed; NULL where classes have no names. */
GR_API const char *gr_dataset_class_name(const gr_dataset *ds, int c);
/* The class of a sample; -1 without labels. 0 <= i < size here and below. */
GR_API int gr_dataset_class(const gr_dataset *ds, int64_t i);
GR_API bool gr_dataset_has_masks(const gr_dataset *ds);
/* What the sample is called in messages and results ("cats/001.jpg", "t10k-images[17]"), cut
 * at n_bytes; returns `text`. */
#define GR_DATASET_NAME 512
GR_API const char *gr_dataset_name(const gr_dataset *ds, int64_t i, char *text, size_t n_bytes);

/* Decodes a sample's image, or its mask. Messages begin with the file and say which sample.
 * GR_ERR_ARG where the data set holds none (an array of numbers that is no image). */
GR_API gr_status gr_dataset_image(const gr_dataset *ds, int64_t i, gr_image *out) GR_MUST_CHECK;
GR_API gr_status gr_dataset_mask(const gr_dataset *ds, int64_t i, gr_image *out) GR_MUST_CHECK;
/* Both; different sizes are GR_ERR_FORMAT with both files and sizes. */
GR_API gr_status gr_dataset_pair(const gr_dataset *ds, int64_t i, gr_image *image,
                                 gr_image *mask) GR_MUST_CHECK;
/* gr_image_probe() of a sample's image and mask; different sizes are GR_ERR_FORMAT. `scratch` is
 * the caller's and used over and over. Samples that are no images have nothing to look at. */
GR_API gr_status gr_dataset_probe(const gr_dataset *ds, int64_t i, gr_image *scratch) GR_MUST_CHECK;
/* idx, CIFAR, npy: one sample as it is stored, without a copy. `mem` points into the mapped
 * file and is valid until the data set is destroyed; it is aligned for its type. */
GR_API gr_status gr_dataset_tensor(const gr_dataset *ds, int64_t i, const void **mem,
                                   gr_dtype *dtype, gr_shape *shape) GR_MUST_CHECK;

/* ---- Dividing data ------------------------------------------------------------------ */

/* Sample numbers of each part; the arrays are owned by it. */
typedef struct gr_division {
    int64_t *train, *valid, *test;
    int64_t n_train, n_valid, n_test;
} gr_division;

/* Shares of n samples at random: as torch.utils.data.random_split(range(n), [1 - valid - test,
 * valid, test], Generator().manual_seed(seed)), number for number. GR_ERR_ARG for shares
 * outside [0, 1) or when a part that was asked for would be empty. */
GR_API gr_status gr_divide_ratio(gr_division *out, int64_t n, double valid, double test,
                                 uint64_t seed) GR_MUST_CHECK;
/* Fold number `fold` of k: every sample is in `valid` of exactly one fold. Folds differ by at
 * most one sample. The order is drawn once, from the seed, equal for all folds. */
GR_API gr_status gr_divide_folds(gr_division *out, int64_t n, int k, int fold,
                                 uint64_t seed) GR_MUST_CHECK;
GR_API void gr_division_fini(gr_division *d);

/* ---- Arrays and tokens -------------------------------------------------------------- */

/* A .npy file (versions 1 to 3), mapped. Types u1, b1, i4, i8, f2, f4, f8, little-endian; C
 * order, or Fortran order where both are the same; others are refused by name. */
typedef struct gr_array gr_array;

/* GR_ERR_IO when it cannot be mapped, GR_ERR_FORMAT for what is in it; both with the path.
 * Caller owns *out. Any thread. */
GR_API gr_status gr_array_open(gr_array **out, const char *path) GR_MUST_CHECK;
/* Accepts NULL. Unmaps: views are gone then. */
GR_API void gr_array_close(gr_array *a);
/* Name (the path), type, shape and memory; borrowed from the array, read only. */
GR_API const gr_named *gr_array_view(const gr_array *a);

/* A file of token numbers, u16 or u32 one after the other without a header, mapped: one copy
 * in memory for all ranks of a host. */
typedef struct gr_tokens gr_tokens;

/* token_bytes 2 or 4; 0 goes by the suffix .u16 or .u32. */
GR_API gr_status gr_tokens_open(gr_tokens **out, const char *path, int token_bytes) GR_MUST_CHECK;
GR_API void gr_tokens_close(gr_tokens *t);
GR_API int64_t gr_tokens_count(const gr_tokens *t);
/* n tokens from place `at` as i64. GR_ERR_ARG beyond the end, GR_ERR_FORMAT (with the place)
 * for a token of n_vocab or more; n_vocab 0 checks nothing. Any thread. */
GR_API gr_status gr_tokens_read(const gr_tokens *t, int64_t at, int64_t n, int64_t n_vocab,
                                int64_t *dst) GR_MUST_CHECK;

/* ---- Lengths ------------------------------------------------------------------------ */

/* A dimension that differs from sample to sample: "residues", "words". */
typedef struct gr_axis {
    const char *name;
    int64_t multiple; /* padded lengths are multiples of it, up to max; 0: 8 */
    int64_t max;      /* a sample that is longer is an error; 0: no limit */
    double cost;      /* of an element, in tokens; where all costs are 0 each is 1 */
} gr_axis;

/* ---- Batches of sequences ------------------------------------------------------------ */

/*
 * Which samples a rank takes together when they differ in length: those of like length, as many
 * as a budget of padded tokens holds. Each sample comes once an epoch over all ranks; every
 * epoch has other batches, but as many, and as many on every rank, so that all take the same
 * steps (only if all batches are single samples, some of these come twice for that). Ranks of
 * one step get neighbours in length. Equal configs but for `rank` give matching batches; nothing
 * is exchanged. See examples/token_budget.c.
 */
typedef struct gr_batches gr_batches;

typedef struct gr_batches_config {
    const int64_t *lengths; /* of the samples, in tokens; read during the call only */
    int64_t n_samples;
    int64_t max_tokens; /* samples x padded length of a batch is never more */
    int64_t max_batch;  /* samples of a batch; 0: what the budget allows */
    int64_t round_to;   /* padded lengths are multiples of it, up to the budget: each is a plan
                           of the step; 0: 64 */
    uint64_t seed;
    bool exact; /* for validation: in rising length, and ranks may differ by a batch */
    int rank, n_ranks;
} gr_batches_config;

#define GR_BATCHES_CONFIG_INIT \
    {                          \
        .n_ranks = 1           \
    }

typedef struct gr_batch_view {
    const int64_t *index; /* of its n samples */
    int64_t n;
    int64_t length; /* in tokens, that they are padded to */
} gr_batch_view;

/* GR_ERR_ARG names a sample that is longer than the budget, or says that there are fewer samples
 * than ranks. The caller owns *out. */
GR_API gr_status gr_batches_create(gr_batches **out, const gr_batches_config *config) GR_MUST_CHECK;
GR_API void gr_batches_destroy(gr_batches *b); /* NULL is fine */
/* Of one epoch, on this rank. */
GR_API int64_t gr_batches_count(const gr_batches *b);
/* Batch i of an epoch; both may be asked for in any order, so that resuming is going to a place.
 * index is valid until another epoch is asked for. One thread at a time; allocates when an epoch
 * is asked for first. */
GR_API gr_status gr_batches_at(gr_batches *b, int64_t epoch, int64_t i,
                               gr_batch_view *out) GR_MUST_CHECK;

/* ---- Shards ------------------------------------------------------------------------- */

typedef struct gr_pack_config {
    gr_dataset_config source;
    const char *out;    /* a folder that does not exist yet or is empty */
    int64_t shard_size; /* samples a file; 0: 10000 */
    int resize;         /* the shorter side becomes this if it is longer; 0: files as they are */
    /* Is told of each sample that is missing or broken, which is left out then; texts are valid
     * during the call. NULL: the first one ends the packing. */
    void (*left_out)(void *arg, int64_t index, const char *name, const char *why);
    void *arg;
} gr_pack_config;

#define GR_PACK_CONFIG_INIT              \
    {                                    \
        .source = GR_DATASET_CONFIG_INIT \
    }

typedef struct gr_pack_result {
    int64_t n_samples, n_shards;
    int64_t n_bytes;   /* of all shards */
    int64_t n_skipped; /* left out */
} gr_pack_result;

/* Writes a data set as shards (docs/data.md), each aside and renamed. Every image is decoded
 * once, so a broken file is found here: it ends the packing with its name, or goes to left_out(),
 * for which all are decoded once more, beforehand. None that is whole is an error. */
GR_API gr_status gr_pack(const gr_pack_config *config, gr_pack_result *out) GR_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif

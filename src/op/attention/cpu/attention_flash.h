/*
 * The fast kernels: what their files share. attention_flash.c has the drawing and the forward
 * loops, attention_flash_grad.c the backward ones, attention_flash_plan.c the plan.
 *
 * Everything is computed the other way round: queries are columns. A *panel* is 32 queries, a
 * *block* GR_FLASH_KEYS keys. Scores of a block and a panel are [keys][32], so that greatest
 * score, sum and everything else of a query lies in one lane of a vector, and nothing is ever
 * added across lanes.
 *
 * All products are  c[lines][32] (+)= sum over k of left[line][k] right[k][32 columns].  How
 * left and right lie in memory is the engine's business: rows of floats for the vector
 * kernels, or of words of two bf16 numbers; tiles for AMX.
 */
#ifndef GR_OP_ATTENTION_FLASH_H
#define GR_OP_ATTENTION_FLASH_H

#include "op/attention/attention_drop.h"
#include "op/attention/cpu/attention_kernels.h"
#include "op/matmul/cpu/matmul_kernels.h"

/* 64 bits wide, because offsets are made of them. */
#define GR_FLASH_COLS  ((int64_t)32)  /* of a panel */
#define GR_FLASH_KEYS  ((int64_t)128) /* of a block */
#define GR_FLASH_GROUP ((int64_t)4)   /* panels whose share of dk and dv is added at once */

/* Numbers of a left side's line of n bf16 numbers: lines do not all fall on the same cache sets. */
#define GR_FLASH_PAIRS_LINE(n) ((n) + 32)

typedef struct gr_flash gr_flash;

/* Some tokens' heads in memory: n rows of f->d.d numbers, `step` elements apart. */
typedef struct gr_flash_rows {
    const void *src;
    gr_dtype type;
    int64_t step;
    int64_t n;
} gr_flash_rows;

typedef struct gr_flash_product {
    const void *left, *right;
    int64_t left_step;  /* vectors: numbers from line to line; tiles: bytes from 32 lines to 32 */
    int64_t right_step; /* vectors: words from k to k + 1 */
    int64_t lines, cols, k;
    float *c; /* [lines][32]; tiles write up to the next 32 lines */
    bool add;
} gr_flash_product;

/* The scores of one block and one panel. */
typedef struct gr_flash_scores {
    float *s;            /* [n_pad][32]: products of q and k */
    const float *bias;   /* like s, or NULL */
    const float *keep;   /* like s: factors of dropout, or NULL */
    const uint8_t *mask; /* of the keys, or NULL */
    int64_t n_keys;      /* that any of these queries may see */
    int64_t n_pad;       /* rows of p as right side that must be written */
    int64_t n_rows;      /* rows of left sides that must be: all of the block */
    bool causal;
    int64_t ahead; /* key r is hidden from query i when ahead + r > i */
    float c;       /* s to a power of two: scale log2(e), and what the engine scales by */
} gr_flash_scores;

typedef struct gr_flash_forward {
    gr_flash_scores in;
    float *top, *sum; /* of 32 queries so far: in powers of two */
    float *acc;       /* [n_acc][32]: is scaled when top rises */
    int64_t n_acc;
    void *p; /* as right side with k = keys */
} gr_flash_forward;

typedef struct gr_flash_backward {
    gr_flash_scores in;
    const float *dp;          /* like s: v·do */
    float dp_scale;           /* the engine's */
    const float *lse, *delta; /* of 32 queries; lse in powers of two, +inf: give 0 */
    void *p, *ds_left;        /* as left sides with k = queries; NULL: not wanted */
    void *ds;                 /* as right side with k = keys; NULL: not wanted */
    float *ds_plain;          /* [keys][32]; NULL: not wanted */
} gr_flash_backward;

/* Vector code of an instruction set. */
typedef struct gr_flash_soft {
    void (*forward)(const gr_flash_forward *w);
    void (*backward)(const gr_flash_backward *w);
    /* acc[r][i] *= factor[i], r < n; false when one is not finite then. */
    bool (*finish)(float *acc, int64_t n, const float *factor);
    /* out[i] = a[i]·b[i] over d numbers, for each of a->n rows. */
    void (*dots)(float *out, const gr_flash_rows *a, const gr_flash_rows *b, int64_t d);
    /* keep[r][i] for keys from + r, r < n, and queries q + i. */
    void (*drop)(float *keep, const gr_attention_drop *d, const gr_attention_stream *st,
                 int64_t from, int64_t q, int64_t n);
} gr_flash_soft;

/* How products are done. Left sides of n lines and k; right sides of 32 columns. */
typedef struct gr_flash_engine {
    const gr_flash_soft *soft; /* of f32 and f16, or of all types */
    const gr_flash_soft *soft_bf16;
    const gr_tile_isa *tile;
    bool tiles;  /* AMX */
    int64_t pad; /* rows of p come in a multiple of this, the last ones as 0 */
    void (*begin)(void);
    void (*end)(void);
    /* line = row, k = column; and line = column, k = row, up to GR_FLASH_KEYS rows */
    void (*left_rows)(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
    void (*left_cols)(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
    /* column = row of m (32 at most), k = column of m */
    void (*right_rows)(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
    /* columns = columns of m, in panels of 32; k = rows of m, GR_FLASH_GROUP panels at most */
    void (*right_cols)(const gr_flash *f, void *dst, const gr_flash_rows *m);
    void (*product)(const gr_flash *f, const gr_flash_product *p);
} gr_flash_engine;

/* Bytes and steps of every kind of side. */
typedef struct gr_flash_sizes {
    size_t left_rows, left_cols; /* of a block */
    int64_t left_rows_step, left_cols_step;
    size_t right_rows; /* of a panel */
    size_t right_cols; /* of a group */
    int64_t right_cols_step;
    size_t right_cols_panel; /* bytes from 32 columns to the next */
    size_t p;                /* a panel's p as right side, k = a block's keys */
    int64_t p_step;
    size_t p_left; /* a group's p as left side, k = its queries */
    int64_t p_left_step;
    size_t p_left_panel; /* bytes from a panel's k to the next */
} gr_flash_sizes;

struct gr_flash {
    gr_attention_dims d;
    const gr_attention_attr *at;
    const gr_flash_engine *e;
    const gr_flash_soft *soft;
    gr_dtype type;   /* of q, k and v */
    bool is_f32;     /* tiles: three parts of each number */
    float scale_out; /* products to what they are */
    int64_t n_panels, n_blocks;
    int64_t d_pad; /* d up to a multiple of 32 */
    int64_t chunk; /* panels that are worked on together */
    bool by_head;  /* gradient: a slice takes whole key heads, all of it in one go */
    int n_slices;
    gr_flash_sizes z;
    size_t slice_bytes;
    void *other; /* prepared for the kernel that takes over when a result is not finite */
};

const char *gr_flash_reject(const gr_node *n);
gr_status gr_flash_prepare(gr_prepare *p, const gr_flash_engine *e) GR_MUST_CHECK;
size_t gr_flash_workspace(const gr_node *n, const void *data);
void gr_flash_release(void *data);

/* Bytes of a slice, from the same walk that hands them out. */
size_t gr_flash_forward_bytes(const gr_flash *f);
size_t gr_flash_grad_bytes(const gr_flash *f);

/* Bytes of a slice that adds up the gradient of a bias that is stretched. */
size_t gr_flash_bias_bytes(const gr_flash *f);
/* The bias is as large as all scores, so each of its gradients is one number. */
bool gr_flash_bias_is_full(const gr_flash *f);
void gr_flash_bias_run(const gr_flash *f, const gr_launch *l);

gr_status gr_flash_run(const gr_launch *l) GR_MUST_CHECK;
gr_status gr_flash_grad_run(const gr_launch *l) GR_MUST_CHECK;

/* ---- what both directions use ---- */

/* Hands out parts of a slice's workspace; with base NULL it only counts. */
typedef struct gr_flash_room {
    char *base;
    size_t used;
} gr_flash_room;

/* Items of a dealt piece, when each of n_heads has n: whole heads if there are enough. */
int64_t gr_flash_grain(const gr_flash *f, int64_t n_heads, int64_t n);

void *gr_flash_take(gr_flash_room *r, size_t n_bytes);

/* What a slice works on, in either direction. */
typedef struct gr_flash_place {
    const gr_flash *f;
    const gr_launch *l;
    gr_attention_drop drop;
    gr_attention_stream stream; /* of b and h */
    int64_t b, h;               /* sample and query head */
    float *tmp;                 /* room for a block's rows as floats */
    float *bias, *keep;         /* of a block and a panel, or NULL */
} gr_flash_place;

void gr_flash_place_init(gr_flash_place *p, const gr_flash *f, const gr_launch *l,
                         gr_flash_room *room);
void gr_flash_place_at(gr_flash_place *p, int64_t b, int64_t h);
/* Tokens [from, from + n) of source s (0 q, 1 k, 2 v, 3 o, 5 do) at the place. */
gr_flash_rows gr_flash_rows_of(const gr_flash_place *p, int s, int64_t from, int64_t n);
/* Fills all but s: the block of keys from `key`, the panel of queries from `q`. */
void gr_flash_scores_of(const gr_flash_place *p, gr_flash_scores *w, int64_t key, int64_t q);
/* Rows as floats, d_pad apart, padded with 0; rows from m->n to n are 0, too. */
void gr_flash_widen(const gr_flash *f, float *dst, const gr_flash_rows *m, int64_t n);

/* The backward side of a panel and a block: what attention_flash_grad.c and _bias.c share. */
typedef struct gr_flash_pair {
    const char *k, *v, *q, *d_o; /* packed: left_rows of the block, right_rows of the panel */
    const float *lse, *delta;
    float *s, *dp; /* [GR_FLASH_KEYS][32] each; start as 0 */
} gr_flash_pair;

/* Scores and v·do of the pair, then soft->backward, which fills what `w` asks for. */
void gr_flash_backward_of(const gr_flash_place *p, const gr_flash_pair *x, gr_flash_backward *w,
                          int64_t key, int64_t q);
/* lse in powers of two and delta of the 32 queries from q. */
void gr_flash_rows_stats(const gr_flash_place *p, float *lse, float *delta, int64_t q);
/* ds of a block and a panel, [keys][32], to where the bias's gradient is. */
void gr_flash_bias_put(const gr_flash_place *p, const float *ds, int64_t key, int64_t n_keys,
                       int64_t q);

extern const gr_flash_engine gr_flash_avx512_bf16, gr_flash_avx512, gr_flash_avx2, gr_flash_amx;

/* The vector engine, over any tile. */
void gr_flash_left_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
void gr_flash_left_cols(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
void gr_flash_right_rows(const gr_flash *f, void *dst, const gr_flash_rows *m, float *tmp);
void gr_flash_right_cols(const gr_flash *f, void *dst, const gr_flash_rows *m);
void gr_flash_multiply(const gr_flash *f, const gr_flash_product *p);
void gr_flash_nothing(void);

#endif

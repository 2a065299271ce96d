/*
 * cuDNN's graph interface in C: descriptors are made, given attributes and finished, one after the
 * other. The first failure is kept as text, and everything after it does nothing, so that a graph
 * is written down without a check per line and asked once at its end.
 */
#ifndef GR_OP_CONV_CUDA_DNN_CUDNN_H
#define GR_OP_CONV_CUDA_DNN_CUDNN_H

#include "backend/cuda/lib_cudnn.h"
#include "base/text.h"
#include "graph/op.h"

#define GR_DNN_DESCRIPTORS 96

typedef cudnnBackendDescriptor_t gr_dnn_desc;

typedef struct gr_dnn {
    const gr_cudnn *fn;
    cudnnHandle_t handle;                 /* borrowed from the device */
    gr_dnn_desc made[GR_DNN_DESCRIPTORS]; /* to be destroyed, last first */
    int n_made;
    bool is_bad;
    char why[GR_WHY_BYTES]; /* of the first failure */
} gr_dnn;

void gr_dnn_fini(gr_dnn *d);

/* Descriptors that live as long as *d. */
gr_dnn_desc gr_dnn_make(gr_dnn *d, cudnnBackendDescriptorType_t type);
void gr_dnn_set(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *mem);
void gr_dnn_set_int(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name, int64_t value);
void gr_dnn_set_desc(gr_dnn *d, gr_dnn_desc x, cudnnBackendAttributeName_t name, gr_dnn_desc value);
void gr_dnn_finish(gr_dnn *d, gr_dnn_desc x, const char *what);
/* Forgets descriptors from number n on, and failures: for attempts. */
void gr_dnn_rewind(gr_dnn *d, int n);

/* What a plan may do. */
typedef struct gr_dnn_rules {
    bool true_f32; /* no tensor cores, which round f32 to TF32 */
    size_t work_limit;
} gr_dnn_rules;

typedef struct gr_dnn_choice {
    gr_dnn_desc plan;
    size_t work_bytes;
} gr_dnn_choice;

/* Engines for the finished graph, with knobs, best guess first, those that the rules exclude left
 * out: names "engine=34 k2=20 k14=3", a line each, that the next process understands. */
void gr_dnn_names(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, gr_text *names,
                  int n_most);

/* The plan of that name; the best guess. False: d->why says why not. */
bool gr_dnn_plan(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, const char *name,
                 gr_dnn_choice *out);
bool gr_dnn_first(gr_dnn *d, gr_dnn_desc graph, const gr_dnn_rules *rules, gr_dnn_choice *out);

#endif

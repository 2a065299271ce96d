/* What the toy's CPU and CUDA kernels share: a fusion in a form that both can walk. */
#ifndef GR_TESTS_TOY_TOY_BODY_H
#define GR_TESTS_TOY_TOY_BODY_H

#include "graph/fusion.h"
#include "op/map/scalar.h"

#ifdef __CUDACC__
#define TOY_FN static __host__ __device__ inline
#else
#define TOY_FN static inline
#endif

#define TOY_MAX_SRC   4
#define TOY_MAX_INSTR 8

typedef struct toy_instr {
    int fn, a, b;
    float k;
} toy_instr;

/* A program with its sources: where, and how far from row to row and column to column. */
typedef struct toy_program {
    int n_src, n_instr, first;
    toy_instr instr[TOY_MAX_INSTR];
    const float *src[TOY_MAX_SRC];
    int64_t row_step[TOY_MAX_SRC], col_step[TOY_MAX_SRC];
} toy_program;

typedef struct toy_end {
    int reg;
    gr_fate fate;
    float *out;
} toy_end;

typedef struct toy_args {
    int64_t rows, cols;
    const float *x, *w;
    toy_program load, end;
    int n_ends;
    toy_end ends[GR_FUSION_MAX_ENDS];
} toy_args;

/* ---- making ---- */

static inline const char *toy_program_takes(const gr_node *n, const gr_fused_program *f)
{
    const gr_program *p = f->program;

    if (p->n_src > TOY_MAX_SRC || p->n_instr > TOY_MAX_INSTR)
        return "takes short programs";
    for (int i = 0; i < p->n_instr; i++)
        if (p->instr[i].fn != GR_FN_CONST && p->instr[i].fn != GR_FN_ADD &&
            p->instr[i].fn != GR_FN_MUL && p->instr[i].fn != GR_FN_RELU)
            return "knows add, mul and relu";
    for (int s = 1; s < p->n_src; s++)
        if (n->src[f->first + s - 1]->dtype != GR_F32)
            return "programs read f32";
    return NULL;
}

static inline const char *toy_takes(const gr_node *n, const gr_fusion *f)
{
    const char *why = toy_program_takes(n, &f->end);

    if (why)
        return why;
    if (gr_fusion_load(n, 1))
        return "loads w as it lies";
    if (gr_fusion_load(n, 0) && toy_program_takes(n, &f->load[0]))
        return toy_program_takes(n, &f->load[0]);
    if (n->src[0]->dtype != GR_F32)
        return "loads f32";
    for (int i = 0; i < f->n_ends; i++)
        if (f->ends[i].dtype != GR_F32 ||
            (f->ends[i].fate != GR_FATE_STORE && f->ends[i].axes != 1))
            return "stores, and reduces over rows, in f32";
    return NULL;
}

static inline void toy_program_init(toy_program *out, const gr_node *n, const gr_fused_program *f)
{
    out->n_src = f->program->n_src;
    out->n_instr = f->program->n_instr;
    out->first = f->first;
    for (int i = 0; i < out->n_instr; i++) {
        out->instr[i].fn = f->program->instr[i].fn;
        out->instr[i].a = f->program->instr[i].reg[0];
        out->instr[i].b = f->program->instr[i].reg[1];
        out->instr[i].k = (float)f->program->instr[i].k;
    }
    for (int s = 1; s < out->n_src; s++) {
        const gr_shape *shape = &n->src[f->first + s - 1]->shape;
        int64_t cols = shape->n_dims > 0 ? shape->dim[shape->n_dims - 1] : 1;

        out->col_step[s] = cols > 1;
        out->row_step[s] = shape->n_dims > 1 && shape->dim[0] > 1 ? cols : 0;
    }
}

/* All but the addresses. */
static inline void toy_args_init(toy_args *a, const gr_node *n)
{
    const gr_fusion *f = n->fusion;

    a->rows = n->src[0]->shape.dim[0];
    a->cols = n->src[0]->shape.dim[1];
    a->load.n_src = a->end.n_src = 1;
    a->n_ends = f ? f->n_ends : 1;
    if (!f)
        return;
    toy_program_init(&a->end, n, &f->end);
    if (gr_fusion_load(n, 0))
        toy_program_init(&a->load, n, &f->load[0]);
    for (int i = 0; i < f->n_ends; i++) {
        a->ends[i].reg = f->ends[i].reg;
        a->ends[i].fate = f->ends[i].fate;
    }
}

static inline void toy_args_place(toy_args *a, const gr_launch *l)
{
    a->x = (const float *)l->src[0];
    a->w = (const float *)l->src[1];
    for (int s = 1; s < a->load.n_src; s++)
        a->load.src[s] = (const float *)l->src[a->load.first + s - 1];
    for (int s = 1; s < a->end.n_src; s++)
        a->end.src[s] = (const float *)l->src[a->end.first + s - 1];
    for (int i = 0; i < a->n_ends; i++)
        a->ends[i].out = (float *)l->out[i];
}

/* ---- running ---- */

/* Fills the registers after the program's source 0, which is there; returns the last one. */
TOY_FN float toy_program_run(const toy_program *p, float *reg, int64_t i, int64_t j)
{
    for (int s = 1; s < p->n_src; s++)
        reg[s] = p->src[s][i * p->row_step[s] + j * p->col_step[s]];
    for (int k = 0; k < p->n_instr; k++) {
        const toy_instr *in = &p->instr[k];
        float a = in->a < 0 ? in->k : reg[in->a];

        if (in->fn == GR_FN_ADD)
            a += reg[in->b];
        else if (in->fn == GR_FN_MUL)
            a *= reg[in->b];
        else if (in->fn == GR_FN_RELU)
            a = a < 0 ? 0 : a;
        reg[p->n_src + k] = a;
    }
    return reg[p->n_src + p->n_instr - 1];
}

/* All registers of one element. */
TOY_FN void toy_registers(const toy_args *a, int64_t i, int64_t j, float *reg)
{
    reg[0] = a->x[i * a->cols + j];
    reg[0] = toy_program_run(&a->load, reg, i, j) * a->w[j];
    toy_program_run(&a->end, reg, i, j);
}

/* One element: stored ends go to their places, others are added to `sums`. */
TOY_FN void toy_element(const toy_args *a, int64_t i, int64_t j, float *const *sums)
{
    float reg[TOY_MAX_SRC + TOY_MAX_INSTR];

    toy_registers(a, i, j, reg);
    for (int e = 0; e < a->n_ends; e++)
        if (a->ends[e].fate == GR_FATE_STORE)
            a->ends[e].out[i * a->cols + j] = reg[a->ends[e].reg];
        else
            *sums[e] += reg[a->ends[e].reg];
}

/* What becomes of a column's sum. */
TOY_FN void toy_finish(const toy_args *a, const toy_end *e, int64_t j, float sum)
{
    float mean = sum / (float)a->rows, squares = 0, reg[TOY_MAX_SRC + TOY_MAX_INSTR];

    if (e->fate == GR_FATE_SUM)
        e->out[j] = sum;
    if (e->fate == GR_FATE_MEAN)
        e->out[j] = mean;
    if (e->fate != GR_FATE_M2)
        return;
    for (int64_t i = 0; i < a->rows; i++) {
        toy_registers(a, i, j, reg);
        squares += (reg[e->reg] - mean) * (reg[e->reg] - mean);
    }
    e->out[j] = squares;
}

/* A column from top to bottom. */
TOY_FN void toy_column(const toy_args *a, int64_t j)
{
    float sum[GR_FUSION_MAX_ENDS] = { 0, 0, 0, 0 };
    float *sums[GR_FUSION_MAX_ENDS] = { &sum[0], &sum[1], &sum[2], &sum[3] };

    for (int64_t i = 0; i < a->rows; i++)
        toy_element(a, i, j, sums);
    for (int e = 0; e < a->n_ends; e++)
        if (a->ends[e].fate != GR_FATE_STORE)
            toy_finish(a, &a->ends[e], j, sum[e]);
}

#endif

/*
 * Joining: sources first, because registers are numbered behind them; then the
 * producer's instructions, then the reader's, whose last one stays last.
 */
#include "op/map/join.h"

#include <string.h>

typedef struct joiner {
    gr_joined *out;
    const gr_join_limits *limits;
    bool fits;
} joiner;

static int16_t add_source(joiner *j, gr_value *v)
{
    gr_program *p = &j->out->p;

    for (int i = 0; i < p->n_src; i++)
        if (j->out->src[i] == v)
            return (int16_t)i;
    if (p->n_src == j->limits->n_src) {
        j->fits = false;
        return 0;
    }
    j->out->src[p->n_src] = v;
    return (int16_t)p->n_src++;
}

static int16_t emit(joiner *j, const gr_instr *in, bool is_last)
{
    gr_program *p = &j->out->p;

    for (int i = 0; i < p->n_instr && !is_last; i++) {
        const gr_instr *old = &p->instr[i];

        if (old->fn == in->fn && memcmp(old->reg, in->reg, sizeof(in->reg)) == 0 &&
            memcmp(&old->k, &in->k, sizeof(in->k)) == 0) /* bits: -0 is not 0 */
            return (int16_t)(p->n_src + i);
    }
    if (p->n_instr == j->limits->n_instr) {
        j->fits = false;
        return 0;
    }
    p->instr[p->n_instr] = *in;
    return (int16_t)(p->n_src + p->n_instr++);
}

/* Writes the instructions of `p`, whose source i is register reg[i] here; returns the
 * register of the result. */
static int16_t write_program(joiner *j, const gr_program *p, int16_t *reg)
{
    for (int i = 0; i < p->n_instr && j->fits; i++) {
        gr_instr in = p->instr[i];

        for (int a = 0; a < 3; a++)
            if (in.reg[a] >= 0)
                in.reg[a] = reg[in.reg[a]];
        reg[p->n_src + i] = emit(j, &in, i + 1 == p->n_instr);
    }
    return reg[p->n_src + p->n_instr - 1]; /* of source 0 when it only copies */
}

bool gr_map_join(gr_joined *out, const gr_node *reader, const gr_value *v,
                 const gr_join_limits *limits)
{
    const gr_program *first = (const gr_program *)v->node->attr;
    const gr_program *then = (const gr_program *)reader->attr;
    int16_t reg_first[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];
    int16_t reg_then[GR_MAP_MAX_SRC + GR_MAP_MAX_INSTR];
    joiner j = { .out = out, .limits = limits, .fits = true };
    int16_t result;

    *out = (gr_joined){ .p = { .shape = then->shape, .dtype = then->dtype } };
    for (int i = 0; i < reader->n_src; i++) {
        for (int k = 0; reader->src[i] == v && k < v->node->n_src; k++)
            reg_first[k] = add_source(&j, v->node->src[k]);
        if (reader->src[i] != v)
            reg_then[i] = add_source(&j, reader->src[i]);
    }
    if (!j.fits)
        return false;
    result = write_program(&j, first, reg_first);
    for (int i = 0; i < reader->n_src; i++)
        if (reader->src[i] == v)
            reg_then[i] = result;
    write_program(&j, then, reg_then);
    return j.fits;
}

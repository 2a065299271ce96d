/*
 * The fingerprint: what every rank must agree on before step 1, one line per key. Ranks
 * that differ would train different models or wait for each other's collectives.
 */
#include <stdio.h>

#include "step/private.h"

static const char *amp_name(gr_amp amp)
{
    return amp == GR_AMP_BF16 ? "bf16" : amp == GR_AMP_F16 ? "fp16" : "none";
}

static const char *init_name(gr_init_kind kind)
{
    return kind == GR_INIT_UNIFORM ? "uniform" : kind == GR_INIT_NORMAL ? "normal" : "constant";
}

static void add_variables(const gr_vars *vars, gr_text *out)
{
    char shape[GR_SHAPE_TEXT];

    gr_text_addf(out, "number of variables = %d\n", vars->n);
    for (int i = 0; i < vars->n; i++) {
        const gr_var *v = vars->list[i];

        gr_text_addf(out, "variable %d = %s, %s %s%s, %s(%.9g, %.9g)", i, v->name,
                     gr_dtype_name(v->dtype), gr_shape_text(gr_var_whole(v), shape, sizeof(shape)),
                     v->frozen ? ", frozen" : "", init_name(v->init.kind), v->init.a, v->init.b);
        if (v->init.zeros > 0)
            gr_text_addf(out, ", row %lld zeros", (long long)v->init.zeros - 1);
        gr_text_add(out, "\n");
    }
}

/* A config text has lines of its own; as "config N" they stay one key each. */
static void add_config(const char *text, gr_text *out)
{
    int line = 1;

    while (*text) {
        const char *end = text;

        while (*end && *end != '\n')
            end++;
        gr_text_addf(out, "config line %d = %.*s\n", line++, (int)(end - text), text);
        text = *end ? end + 1 : end;
    }
}

gr_status gr_step_compare(gr_step *s)
{
    gr_text t = GR_TEXT_INIT;
    gr_status st;

    if (gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    gr_text_addf(&t, "seed = %llu\n", (unsigned long long)s->c.seed);
    gr_text_addf(&t, "device kind = %s\n", s->device->ops->name);
    gr_text_addf(&t, "amp = %s\n", amp_name(s->c.amp));
    gr_text_addf(&t, "accumulate = %d\n", s->c.accumulate);
    gr_text_addf(&t, "synchronised batch norm = %s\n", s->c.sync_bn ? "yes" : "no");
    gr_text_addf(&t, "grad_dtype = %s\n", gr_dtype_name(s->c.grad_dtype));
    gr_text_addf(&t, "loss_reduction = %s\n",
                 s->c.loss_reduction == GR_LOSS_GLOBAL ? "global" : "local");
    gr_text_addf(&t, "check every = %d\n", s->c.check_every);
    gr_text_addf(&t, "zero = %d\n", s->c.zero);
    gr_text_addf(&t, "frozen parts = %d\n", s->n_frozen);
    gr_text_addf(&t, "passes left out = %s\n", s->c.without);
    gr_text_addf(&t, "GR_COMMON_FROM = %zu\n", s->common_from);
    gr_text_add(&t, "optimiser = ");
    gr_optim_print(&s->update, &t);
    gr_text_add(&t, "\n");
    add_config(s->c.config_text, &t);
    add_variables(s->vars, &t);
    gr_buckets_print(&s->buckets, &t);
    gr_meetings_print(&s->meetings, &t);
    st = gr_text_status(&t);
    if (st == GR_OK)
        st = gr_pg_compare(s->c.pg, gr_text_str(&t));
    gr_text_fini(&t);
    return st;
}

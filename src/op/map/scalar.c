/* The table of scalar functions as data: names, source text, gradient rules. Any thread. */
#include "op/map/scalar.h"

#include "base/status.h"

#include <string.h>

static const struct {
    const char *name;
    int arity;
    gr_scalar_kind kind;
    const char *source;
    const char *grad[3];
} table[GR_FN_COUNT] = {
#define X(id, name, arity, kind, formula, da, db, dc) \
    { name, arity, GR_SCALAR_##kind, #formula, { da, db, dc } },
    GR_SCALAR_MAP(X)
#undef X
};

const char *gr_scalar_name(gr_scalar_fn fn)
{
    GR_BUG_IF((unsigned)fn >= GR_FN_COUNT);
    return table[fn].name;
}

int gr_scalar_arity(gr_scalar_fn fn)
{
    GR_BUG_IF((unsigned)fn >= GR_FN_COUNT);
    return table[fn].arity;
}

gr_scalar_kind gr_scalar_kind_of(gr_scalar_fn fn)
{
    GR_BUG_IF((unsigned)fn >= GR_FN_COUNT);
    return table[fn].kind;
}

const char *gr_scalar_source(gr_scalar_fn fn)
{
    GR_BUG_IF((unsigned)fn >= GR_FN_COUNT);
    return table[fn].source;
}

const char *gr_scalar_grad(gr_scalar_fn fn, int arg)
{
    GR_BUG_IF((unsigned)fn >= GR_FN_COUNT || arg < 0 || arg > 2);
    return table[fn].grad[arg];
}

bool gr_scalar_find(const char *name, gr_scalar_fn *fn)
{
    for (int i = 0; i < GR_FN_COUNT; i++)
        if (strcmp(table[i].name, name) == 0) {
            *fn = (gr_scalar_fn)i;
            return true;
        }
    return false;
}

/* Matrix products by oneDNN, API 2.x (Debian 12). See matmul_onednn_body.h. */
#include "op/matmul/cpu/matmul_onednn.h"

#define ONEDNN_PARTS(n_threads) (n_threads)

static gr_status check(dnnl_status_t s, const char *what);

static gr_status make_memory(part *t, dnnl_engine_t engine, const dnnl_memory_desc_t md[3],
                             const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

    for (int i = 0; i < 3; i++)
        GR_TRY(check(dnnl_memory_create(&t->memory[i], &md[i], engine, DNNL_MEMORY_NONE),
                     "describing an operand"));
    t->n_scratch = dnnl_memory_desc_get_size(scratch);
    return check(dnnl_memory_create(&t->memory[MEMORY_SCRATCH], scratch, engine, DNNL_MEMORY_NONE),
                 "describing scratch memory");
}

static gr_status make_primitive(part *t, dnnl_engine_t engine, const gr_matmul_dims *d,
                                const gr_matmul_attr *at)
{
    /* One matrix is given without its batch dimension: other kernels take it then. */
    int skip = t->extent.z[1] - t->extent.z[0] == 1 ? 1 : 0;
    dnnl_memory_desc_t md[3];
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    part_layout y;
    gr_status st;

    part_lay_out(t, d, at, &y);
    for (int i = 0; i < 3; i++)
        GR_TRY(check(dnnl_memory_desc_init_by_strides(&md[i], 3 - skip, y.dims[i] + skip, dnnl_f32,
                                                      y.steps[i] + skip),
                     "describing an operand"));
    GR_TRY(check(dnnl_matmul_desc_init(&desc, &md[0], &md[1], NULL, &md[2]), "describing"));
    GR_TRY(check(dnnl_primitive_attr_create(&attr), "creating attributes"));
    GR_TRY_GOTO(st,
                check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                      "setting the scratchpad"),
                out);
    GR_TRY_GOTO(st, check(dnnl_primitive_desc_create(&pd, &desc, attr, engine, NULL), "choosing"),
                out);
    GR_TRY_GOTO(st, check(dnnl_primitive_create(&t->primitive, pd), "creating a product"), out);
    st = make_memory(t, engine, md, pd);
out:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

#include "op/matmul/cpu/matmul_onednn_body.h"

/* Matrix products by oneDNN, API 3.x. See matmul_onednn_body.h. */
#include "op/matmul/cpu/matmul_onednn.h"

/* One part: with Debian 13's library (3.6) two threads that each ran a product of their own
 * gave wrong numbers. The kernel serves machines without AVX-512 only. */
#define ONEDNN_PARTS(n_threads) ((void)(n_threads), 1)

static gr_status check(dnnl_status_t s, const char *what);

static gr_status make_memory(part *t, dnnl_engine_t engine, const dnnl_memory_desc_t md[3],
                             const_dnnl_primitive_desc_t pd)
{
    const_dnnl_memory_desc_t scratch =
        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

    for (int i = 0; i < 3; i++)
        GR_TRY(check(dnnl_memory_create(&t->memory[i], md[i], engine, DNNL_MEMORY_NONE),
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
    dnnl_memory_desc_t md[3] = { NULL, NULL, NULL };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    part_layout y;
    gr_status st = GR_OK;

    part_lay_out(t, d, at, &y);
    for (int i = 0; i < 3; i++)
        GR_TRY_GOTO(st,
                    check(dnnl_memory_desc_create_with_strides(&md[i], 3 - skip, y.dims[i] + skip,
                                                               dnnl_f32, y.steps[i] + skip),
                          "describing an operand"),
                    out);
    GR_TRY_GOTO(st, check(dnnl_primitive_attr_create(&attr), "creating attributes"), out);
    GR_TRY_GOTO(st,
                check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                      "setting the scratchpad"),
                out);
    GR_TRY_GOTO(
        st,
        check(dnnl_matmul_primitive_desc_create(&pd, engine, md[0], md[1], NULL, md[2], attr),
              "choosing"),
        out);
    GR_TRY_GOTO(st, check(dnnl_primitive_create(&t->primitive, pd), "creating a product"), out);
    st = make_memory(t, engine, md, pd);
out:
    for (int i = 0; i < 3; i++)
        if (md[i])
            dnnl_memory_desc_destroy(md[i]);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return st;
}

#include "op/matmul/cpu/matmul_onednn_body.h"

/*
 * Transposed convolutions whose out_pad is not less than the stride, only than the dilation:
 * several nodes, beside PyTorch. Padding that makes up for it, padding that does not, none.
 */
#include "op/composed.h"

#include "gradus/conv.h"

static gr_value *below_dilation(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 1, 1 }, { 1, 1 }, { 2, 2 }, 1, { 1, 1 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

static gr_value *no_padding(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 2, 2 }, { 0, 0 }, { 4, 4 }, 1, { 3, 3 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

static gr_value *beyond_padding(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 1, 2 }, { 1, 1 }, { 4, 4 }, 1, { 3, 3 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

static gr_value *groups(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 2, 2 }, { 3, 3 }, { 5, 5 }, 2, { 4, 4 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

static gr_value *one_axis(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 1, 1 }, { 0, 3 }, { 2, 2 }, 1, { 0, 1 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

/* Padding cuts off all that a tap reaches: zeros. */
static gr_value *behind_nothing(gr_graph *g, gr_value *const *src)
{
    const gr_conv o = { { 1, 1 }, { 2, 1 }, { 10, 10 }, 1, { 9, 9 } };

    return gr_conv_transpose2d(g, src[0], src[1], &o);
}

int main(void)
{
    static const composed_case cases[] = {
        { "transposed, out_pad below the dilation", below_dilation, 2, 2, 54 },
        { "transposed, out_pad and no padding", no_padding, 2, 2, 54 },
        { "transposed, out_pad beyond the padding", beyond_padding, 2, 2, 54 },
        { "transposed, out_pad of groups", groups, 2, 2, 54 },
        { "transposed, out_pad behind nothing", behind_nothing, 2, 2, 54 },
        { "transposed, out_pad of one axis", one_axis, 2, 2, 54 },
    };

    composed_check("conv", cases, (int)(sizeof(cases) / sizeof(cases[0])));
    return 0;
}

/*
 * Weights of bf16 in panels of words (op/conv/cpu/conv_words_body.h): every word is where the
 * kernels' layout says, zeros where there is no channel or column, and nothing is read beyond the
 * weight. Packing needs no tiles, so the panels of AMX are looked at on processors without it.
 */
#include "base/cpu.h"
#include "check.h"
#include "op/conv/cpu/conv_sweep.h"
#include "op/matmul/cpu/matmul_amx.h"

#include <stdlib.h>
#include <string.h>

typedef struct layout {
    const gr_conv_isa *isa;
    int64_t pair; /* channels between the two of a word */
    /* Byte of the panel at which the word of channels k and k + pair lies. */
    int64_t (*word_at)(const gr_conv_panel *p, int tap, int64_t k, int64_t col);
} layout;

static int64_t avx512_word_at(const gr_conv_panel *p, int tap, int64_t k, int64_t col)
{
    return ((tap * ((p->run + 1) / 2) + k / 2) * GR_CONV_COLS + col) * 4;
}

static int64_t amx_word_at(const gr_conv_panel *p, int tap, int64_t k, int64_t col)
{
    const int64_t step = gr_amx_step_bytes(false, gr_amx_tiles(p->n_cols));

    return (k / GR_AMX_K * p->grid->n_taps + tap) * step + col / 16 * GR_AMX_TILE +
           k % GR_AMX_K * 64 + col % 16 * 4;
}

static uint16_t weight_at(const gr_conv_panel *p, int tap, int64_t k, int64_t col)
{
    if (k >= p->run || col >= p->n_cols)
        return 0;
    return ((const uint16_t *)p->w)[p->grids->run_at[p->run_lo + k] +
                                    (p->col + col) * p->grids->col_at + p->grid->taps[tap].at];
}

static void check_panel(const layout *l, const gr_conv_panel *p)
{
    const int64_t n_cols = l->pair == 1 ? GR_CONV_COLS : 16 * gr_amx_tiles(p->n_cols);

    for (int t = 0; t < p->grid->n_taps; t++)
        for (int64_t k = 0; k < p->run; k++)
            for (int64_t col = 0; col < n_cols && (l->pair > 1 ? k % 32 < 16 : k % 2 == 0); col++) {
                uint32_t want =
                    weight_at(p, t, k, col) | (uint32_t)weight_at(p, t, k + l->pair, col) << 16;
                uint32_t have;

                memcpy(&have, p->dst + l->word_at(p, t, k, col), sizeof(have));
                GR_CHECK_EQ(have, want);
            }
}

static void check_panels(const layout *l, gr_conv_panel *p, int64_t pass)
{
    for (p->run_lo = 0; p->run_lo < p->grids->run; p->run_lo += pass)
        for (p->col = 0; p->col < p->grids->cols; p->col += l->isa->cols) {
            const int64_t rest = p->grids->cols - p->col, left = p->grids->run - p->run_lo;
            size_t n_bytes;

            p->run = left < pass ? left : pass;
            p->n_cols = (int)(rest < l->isa->cols ? rest : l->isa->cols);
            n_bytes = (size_t)l->isa->panel_bytes(true, p->run, p->grid->n_taps);
            p->dst = aligned_alloc(64, (n_bytes + 63) / 64 * 64 + 64);
            memset(p->dst, 0x5a, n_bytes);
            GR_CHECK(l->isa->pack_panel(p));
            check_panel(l, p);
            free(p->dst);
        }
}

static uint16_t *make_weight(int64_t n)
{
    uint16_t *w = malloc((size_t)n * sizeof(*w));

    for (int64_t i = 0; i < n; i++)
        w[i] = (uint16_t)(0x3c00 + i * 7 % 0x300); /* no subnormals among them */
    return w;
}

static void test_conv(const layout *l, const gr_conv_dims *d, bool is_data)
{
    gr_conv_grids g;
    uint16_t *w = make_weight(d->co * (d->ci / d->groups) * d->k[0] * d->k[1]);
    gr_conv_panel p = { .grids = &g, .low = true };

    GR_CHECK_OK(gr_conv_grids_init(&g, d, is_data, 32));
    for (int i = 0; i < g.n; i++) {
        p.grid = &g.grids[i];
        for (int64_t group = 0; group < d->groups; group++) {
            p.w = w + group * g.group_at;
            check_panels(l, &p, g.run);
            check_panels(l, &p, 64); /* several passes over the channels */
        }
    }
    gr_conv_grids_fini(&g);
    free(w);
}

#define SQUARE(size, from, to, kernel, step, padding, group)                             \
    {                                                                                    \
        .n = 2, .in = { size, size }, .k = { kernel, kernel }, .ci = (from), .co = (to), \
        .groups = (group), .stride = { step, step }, .pad = { padding, padding },        \
        .dilation = { 1, 1 },                                                            \
        .out = { ((size) + 2 * (padding) - (kernel)) / (step) + 1,                       \
                 ((size) + 2 * (padding) - (kernel)) / (step) + 1 },                     \
    }

static const gr_conv_dims convs[] = {
    SQUARE(6, 64, 64, 3, 1, 1, 1),   SQUARE(7, 40, 72, 3, 2, 1, 1),  SQUARE(5, 33, 17, 3, 1, 1, 1),
    SQUARE(6, 48, 80, 1, 2, 0, 1),   SQUARE(9, 20, 5, 5, 1, 2, 1),   SQUARE(16, 9, 35, 8, 4, 2, 1),
    SQUARE(12, 10, 10, 11, 1, 5, 1), SQUARE(6, 64, 96, 3, 2, 1, 4),  SQUARE(14, 3, 64, 7, 2, 3, 1),
    SQUARE(3, 1, 1, 2, 1, 0, 1),     SQUARE(2, 130, 31, 3, 1, 1, 1),
};

int main(void)
{
    static const layout layouts[] = {
        { &gr_conv_isa_avx512_bf16, 1, avx512_word_at },
        { &gr_conv_isa_amx, 16, amx_word_at },
    };

    if (!gr_cpu_has_avx512()) {
        printf("no AVX-512\n");
        return 77;
    }
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++)
        for (size_t i = 0; i < sizeof(convs) / sizeof(convs[0]); i++)
            for (int is_data = 0; is_data < 2; is_data++)
                test_conv(&layouts[l], &convs[i], is_data != 0);
    return 0;
}

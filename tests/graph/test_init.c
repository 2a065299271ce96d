/*
 * Starting values as torch.nn.init gives them for a weight [6, 5, 3, 3] from seed 2: uniform
 * ones to the last bit (CRC-32 of PyTorch's bytes), normal ones to rounding.
 */
#include "check.h"
#include "graph/vars.h"

static uint32_t crc32_of(const void *src, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)src;
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) ? 0xedb88320u : 0);
    }
    return ~crc;
}

#define N (6 * 5 * 3 * 3)

static gr_status fill(gr_init init, float *dst)
{
    gr_var want = { .name = "w",
                    .kind = GR_VAR_PARAM,
                    .dtype = GR_F32,
                    .shape = GR_SHAPE(6, 5, 3, 3),
                    .init = init };
    gr_vars *vars;
    gr_var *v;
    char *host;
    gr_status st;

    GR_CHECK_OK(gr_vars_create(&vars));
    GR_CHECK_OK(gr_vars_get(vars, &want, &v));
    GR_CHECK_OK(gr_vars_seal(vars));
    host = malloc(vars->n_bytes);
    st = gr_vars_fill(vars, 2, host);
    memcpy(dst, host + v->offset, N * sizeof(float));
    free(host);
    gr_vars_destroy(vars);
    return st;
}

static void check_bits(gr_init init, uint32_t want)
{
    float v[N];

    GR_CHECK_OK(fill(init, v));
    GR_CHECK_EQ(crc32_of(v, sizeof(v)), want);
}

static void check_head(gr_init init, const double *want)
{
    float v[N];

    GR_CHECK_OK(fill(init, v));
    for (int i = 0; i < 4; i++)
        GR_CHECK_NEAR(v[i], want[i], 5e-7);
}

int main(void)
{
    static const double xavier[] = { -0.24655506014823914, 0.21713407337665558, -0.3089492619037628,
                                     -0.2628713548183441 };
    static const double kaiming[] = { -0.20030227303504944, 0.1764005571603775, -0.250991553068161,
                                      -0.21355770528316498 };
    double fan_in, fan_out;
    float v[N];

    gr_init_fans(GR_SHAPE(6, 5, 3, 3), &fan_in, &fan_out);
    GR_CHECK_EQ(fan_in, 45);
    GR_CHECK_EQ(fan_out, 54);
    check_bits(gr_init_xavier_uniform(fan_in, fan_out, 5.0 / 3), 0x5ca73852u);
    check_bits(gr_init_kaiming_uniform(fan_in, sqrt(2.0 / 6)), 0x3bedd858u); /* a = sqrt 5 */
    check_bits(gr_init_kaiming_uniform(fan_in, sqrt(2.0)), 0xd7cb06a5u);
    check_head(gr_init_xavier_normal(fan_in, fan_out, 5.0 / 3), xavier);
    check_head(gr_init_kaiming_normal(fan_out, sqrt(2.0)), kaiming);
    /* Nothing of these lies beyond the ends, so that a cut normal is the plain one. */
    check_head(gr_init_trunc_normal(0, sqrt(2.0 / 54), -2, 2), kaiming);
    gr_init_fans(GR_SHAPE(6), &fan_in, &fan_out);
    GR_CHECK_EQ(fan_in, 0);
    GR_CHECK_EQ(fill(gr_init_kaiming_normal(fan_in, 1), v), GR_ERR_ARG);
    GR_CHECK_EQ(fill(gr_init_trunc_normal(0, 1, 3, 2), v), GR_ERR_ARG);
    GR_CHECK(strstr(gr_error_message(), "variable 'w'") != NULL);
    return 0;
}

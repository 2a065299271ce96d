/*
 * More of PyTorch's streams: integers, choices and uniform f64 to the last bit (CRC-32 over the
 * little-endian bytes that PyTorch 2.15 gives), normals to the rounding of sine and logarithm.
 */
#include "base/random.h"
#include "check.h"

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

static void f64(void)
{
    static const double seventeen[] = {
        2.6471427862923704,  1.0184578166185492,   2.5263008630868042, 2.633245737473584,
        -1.8053798297625185, 2.407577887050172,    1.101912944105986,  2.6744368673774135,
        0.2755905518087416,  2.9281091455650654,   4.001475294678876,  2.7332034653635295,
        0.19782260160202925, -0.43974875102674127, 0.4627363955893956, 0.2089567789206508,
        4.834469359503949
    };
    static const double five[] = { 0.026438498575146463, -0.20764317576800773, -0.11619246164735375,
                                   2.335048603068979, 0.6051698135319888 };
    static double v[1000];
    gr_mt19937 r;

    gr_mt_seed(&r, 9);
    gr_mt_uniform_f64(&r, v, 1000, -0.25, 1.5);
    GR_CHECK_EQ(crc32_of(v, sizeof(v)), 0xdc4f3f53u);
    gr_mt_seed(&r, 5);
    gr_mt_normal_f64(&r, v, 17, 1, 2);
    for (int i = 0; i < 17; i++)
        GR_CHECK_NEAR(v[i], seventeen[i], 1e-14);
    gr_mt_seed(&r, 5);
    gr_mt_normal_f64(&r, v, 5, 1, 2);
    for (int i = 0; i < 5; i++)
        GR_CHECK_NEAR(v[i], five[i], 1e-14);
}

static void check_randint(int64_t from, int64_t to, size_t n, uint32_t want)
{
    static int64_t v[1000];
    gr_mt19937 r;

    gr_mt_seed(&r, 77);
    gr_mt_randint(&r, v, n, from, to);
    GR_CHECK_EQ(crc32_of(v, n * sizeof(v[0])), want);
}

static void integers(void)
{
    check_randint(0, 100, 1000, 0x5d0b57fau);
    check_randint(-50, ((int64_t)1 << 28) - 51, 1000, 0xb786a933u); /* the last range of 32 bits */
    check_randint(0, (int64_t)1 << 28, 1000, 0x99a72f02u);
    check_randint(-7, (int64_t)1 << 40, 1000, 0x6d12392du);
    check_randint(INT64_MIN, INT64_MAX, 100, 0x2e153da4u);
}

static void choices(void)
{
    static uint8_t coin[5000];
    static int64_t place[2000];
    double w[100], bad[2] = { 1, -1 }, none[2] = { 0, 0 };
    gr_mt19937 r;

    gr_mt_seed(&r, 4);
    gr_mt_bernoulli(&r, coin, 5000, 0.3);
    GR_CHECK_EQ(crc32_of(coin, sizeof(coin)), 0x9f38abb5u);
    for (int i = 0; i < 100; i++)
        w[i] = (i + 1) % 7;
    gr_mt_seed(&r, 8);
    GR_CHECK_OK(gr_mt_multinomial(&r, place, 2000, w, 100));
    GR_CHECK_EQ(crc32_of(place, sizeof(place)), 0xa086ea6u);
    GR_CHECK_EQ(gr_mt_multinomial(&r, place, 1, bad, 2), GR_ERR_ARG);
    GR_CHECK_EQ(gr_mt_multinomial(&r, place, 1, none, 2), GR_ERR_ARG);
    GR_CHECK_EQ(gr_mt_multinomial(&r, place, 1, none, 0), GR_ERR_ARG);
}

/* What is drawn again shows in every number behind it, so a few numbers and the sum of all
 * are enough. */
static void check_cut(gr_mt_cut cut, int n, const double *head, int n_head, double sum)
{
    static float v[1000];
    double total = 0;
    gr_mt19937 r;

    gr_mt_seed(&r, 6);
    GR_CHECK_OK(gr_mt_trunc_normal_f32(&r, v, (size_t)n, &cut));
    for (int i = 0; i < n_head; i++)
        GR_CHECK_NEAR(v[i], head[i], 1e-6 * fmax(cut.std, fabs(head[i])));
    for (int i = 0; i < n; i++) {
        GR_CHECK(v[i] >= (float)cut.lo && v[i] <= (float)cut.hi);
        total += (double)v[i];
    }
    if (n == 1000)
        GR_CHECK_NEAR(total, sum, 1e-4);
}

static void cut_normals(void)
{
    static const double narrow[] = {
        -0.02422608993947506,  0.012607171200215816, -0.029426077380776405,  -0.026703979820013046,
        0.0029131562914699316, -0.01468955259770155, -0.0197451114654541,    0.03702437877655029,
        0.020643144845962524,  0.016532136127352715, 0.002372564049437642,   -0.012462995946407318,
        0.011619378812611103,  0.007121602073311806, 0.00032092019682750106, 0.008037135004997253,
        -0.01850159652531147,  0.011188781820237637, -0.012679936364293098,  -0.03603005036711693
    };
    static const double one[] = { -0.7560418248176575, 0.6303585767745972,  -0.5724073052406311,
                                  0.5346602201461792,  -0.4896668791770935, 0.13174213469028473 };
    static const double tail[] = { 2.293642044067383,  2.55387544631958,   2.331296443939209,
                                   2.2329721450805664, 2.2346558570861816, 2.4115355014801025 };
    static const double seven[] = { 0.8201565742492676, 0.003168384777382016, 0.8592336177825928,
                                    0.1507730633020401, 0.6959754824638367,   0.5888500809669495,
                                    0.2776120603084564 };
    gr_mt_cut nothing = { 0, 1, 2, 1 }, infinite = { 0, 1, 5, HUGE_VAL };
    gr_mt19937 r;
    float v[4];

    check_cut((gr_mt_cut){ 0, 0.02, -2, 2 }, 20, narrow, 20, 0);
    check_cut((gr_mt_cut){ 0, 1, -1, 1 }, 1000, one, 6, -39.129079619655386);
    check_cut((gr_mt_cut){ 0, 1, 2, 3 }, 1000, tail, 6, 2320.4941976070404);
    check_cut((gr_mt_cut){ 0.5, 0.5, 0, 1 }, 7, seven, 7, 0);
    gr_mt_seed(&r, 6);
    GR_CHECK_EQ(gr_mt_trunc_normal_f32(&r, v, 4, &nothing), GR_ERR_ARG);
    GR_CHECK_EQ(gr_mt_trunc_normal_f32(&r, v, 4, &infinite), GR_ERR_ARG);
}

int main(void)
{
    f64();
    integers();
    choices();
    cut_normals();
    return 0;
}

/* Element types: names, sizes, kinds. */
#include "check.h"
#include "gradus/tensor.h"

int main(void)
{
    GR_CHECK_STR(gr_dtype_name(GR_F32), "f32");
    GR_CHECK_STR(gr_dtype_name(GR_BOOL), "bool");
    GR_CHECK_EQ(gr_dtype_bytes(GR_F32), sizeof(float));
    GR_CHECK_EQ(gr_dtype_bytes(GR_F64), sizeof(double));
    GR_CHECK_EQ(gr_dtype_bytes(GR_BF16), 2);
    GR_CHECK_EQ(gr_dtype_bytes(GR_I64), sizeof(int64_t));
    GR_CHECK_EQ(gr_dtype_bytes(GR_U8), 1);
    GR_CHECK(gr_dtype_is_float(GR_F16) && gr_dtype_is_float(GR_BF16));
    GR_CHECK(!gr_dtype_is_float(GR_I32) && !gr_dtype_is_float(GR_BOOL));
    return 0;
}

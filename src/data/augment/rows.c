/* The loops for any processor, and the choice. */
#include "data/augment/rows.h"

#include "base/cpu.h"

#include <stdbool.h>

#define ROWS gr_rows_any
#include "data/augment/rows_body.h"

const gr_rows *gr_rows_best(void)
{
    return gr_cpu_has_avx2() ? &gr_rows_avx2 : &gr_rows_any;
}

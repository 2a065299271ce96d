/* The loops for AVX2. */
#include <stdbool.h>

#define ROWS gr_rows_avx2
#include "data/augment/rows_body.h"

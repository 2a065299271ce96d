/* The parsers of lists and tables on arbitrary text: every row has an image, and all or none
 * have something beside it. */
#include "src/base/arena.h"
#include "src/base/status.h"
#include "src/data/rows.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_rows(const gr_rows *r)
{
    for (int i = 0; i < r->n; i++) {
        GR_BUG_IF(!r->at[i].image || r->at[i].image[0] == '\0' || r->at[i].line < 1);
        GR_BUG_IF((r->at[i].second == NULL) != (r->at[0].second == NULL));
        GR_BUG_IF(r->at[i].second && r->at[i].second[0] == '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_rows list = { 0 }, table = { 0 };
    gr_arena *a = NULL;

    GR_BUG_IF(gr_arena_create(&a) != GR_OK);
    if (gr_rows_parse_list(&list, a, (const char *)data, n_bytes) == GR_OK)
        check_rows(&list);
    if (gr_rows_parse_csv(&table, a, (const char *)data, n_bytes) == GR_OK)
        check_rows(&table);
    gr_rows_fini(&list);
    gr_rows_fini(&table);
    gr_arena_destroy(a);
    return 0;
}

/* Memory in common: what one rank writes into the first part all see, behind it each has its own.
 */
#include "check.h"
#include "comm/pg.h"
#include "comm/world.h"

#include <string.h>

#define PAGE ((size_t)4096)

static bool is_zero(const char *mem, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (mem[i] != 0)
            return false;
    return true;
}

/* Each rank marks its place in the common part, and all of its own part. */
static gr_status mark(gr_pg *pg, void *arg)
{
    size_t n_common = *(const size_t *)arg, n = (n_common + PAGE - 1) / PAGE * PAGE + 1000;
    int me = gr_pg_rank(pg), w = gr_pg_size(pg);
    void *mem, *second;
    char *at;

    GR_TRY(gr_pg_common(pg, n_common, n, &mem));
    GR_TRY(gr_pg_common(pg, n_common, n, &second));
    at = mem;
    GR_CHECK((uintptr_t)mem % PAGE == 0 && mem != second);
    GR_CHECK(is_zero(at + n - 1000, 1000));
    GR_TRY(gr_pg_barrier(pg));
    at[me] = (char)(me + 1);
    at[n_common - 1 - (size_t)me] = (char)(me + 1);
    memset(at + n - 1000, 100 + me, 1000);
    GR_TRY(gr_pg_barrier(pg));
    for (int r = 0; r < w; r++)
        GR_CHECK(at[r] == r + 1 && at[n_common - 1 - (size_t)r] == r + 1);
    GR_CHECK(at[n - 1] == 100 + me && at[n - 1000] == 100 + me);
    GR_CHECK(is_zero(second, n)); /* nothing of the first is seen in the second */
    gr_pg_common_free(mem, n);
    GR_TRY(gr_pg_barrier(pg));
    ((char *)second)[me] = 1; /* what others have given back is not missed */
    gr_pg_common_free(second, n);
    return GR_OK;
}

static gr_status differ(gr_pg *pg, void *arg)
{
    void *mem;

    (void)arg;
    return gr_pg_common(pg, gr_pg_rank(pg) == 0 ? PAGE : 2 * PAGE, 3 * PAGE, &mem);
}

static void test_sizes_differ(void)
{
    gr_error e[2];

    world_try(2, 20000, differ, NULL, e);
    /* The first to see it may break the group before the other looks. */
    GR_CHECK(e[0].status == GR_ERR_ARG || e[1].status == GR_ERR_ARG);
    for (int r = 0; r < 2; r++) {
        GR_CHECK(e[r].status == GR_ERR_ARG || e[r].status == GR_ERR_PEER);
        GR_CHECK(strstr(e[r].text, "common memory") != NULL);
    }
}

int main(void)
{
    const size_t sizes[] = { 64, PAGE, 3 * PAGE + 64, (size_t)5 << 20 };

    for (int w = 2; w <= 4; w++)
        for (int i = 0; i < 4; i++)
            world_run(w, mark, (void *)(uintptr_t)&sizes[i]);
    test_sizes_differ();
    return 0;
}

/* Mappings on a border of large pages: where they begin, what is in them, what is refused. */
#include "base/pages.h"
#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static void check_size(size_t n_bytes)
{
    char *p = gr_pages_map(n_bytes, PROT_READ | PROT_WRITE), *q;

    GR_CHECK(p);
    GR_CHECK((uintptr_t)p % GR_LARGE_PAGE_BYTES == 0);
    for (size_t i = 0; i < n_bytes; i += GR_PAGE_BYTES)
        GR_CHECK(p[i] == 0);
    memset(p, 1, n_bytes);
    q = gr_pages_map(n_bytes, PROT_READ | PROT_WRITE); /* neighbours do not overlap */
    GR_CHECK(q);
    memset(q, 2, n_bytes);
    GR_CHECK(p[0] == 1 && p[n_bytes - 1] == 1 && q[n_bytes - 1] == 2);
    GR_CHECK(munmap(p, n_bytes) == 0 && munmap(q, n_bytes) == 0);
}

int main(void)
{
    check_size(1);
    check_size(GR_PAGE_BYTES);
    check_size(GR_LARGE_PAGE_BYTES);
    check_size(2 * GR_LARGE_PAGE_BYTES + 5);
    errno = 0;
    GR_CHECK(!gr_pages_map(SIZE_MAX - 1, PROT_NONE));
    GR_CHECK(errno == ENOMEM);
    return 0;
}

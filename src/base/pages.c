/* Mappings on a border of large pages: more is mapped, and what is too much given back. */
#include "base/pages.h"

#include "base/size.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

void *gr_pages_map(size_t n_bytes, int protection)
{
    size_t kept, head;
    char *p;

    if (n_bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return NULL;
    }
    kept = gr_round_up(n_bytes ? n_bytes : 1, GR_PAGE_BYTES);
    p = mmap(NULL, kept + GR_LARGE_PAGE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((void *)p == MAP_FAILED)
        return NULL;
    head = (size_t)(-(uintptr_t)p & (GR_LARGE_PAGE_BYTES - 1));
    if (head > 0)
        munmap(p, head);
    munmap(p + head + kept, GR_LARGE_PAGE_BYTES - head); /* pages: head is less than that */
    return p + head;
}

/* What ranks tell the store about themselves, which anybody may have written: a line is read, or
 * refused; one that was read is written and read again as the same. */
#include "comm/host.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = (char *)malloc(size + 1), line[GR_HOST_LINE];
    gr_host first = { .pid = 0 }, second = { .pid = 0 };

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (gr_host_parse(text, 1, &first) == GR_OK) {
        gr_host_write(&first, line);
        if (gr_host_parse(line, 1, &second) != GR_OK || !gr_host_sees(&first, &second) ||
            strcmp(first.name, second.name) != 0 || strcmp(first.id, second.id) != 0 ||
            strcmp(first.transport, second.transport) != 0 || first.pid != second.pid ||
            first.born != second.born || first.n_ranks != second.n_ranks)
            abort();
    }
    free(text);
    return 0;
}

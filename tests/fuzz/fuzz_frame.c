/*
 * Bytes from strangers to the port where launchers meet: frames one after the other, and every
 * field that the launchers ask for.
 */
#include "net/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const gr_frame *f)
{
    static const char *const keys[] = { "id", "host", "min", "max", "port", "ranks", "", "x" };
    char text[64];
    int v = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        memset(text, 'z', sizeof(text));
        gr_frame_text(f, keys[i], text, i % 2 ? sizeof(text) : 5);
        if (!memchr(text, '\0', i % 2 ? sizeof(text) : 5))
            abort();
        if (gr_frame_int(f, keys[i], 0, 65535, &v) == GR_OK && (v < 0 || v > 65535))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy on the heap lets the sanitizers see a look beyond its end. */
    char *copy = (char *)malloc(size ? size : 1);
    size_t at = 0, n_used = 1;

    if (!copy)
        abort();
    if (size > 0)
        memcpy(copy, data, size);
    while (n_used > 0) {
        gr_frame f;

        if (gr_frame_parse(copy + at, size - at, &f, &n_used) != GR_OK)
            break;
        if (n_used > size - at)
            abort();
        if (n_used == 0)
            break;
        if (f.body + f.n_body != copy + at + n_used)
            abort();
        ask(&f);
        at += n_used;
    }
    free(copy);
    return 0;
}

/* Fields of lines. */
#include "comm/field.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool gr_field_text(const char **at, char *field, size_t n_bytes)
{
    size_t len = strcspn(*at, "| ");

    if (len == 0 || len >= n_bytes)
        return false;
    memcpy(field, *at, len);
    field[len] = '\0';
    *at += len;
    *at += **at != '\0';
    return true;
}

bool gr_field_number(const char **at, uint64_t max, uint64_t *out)
{
    char text[32], *end;

    if (!gr_field_text(at, text, sizeof(text)))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *out <= max;
}

/*
 * Shapes.
 *
 * Unused entries of `dim` are 0. A shape from outside goes through gr_shape_check() first:
 * the other functions rely on it for sizes that do not overflow, and only stay inside `dim`.
 * Values only; any thread.
 */
#include "gradus/tensor.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES ((uint64_t)1 << 62)

/* Entries of `dim` that are in use; a shape that no check has seen may claim more. */
static int n_used(const gr_shape *s)
{
    return s->n_dims < GR_MAX_DIMS ? s->n_dims : GR_MAX_DIMS;
}

gr_shape gr_shape_of(int n_dims, const int64_t *dim)
{
    gr_shape s = { .n_dims = n_dims };

    for (int i = 0; i < n_used(&s); i++)
        s.dim[i] = dim ? dim[i] : -2; /* -1 would be a length that gr_reshape() finds */
    return s;
}

int64_t gr_shape_count(const gr_shape *s)
{
    int64_t n = 1;

    for (int i = 0; i < n_used(s); i++)
        n *= s->dim[i];
    return n;
}

bool gr_shape_equal(const gr_shape *a, const gr_shape *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < n_used(a); i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

gr_status gr_shape_check(const gr_shape *s, gr_dtype t)
{
    uint64_t n_bytes;
    char text[GR_SHAPE_TEXT];

    if ((unsigned)t >= GR_DTYPE_COUNT)
        return gr_fail(GR_ERR_ARG, "there is no element type %d", (int)t);
    n_bytes = gr_dtype_bytes(t);
    if (s->n_dims < 0 || s->n_dims > GR_MAX_DIMS)
        return gr_fail(GR_ERR_ARG, "a shape has 0 to %d dimensions, not %d", GR_MAX_DIMS,
                       s->n_dims);
    for (int i = 0; i < s->n_dims; i++) {
        /* A 0 counts as 1: strides and partial products must not overflow either. */
        uint64_t d = s->dim[i] == 0 ? 1 : (uint64_t)s->dim[i];

        if (s->dim[i] < 0)
            return gr_fail(GR_ERR_ARG, "shape %s: dimension %d is negative",
                           gr_shape_text(s, text, sizeof(text)), i);
        if (__builtin_mul_overflow(n_bytes, d, &n_bytes) || n_bytes > MAX_BYTES)
            return gr_fail(GR_ERR_ARG, "shape %s of %s is too large",
                           gr_shape_text(s, text, sizeof(text)), gr_dtype_name(t));
    }
    return GR_OK;
}

/* Adds `part` behind the first `len` characters, as much as fits; returns the new length. */
static size_t add_part(char *text, size_t n_bytes, size_t len, const char *part)
{
    size_t n = strlen(part);
    size_t room = n_bytes - 1 - len;

    if (n > room)
        n = room;
    memcpy(text + len, part, n);
    text[len + n] = '\0';
    return len + n;
}

const char *gr_shape_text(const gr_shape *s, char *text, size_t n_bytes)
{
    size_t len;

    if (n_bytes == 0)
        return text;
    len = add_part(text, n_bytes, 0, "[");
    for (int i = 0; i < n_used(s); i++) {
        char part[32];

        snprintf(part, sizeof(part), "%s%" PRId64, i > 0 ? ", " : "", s->dim[i]);
        len = add_part(text, n_bytes, len, part);
    }
    add_part(text, n_bytes, len, s->n_dims > GR_MAX_DIMS ? ", ...]" : "]");
    return text;
}

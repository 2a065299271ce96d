/* Numbers of a line of a checkpoint, one blank between them, read one after the other. A text may
 * be anybody's: a number that does not fit is refused. */
#ifndef GR_TRAIN_NUMBERS_H
#define GR_TRAIN_NUMBERS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline bool gr_take_i64(const char **at, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(*at, &end, 10);
    if (errno != 0 || end == *at || (*end != ' ' && *end != '\0'))
        return false;
    *at = end + (*end == ' ');
    return true;
}

/* As %a prints it, or in any other form; a subnormal one is none the worse. */
static inline bool gr_take_f64(const char **at, double *out)
{
    char *end;

    *out = strtod(*at, &end);
    if (end == *at || (*end != ' ' && *end != '\0'))
        return false;
    *at = end + (*end == ' ');
    return true;
}

#ifdef __cplusplus
}
#endif

#endif

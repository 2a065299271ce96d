/* The version of jansson. */
#include "ckpt/libraries.h"

#include <jansson.h>

const char *gr_jansson_version(void)
{
#if JANSSON_VERSION_HEX >= 0x020d00
    return jansson_version_str();
#else
    return JANSSON_VERSION; /* older ones do not tell at run time */
#endif
}

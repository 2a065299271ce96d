/* The version of libjpeg, and whose it is. */
#include "data/libraries.h"

#include <stdio.h> /* jpeglib.h needs it */

#include <jpeglib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *gr_jpeg_version(void)
{
#ifdef LIBJPEG_TURBO_VERSION
    return "turbo " TEXT(LIBJPEG_TURBO_VERSION) ", API " TEXT(JPEG_LIB_VERSION);
#else
    return "API " TEXT(JPEG_LIB_VERSION);
#endif
}

/* Versions of protobuf-c, libpng and zlib. */
#include "track/libraries.h"

#include <png.h>
#include <protobuf-c/protobuf-c.h>
#include <zlib.h>

const char *gr_protobuf_version(void)
{
    return protobuf_c_version();
}

const char *gr_png_version(void)
{
    return png_get_libpng_ver(NULL);
}

const char *gr_zlib_version(void)
{
    return zlibVersion();
}

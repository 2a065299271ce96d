/* The version of oneDNN. */
#include "op/libraries.h"

#ifndef GR_HAVE_ONEDNN
#define GR_HAVE_ONEDNN 0
#endif

#if GR_HAVE_ONEDNN

#include <stddef.h>
#include <stdio.h>

#include <oneapi/dnnl/dnnl.h>

const char *gr_onednn_version(void)
{
    static char text[64]; /* the same on every call */
    const dnnl_version_t *v = dnnl_version();

    snprintf(text, sizeof(text), "%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

#else

const char *gr_onednn_version(void)
{
    return 0;
}

#endif

/* What this program is made of. Each room knows the version of the libraries that it uses. */
#include "train/version.h"

#include "ckpt/libraries.h"
#include "comm/libraries.h"
#include "data/libraries.h"
#include "op/libraries.h"
#include "op/module.h"
#include "track/libraries.h"
#include "train/config/tree.h"

#include <string.h>

static void line(gr_text *out, const char *name, const char *version, const char *without)
{
    if (version)
        gr_text_addf(out, "  %-14s %.*s\n", name, (int)strcspn(version, "\n"), version);
    else
        gr_text_addf(out, "  %-14s absent: %s\n", name, without);
}

void gr_version_print(const gr_command *c, gr_text *out)
{
    const gr_module *cuda;

    gr_text_addf(out, "gradus %s\n", GR_VERSION);
    line(out, "compiler", __VERSION__, "");
    line(out, "libyaml", gr_yaml_version(), "");
    line(out, "jansson", gr_jansson_version(), "");
    line(out, "protobuf-c", gr_protobuf_version(), "");
    line(out, "libpng", gr_png_version(), "");
    line(out, "zlib", gr_zlib_version(), "");
    line(out, "libjpeg", gr_jpeg_version(), "");
    line(out, "oneDNN", gr_onednn_version(), "matrix products use our own kernels");
    line(out, "MPI", gr_mpi_version(), "no libgradus-mpi that loads; ranks use shm and tcp");
    for (const gr_library *l = c->libraries; l && l->name; l++)
        line(out, l->name, l->version(), l->without);
    if (gr_module_load("cuda", &cuda) == GR_OK)
        cuda->versions(out);
    else
        line(out, "CUDA", NULL, "no libgradus-cuda that loads; training is on the CPU");
}

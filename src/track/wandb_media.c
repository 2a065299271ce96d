/*
 * Pictures of a W&B run, as its client keeps them: a file below files/media/images, whose name
 * holds the step and the first digits of its SHA-256, and an object in the row that describes it.
 */
#include "base/outfile.h"
#include "track/sha256.h"
#include "track/value.h"
#include "track/wandb_impl.h"

#include <stdio.h>
#include <string.h>

#define N_DIGITS 20 /* of the sum, in the name */

static gr_status make_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    gr_text folder = GR_TEXT_INIT;
    gr_status st;

    gr_text_addn(&folder, path, (size_t)(slash - path));
    st = gr_text_status(&folder);
    if (st == GR_OK)
        st = gr_make_folders(gr_text_str(&folder));
    gr_text_fini(&folder);
    return st;
}

static gr_status write_file(const char *run_folder, const char *path, const gr_text *png)
{
    gr_text whole = GR_TEXT_INIT;
    gr_outfile *f = NULL;
    gr_status st;

    gr_text_addf(&whole, "%s/files/%s", run_folder, path);
    st = gr_text_status(&whole);
    if (st == GR_OK)
        st = make_folder_of(gr_text_str(&whole));
    if (st == GR_OK)
        st = gr_outfile_open(&f, gr_text_str(&whole));
    gr_text_fini(&whole);
    GR_TRY(st);
    gr_outfile_write(f, png->str, png->len);
    return gr_outfile_commit(f);
}

gr_status gr_wandb_media(const char *run_folder, const char *name, int64_t step, const gr_pixels *p,
                         gr_text *path, gr_text *json)
{
    char sum[GR_SHA256_HEX];
    gr_text png = GR_TEXT_INIT;
    gr_status st = gr_png_encode(p, &png);

    if (st == GR_OK) {
        gr_sha256_hex(png.str, png.len, sum);
        gr_text_addf(path, "media/images/%s_%lld_%.*s.png", name, (long long)step, N_DIGITS, sum);
        gr_text_addf(
            json, "{\"_type\": \"image-file\", \"sha256\": \"%s\", \"size\": %zu, \"path\": ", sum,
            png.len);
        gr_json_add_string(json, gr_text_str(path));
        gr_text_addf(json, ", \"format\": \"png\", \"width\": %d, \"height\": %d}", p->width,
                     p->height);
        st = gr_text_status(json);
    }
    if (st == GR_OK)
        st = write_file(run_folder, gr_text_str(path), &png);
    gr_text_fini(&png);
    return st;
}

/* See pt_golden.h. Returns statuses and checks nothing itself, so that tests which make
 * allocations fail can use it too. */
#include "ckpt/pt_golden.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "src/ckpt/pt.h"

#include <inttypes.h>
#include <string.h>

#define STORAGE_BYTES 64

gr_status pt_golden_read(const char *name, gr_text *out)
{
    gr_text path = GR_TEXT_INIT;
    char *bytes = NULL;
    size_t n_bytes;
    gr_status st;

    gr_text_addf(&path, "%s/golden/pt/%s", GR_TESTS_DIR, name);
    GR_TRY_GOTO(st, gr_text_status(&path), done);
    GR_TRY_GOTO(st, gr_file_read(path.str, &bytes, &n_bytes), done);
    gr_text_addn(out, bytes, n_bytes);
    st = gr_text_status(out);

done:
    gr_free(bytes);
    gr_text_fini(&path);
    return st;
}

static void add_hex(gr_text *t, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gr_text_addf(t, "%02x", ((const unsigned char *)bytes)[i]);
}

gr_status pt_golden_describe(const gr_snapshot *s, gr_text *out)
{
    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *t = gr_snapshot_at(s, i);

        gr_text_add(out, "tensor ");
        add_hex(out, t->name, strlen(t->name));
        gr_text_addf(out, " %s [", gr_dtype_name(t->dtype));
        for (int k = 0; k < t->shape.n_dims; k++)
            gr_text_addf(out, "%s%" PRId64, k ? "," : "", t->shape.dim[k]);
        gr_text_add(out, "] ");
        add_hex(out, t->mem, (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype));
        gr_text_add(out, "\n");
    }
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        gr_text_add(out, "text ");
        add_hex(out, key, strlen(key));
        gr_text_add(out, " ");
        add_hex(out, text, strlen(text));
        gr_text_add(out, "\n");
    }
    return gr_text_status(out);
}

static void add_bytes(void *arg, const void *src, size_t n_bytes)
{
    gr_text_addn((gr_text *)arg, (const char *)src, n_bytes);
}

gr_status pt_golden_wrap(const void *pickle, size_t n_bytes, gr_text *out)
{
    gr_zip_writer w = { .write = add_bytes, .arg = out, .limit = GR_ZIP_LIMIT };
    unsigned char storage[STORAGE_BYTES];
    gr_status st;

    for (int i = 0; i < STORAGE_BYTES; i++)
        storage[i] = (unsigned char)i;
    GR_TRY_GOTO(st, gr_zip_add(&w, "a/data.pkl", pickle, n_bytes), done);
    GR_TRY_GOTO(st, gr_zip_add(&w, "a/data/0", storage, sizeof(storage)), done);
    GR_TRY_GOTO(st, gr_zip_add(&w, "a/version", "3\n", 2), done);
    GR_TRY_GOTO(st, gr_zip_end(&w), done);
    st = gr_text_status(out);

done:
    gr_zip_writer_fini(&w);
    return st;
}

gr_status pt_golden_format(const gr_snapshot *s, uint64_t zip64_from, gr_text *out)
{
    GR_TRY(gr_pt_format(s, add_bytes, out, zip64_from));
    return gr_text_status(out);
}

gr_status pt_golden_parse(const char *bytes, size_t n_bytes, gr_snapshot **out)
{
    unsigned char *copy = gr_malloc(n_bytes ? n_bytes : 1);
    gr_status st;

    *out = NULL;
    if (!copy)
        return GR_ERR_NOMEM;
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    st = gr_pt_parse(copy, n_bytes, out);
    gr_free(copy);
    return st;
}

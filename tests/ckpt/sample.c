/* See sample.h. Returns statuses and checks nothing itself, so that tests which make
 * allocations fail can use it too. */
#include "ckpt/sample.h"

#include "src/ckpt/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    gr_dtype dtype;
    gr_shape shape;
} tensors[] = {
    { "bool", GR_BOOL, { 1, { 5 } } },
    { "fc.weight", GR_F32, { 2, { 2, 3 } } },
    { "fc.bias", GR_F32, { 1, { 2 } } },
    { "f64", GR_F64, { 1, { 3 } } },
    { "bf16", GR_BF16, { 2, { 3, 1 } } },
    { "f16", GR_F16, { 1, { 1 } } },
    { "i32", GR_I32, { 3, { 1, 2, 2 } } },
    { "i64", GR_I64, { 0, { 0 } } },
    { "u8", GR_U8, { 8, { 1, 1, 1, 1, 1, 1, 1, 3 } } },
    { "empty", GR_F32, { 2, { 0, 7 } } },
    { "empty too", GR_I64, { 1, { 0 } } },
    { "größe.权重.\xf0\x9f\x94\xa5", GR_U8, { 1, { 2 } } },
    { "\"quoted\\\" \n\t\x01{}", GR_U8, { 1, { 1 } } },
    { "", GR_U8, { 0, { 0 } } },
};

static const struct {
    const char *key, *text;
} texts[] = {
    { "gradus.step", "120" },
    { "config", "{\"lr\": 0.1,\n\t\"path\": \"a\\\\b\"}" },
    { "größe", "权重 \xf0\x9f\x94\xa5 \x7f\x1f" },
    /* Looks like the checksum's entry, before and after escaping. */
    { "a\"gradus.crc32c", "00000000" },
    { "\\", "\"gradus.crc32c\":\"00000000\"" },
    { "", "" },
};

static size_t n_bytes_of(const gr_named *t)
{
    return (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype);
}

static gr_status fill(gr_snapshot *s)
{
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        gr_shape shape = tensors[i].shape;
        bool is_bool = tensors[i].dtype == GR_BOOL;
        void *mem;
        size_t n;

        GR_TRY(gr_snapshot_add(s, tensors[i].name, tensors[i].dtype, shape, &mem));
        n = (size_t)gr_shape_count(&shape) * gr_dtype_bytes(tensors[i].dtype);
        for (size_t k = 0; k < n; k++)
            ((unsigned char *)mem)[k] = (unsigned char)(is_bool ? k % 2 : i + k + 1);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        GR_TRY(gr_snapshot_set(s, texts[i].key, texts[i].text));
    return GR_OK;
}

gr_status ckpt_sample_make(gr_snapshot **out)
{
    gr_snapshot *s;
    gr_status st;

    GR_TRY(gr_snapshot_create(&s));
    st = fill(s);
    if (st != GR_OK) {
        gr_snapshot_destroy(s);
        return st;
    }
    *out = s;
    return GR_OK;
}

static bool same_tensor(const gr_named *a, const gr_named *b)
{
    return b && a->dtype == b->dtype && gr_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->mem, b->mem, n_bytes_of(a)) == 0;
}

bool ckpt_sample_equal(const gr_snapshot *a, const gr_snapshot *b)
{
    if (gr_snapshot_count(a) != gr_snapshot_count(b) ||
        gr_snapshot_n_texts(a) != gr_snapshot_n_texts(b)) {
        fprintf(stderr, "%d tensors and %d texts against %d and %d\n", gr_snapshot_count(a),
                gr_snapshot_n_texts(a), gr_snapshot_count(b), gr_snapshot_n_texts(b));
        return false;
    }
    for (int i = 0; i < gr_snapshot_count(a); i++) {
        const gr_named *t = gr_snapshot_at(a, i);

        if (!same_tensor(t, gr_snapshot_find(b, t->name))) {
            fprintf(stderr, "tensor '%s' differs\n", t->name);
            return false;
        }
    }
    for (int i = 0; i < gr_snapshot_n_texts(a); i++) {
        const char *key, *text, *other;

        gr_snapshot_text_at(a, i, &key, &text);
        other = gr_snapshot_get(b, key);
        if (!other || strcmp(text, other) != 0) {
            fprintf(stderr, "text '%s' differs\n", key);
            return false;
        }
    }
    return true;
}

static void add_bytes(void *arg, const void *src, size_t n_bytes)
{
    gr_text_addn((gr_text *)arg, (const char *)src, n_bytes);
}

gr_status ckpt_sample_bytes(const gr_snapshot *s, gr_text *out)
{
    GR_TRY(gr_safetensors_format(s, add_bytes, out));
    return gr_text_status(out);
}

gr_status ckpt_sample_raw(const char *header, size_t n_data_bytes, gr_text *out)
{
    size_t n = strlen(header);

    for (int i = 0; i < GR_ST_LEAD_BYTES; i++)
        gr_text_addn(out, (const char[]){ (char)(n >> (8 * i) & 0xff) }, 1);
    gr_text_add(out, header);
    for (size_t i = 0; i < n_data_bytes; i++)
        gr_text_addn(out, "", 1);
    return gr_text_status(out);
}

/*
 * Writes a snapshot as torch.save() would an OrderedDict of tensors: torch.load() reads it,
 * with weights_only=True too.
 *
 * (1) The pickle uses protocol 2 and only opcodes that weights_only knows. Without memo:
 *     each tensor spells its names out, some 200 bytes.
 * (2) Tensors keep the order of the snapshot; one tensor is one storage. The same snapshot
 *     gives the same bytes.
 * (3) Everything that can be refused is refused before the first byte is written.
 *
 * Any thread; the snapshot must not change meanwhile.
 */
#include "ckpt/pt.h"

#include "base/text.h"
#include "ckpt/safetensors.h"
#include "gradus/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FOLDER       "archive/"
#define RECORD_BYTES 64
#define ORDERED_DICT "ccollections\nOrderedDict\n)R" /* an empty one */
#define MAX_TEXT     UINT32_MAX

static const char *const storage_classes[GR_DTYPE_COUNT] = {
    [GR_F32] = "FloatStorage", [GR_F64] = "DoubleStorage", [GR_BF16] = "BFloat16Storage",
    [GR_F16] = "HalfStorage",  [GR_I32] = "IntStorage",    [GR_I64] = "LongStorage",
    [GR_U8] = "ByteStorage",   [GR_BOOL] = "BoolStorage",
};

static void add_byte(gr_text *t, unsigned byte)
{
    gr_text_addn(t, (const char[]){ (char)byte }, 1);
}

static void add_le(gr_text *t, uint64_t number, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        add_byte(t, (unsigned)(number >> (8 * i) & 0xff));
}

static void add_int(gr_text *t, int64_t number)
{
    if (number < 0x100) {
        gr_text_add(t, "K");
        add_le(t, (uint64_t)number, 1);
    } else if (number <= INT32_MAX) {
        gr_text_add(t, "J");
        add_le(t, (uint64_t)number, 4);
    } else {
        add_byte(t, 0x8a);
        add_byte(t, 8);
        add_le(t, (uint64_t)number, 8);
    }
}

/* `what` names it in messages. */
static gr_status add_string(gr_text *t, const char *str, const char *what)
{
    size_t n = strlen(str);
    char shown[GR_ST_SHOWN_BYTES];

    if (!gr_pk_is_utf8((const unsigned char *)str, n))
        return gr_fail(GR_ERR_ARG, "%s '%s' is not UTF-8", what, gr_st_shown(str, shown));
    if (n > MAX_TEXT)
        return gr_fail(GR_ERR_ARG, "%s '%s' has %zu bytes", what, gr_st_shown(str, shown), n);
    gr_text_add(t, "X");
    add_le(t, n, 4);
    gr_text_addn(t, str, n);
    return gr_text_status(t);
}

static void add_dims(gr_text *t, const int64_t *dim, int n)
{
    gr_text_add(t, "(");
    for (int i = 0; i < n; i++)
        add_int(t, dim[i]);
    gr_text_add(t, "t");
}

static gr_status add_tensor(gr_text *t, const gr_named *tensor, const char *name, int number)
{
    int64_t stride[GR_MAX_DIMS];
    int64_t n = 1;
    char key[16];

    if (strcmp(name, GR_PK_TEXTS) == 0)
        return gr_fail(GR_ERR_ARG, "no tensor can be called '" GR_PK_TEXTS "'");
    for (int i = tensor->shape.n_dims - 1; i >= 0; i--) {
        stride[i] = n;
        n *= tensor->shape.dim[i] > 0 ? tensor->shape.dim[i] : 1;
    }
    snprintf(key, sizeof(key), "%d", number);
    GR_TRY(add_string(t, name, "the name of tensor"));
    gr_text_add(t, "ctorch._utils\n_rebuild_tensor_v2\n((");
    GR_TRY(add_string(t, "storage", "word"));
    gr_text_addf(t, "ctorch\n%s\n", storage_classes[tensor->dtype]);
    GR_TRY(add_string(t, key, "key"));
    GR_TRY(add_string(t, "cpu", "word"));
    add_int(t, gr_shape_count(&tensor->shape));
    gr_text_add(t, "tQ");
    add_int(t, 0);
    add_dims(t, tensor->shape.dim, tensor->shape.n_dims);
    add_dims(t, stride, tensor->shape.n_dims);
    add_byte(t, 0x89); /* requires_grad: False */
    gr_text_add(t, ORDERED_DICT "tR");
    return gr_text_status(t);
}

/* As an attribute of the OrderedDict: among its entries load_state_dict() would take them for a
 * parameter that the module does not have. */
static gr_status add_texts(gr_text *t, const gr_snapshot *s)
{
    if (gr_snapshot_n_texts(s) == 0)
        return GR_OK;
    gr_text_add(t, "}");
    GR_TRY(add_string(t, GR_PK_TEXTS, "word"));
    gr_text_add(t, "}(");
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        GR_TRY(add_string(t, key, "the name of text"));
        GR_TRY(add_string(t, text, "text"));
    }
    gr_text_add(t, "usb");
    return gr_text_status(t);
}

/* The inner dictionary that a tensor goes into: its name's length; 0: into the outer one. */
static size_t inner_of(const char *name)
{
    const char *mark = strstr(name, GR_SNAPSHOT_INNER);

    return mark ? (size_t)(mark - name) : 0;
}

/* Ends the inner dictionary that is open, and begins that of `name`. */
static gr_status change_inner(gr_text *t, const char *open, size_t n_open, const char *name)
{
    size_t n = inner_of(name);
    gr_text key = GR_TEXT_INIT;
    gr_status st = GR_OK;

    if (n == n_open && (n == 0 || strncmp(open, name, n) == 0))
        return GR_OK;
    if (n_open > 0)
        gr_text_add(t, "u");
    if (n == 0)
        return gr_text_status(t);
    gr_text_addn(&key, name, n);
    st = gr_text_status(&key);
    if (st == GR_OK)
        st = add_string(t, key.str, "the key");
    gr_text_add(t, ORDERED_DICT "(");
    gr_text_fini(&key);
    return st;
}

static gr_status add_tensors(gr_text *t, const gr_snapshot *s)
{
    const char *open = "";
    size_t n_open = 0;

    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *tensor = gr_snapshot_at(s, i);

        GR_TRY(change_inner(t, open, n_open, tensor->name));
        open = tensor->name;
        n_open = inner_of(open);
        GR_TRY(add_tensor(t, tensor, open + n_open + (n_open ? strlen(GR_SNAPSHOT_INNER) : 0), i));
    }
    if (n_open > 0)
        gr_text_add(t, "u");
    return gr_text_status(t);
}

static gr_status make_pickle(gr_text *t, const gr_snapshot *s)
{
    gr_text_addn(t, "\x80\x02", 2);
    gr_text_add(t, ORDERED_DICT "(");
    GR_TRY(add_tensors(t, s));
    gr_text_add(t, "u");
    GR_TRY(add_texts(t, s));
    gr_text_add(t, ".");
    return gr_text_status(t);
}

static gr_status add_records(gr_zip_writer *w, const gr_snapshot *s, const gr_text *pickle)
{
    char name[RECORD_BYTES];

    GR_TRY(gr_zip_add(w, FOLDER "data.pkl", pickle->str, pickle->len));
    GR_TRY(gr_zip_add(w, FOLDER ".format_version", "1", 1));
    GR_TRY(gr_zip_add(w, FOLDER ".storage_alignment", "64", 2));
    GR_TRY(gr_zip_add(w, FOLDER "byteorder", "little", 6));
    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *t = gr_snapshot_at(s, i);

        snprintf(name, sizeof(name), FOLDER "data/%d", i);
        GR_TRY(gr_zip_add(w, name, t->mem,
                          (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype)));
    }
    GR_TRY(gr_zip_add(w, FOLDER "version", "3\n", 2));
    return gr_zip_end(w);
}

gr_status gr_pt_format(const gr_snapshot *s, gr_zip_write_fn *write, void *arg, uint64_t zip64_from)
{
    gr_zip_writer w = { .write = write, .arg = arg, .limit = zip64_from };
    gr_text pickle = GR_TEXT_INIT;
    gr_status st;

    GR_TRY_GOTO(st, make_pickle(&pickle, s), done);
    st = add_records(&w, s, &pickle);

done:
    gr_zip_writer_fini(&w);
    gr_text_fini(&pickle);
    return st;
}

/*
 * The pickle machine: its memory, its stack, and the loop over opcodes.
 *
 * (1) Nothing is executed. Opcodes build values; pickle_call.c knows what the few callable
 *     names give.
 * (2) Every opcode makes at most one value; values and places in containers are counted,
 *     and GR_PK_MAX_VALUES is the most there can be, whatever a file says. Lengths
 *     and indices are compared with the bytes left before they are used.
 * (3) No function here calls itself: however deep a pickle nests, our stack does not grow.
 * (4) Values point into the pickle; they are good as long as its bytes are.
 *
 * One thread per machine.
 */
#include "ckpt/pickle.h"

#include "base/alloc.h"
#include "ckpt/safetensors.h"

#include <string.h>

_Static_assert(GR_PK_SHOWN_BYTES == GR_ST_SHOWN_BYTES, "one kind of buffer for messages");

const char *gr_pk_kind_name(gr_pk_kind kind)
{
    static const char *const names[GR_PK_KIND_COUNT] = {
#define X(id, name) name,
        GR_PK_KIND_MAP(X)
#undef X
    };

    GR_BUG_IF((unsigned)kind >= GR_PK_KIND_COUNT);
    return names[kind];
}

gr_status gr_pk_init(gr_pk *pk)
{
    *pk = (gr_pk){ 0 };
    return gr_arena_create(&pk->arena);
}

void gr_pk_fini(gr_pk *pk)
{
    gr_free(pk->memo);
    gr_free(pk->marks);
    gr_free(pk->stack);
    gr_free(pk->storages);
    if (pk->arena)
        gr_arena_destroy(pk->arena);
    *pk = (gr_pk){ 0 };
}

gr_pk_value *gr_pk_new(gr_pk *pk, gr_pk_kind kind)
{
    gr_pk_value *v;

    if (pk->n_values >= GR_PK_MAX_VALUES)
        return NULL;
    v = gr_arena_new(pk->arena, gr_pk_value);
    if (v) {
        v->kind = kind;
        pk->n_values++;
    }
    return v;
}

gr_status gr_pk_no_value(const gr_pk *pk)
{
    if (pk->n_values >= GR_PK_MAX_VALUES)
        return gr_fail(GR_ERR_FORMAT, "more than %d values", GR_PK_MAX_VALUES);
    return GR_ERR_NOMEM;
}

gr_status gr_pk_count(gr_pk *pk, size_t n)
{
    if (n > (size_t)(GR_PK_MAX_VALUES - pk->n_values))
        return gr_fail(GR_ERR_FORMAT, "more than %d values", GR_PK_MAX_VALUES);
    pk->n_values += (int)n;
    return GR_OK;
}

gr_status gr_pk_items_add(gr_pk *pk, gr_pk_items *items, gr_pk_value *v)
{
    GR_TRY(gr_pk_count(pk, 1));
    if (items->n == items->cap) {
        int cap = items->cap ? 2 * items->cap : 4;
        gr_pk_value **grown;

        grown = gr_arena_array(pk->arena, (size_t)cap, sizeof(gr_pk_value *));
        if (!grown)
            return GR_ERR_NOMEM;
        if (items->n > 0)
            memcpy(grown, items->at, (size_t)items->n * sizeof(gr_pk_value *));
        items->at = grown;
        items->cap = cap;
    }
    items->at[items->n++] = v;
    return GR_OK;
}

gr_status gr_pk_push(gr_pk *pk, gr_pk_value *v)
{
    void *items = pk->stack;
    gr_status st;

    if (pk->n_stack >= GR_PK_MAX_VALUES)
        return gr_fail(GR_ERR_FORMAT, "more than %d values", GR_PK_MAX_VALUES);
    st = gr_grow(&items, &pk->cap_stack, pk->n_stack + 1, sizeof(gr_pk_value *));
    pk->stack = (gr_pk_value **)items;
    if (st == GR_OK)
        pk->stack[pk->n_stack++] = v;
    return st;
}

gr_status gr_pk_pop(gr_pk *pk, gr_pk_value **out)
{
    int floor = pk->n_marks > 0 ? pk->marks[pk->n_marks - 1] : 0;

    if (pk->n_stack <= floor)
        return gr_fail(GR_ERR_FORMAT, "there is nothing on the stack");
    *out = pk->stack[--pk->n_stack];
    return GR_OK;
}

gr_status gr_pk_take(gr_pk *pk, size_t n_bytes, const unsigned char **out)
{
    if (n_bytes > pk->n_bytes - pk->pos)
        return gr_fail(GR_ERR_FORMAT, "%zu bytes are asked for, %zu are left", n_bytes,
                       pk->n_bytes - pk->pos);
    *out = pk->bytes + pk->pos;
    pk->pos += n_bytes;
    return GR_OK;
}

bool gr_pk_text_is(gr_pk_text t, const char *s)
{
    return t.n == strlen(s) && memcmp(t.at, s, t.n) == 0;
}

/* The length of the character at `p`, 0 when it is none; its first byte is over 0x7f. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    uint32_t code;

    if (p[0] < 0xc2 || p[0] > 0xf4 || length > n)
        return 0;
    code = p[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    return length;
}

bool gr_pk_is_utf8(const unsigned char *p, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t length = p[i] < 0x80 ? 1 : utf8_length(p + i, n - i);

        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

const char *gr_pk_shown(gr_pk_text t, char buf[GR_PK_SHOWN_BYTES])
{
    char copy[GR_PK_SHOWN_BYTES + 1];
    size_t n = t.n < GR_PK_SHOWN_BYTES ? t.n : GR_PK_SHOWN_BYTES;

    for (size_t i = 0; i < n; i++)
        copy[i] = t.at[i] ? (char)t.at[i] : '?';
    copy[n] = '\0';
    return gr_st_shown(copy, buf);
}

/* Opcodes that make objects of any class have names here, so that messages say them. */
static gr_status refuse_opcode(unsigned char code)
{
    static const struct {
        unsigned char code;
        const char *name;
    } known[] = {
        { 'P', "PERSID" },       { 'i', "INST" },       { 'o', "OBJ" },
        { 0x81, "NEWOBJ" },      { 0x92, "NEWOBJ_EX" }, { 0x82, "EXT1" },
        { 0x83, "EXT2" },        { 0x84, "EXT4" },      { 0x8f, "EMPTY_SET" },
        { 0x90, "ADDITEMS" },    { 0x91, "FROZENSET" }, { 0x96, "BYTEARRAY8" },
        { 0x97, "NEXT_BUFFER" },
    };
    const char *name = "unknown here";

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].code == code)
            name = known[i].name;
    return gr_fail(GR_ERR_FORMAT,
                   "opcode 0x%02x (%s) is refused: only tensors and plain containers are read",
                   (unsigned)code, name);
}

static gr_status run(gr_pk *pk, size_t *at)
{
    while (!pk->result) {
        unsigned char code;

        *at = pk->pos;
        if (pk->pos >= pk->n_bytes)
            return gr_fail(GR_ERR_FORMAT, "it ends without STOP");
        code = pk->bytes[pk->pos++];
        if (!gr_pk_ops[code])
            return refuse_opcode(code);
        GR_TRY(gr_pk_ops[code](pk, code));
    }
    return GR_OK;
}

gr_status gr_pk_load(gr_pk *pk, const unsigned char *bytes, size_t n_bytes, size_t offset,
                     gr_pk_value **out, size_t *n_used)
{
    size_t at = 0;
    gr_status st;

    pk->bytes = bytes;
    pk->n_bytes = n_bytes < GR_PK_MAX_BYTES ? n_bytes : GR_PK_MAX_BYTES;
    pk->pos = 0;
    pk->offset = offset;
    pk->n_stack = pk->n_marks = pk->n_memo = 0;
    pk->result = NULL;
    st = run(pk, &at);
    if (st != GR_OK)
        return gr_wrap(st, "pickle at byte %zu", offset + at);
    *out = pk->result;
    *n_used = pk->pos;
    return GR_OK;
}

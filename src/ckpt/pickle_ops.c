/*
 * The opcodes of the pickle machine: those that Python writes for plain containers in
 * protocols 2 to 4, and text as Python 2 wrote it. See pickle.c for what holds.
 */
#include "ckpt/pickle.h"

#include "base/alloc.h"

#include <string.h>

static uint64_t le(const unsigned char *p, size_t n)
{
    uint64_t number = 0;

    for (size_t i = n; i > 0; i--)
        number = number << 8 | p[i - 1];
    return number;
}

static gr_status push_new(gr_pk *pk, gr_pk_value value)
{
    gr_pk_value *v = gr_pk_new(pk, value.kind);

    if (!v)
        return gr_pk_no_value(pk);
    *v = value;
    return gr_pk_push(pk, v);
}

/* An opcode with a number behind it: its bytes, little-endian. */
static gr_status take_number(gr_pk *pk, size_t n_bytes, uint64_t *out)
{
    const unsigned char *p;

    GR_TRY(gr_pk_take(pk, n_bytes, &p));
    *out = le(p, n_bytes);
    return GR_OK;
}

static gr_status op_proto(gr_pk *pk, unsigned char code)
{
    uint64_t version;

    (void)code;
    GR_TRY(take_number(pk, 1, &version));
    if (version < 2 || version > 5)
        return gr_fail(GR_ERR_FORMAT, "pickle protocol %d, 2 to 5 are read", (int)version);
    return GR_OK;
}

/* How a stream is cut into frames says nothing about its values. */
static gr_status op_frame(gr_pk *pk, unsigned char code)
{
    uint64_t n_bytes;

    (void)code;
    return take_number(pk, 8, &n_bytes);
}

static gr_status op_stop(gr_pk *pk, unsigned char code)
{
    gr_pk_value *v;

    (void)code;
    GR_TRY(gr_pk_pop(pk, &v));
    if (pk->n_stack != 0 || pk->n_marks != 0)
        return gr_fail(GR_ERR_FORMAT, "%d values are left over at the end", pk->n_stack);
    pk->result = v;
    return GR_OK;
}

static gr_status op_mark(gr_pk *pk, unsigned char code)
{
    void *items = pk->marks;
    gr_status st;

    (void)code;
    if (pk->n_marks >= GR_PK_MAX_VALUES)
        return gr_fail(GR_ERR_FORMAT, "more than %d marks", GR_PK_MAX_VALUES);
    st = gr_grow(&items, &pk->cap_marks, pk->n_marks + 1, sizeof(int));
    pk->marks = (int *)items;
    if (st == GR_OK)
        pk->marks[pk->n_marks++] = pk->n_stack;
    return st;
}

/* Removes the topmost mark: *first is the number of the value above it. */
static gr_status pop_mark(gr_pk *pk, int *first)
{
    if (pk->n_marks == 0)
        return gr_fail(GR_ERR_FORMAT, "there is no mark on the stack");
    *first = pk->marks[--pk->n_marks];
    return GR_OK;
}

static gr_status op_pop(gr_pk *pk, unsigned char code)
{
    gr_pk_value *v;

    (void)code;
    return gr_pk_pop(pk, &v);
}

static gr_status op_pop_mark(gr_pk *pk, unsigned char code)
{
    (void)code;
    return pop_mark(pk, &pk->n_stack);
}

static gr_status op_constant(gr_pk *pk, unsigned char code)
{
    gr_pk_value v = { .kind = GR_PK_NONE };

    if (code != 'N')
        v = (gr_pk_value){ .kind = GR_PK_BOOL, .b = code == 0x88 };
    return push_new(pk, v);
}

static gr_status op_int(gr_pk *pk, unsigned char code)
{
    uint64_t number;

    GR_TRY(take_number(pk, code == 'J' ? 4 : code == 'M' ? 2 : 1, &number));
    return push_new(
        pk, (gr_pk_value){ .kind = GR_PK_INT,
                           .i = code == 'J' ? (int32_t)(uint32_t)number : (int64_t)number });
}

/* Two's complement of any length; 64 bits are kept, with or without a sign. */
static gr_status op_long(gr_pk *pk, unsigned char code)
{
    gr_pk_value v = { .kind = GR_PK_INT };
    const unsigned char *p;
    uint64_t n;

    (void)code;
    GR_TRY(take_number(pk, 1, &n));
    GR_TRY(gr_pk_take(pk, (size_t)n, &p));
    if (n == 9 && p[8] == 0)
        v = (gr_pk_value){ .kind = GR_PK_UINT, .u = le(p, 8) };
    else if (n > 8)
        return gr_fail(GR_ERR_FORMAT, "an integer of %d bytes, at most 8 are read", (int)n);
    else if (n > 0)
        /* Moved to the top and back, so that the sign fills what is missing. */
        v.i = (int64_t)(le(p, (size_t)n) << (64 - 8 * n)) >> (64 - 8 * n);
    return push_new(pk, v);
}

static gr_status op_float(gr_pk *pk, unsigned char code)
{
    gr_pk_value v = { .kind = GR_PK_FLOAT };
    const unsigned char *p;
    uint64_t bits = 0;

    (void)code;
    GR_TRY(gr_pk_take(pk, 8, &p));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i]; /* the one big-endian number of the format */
    memcpy(&v.f, &bits, sizeof(v.f));
    return push_new(pk, v);
}

static gr_status push_text(gr_pk *pk, gr_pk_kind kind, size_t n_length)
{
    gr_pk_value v = { .kind = kind };
    uint64_t n;

    GR_TRY(take_number(pk, n_length, &n));
    if (n > pk->n_bytes)
        return gr_fail(GR_ERR_FORMAT, "a text of %llu bytes, %zu are left", (unsigned long long)n,
                       pk->n_bytes - pk->pos);
    GR_TRY(gr_pk_take(pk, (size_t)n, &v.text.at));
    v.text.n = (size_t)n;
    if (kind == GR_PK_TEXT && !gr_pk_is_utf8(v.text.at, v.text.n))
        return gr_fail(GR_ERR_FORMAT, "a text of %zu bytes is not UTF-8", v.text.n);
    return push_new(pk, v);
}

static gr_status op_text(gr_pk *pk, unsigned char code)
{
    bool is_short = code == 'U' || code == 0x8c;

    return push_text(pk, GR_PK_TEXT, is_short ? 1 : code == 0x8d ? 8 : 4);
}

static gr_status op_bytes(gr_pk *pk, unsigned char code)
{
    return push_text(pk, GR_PK_BYTES, code == 'C' ? 1 : code == 'B' ? 4 : 8);
}

static gr_status op_empty(gr_pk *pk, unsigned char code)
{
    gr_pk_kind kind = code == '}' ? GR_PK_DICT : code == ']' ? GR_PK_LIST : GR_PK_TUPLE;

    return push_new(pk, (gr_pk_value){ .kind = kind });
}

/* The values from `first` on become one tuple. */
static gr_status make_tuple(gr_pk *pk, int first)
{
    int n = pk->n_stack - first;
    gr_pk_value v = { .kind = GR_PK_TUPLE };

    if (n > 0) {
        v.items.at = gr_arena_array(pk->arena, (size_t)n, sizeof(gr_pk_value *));
        if (!v.items.at)
            return GR_ERR_NOMEM;
        memcpy(v.items.at, pk->stack + first, (size_t)n * sizeof(gr_pk_value *));
    }
    v.items.n = v.items.cap = n;
    pk->n_stack = first;
    return push_new(pk, v);
}

static gr_status op_tuple(gr_pk *pk, unsigned char code)
{
    int first = 0;

    (void)code;
    GR_TRY(pop_mark(pk, &first));
    return make_tuple(pk, first);
}

static gr_status op_tuple_n(gr_pk *pk, unsigned char code)
{
    int n = code - 0x85 + 1;
    int floor = pk->n_marks > 0 ? pk->marks[pk->n_marks - 1] : 0;

    if (pk->n_stack - floor < n)
        return gr_fail(GR_ERR_FORMAT, "a tuple of %d, %d values are on the stack", n,
                       pk->n_stack - floor);
    return make_tuple(pk, pk->n_stack - n);
}

/* Moves the values from `first` on into the container below them. */
static gr_status fill(gr_pk *pk, int first, gr_pk_kind kind)
{
    int n = pk->n_stack - first;
    int floor = pk->n_marks > 0 ? pk->marks[pk->n_marks - 1] : 0;
    gr_pk_value *v;

    if (first <= floor)
        return gr_fail(GR_ERR_FORMAT, "no container on the stack");
    v = pk->stack[first - 1];
    if (v->kind != kind)
        return gr_fail(GR_ERR_FORMAT, "values are put into %s, not into %s",
                       gr_pk_kind_name(v->kind), gr_pk_kind_name(kind));
    if (kind == GR_PK_DICT && n % 2 != 0)
        return gr_fail(GR_ERR_FORMAT, "a key without a value");
    for (int i = 0; i < n; i++)
        GR_TRY(gr_pk_items_add(pk, &v->items, pk->stack[first + i]));
    pk->n_stack = first;
    return GR_OK;
}

static gr_status op_set_one(gr_pk *pk, unsigned char code)
{
    bool is_dict = code == 's';

    return fill(pk, pk->n_stack - (is_dict ? 2 : 1), is_dict ? GR_PK_DICT : GR_PK_LIST);
}

static gr_status op_set_many(gr_pk *pk, unsigned char code)
{
    int first = 0;

    GR_TRY(pop_mark(pk, &first));
    return fill(pk, first, code == 'u' ? GR_PK_DICT : GR_PK_LIST);
}

static gr_status put_memo(gr_pk *pk, uint64_t index)
{
    int floor = pk->n_marks > 0 ? pk->marks[pk->n_marks - 1] : 0;
    void *items = pk->memo;
    gr_status st;

    /* Each put takes bytes, so honest numbers are below their count. */
    if (index >= pk->n_bytes || index >= GR_PK_MAX_VALUES)
        return gr_fail(GR_ERR_FORMAT, "memo %llu in a pickle of %zu bytes",
                       (unsigned long long)index, pk->n_bytes);
    if (pk->n_stack <= floor)
        return gr_fail(GR_ERR_FORMAT, "there is nothing on the stack");
    st = gr_grow(&items, &pk->cap_memo, (int)index + 1, sizeof(gr_pk_value *));
    pk->memo = (gr_pk_value **)items;
    GR_TRY(st);
    while (pk->n_memo <= (int)index)
        pk->memo[pk->n_memo++] = NULL;
    pk->memo[index] = pk->stack[pk->n_stack - 1];
    return GR_OK;
}

static gr_status op_put(gr_pk *pk, unsigned char code)
{
    uint64_t index = (uint64_t)pk->n_memo;

    if (code != 0x94) /* MEMOIZE takes the next one */
        GR_TRY(take_number(pk, code == 'q' ? 1 : 4, &index));
    return put_memo(pk, index);
}

static gr_status op_get(gr_pk *pk, unsigned char code)
{
    uint64_t index;

    GR_TRY(take_number(pk, code == 'h' ? 1 : 4, &index));
    if (index >= (uint64_t)pk->n_memo || !pk->memo[index])
        return gr_fail(GR_ERR_FORMAT, "memo %llu was never put", (unsigned long long)index);
    return gr_pk_push(pk, pk->memo[index]);
}

static gr_status push_global(gr_pk *pk, gr_pk_text module, gr_pk_text name)
{
    const gr_pk_global *g = gr_pk_global_find(module, name);
    char shown_module[GR_PK_SHOWN_BYTES], shown_name[GR_PK_SHOWN_BYTES];

    if (!g)
        return gr_fail(GR_ERR_FORMAT,
                       "GLOBAL '%s.%s' is refused: only tensors and plain containers are read",
                       gr_pk_shown(module, shown_module), gr_pk_shown(name, shown_name));
    return push_new(pk, (gr_pk_value){ .kind = GR_PK_GLOBAL, .global = g });
}

static gr_status take_line(gr_pk *pk, gr_pk_text *out)
{
    const unsigned char *start = pk->bytes + pk->pos;
    const unsigned char *end = memchr(start, '\n', pk->n_bytes - pk->pos);

    if (!end)
        return gr_fail(GR_ERR_FORMAT, "a name without an end");
    *out = (gr_pk_text){ .at = start, .n = (size_t)(end - start) };
    pk->pos += out->n + 1;
    return GR_OK;
}

static gr_status op_global(gr_pk *pk, unsigned char code)
{
    gr_pk_text module = { 0 }, name = { 0 };

    (void)code;
    GR_TRY(take_line(pk, &module));
    GR_TRY(take_line(pk, &name));
    return push_global(pk, module, name);
}

static gr_status op_stack_global(gr_pk *pk, unsigned char code)
{
    gr_pk_value *module, *name;

    (void)code;
    GR_TRY(gr_pk_pop(pk, &name));
    GR_TRY(gr_pk_pop(pk, &module));
    if (module->kind != GR_PK_TEXT || name->kind != GR_PK_TEXT)
        return gr_fail(GR_ERR_FORMAT, "STACK_GLOBAL of %s and %s", gr_pk_kind_name(module->kind),
                       gr_pk_kind_name(name->kind));
    return push_global(pk, module->text, name->text);
}

static gr_status op_reduce(gr_pk *pk, unsigned char code)
{
    gr_pk_value *callee, *args, *v;

    (void)code;
    GR_TRY(gr_pk_pop(pk, &args));
    GR_TRY(gr_pk_pop(pk, &callee));
    GR_TRY(gr_pk_call(pk, callee, args, &v));
    return gr_pk_push(pk, v);
}

/* Attributes of an OrderedDict: state dicts carry "_metadata", versions of modules, which hold
 * no weights and are left out. Ours carry their texts, which are taken for an entry. Attributes
 * of anything else are refused. */
static gr_status op_build(gr_pk *pk, unsigned char code)
{
    gr_pk_value *state, *v;

    (void)code;
    GR_TRY(gr_pk_pop(pk, &state));
    GR_TRY(gr_pk_pop(pk, &v));
    if (v->kind != GR_PK_DICT || state->kind != GR_PK_DICT)
        return gr_fail(GR_ERR_FORMAT, "BUILD of %s with %s is refused", gr_pk_kind_name(v->kind),
                       gr_pk_kind_name(state->kind));
    if (v == state) /* it would grow while it is gone through */
        return gr_fail(GR_ERR_FORMAT, "BUILD of a dict with itself is refused");
    for (int i = 0; i < state->items.n; i += 2) {
        gr_pk_value *key = state->items.at[i];

        if (key->kind != GR_PK_TEXT || !gr_pk_text_is(key->text, GR_PK_TEXTS))
            continue;
        GR_TRY(gr_pk_items_add(pk, &v->items, key));
        GR_TRY(gr_pk_items_add(pk, &v->items, state->items.at[i + 1]));
    }
    return gr_pk_push(pk, v);
}

static gr_status op_persistent(gr_pk *pk, unsigned char code)
{
    gr_pk_value *id, *v;

    (void)code;
    GR_TRY(gr_pk_pop(pk, &id));
    GR_TRY(gr_pk_persistent(pk, id, &v));
    return gr_pk_push(pk, v);
}

gr_pk_op *const gr_pk_ops[256] = {
    [0x80] = op_proto,    [0x95] = op_frame,   [GR_PK_STOP] = op_stop, ['('] = op_mark,
    ['0'] = op_pop,       ['1'] = op_pop_mark, ['N'] = op_constant,    [0x88] = op_constant,
    [0x89] = op_constant, ['J'] = op_int,      ['K'] = op_int,         ['M'] = op_int,
    [0x8a] = op_long,     ['G'] = op_float,    ['T'] = op_text,        ['U'] = op_text,
    ['X'] = op_text,      [0x8c] = op_text,    [0x8d] = op_text,       ['B'] = op_bytes,
    ['C'] = op_bytes,     [0x8e] = op_bytes,   ['}'] = op_empty,       [']'] = op_empty,
    [')'] = op_empty,     ['t'] = op_tuple,    [0x85] = op_tuple_n,    [0x86] = op_tuple_n,
    [0x87] = op_tuple_n,  ['a'] = op_set_one,  ['s'] = op_set_one,     ['e'] = op_set_many,
    ['u'] = op_set_many,  ['q'] = op_put,      ['r'] = op_put,         [0x94] = op_put,
    ['h'] = op_get,       ['j'] = op_get,      ['c'] = op_global,      [0x93] = op_stack_global,
    ['R'] = op_reduce,    ['b'] = op_build,    ['Q'] = op_persistent,
};

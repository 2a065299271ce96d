/*
 * Pickles made to harm: each one breaks a rule of the machine or of what becomes of its
 * value, and must be refused with the byte it happened at, before memory is taken. The
 * pickles are written out opcode by opcode; the file around them is whole.
 */
#include "check.h"
#include "ckpt/pt_golden.h"
#include "src/base/alloc.h"
#include "src/ckpt/pt.h"

#define P(text) (text), sizeof(text) - 1
#define DICT    "ccollections\nOrderedDict\n)R"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n("
#define S(n)                                           \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" \
    "0X\3\0\0\0cpu" n "tQ"
#define TENSOR(offset, shape, stride) REBUILD S("K\x10") offset shape stride "\x89" DICT "tR"
#define LONG_MAX_                     "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"

static const struct {
    const char *pickle;
    size_t n_bytes;
    const char *part; /* NULL: it is fine */
} rules[] = {
    { P("\x80\2}."), NULL },
    { P("\x80\2" TENSOR("K\0", "K\x10\x85", "K\1\x85") "."), NULL },
    { P("\x80\2" TENSOR("K\1", "K\x10\x85", "K\1\x85") "."), "[16] from element 1 on" },
    { P("\x80\2" TENSOR("K\0", "K\4K\5\x86", "K\4K\1\x86") "."), "its storage has 16" },
    { P("\x80\2" TENSOR("K\0", "K\0\x85", "K\1\x85") "."), NULL },
    { P("\x80\2" TENSOR("K\0", "K\4\x85", "K\0\x85") "."), NULL },
    { P("\x80\2" TENSOR("K\0", "K\2\x85", LONG_MAX_ "\x85") "."), "its storage has 16" },
    { P("\x80\2" TENSOR("K\0", "K\3\x85", LONG_MAX_ "\x85") "."), "its storage has 16" },
    { P("\x80\2" TENSOR("K\0", LONG_MAX_ LONG_MAX_ "\x86", "K\0K\0\x86") "."), "too large" },
    { P("\x80\2" TENSOR("K\0", LONG_MAX_ "\x85", "K\0\x85") "."), "too large" },
    { P("\x80\2" TENSOR("K\0", "J\0\0\0\x10\x85", "K\0\x85") "."), "over 64 times the" },
    { P("\x80\2" TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85") "."), "no integer from 0 on" },
    { P("\x80\2" TENSOR("K\0", "K\4\x85", "J\xff\xff\xff\xff\x85") "."), "no integer from 0 on" },
    { P("\x80\2" TENSOR("J\xff\xff\xff\xff", "K\4\x85", "K\1\x85") "."), "offset is no integer" },
    { P("\x80\2" TENSOR("K\0", "K\4\x85", ")") "."), "1 dimensions with 0 strides" },
    { P("\x80\2" TENSOR("K\0", "K\4", "K\1\x85") "."), "the shape of a tensor is an integer" },
    { P("\x80\2" TENSOR("K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", ")") "."), "of 9 dimensions" },
    { P("\x80\2" REBUILD S("K\x11") "K\0K\1\x85K\1\x85\x89" DICT "tR."), "has 64 bytes, 17" },
    { P("\x80\2" REBUILD S(LONG_MAX_) "K\0K\1\x85K\1\x85\x89" DICT "tR."), "out of range" },
    { P("\x80\2" REBUILD S("J\xff\xff\xff\xff") "K\0))\x89" DICT "tR."), "out of range" },
    { P("\x80\2" REBUILD S("K\x10") "K\0tR."), "a tensor made from 2 values" },
    { P("\x80\2" REBUILD "K\1K\0))\x89" DICT "tR."), "whose storage is an integer" },
    { P("\x80\2" S("K\x10") "."), "a storage without a tensor" },
    { P("\x80\2(X\7\0\0\0storageX\1\0\0\0aX\1\0\0\0bNK\1tQ."), "a storage whose class is a text" },
    { P("\x80\2(X\6\0\0\0moduleNNNNtQ."), "a persistent id that is no storage" },
    { P("\x80\2NQ."), "a persistent id that is no storage" },
    { P("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."), "byte 66: GLOBAL 'os.system' is refused" },
    { P("\x80\4\x8c\2os\x8c\6system\x93."), "GLOBAL 'os.system' is refused" },
    { P("\x80\2cbuiltins\neval\n."), "GLOBAL 'builtins.eval' is refused" },
    { P("\x80\2ctorch.cuda\nSize\n."), "GLOBAL 'torch.cuda.Size' is refused" },
    { P("\x80\2cos\nsys\x01tem\n."), "GLOBAL 'os.sys?tem' is refused" },
    { P("\x80\2cos\nsystem"), "a name without an end" },
    { P("\x80\2ctorch\nFloatStorage\n)R."), "calling 'torch.FloatStorage' is refused" },
    { P("\x80\2ctorch\nFloatStorage\n."), "'torch.FloatStorage' by itself is no value" },
    { P("\x80\2N)R."), "calling None with a tuple is refused" },
    { P("\x80\2ccollections\nOrderedDict\nNR."), "with None is refused" },
    { P("\x80\2ccollections\nOrderedDict\n)\x81."), "0x81 (NEWOBJ) is refused" },
    { P("\x80\2(cos\nsystem\no."), "GLOBAL 'os.system'" },
    { P("\x80\2(ios\nsystem\n."), "0x69 (INST) is refused" },
    { P("\x80\2]}b."), "BUILD of a list with a dict is refused" },
    { P("\x80\2}q\0(U\x0c__metadata__}uh\0b."), "BUILD of a dict with itself is refused" },
    { P("\x80\2" DICT "}(X\1\0\0\0aK\1ub."), NULL },
    { P("\x80\2c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0utf-8\x86R."), "but (text, 'latin1')" },
    { P("\x80\2c_codecs\nencode\nX\2\0\0\0\xc4\x80X\6\0\0\0latin1\x86R."), "beyond 255" },
    { P("\x80\2c__builtin__\nbytes\nK\7\x85R."), "calling '__builtin__.bytes' is refused" },
    { P("\x80\1}."), "protocol 1, 2 to 5" },
    { P("\x80\2."), "nothing on the stack" },
    { P("\x80\2NN."), "1 values are left over" },
    { P("\x80\2(N."), "0 values are left over" },
    { P("\x80\2N"), "ends without STOP" },
    { P(""), "ends without STOP" },
    { P("\x80"), "1 bytes are asked for, 0 are left" },
    { P("\x80\2N.N"), "has 5 bytes, its pickle ends after 4" },
    { P("\x80\2X\xff\xff\xff\xff."), "a text of 4294967295 bytes" },
    { P("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "a text of 18446744073709551615 bytes" },
    { P("\x80\4\x8e\0\0\0\0\0\0\0\x40."), "a text of 4611686018427387904 bytes" },
    { P("\x80\2X\1\0\0\0\xff."), "is not UTF-8" },
    { P("\x80\2X\2\0\0\0\xc0\x80."), "is not UTF-8" },
    { P("\x80\2X\3\0\0\0\xed\xa0\x80."), "is not UTF-8" },
    { P("\x80\2X\1\0\0\0\0."), "a text with a NUL" },
    { P("\x80\2}X\1\0\0\0\0K\1s."), "neither a text without NUL" },
    { P("\x80\2}NK\1s."), "neither a text without NUL" },
    { P("\x80\2}X\1\0\0\0aK\1sX\1\0\0\0aK\2s."), "a second text of that name" },
    { P("\x80\2}(K\1u."), "a key without a value" },
    { P("\x80\2NK\1a."), "values are put into None, not into a list" },
    { P("\x80\2K\1a."), "no container on the stack" },
    { P("\x80\2a."), "no container on the stack" },
    { P("\x80\2](a."), "no container on the stack" },
    { P("\x80\2u."), "there is no mark" },
    { P("\x80\2(u."), "no container on the stack" },
    { P("\x80\2NN\x87."), "a tuple of 3, 2 values" },
    { P("\x80\2N(\x85."), "a tuple of 1, 0 values" },
    { P("\x80\2N(R."), "nothing on the stack" },
    { P("\x80\2h\5."), "memo 5 was never put" },
    { P("\x80\2Nq\2h\1."), "memo 1 was never put" },
    { P("\x80\2Nr\xff\xff\xff\x7f."), "memo 2147483647 in a pickle of 9 bytes" },
    { P("\x80\2q\0."), "nothing on the stack" },
    { P("\x80\2]q\0h\0a."), "nested deeper than 64" },
    { P("\x80\2}q\0K\1h\0s."), "nested deeper than 64" },
    { P("\x80\2\x8a\xff\0."), "255 bytes are asked for" },
    { P("\x80\2\x8a\0."), NULL },
    { P("\x80\2\x8a\x09\1\1\1\1\1\1\1\1\1."), "an integer of 9 bytes" },
    { P("\x80\2\x8f."), "0x8f (EMPTY_SET)" },
    { P("\x80\2\x01."), "opcode 0x01 (unknown here)" },
};

static gr_status parse(const void *pickle, size_t n_bytes)
{
    gr_text file = GR_TEXT_INIT;
    gr_snapshot *s;
    gr_status st;

    GR_CHECK_OK(pt_golden_wrap(pickle, n_bytes, &file));
    st = pt_golden_parse(file.str, file.len, &s);
    GR_CHECK((st == GR_OK) == (s != NULL));
    gr_snapshot_destroy(s);
    gr_text_fini(&file);
    return st;
}

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].part) {
            GR_CHECK_FAILS(parse(rules[i].pickle, rules[i].n_bytes), GR_ERR_FORMAT, rules[i].part);
        } else {
            GR_CHECK_OK(parse(rules[i].pickle, rules[i].n_bytes));
        }
}

/* Lists of ten times the list before, and one text in ten thousand places. */
static void test_growth(void)
{
    gr_text t = GR_TEXT_INIT;

    gr_text_addn(&t, "\x80\2(]}aq\0", 8);
    for (int level = 1; level <= 12; level++) {
        gr_text_add(&t, "](");
        for (int i = 0; i < 10; i++)
            gr_text_addn(&t, (const char[]){ 'h', (char)(level - 1) }, 2);
        gr_text_addn(&t, (const char[]){ 'e', 'q', (char)level }, 3);
    }
    gr_text_add(&t, "t."); /* a tuple of them all */
    GR_CHECK_FAILS(parse(t.str, t.len), GR_ERR_FORMAT, "more than 1048576 values");
    gr_text_fini(&t);
    gr_text_addn(&t, "\x80\2(X\0\0\2\0", 8);
    for (int i = 0; i < 0x20000; i++)
        gr_text_add(&t, "y");
    gr_text_addn(&t, "q\0", 2);
    for (int i = 0; i < 10000; i++)
        gr_text_addn(&t, "h\0", 2);
    gr_text_add(&t, "t.");
    GR_CHECK_OK(gr_text_status(&t));
    GR_CHECK_FAILS(parse(t.str, t.len), GR_ERR_FORMAT, "over 64 times the");
    gr_text_fini(&t);
}

static void test_texts(void)
{
    gr_text t = GR_TEXT_INIT;

    gr_text_addn(&t, "\x80\2(", 3);
    for (int i = 0; i <= GR_PT_MAX_TEXTS; i++)
        gr_text_addn(&t, "U\1x", 3);
    gr_text_add(&t, "t.");
    GR_CHECK_FAILS(parse(t.str, t.len), GR_ERR_FORMAT, "more than 16384 texts");
    gr_text_fini(&t);
}

/* However deep: the machine does not call itself, and what is too deep is said. */
static void test_depth(void)
{
    gr_text t = GR_TEXT_INIT;

    gr_text_addn(&t, "\x80\2N", 3);
    for (int i = 0; i < 200000; i++)
        gr_text_add(&t, "\x85");
    gr_text_add(&t, ".");
    GR_CHECK_FAILS(parse(t.str, t.len), GR_ERR_FORMAT, "nested deeper than 64");
    gr_text_fini(&t);
}

int main(void)
{
    test_rules();
    test_growth();
    test_texts();
    test_depth();
    return 0;
}

/* SHA-256 against the examples of the standard, and of lengths around the end of a block. */
#include "track/sha256.h"

#include "check.h"

static void check(const char *text, const char *want)
{
    char got[GR_SHA256_HEX];

    gr_sha256_hex(text, strlen(text), got);
    GR_CHECK_STR(got, want);
}

int main(void)
{
    char a[200];

    check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(a, 'a', sizeof(a));
    a[55] = 0;
    check(a, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    a[55] = 'a';
    a[64] = 0;
    check(a, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
    return 0;
}

/*
 * Runs a fuzz target without a fuzzer, so that every test run does a little of it:
 *
 *     fuzz_x N FILE...
 *
 * feeds each file as it is and then N mutations of it to LLVMFuzzerTestOneInput(). The
 * mutations come from xorshift, seeded by the file's place and the round, so a failure
 * repeats. Inputs lie in memory of exactly their size: ASan sees a read beyond the end. The one
 * that fails is left in FAILING, in this folder.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GROWTH 64
#define FAILING    "fuzz_failing_input"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

typedef struct input {
    uint8_t *bytes; /* room for n + MAX_GROWTH */
    size_t n;
} input;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t below(uint64_t *state, size_t n)
{
    return n ? (size_t)(next_random(state) % n) : 0;
}

/* A byte that parsers care about, or any. */
static uint8_t pick_byte(uint64_t *state)
{
    static const uint8_t known[] = "\0\x01\x7f\x80\xff 09-.,:;\"\\{}[]\n";

    if (next_random(state) & 1)
        return known[below(state, sizeof(known) - 1)];
    return (uint8_t)next_random(state);
}

static void remove_some(input *in, uint64_t *state)
{
    size_t at = below(state, in->n);
    size_t n = 1 + below(state, 8);

    if (n > in->n - at)
        n = in->n - at;
    memmove(in->bytes + at, in->bytes + at + n, in->n - at - n);
    in->n -= n;
}

/* Inserts bytes copied from elsewhere in the input: keys twice, lists longer. */
static void repeat_some(input *in, uint64_t *state, size_t room)
{
    uint8_t piece[16];
    size_t from = below(state, in->n), to = below(state, in->n);
    size_t n = 1 + below(state, sizeof(piece));

    if (n > in->n - from)
        n = in->n - from;
    if (n > room)
        return;
    memcpy(piece, in->bytes + from, n);
    memmove(in->bytes + to + n, in->bytes + to, in->n - to);
    memcpy(in->bytes + to, piece, n);
    in->n += n;
}

static void mutate(input *in, uint64_t *state)
{
    size_t limit = in->n + MAX_GROWTH;
    size_t n_changes = 1 + below(state, 4);

    for (size_t i = 0; i < n_changes && in->n > 0; i++) {
        size_t at = below(state, in->n);

        switch (next_random(state) % 6) {
        case 0: in->bytes[at] ^= (uint8_t)(1u << (next_random(state) % 8)); break;
        case 1: in->bytes[at] = pick_byte(state); break;
        case 2:
            in->bytes[at] = (uint8_t)(in->bytes[at] + (next_random(state) & 1 ? 1 : 255));
            break;
        case 3: remove_some(in, state); break;
        case 4: repeat_some(in, state, limit - in->n); break;
        default: in->n = next_random(state) % 8 ? in->n : at; break;
        }
    }
}

/* What is under way, for who hears of the end: abort(), or a sanitizer. */
static const input *now;
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void keep_input(void)
{
    static const char said[] = "the input is in " FAILING "\n";
    int fd = now ? open(FAILING, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;

    if (fd >= 0 && write(fd, now->bytes, now->n) == (ssize_t)now->n)
        (void)!write(STDERR_FILENO, said, sizeof(said) - 1);
    now = NULL;
}

static void on_abort(int number)
{
    (void)number;
    keep_input();
}

static void feed(const input *in)
{
    uint8_t *exact = malloc(in->n ? in->n : 1);

    if (!exact)
        abort();
    if (in->n > 0)
        memcpy(exact, in->bytes, in->n);
    now = in;
    LLVMFuzzerTestOneInput(exact, in->n);
    now = NULL;
    free(exact);
}

static int read_whole(const char *path, input *in)
{
    FILE *f = fopen(path, "rb");
    long n = -1;

    if (f && fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    if (n >= 0) {
        rewind(f);
        in->n = (size_t)n;
        in->bytes = malloc(in->n + MAX_GROWTH);
        if (!in->bytes || fread(in->bytes, 1, in->n, f) != in->n)
            n = -1;
    }
    if (f)
        fclose(f);
    return n >= 0;
}

static void run_file(const input *seed, uint64_t number, long n_mutations)
{
    input in = { .bytes = malloc(seed->n + MAX_GROWTH) };

    if (!in.bytes)
        abort();
    feed(seed);
    for (long i = 0; i < n_mutations; i++) {
        uint64_t state = 0x9e3779b97f4a7c15u * (number * 1000003u + (uint64_t)i + 1);

        if (seed->n > 0)
            memcpy(in.bytes, seed->bytes, seed->n);
        in.n = seed->n;
        mutate(&in, &state);
        feed(&in);
    }
    free(in.bytes);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long n_mutations = argc > 2 ? strtol(argv[1], &end, 10) : -1;

    if (n_mutations < 0 || *end != '\0') {
        fprintf(stderr, "usage: %s MUTATIONS FILE...\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
    for (int i = 2; i < argc; i++) {
        input seed = { 0 };

        if (!read_whole(argv[i], &seed)) {
            fprintf(stderr, "%s: cannot read '%s'\n", argv[0], argv[i]);
            return 1;
        }
        run_file(&seed, (uint64_t)i, n_mutations);
        free(seed.bytes);
    }
    printf("%d files, %ld mutations each\n", argc - 2, n_mutations);
    return 0;
}

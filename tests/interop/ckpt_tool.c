/*
 * Checkpoints from the command line, for comparing with other programs:
 *
 *     ckpt_tool make FILE    writes the sample snapshot
 *     ckpt_tool copy A B     reads A, writes B
 *     ckpt_tool dump FILE    one line a tensor: name, dtype, shape, bytes in hex; then
 *                            one line a text: key, text. Strings are in hex too.
 */
#include "gradus/ckpt.h"

#include "ckpt/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_hex(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%02x", ((const unsigned char *)bytes)[i]);
    putchar(' ');
}

static gr_status make(const char *path)
{
    gr_snapshot *s;
    gr_status st;

    GR_TRY(ckpt_sample_make(&s));
    st = gr_ckpt_write(path, s);
    gr_snapshot_destroy(s);
    return st;
}

static gr_status copy(const char *from, const char *to)
{
    gr_snapshot *s;
    gr_status st;

    GR_TRY(gr_ckpt_read(from, &s));
    st = gr_ckpt_write(to, s);
    gr_snapshot_destroy(s);
    return st;
}

static gr_status dump(const char *path)
{
    gr_snapshot *s;

    GR_TRY(gr_ckpt_read(path, &s));
    for (int i = 0; i < gr_snapshot_count(s); i++) {
        const gr_named *t = gr_snapshot_at(s, i);

        printf("tensor ");
        print_hex(t->name, strlen(t->name));
        printf("%s [", gr_dtype_name(t->dtype));
        for (int k = 0; k < t->shape.n_dims; k++)
            printf("%s%" PRId64, k ? "," : "", t->shape.dim[k]);
        printf("] ");
        print_hex(t->mem, (size_t)gr_shape_count(&t->shape) * gr_dtype_bytes(t->dtype));
        putchar('\n');
    }
    for (int i = 0; i < gr_snapshot_n_texts(s); i++) {
        const char *key, *text;

        gr_snapshot_text_at(s, i, &key, &text);
        printf("text ");
        print_hex(key, strlen(key));
        print_hex(text, strlen(text));
        putchar('\n');
    }
    gr_snapshot_destroy(s);
    return GR_OK;
}

int main(int argc, char **argv)
{
    gr_status st;

    if (argc == 3 && strcmp(argv[1], "make") == 0) {
        st = make(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "dump") == 0) {
        st = dump(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "copy") == 0) {
        st = copy(argv[2], argv[3]);
    } else {
        fprintf(stderr, "usage: ckpt_tool make FILE | dump FILE | copy FROM TO\n");
        return 2;
    }
    if (st == GR_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "ckpt_tool: %s: %s\n", gr_status_text(st), gr_error_message());
    return 1;
}

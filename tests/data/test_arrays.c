/*
 * Arrays: idx (and the real digits where they are), CIFAR, npy, token files. Heads that lie and
 * labels that cannot be are refused. Guards P25 (a corpus is mapped, not copied) and P42.
 */
#include "alloc_fail.h"
#include "data/put_files.h"
#include "scratch.h"

#include <unistd.h>

static gr_dataset_config at(const char *path)
{
    gr_dataset_config c = GR_DATASET_CONFIG_INIT;

    c.path = path;
    return c;
}

static void refused(gr_dataset_config c, gr_status want, const char *part)
{
    gr_dataset *ds = NULL;

    GR_CHECK_FAILS(gr_dataset_open(&ds, &c), want, part);
    GR_CHECK(ds == NULL);
}

/* idx of bytes: `n_dims` sizes, then data_pixel(seed, place). */
static void put_idx(const char *path, int n_dims, const int *dim, int seed)
{
    uint8_t bytes[4096] = { 0, 0, 8, (uint8_t)n_dims };
    size_t n = 4, n_data = 1;

    for (int i = 0; i < n_dims; i++, n += 4) {
        bytes[n + 2] = (uint8_t)(dim[i] >> 8);
        bytes[n + 3] = (uint8_t)dim[i];
        n_data *= (size_t)dim[i];
    }
    GR_CHECK(n + n_data <= sizeof(bytes));
    for (size_t i = 0; i < n_data; i++)
        bytes[n + i] = n_dims == 1 ? (uint8_t)((i + (size_t)seed) % 10) : data_pixel(seed, (int)i);
    data_put_bytes(path, bytes, n + n_data);
}

static void test_idx(void)
{
    gr_dataset_config c = at("digits");
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    const void *mem;
    gr_dtype dtype;
    gr_shape shape;
    char name[64];
    bool has;

    put_idx("digits/train-images-idx3-ubyte", 3, (int[]){ 12, 5, 4 }, 1);
    put_idx("digits/train-labels-idx1-ubyte", 1, (int[]){ 12 }, 3);
    put_idx("digits/t10k-images-idx3-ubyte", 3, (int[]){ 3, 5, 4 }, 2);
    put_idx("digits/t10k-labels-idx1-ubyte", 1, (int[]){ 3 }, 4);
    refused(c, GR_ERR_ARG, "say which part");
    c.split = "train";
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_IDX);
    GR_CHECK_EQ(gr_dataset_size(ds), 12);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 10);
    GR_CHECK_EQ(gr_dataset_class(ds, 2), 5);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    data_check_image(&img, 5, 4, 1, 1);
    GR_CHECK_OK(gr_dataset_tensor(ds, 2, &mem, &dtype, &shape));
    GR_CHECK(dtype == GR_U8 && shape.n_dims == 2 && shape.dim[0] == 5);
    GR_CHECK_EQ(((const uint8_t *)mem)[3], data_pixel(1, 43));
    GR_CHECK_STR(gr_dataset_name(ds, 7, name, sizeof(name)), "train-images-idx3-ubyte[7]");
    gr_dataset_destroy(ds);
    c.split = "test";
    c.decode.as = GR_IMAGE_RGB;
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_size(ds), 3);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    GR_CHECK_EQ(img.channels, 3);
    GR_CHECK_EQ(img.px[3 * 7 + 2], data_pixel(2, 7));
    gr_dataset_destroy(ds);
    c.split = "valid";
    GR_CHECK_OK(gr_dataset_has(&c, &has));
    GR_CHECK(!has);

    put_idx("digits/train-labels-idx1-ubyte", 1, (int[]){ 11 }, 3);
    c.split = "train";
    refused(c, GR_ERR_FORMAT,
            "holds 11 labels in 1 dimensions, 'train-images-idx3-ubyte' 12 images");
    GR_CHECK_EQ(truncate("digits/train-images-idx3-ubyte", 250), 0);
    refused(c, GR_ERR_FORMAT, "the head says 240 bytes, the file holds 234 after it");
    data_put_bytes("digits/train-images-idx3-ubyte", "\0\0\x0d\x01\0\0\0\1....", 12);
    refused(c, GR_ERR_FORMAT, "type 0x0d");
    gr_image_fini(&img);
}

/* The 10,000 real digits: how often each label is, and what the first digit looks like. */
static void test_real_digits(void)
{
    const char *folder = data_real();
    gr_dataset_config c = GR_DATASET_CONFIG_INIT;
    gr_image img = GR_IMAGE_INIT;
    gr_dataset *ds = NULL;
    int64_t sum = 0, n_sevens = 0;
    char path[1200];

    snprintf(path, sizeof(path), "%s/mnist-10k", folder ? folder : "");
    if (!folder || access(path, R_OK) != 0) {
        printf("no real digits here: not read\n");
        return;
    }
    c.path = path;
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_size(ds), 10000);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 10);
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 7);
    for (int64_t i = 0; i < 10000; i++)
        n_sevens += gr_dataset_class(ds, i) == 7;
    GR_CHECK_EQ(n_sevens, 1028);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    for (int i = 0; i < 28 * 28; i++)
        sum += img.px[i];
    GR_CHECK_EQ(img.height, 28);
    GR_CHECK_EQ(sum, 18454);
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void put_cifar(const char *path, int n, size_t n_labels, int first)
{
    size_t stride = n_labels + 3072;
    uint8_t *bytes = gr_calloc((size_t)n, stride);

    for (int i = 0; i < n; i++) {
        bytes[(size_t)i * stride] = (uint8_t)((first + i) % 10);
        bytes[(size_t)i * stride + n_labels - 1] = (uint8_t)((first + i) % 10);
        for (int k = 0; k < 3072; k++)
            bytes[(size_t)i * stride + n_labels + (size_t)k] = data_pixel(first + i, k);
    }
    data_put_bytes(path, bytes, (size_t)n * stride);
    gr_free(bytes);
}

static void test_cifar(void)
{
    gr_dataset_config c = at("cifar");
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    char path[64], name[64];

    for (int i = 1; i <= 5; i++) {
        snprintf(path, sizeof(path), "cifar/data_batch_%d.bin", i);
        put_cifar(path, 2, 1, 2 * i);
    }
    put_cifar("cifar/test_batch.bin", 3, 1, 7);
    data_put_text("cifar/batches.meta.txt", "z\ny\nx\nw\nv\nu\nt\ns\nr\nq\n\n");
    c.split = "train";
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_CIFAR10);
    GR_CHECK_EQ(gr_dataset_size(ds), 10);
    GR_CHECK_STR(gr_dataset_class_name(ds, 1), "y");
    GR_CHECK_EQ(gr_dataset_class(ds, 5), 7);
    GR_CHECK_STR(gr_dataset_name(ds, 5, name, sizeof(name)), "data_batch_3.bin[1]");
    GR_CHECK_OK(gr_dataset_image(ds, 5, &img)); /* planes become pixels */
    GR_CHECK_EQ(img.channels, 3);
    GR_CHECK_EQ(img.px[3 * (32 * 4 + 9) + 1], data_pixel(7, 1024 + 32 * 4 + 9));
    gr_dataset_destroy(ds);
    c.split = "test";
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_size(ds), 3);
    gr_dataset_destroy(ds);
    c.split = "valid";
    refused(c, GR_ERR_IO, "divide the training part");
    unlink("cifar/data_batch_4.bin");
    c.split = "train";
    refused(c, GR_ERR_IO, "data_batch_4.bin");
    data_put_text("cifar/data_batch_4.bin", "short");
    refused(c, GR_ERR_FORMAT, "5 bytes, which is no number of records of 3073");

    put_cifar("fine/train.bin", 2, 2, 5);
    c = at("fine");
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_CIFAR100);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 100);
    GR_CHECK_EQ(gr_dataset_class(ds, 1), 6);
    gr_dataset_destroy(ds);

    /* A label that cannot be shows when its image is read. */
    put_cifar("one.bin", 2, 1, 0);
    c = at("one.bin");
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_OK(gr_dataset_image(ds, 1, &img));
    gr_dataset_destroy(ds);
    {
        FILE *f = fopen("one.bin", "r+b");

        GR_CHECK(f && fputc(200, f) == 200);
        fclose(f);
    }
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_FAILS(gr_dataset_image(ds, 0, &img), GR_ERR_FORMAT, "is of class 200, there are 10");
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

/* A .npy file of version v with the given dictionary; data follow. */
static void put_npy(const char *path, int v, const char *head, const void *data, size_t n_data)
{
    uint8_t bytes[4096] = "\x93NUMPY";
    size_t n_start = v == 1 ? 10 : 12,
           n_head = (n_start + strlen(head) + 1 + 63) / 64 * 64 - n_start;

    bytes[6] = (uint8_t)v;
    bytes[8] = (uint8_t)n_head;
    bytes[9] = (uint8_t)(n_head >> 8);
    memset(bytes + n_start, ' ', n_head);
    memcpy(bytes + n_start, head, strlen(head));
    bytes[n_start + n_head - 1] = '\n';
    GR_CHECK(n_start + n_head + n_data <= sizeof(bytes));
    memcpy(bytes + n_start + n_head, data, n_data);
    data_put_bytes(path, bytes, n_start + n_head + n_data);
}

static void npy_refused(const char *head, size_t n_data, const char *part)
{
    static const uint8_t zeros[256] = { 0 };
    gr_array *a = NULL;

    put_npy("bad.npy", 1, head, zeros, n_data);
    GR_CHECK_FAILS(gr_array_open(&a, "bad.npy"), GR_ERR_FORMAT, part);
    GR_CHECK(a == NULL);
}

static void test_npy_head(void)
{
    static const float numbers[6] = { 1, 2, 3, 4, 5, 6.5F };
    gr_array *a = NULL;
    const gr_named *v;

    for (int version = 1; version <= 3; version++) {
        put_npy("good.npy", version, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                numbers, sizeof(numbers));
        GR_CHECK_OK(gr_array_open(&a, "good.npy"));
        v = gr_array_view(a);
        GR_CHECK(v->dtype == GR_F32 && v->shape.n_dims == 2 && v->shape.dim[1] == 3);
        GR_CHECK(((const float *)v->mem)[5] == 6.5F);
        gr_array_close(a);
    }
    put_npy("good.npy", 1, "{\"shape\":(6,),\"fortran_order\":True,\"descr\":\"<f4\"}", numbers,
            24);
    GR_CHECK_OK(gr_array_open(&a, "good.npy")); /* one dimension: the order does not matter */
    GR_CHECK_EQ(gr_array_view(a)->shape.dim[0], 6);
    gr_array_close(a);
    put_npy("good.npy", 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", numbers, 8);
    GR_CHECK_OK(gr_array_open(&a, "good.npy"));
    GR_CHECK_EQ(gr_array_view(a)->shape.n_dims, 0);
    gr_array_close(a);
    gr_array_close(NULL);

    npy_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, "Fortran order");
    npy_refused("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, "type '>f4'");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 20,
                "the head says 24 bytes of data, the file holds 20");
    npy_refused("{'descr': '<f4', 'shape': (2, 3), }", 24, "not understood");
    npy_refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4,
                "not understood");
    npy_refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4,
                "not understood");
    npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, "not understood");
    npy_refused("{'descr': '<f4', 'fortran_order': False, "
                "'shape': (4611686018427387904, 4611686018427387904), }",
                4, "the shape in the head");
    data_put_text("bad.npy", "text");
    GR_CHECK_FAILS(gr_array_open(&a, "bad.npy"), GR_ERR_FORMAT, "'bad.npy': not a .npy file");
}

static void test_npy_data(void)
{
    static const int64_t labels[3] = { 2, 0, 1 }, negative[3] = { 2, 0, -1 };
    int32_t masks[12];
    uint8_t px[36];
    gr_dataset_config c = at("arrays");
    gr_dataset *ds = NULL;
    gr_image img = GR_IMAGE_INIT;
    const void *mem;
    gr_dtype dtype;
    gr_shape shape;

    for (int i = 0; i < 36; i++)
        px[i] = data_pixel(1, i);
    for (int i = 0; i < 12; i++)
        masks[i] = i * 20;
    put_npy("arrays/train/images.npy", 1,
            "{'descr': '|u1', 'fortran_order': False, "
            "'shape': (3, 2, 2, 3), }",
            px, 36);
    put_npy("arrays/train/labels.npy", 1,
            "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", labels, sizeof(labels));
    c.split = "train";
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_EQ(gr_dataset_format(ds), GR_FORMAT_NPY);
    GR_CHECK_EQ(gr_dataset_n_classes(ds), 3);
    GR_CHECK_EQ(gr_dataset_class(ds, 0), 2);
    GR_CHECK_OK(gr_dataset_image(ds, 0, &img));
    data_check_image(&img, 2, 2, 3, 1);
    gr_dataset_destroy(ds);
    put_npy("arrays/train/labels.npy", 1,
            "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }", negative,
            sizeof(negative));
    refused(c, GR_ERR_FORMAT, "label 2 is -1");
    put_npy("arrays/train/labels.npy", 1,
            "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", labels, 16);
    refused(c, GR_ERR_FORMAT, "is of shape [2]; for 3 samples, classes are of [3]");

    unlink("arrays/train/labels.npy");
    put_npy("arrays/train/masks.npy", 1,
            "{'descr': '<i4', 'fortran_order': False, "
            "'shape': (3, 2, 2), }",
            masks, sizeof(masks));
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK(gr_dataset_has_masks(ds));
    GR_CHECK_OK(gr_dataset_mask(ds, 2, &img));
    GR_CHECK_EQ(img.px[3], 220);
    gr_dataset_destroy(ds);
    masks[11] = 256;
    put_npy("arrays/train/masks.npy", 1,
            "{'descr': '<i4', 'fortran_order': False, "
            "'shape': (3, 2, 2), }",
            masks, sizeof(masks));
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_FAILS(gr_dataset_mask(ds, 2, &img), GR_ERR_FORMAT,
                   "a label of 256 at row 1, column 1");
    gr_dataset_destroy(ds);

    /* Numbers that are no images. */
    put_npy("x.npy", 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", masks, 48);
    c = at("x.npy");
    GR_CHECK_OK(gr_dataset_open(&ds, &c));
    GR_CHECK_FAILS(gr_dataset_image(ds, 0, &img), GR_ERR_ARG, "samples of f32 [4] are no images");
    GR_CHECK_OK(gr_dataset_tensor(ds, 1, &mem, &dtype, &shape));
    GR_CHECK(dtype == GR_F32 && shape.n_dims == 1 && memcmp(mem, masks + 4, 16) == 0);
    gr_dataset_destroy(ds);
    gr_image_fini(&img);
}

static void test_tokens(void)
{
    static const uint16_t small[4] = { 1, 500, 65535, 7 };
    static const uint32_t wide[3] = { 70000, 1, 4000000000u };
    gr_tokens *t = NULL;
    int64_t got[4];

    data_put_bytes("corpus.u16", small, sizeof(small));
    data_put_bytes("corpus.bin", wide, sizeof(wide));
    GR_CHECK_OK(gr_tokens_open(&t, "corpus.u16", 0));
    GR_CHECK_EQ(gr_tokens_count(t), 4);
    GR_CHECK_OK(gr_tokens_read(t, 1, 3, 0, got));
    GR_CHECK(got[0] == 500 && got[1] == 65535 && got[2] == 7);
    GR_CHECK_FAILS(gr_tokens_read(t, 2, 3, 0, got), GR_ERR_ARG, "has 4 tokens");
    GR_CHECK_FAILS(gr_tokens_read(t, 0, 4, 501, got), GR_ERR_FORMAT,
                   "token 65535 at place 2, but the vocabulary has 501");
    gr_tokens_close(t);
    GR_CHECK_OK(gr_tokens_open(&t, "corpus.bin", 4));
    GR_CHECK_OK(gr_tokens_read(t, 0, 3, 0, got));
    GR_CHECK(got[0] == 70000 && got[2] == 4000000000);
    gr_tokens_close(t);
    GR_CHECK_FAILS(gr_tokens_open(&t, "corpus.bin", 0), GR_ERR_ARG, "say 2 or 4");
    data_put_text("corpus.u32", "12345");
    GR_CHECK_FAILS(gr_tokens_open(&t, "corpus.u32", 0), GR_ERR_FORMAT, "no number of tokens of 4");
    GR_CHECK_FAILS(gr_tokens_open(&t, "none.u32", 0), GR_ERR_IO, "'none.u32'");
    gr_tokens_close(NULL);
}

static void test_allocations(void)
{
    gr_dataset_config c = at("arrays");

    c.split = "train";
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
    c = at("fine");
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
    put_idx("digits/train-images-idx3-ubyte", 3, (int[]){ 12, 5, 4 }, 1);
    put_idx("digits/train-labels-idx1-ubyte", 1, (int[]){ 12 }, 3);
    c = at("digits/train-images-idx3-ubyte");
    GR_CHECK(gr_alloc_fail_each(data_open_and_read, &c) > 3);
}

int main(void)
{
    gr_test_scratch();
    test_idx();
    test_real_digits();
    test_cifar();
    test_npy_head();
    test_npy_data();
    test_tokens();
    test_allocations();
    return 0;
}

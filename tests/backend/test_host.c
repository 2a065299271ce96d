/* The drivers whose device memory is host memory: cpu and null. */
#include "backend/host.h"

#include "alloc_fail.h"

#include <errno.h>
#include <sys/mman.h>

static const gr_backend_ops *const drivers[] = { &gr_backend_cpu, &gr_backend_null };

static void check_memory(gr_device *d, size_t n_bytes)
{
    uint8_t *mem, *copy;

    GR_CHECK_OK(d->ops->alloc(d, n_bytes, (void **)&mem));
    GR_CHECK_OK(d->ops->host_alloc(d, n_bytes, (void **)&copy));
    GR_CHECK_EQ((uintptr_t)mem % 256, 0);
    GR_CHECK_EQ((uintptr_t)copy % 256, 0);
    for (size_t i = 0; i < n_bytes; i++)
        GR_CHECK(mem[i] == 0 && copy[i] == 0);
    for (size_t i = 0; i < n_bytes; i++)
        copy[i] = (uint8_t)(i * 7 + 1);
    GR_CHECK_OK(d->ops->upload(d, mem, copy, n_bytes));
    GR_CHECK_OK(d->ops->zero(d, copy, n_bytes));
    for (size_t i = 0; i < n_bytes; i++)
        GR_CHECK(mem[i] == (uint8_t)(i * 7 + 1) && copy[i] == 0);
    GR_CHECK_OK(d->ops->download(d, copy, mem, n_bytes));
    GR_CHECK(memcmp(copy, mem, n_bytes) == 0);
    d->ops->free(d, mem);
    d->ops->host_free(d, copy);
}

/* Blocks from the heap and mapped ones, and the border between them. */
static void test_memory(gr_device *d)
{
    static const size_t sizes[] = {
        0, 1, 255, 256, 4097, ((size_t)4 << 20) - 1, (size_t)4 << 20, ((size_t)6 << 20) + 123
    };
    void *mem;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_memory(d, sizes[i]);
    d->ops->free(d, NULL);
    GR_CHECK_OK(d->ops->upload(d, NULL, NULL, 0));
    GR_CHECK_OK(d->ops->zero(d, NULL, 0));
    GR_CHECK_FAILS(d->ops->alloc(d, SIZE_MAX, &mem), GR_ERR_NOMEM, "no memory for");
    GR_CHECK_FAILS(d->ops->alloc(d, SIZE_MAX / 2, &mem), GR_ERR_NOMEM, "no memory for");
}

/* A mapped block is given back whole: afterwards nothing is mapped where it lay. */
static void test_mapped_block_returns(gr_device *d)
{
    const size_t n_bytes = (size_t)64 << 20, page_bytes = 4096;
    char *mem, *page;

    GR_CHECK_OK(d->ops->alloc(d, n_bytes, (void **)&mem));
    page = mem - (uintptr_t)mem % page_bytes;
    GR_CHECK_EQ(msync(page, page_bytes, MS_ASYNC), 0);
    d->ops->free(d, mem);
    for (size_t at = 0; at < n_bytes; at += page_bytes) {
        GR_CHECK_EQ(msync(page + at, page_bytes, MS_ASYNC), -1);
        GR_CHECK_EQ(errno, ENOMEM);
    }
}

static void test_rest(gr_device *d)
{
    gr_text text = GR_TEXT_INIT;
    void *recorded;

    GR_CHECK(d->ops->has_host_memory && d->ops->runs_at_once && !d->ops->can_capture);
    GR_CHECK(d->ops->count() >= 1);
    d->ops->describe(d, &text);
    GR_CHECK(gr_text_str(&text)[0] != '\0');
    gr_text_fini(&text);
    GR_CHECK_OK(d->ops->sync(d));
    GR_CHECK(d->ops->stream(d, GR_STREAM_EXCHANGE) == NULL);
    for (int slot = 0; slot < 2; slot++) {
        GR_CHECK_OK(d->ops->slot_mark(d, slot, GR_STREAM_COPY));
        GR_CHECK_OK(d->ops->slot_wait(d, slot));
    }
    GR_CHECK_FAILS(d->ops->capture_begin(d), GR_ERR_DEVICE, d->ops->name);
    GR_CHECK_FAILS(d->ops->capture_end(d, &recorded), GR_ERR_DEVICE, d->ops->name);
    GR_CHECK_FAILS(d->ops->capture_launch(d, NULL), GR_ERR_DEVICE, d->ops->name);
    d->ops->capture_free(d, NULL);
}

static gr_status memory_body(void *arg)
{
    const gr_backend_ops *ops = (const gr_backend_ops *)arg;
    gr_device *d = NULL;
    void *small = NULL, *large = NULL;
    gr_status st;

    GR_TRY_GOTO(st, ops->open(&d, 1), done);
    GR_TRY_GOTO(st, ops->alloc(d, 100, &small), done);
    GR_TRY_GOTO(st, ops->alloc(d, (size_t)8 << 20, &large), done);
done:
    ops->free(d, large);
    ops->free(d, small);
    ops->close(d);
    return st;
}

int main(void)
{
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        gr_backend_ops ops = *drivers[i];
        gr_device *d;

        GR_CHECK_FAILS(ops.open(&d, -1), GR_ERR_ARG, ops.name);
        GR_CHECK_OK(ops.open(&d, 0));
        GR_CHECK(d->ops == drivers[i]);
        test_memory(d);
        test_mapped_block_returns(d);
        test_rest(d);
        ops.close(d);
        ops.close(NULL);
        GR_CHECK(gr_alloc_fail_each(memory_body, &ops) >= 4);
    }
    return 0;
}

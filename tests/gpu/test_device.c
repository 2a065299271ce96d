/* The CUDA driver: memory, copies, slots, recording, and messages for what cannot be. */
#include "gpu/gpu.h"
#include "tests/check.h"

#define N 100003

static void test_memory(gr_device *d)
{
    const gr_backend_ops *ops = d->ops;
    unsigned char *host, *mem;

    GR_CHECK_OK(ops->host_alloc(d, N, (void **)&host));
    GR_CHECK_OK(ops->alloc(d, N, (void **)&mem));
    GR_CHECK_EQ((uintptr_t)mem % 256, 0);
    memset(host, 0xee, N);
    GR_CHECK_OK(ops->download(d, host, mem, N));
    GR_CHECK_OK(ops->sync(d));
    for (int i = 0; i < N; i++)
        GR_CHECK_EQ(host[i], 0); /* fresh memory is zeroed */
    for (int i = 0; i < N; i++)
        host[i] = (unsigned char)(i * 7);
    GR_CHECK_OK(ops->upload(d, mem, host, N));
    GR_CHECK_OK(ops->slot_mark(d, 0, GR_STREAM_COMPUTE));
    GR_CHECK_OK(ops->slot_wait(d, 0));
    GR_CHECK_OK(ops->slot_wait(d, 1)); /* never marked: nothing to wait for */
    memset(host, 0, N);
    GR_CHECK_OK(ops->zero(d, mem + 1000, 5));
    GR_CHECK_OK(ops->download(d, host, mem, N));
    GR_CHECK_OK(ops->sync(d));
    for (int i = 0; i < N; i++)
        GR_CHECK_EQ(host[i], i >= 1000 && i < 1005 ? 0 : (unsigned char)(i * 7));
    ops->free(d, mem);
    ops->host_free(d, host);
}

/* What is recorded runs at each launch, and not while it is recorded. */
static void test_capture(gr_device *d)
{
    const gr_backend_ops *ops = d->ops;
    int *host, *mem;
    void *recorded = NULL;

    GR_CHECK_OK(ops->host_alloc(d, 2 * sizeof(int), (void **)&host));
    GR_CHECK_OK(ops->alloc(d, sizeof(int), (void **)&mem));
    host[0] = 5;
    GR_CHECK_OK(ops->capture_begin(d));
    GR_CHECK_OK(ops->upload(d, mem, &host[0], sizeof(int)));
    GR_CHECK_OK(ops->download(d, &host[1], mem, sizeof(int)));
    GR_CHECK_OK(ops->capture_end(d, &recorded));
    GR_CHECK_OK(ops->sync(d));
    GR_CHECK_EQ(host[1], 0);
    for (int i = 0; i < 3; i++) {
        host[0] = 100 + i;
        GR_CHECK_OK(ops->capture_launch(d, recorded));
        GR_CHECK_OK(ops->sync(d));
        GR_CHECK_EQ(host[1], 100 + i);
    }
    ops->capture_free(d, recorded);
    ops->free(d, mem);
    ops->host_free(d, host);
}

/* Up on the copy stream and down from the compute stream, which waits for the exchange stream, and
 * that for the copy: plainly and recorded. */
static gr_status pass_through(gr_device *d, char *host, char *mem, void *const *event)
{
    const gr_backend_ops *ops = d->ops;

    GR_TRY(ops->event_record(d, event[0], GR_STREAM_COMPUTE)); /* forks */
    GR_TRY(ops->event_wait(d, event[0], GR_STREAM_COPY));
    GR_TRY(ops->upload_ahead(d, mem, host, N));
    GR_TRY(ops->event_record(d, event[1], GR_STREAM_COPY));
    GR_TRY(ops->event_wait(d, event[1], GR_STREAM_EXCHANGE));
    GR_TRY(ops->event_record(d, event[2], GR_STREAM_EXCHANGE));
    GR_TRY(ops->event_wait(d, event[2], GR_STREAM_COMPUTE));
    GR_TRY(ops->copy(d, mem + N, mem, N));
    return ops->download(d, host + N, mem + N, N);
}

static void check_passed(gr_device *d, unsigned char *host)
{
    GR_CHECK_OK(d->ops->sync(d));
    for (int i = 0; i < N; i++)
        GR_CHECK_EQ(host[N + i], host[i]);
}

static void test_streams(gr_device *d)
{
    const gr_backend_ops *ops = d->ops;
    unsigned char *host, *mem;
    void *event[3], *recorded = NULL;

    for (int i = 0; i < 3; i++)
        GR_CHECK_OK(ops->event_create(d, &event[i]));
    GR_CHECK_OK(ops->host_alloc(d, 2 * N, (void **)&host));
    GR_CHECK_OK(ops->alloc(d, 2 * N, (void **)&mem));
    memset(host, 1, N);
    GR_CHECK_OK(pass_through(d, (char *)host, (char *)mem, event));
    check_passed(d, host);
    GR_CHECK_OK(ops->capture_begin(d));
    GR_CHECK_OK(pass_through(d, (char *)host, (char *)mem, event));
    GR_CHECK_OK(ops->capture_end(d, &recorded));
    for (int i = 2; i < 5; i++) {
        memset(host, i, N);
        GR_CHECK_OK(ops->capture_launch(d, recorded));
        check_passed(d, host);
    }
    ops->capture_free(d, recorded);
    for (int i = 0; i < 3; i++)
        ops->event_destroy(d, event[i]);
    ops->free(d, mem);
    ops->host_free(d, host);
}

static void test_refusals(const gr_module *m, gr_device *d)
{
    gr_device *other;
    void *mem;

    GR_CHECK_FAILS(m->backend->open(&other, 1000), GR_ERR_DEVICE, "GPU 1000");
    GR_CHECK_FAILS(d->ops->alloc(d, (size_t)1 << 50, &mem), GR_ERR_NOMEM, "cudaMalloc");
    GR_CHECK_OK(d->ops->sync(d)); /* a refusal leaves nothing behind */
}

int main(void)
{
    const gr_module *m = gpu_module();
    gr_device *d = gpu_open();
    gr_text text = GR_TEXT_INIT;

    d->ops->describe(d, &text);
    GR_CHECK_OK(gr_text_status(&text));
    printf("%s\n", gr_text_str(&text));
    gr_text_fini(&text);
    test_memory(d);
    test_capture(d);
    test_streams(d);
    test_refusals(m, d);
    d->ops->close(d);
    return 0;
}

/*
 * From "auto" or "cuda:1" to an open device with its kernels and its process group.
 * "auto" is a GPU when a driver and our module are there, else the CPU.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "op/collective/shard.h"
#include "step/private.h"

/* Cheap when there is no driver: loading the whole module just to learn that is not. */
static bool has_cuda_driver(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

    if (h)
        dlclose(h);
    return h != NULL;
}

static gr_status parse_index(const char *name, int otherwise, int *index)
{
    char *end;
    long n;

    *index = otherwise;
    if (name[4] == '\0')
        return GR_OK;
    n = strtol(name + 5, &end, 10);
    if (name[4] != ':' || end == name + 5 || *end != '\0' || n < 0 || n > 1023)
        return gr_fail(GR_ERR_ARG, "device '%s': use cpu, cuda, cuda:N or auto", name);
    *index = (int)n;
    return GR_OK;
}

static gr_status open_cuda(gr_step *s)
{
    int index, n;
    gr_status st;

    st = gr_module_load("cuda", &s->module);
    if (st != GR_OK)
        return gr_wrap(st, "device '%s' needs the CUDA module, which is built where nvcc is",
                       s->c.device);
    n = s->module->backend->count();
    if (n < 1)
        return gr_fail(GR_ERR_DEVICE, "device '%s': the driver shows no GPU", s->c.device);
    GR_TRY(parse_index(s->c.device, gr_pg_local_rank(s->c.pg) % n, &index));
    if (index >= n)
        return gr_fail(GR_ERR_DEVICE, "device '%s': there are %d GPUs, numbered from 0",
                       s->c.device, n);
    return s->module->backend->open(&s->device, index);
}

static gr_status open_auto(gr_step *s)
{
    if (has_cuda_driver()) {
        s->c.device = "cuda";
        if (open_cuda(s) == GR_OK)
            return GR_OK;
        gr_log(STEP, WARN, "a GPU driver is there but no GPU can be used (%s); using the CPU",
               gr_error_message());
        s->module = NULL;
    }
    s->c.device = "cpu";
    return gr_backend_cpu.open(&s->device, 0);
}

static gr_status open_named(gr_step *s)
{
    if (strcmp(s->c.device, "auto") == 0)
        return open_auto(s);
    if (strcmp(s->c.device, "cpu") == 0)
        return gr_backend_cpu.open(&s->device, 0);
    if (strcmp(s->c.device, "cpu:late") == 0) /* for tests of what a GPU does */
        return gr_backend_late.open(&s->device, 0);
    if (strncmp(s->c.device, "cuda", 4) == 0)
        return open_cuda(s);
    return gr_fail(GR_ERR_ARG, "device '%s': use cpu, cuda, cuda:N or auto", s->c.device);
}

static gr_status open_pool(gr_step *s)
{
    const char *env = getenv("GR_THREADS");
    char *end;
    long n = s->c.n_threads;

    if (n == 0 && env) {
        n = strtol(env, &end, 10);
        if (end == env || *end != '\0' || n < 1 || n > 1024)
            return gr_fail(GR_ERR_ARG, "GR_THREADS is '%s', must be a number from 1 to 1024", env);
    }
    s->n_threads = n > 0 ? (int)n : 1;
    return gr_pool_create(&s->pool, s->n_threads);
}

/* Where this rank computes, as text that is equal exactly when the device is the same. */
static void name_place(gr_step *s, gr_text *out)
{
    char host[256] = "";

    if (gethostname(host, sizeof(host) - 1) != 0)
        host[0] = '\0';
    gr_text_addf(out, "%s ", host);
    s->device->ops->describe(s->device, out);
}

/* NCCL wants a GPU per rank; ranks that share one go through CUDA IPC. */
static gr_status choose_group(gr_step *s, const char **name)
{
    gr_text place = GR_TEXT_INIT;
    char **all = NULL;
    int size = gr_pg_size(s->c.pg);
    gr_status st;

    name_place(s, &place);
    st = gr_text_status(&place);
    if (st == GR_OK)
        st = gr_pg_gather_bytes(s->c.pg, gr_text_str(&place), place.len, &all, NULL);
    gr_text_fini(&place);
    GR_TRY(st);
    *name = "nccl";
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++)
            if (strcmp(all[a], all[b]) == 0)
                *name = "ipc";
    free(all);
    return GR_OK;
}

static gr_status open_group(gr_step *s)
{
    const char *name = s->c.group;

    s->group = s->c.pg;
    if (strcmp(name, "auto") != 0 && strcmp(name, "nccl") != 0 && strcmp(name, "ipc") != 0)
        return gr_fail(GR_ERR_ARG, "group '%s': use nccl, ipc or auto", name);
    if (s->device->ops->has_host_memory || gr_pg_size(s->c.pg) == 1)
        return GR_OK;
    if (strcmp(name, "auto") == 0)
        GR_TRY(choose_group(s, &name));
    for (const gr_pg_factory *f = s->module->groups; f->name; f++)
        if (strcmp(f->name, name) == 0) {
            gr_log(STEP, INFO, "gradients are exchanged through %s", name);
            return f->create(&s->group, s->c.pg, s->device);
        }
    return gr_fail(GR_ERR_DEVICE, "group '%s' is not in this build of the CUDA module", name);
}

/* Measured (gradus bench step, with and without --without common) with an MLP of 2.6 MiB: two ranks
 * lose 8 to 12 % and four 4 % by sharing, eight win 4 %; with 45 MiB (ResNet-18) all win. */
#define COMMON_FROM ((size_t)12 << 20)

/* Ranks of one host can share what they train. With counts over micro-steps the update divides
 * by what is known at its end only, which shares do not know to do. */
static bool can_be_common(const gr_step *s)
{
    bool counts_late = s->c.loss_reduction == GR_LOSS_GLOBAL && s->c.accumulate > 1;

    return gr_pg_size(s->group) > 1 && s->group->ops->common && s->device->ops->runs_at_once &&
           s->c.zero == 0 && !counts_late && !gr_step_leaves_out(s, "common");
}

static gr_status read_common_from(gr_step *s)
{
    const char *text = getenv("GR_COMMON_FROM");
    char *end;

    s->common_from = COMMON_FROM;
    if (!text || !*text)
        return GR_OK;
    s->common_from = strtoull(text, &end, 10);
    if (*end || !isdigit((unsigned char)*text))
        return gr_fail(GR_ERR_ARG, "GR_COMMON_FROM is '%s', must be a number of bytes", text);
    return GR_OK;
}

static bool has_kernels(const gr_step *s, const gr_op *op)
{
    return gr_kernel_list(s->module ? s->module->kernels : NULL, op) != NULL;
}

gr_status gr_step_open_device(gr_step *s)
{
    GR_TRY(open_named(s));
    if (gr_step_shards(s) && !has_kernels(s, &gr_op_shard_keep))
        return gr_fail(GR_ERR_DEVICE,
                       "zero: %d needs the CPU: device '%s' has no kernels for parts of "
                       "parameters; set zero: 0",
                       s->c.zero, s->c.device);
    GR_TRY(open_pool(s));
    GR_TRY(open_group(s));
    s->is_common = can_be_common(s);
    return read_common_from(s);
}

void gr_step_close_device(gr_step *s)
{
    if (s->group != s->c.pg)
        gr_pg_destroy(s->group);
    gr_pool_destroy(s->pool);
    if (s->device)
        s->device->ops->close(s->device);
}

/*
 * The cache is a short list: a plan has tens of distinct programs, and each is looked up
 * once, when the plan is made.
 *
 * A thread per program does nothing but call the compiler: (1) it touches only its entry,
 * which nobody else touches until it was joined; (2) loading the result is left to the
 * caller, whose current device it is. At most as many run as this process has cores, and
 * with one core there are none: the caller compiles.
 *
 * Multiplications and additions are not fused, so that simple arithmetic gives the bits
 * of the CPU's reference kernels.
 */
#include "backend/cuda/jit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <nvrtc.h>
#include <pthread.h>
#include <sched.h>

/* Room for a kernel's code, reserved when it is asked for: its first use is in a run,
 * which allocates nothing. Kernels take some 5 to 30 KiB. */
#define IMAGE_BYTES ((size_t)128 << 10)

struct gr_cuda_compiled {
    gr_cuda_compiled *next;
    gr_cuda_jit *jit;
    char *source, *name;
    pthread_t thread;
    bool is_running; /* thread has to be joined */
    gr_error error;  /* of the compiler */
    double compile_ms;
    char *image;         /* cubin; until it is loaded */
    cudaLibrary_t lib;   /* NULL: not loaded */
    cudaKernel_t kernel; /* owned by lib */
};

struct gr_cuda_jit {
    int arch;
    int n_compiled;
    int n_running, max_running; /* threads */
    gr_cuda_compiled *first;    /* newest first */
};

static int count_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

gr_status gr_cuda_jit_create(gr_cuda_jit **out, int arch)
{
    gr_cuda_jit *j = (gr_cuda_jit *)gr_calloc(1, sizeof(*j));

    if (!j)
        return GR_ERR_NOMEM;
    j->arch = arch;
    j->max_running = count_cores() > 1 ? count_cores() : 0;
    *out = j;
    return GR_OK;
}

static void join(gr_cuda_compiled *c)
{
    if (!c->is_running)
        return;
    pthread_join(c->thread, NULL);
    c->is_running = false;
    c->jit->n_running--;
}

static void compiled_destroy(gr_cuda_compiled *c)
{
    if (!c)
        return;
    join(c);
    if (c->lib)
        cudaLibraryUnload(c->lib);
    gr_free(c->image);
    gr_free(c->name);
    gr_free(c->source);
    gr_free(c);
}

void gr_cuda_jit_destroy(gr_cuda_jit *j)
{
    if (!j)
        return;
    while (j->first) {
        gr_cuda_compiled *c = j->first;

        j->first = c->next;
        compiled_destroy(c);
    }
    gr_free(j);
}

int gr_cuda_jit_count(const gr_cuda_jit *j)
{
    return j->n_compiled;
}

/* ---- compiling: on any thread ---- */

static gr_status check(nvrtcResult r, const char *what)
{
    if (r == NVRTC_SUCCESS)
        return GR_OK;
    return gr_fail(r == NVRTC_ERROR_OUT_OF_MEMORY ? GR_ERR_NOMEM : GR_ERR_DEVICE, "%s: %s", what,
                   nvrtcGetErrorString(r));
}

/* The compiler refused our own text: its log is the only thing that helps. */
static gr_status refused(nvrtcProgram p, nvrtcResult r)
{
    size_t n = 0;
    char *log;
    gr_status st;

    if (nvrtcGetProgramLogSize(p, &n) != NVRTC_SUCCESS)
        return check(r, "nvrtc compile");
    log = gr_calloc(n + 1, 1);
    if (!log)
        return GR_ERR_NOMEM;
    if (nvrtcGetProgramLog(p, log) != NVRTC_SUCCESS)
        log[0] = '\0';
    gr_log(CUDA, DEBUG, "nvrtc: %s", log);
    st = gr_fail(GR_ERR_DEVICE, "nvrtc compile: %s: %.300s", nvrtcGetErrorString(r), log);
    gr_free(log);
    return st;
}

static gr_status make_room(gr_cuda_compiled *c, size_t n_bytes)
{
    if (n_bytes <= IMAGE_BYTES)
        return GR_OK;
    gr_free(c->image);
    c->image = (char *)gr_malloc(n_bytes);
    return c->image ? GR_OK : GR_ERR_NOMEM;
}

static gr_status compile(gr_cuda_compiled *c)
{
    nvrtcProgram p = NULL;
    nvrtcResult r;
    char target[40];
    const char *options[] = { target, "--fmad=false", "--std=c++17" };
    size_t n = 0;
    gr_status st;

    snprintf(target, sizeof(target), "--gpu-architecture=sm_%d", c->jit->arch);
    GR_TRY(check(nvrtcCreateProgram(&p, c->source, "map.cu", 0, NULL, NULL), "nvrtc"));
    r = nvrtcCompileProgram(p, (int)(sizeof(options) / sizeof(options[0])), options);
    if (r != NVRTC_SUCCESS) {
        st = refused(p, r);
        goto done;
    }
    GR_TRY_GOTO(st, check(nvrtcGetCUBINSize(p, &n), "nvrtc image"), done);
    GR_TRY_GOTO(st, make_room(c, n), done);
    st = check(nvrtcGetCUBIN(p, c->image), "nvrtc image");
done:
    nvrtcDestroyProgram(&p);
    return st;
}

static void *compile_main(void *arg)
{
    gr_cuda_compiled *c = (gr_cuda_compiled *)arg;
    int64_t start = gr_now_ns();

    gr_error_take(&c->error, compile(c));
    c->compile_ms = (double)(gr_now_ns() - start) * 1e-6;
    return NULL;
}

/* ---- asking and using: the device's thread ---- */

static void start(gr_cuda_compiled *c)
{
    gr_cuda_jit *j = c->jit;

    for (gr_cuda_compiled *old = j->first; old && j->n_running >= j->max_running; old = old->next)
        join(old);
    c->is_running = j->max_running > 0 && pthread_create(&c->thread, NULL, compile_main, c) == 0;
    if (c->is_running)
        j->n_running++;
    else
        compile_main(c);
}

gr_status gr_cuda_jit_ask(gr_cuda_jit *j, const char *source, const char *name,
                          gr_cuda_compiled **out)
{
    gr_cuda_compiled *c;

    for (c = j->first; c; c = c->next)
        if (strcmp(c->source, source) == 0) {
            *out = c;
            return GR_OK;
        }
    c = (gr_cuda_compiled *)gr_calloc(1, sizeof(*c));
    if (!c)
        return GR_ERR_NOMEM;
    c->jit = j;
    c->source = gr_strdup(source);
    c->name = gr_strdup(name);
    c->image = (char *)gr_malloc(IMAGE_BYTES);
    if (!c->source || !c->name || !c->image) {
        compiled_destroy(c);
        return GR_ERR_NOMEM;
    }
    start(c);
    c->next = j->first;
    j->first = c;
    j->n_compiled++;
    *out = c;
    return GR_OK;
}

gr_status gr_cuda_jit_use(gr_cuda_compiled *c, const void **kernel)
{
    if (!c->kernel) {
        join(c);
        if (c->error.status != GR_OK)
            return gr_error_raise(&c->error);
        GR_TRY(gr_cuda_check(cudaLibraryLoadData(&c->lib, c->image, NULL, NULL, 0, NULL, NULL, 0),
                             "load compiled kernel"));
        GR_TRY(gr_cuda_check(cudaLibraryGetKernel(&c->kernel, c->lib, c->name), c->name));
        gr_free(c->image); /* loading has copied it */
        c->image = NULL;
        gr_log(CUDA, DEBUG, "compiled a kernel in %.1f ms", c->compile_ms);
    }
    *kernel = (const void *)c->kernel;
    return GR_OK;
}

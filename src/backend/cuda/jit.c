/*
 * The cache is a short list: a plan has tens of distinct programs, and each is looked up
 * once, when the plan is made.
 *
 * A thread per program does nothing but call the compiler: (1) it touches only its entry,
 * which nobody else touches until it was joined; (2) loading the result is left to the
 * caller, whose current device it is. At most as many run as this process has cores, and
 * with one core there are none: the caller compiles.
 */
#include "backend/cuda/jit.h"

#include "backend/cuda/compile.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <sched.h>

struct gr_cuda_compiled {
    gr_cuda_compiled *next;
    gr_cuda_jit *jit;
    char *source, *name;
    pthread_t thread;
    bool is_running; /* thread has to be joined */
    gr_error error;  /* of the compiler */
    double compile_ms;
    bool was_cached;
    char *image;         /* code; until it is loaded */
    cudaLibrary_t lib;   /* NULL: not loaded */
    cudaKernel_t kernel; /* owned by lib */
};

struct gr_cuda_jit {
    gr_cuda_target target; /* known when something is asked for */
    int gpu, cap;
    int n_compiled;
    int n_running, max_running; /* threads */
    gr_cuda_compiled *first;    /* newest first */
};

static int count_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

gr_status gr_cuda_jit_create(gr_cuda_jit **out, int gpu, int cap)
{
    gr_cuda_jit *j = (gr_cuda_jit *)gr_calloc(1, sizeof(*j));

    if (!j)
        return GR_ERR_NOMEM;
    j->gpu = gpu;
    j->cap = cap;
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

static void *compile_main(void *arg)
{
    gr_cuda_compiled *c = (gr_cuda_compiled *)arg;
    int64_t start = gr_now_ns();
    size_t n_bytes;

    gr_error_take(&c->error,
                  gr_cuda_compile(c->source, &c->jit->target, &c->image, &n_bytes, &c->was_cached));
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
    if (j->target.arch == 0)
        GR_TRY(gr_cuda_target_of(&j->target, j->gpu, j->cap));
    c = (gr_cuda_compiled *)gr_calloc(1, sizeof(*c));
    if (!c)
        return GR_ERR_NOMEM;
    c->jit = j;
    c->source = gr_strdup(source);
    c->name = gr_strdup(name);
    if (!c->source || !c->name) {
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
        gr_log(CUDA, DEBUG, "%s a kernel in %.1f ms", c->was_cached ? "found" : "compiled",
               c->compile_ms);
    }
    *kernel = (const void *)c->kernel;
    return GR_OK;
}

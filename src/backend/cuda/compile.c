/*
 * Multiplications and additions are not fused, so that simple arithmetic gives the bits
 * of the CPU's reference kernels.
 */
#include "backend/cuda/compile.h"

#include "backend/cuda/lib_nvrtc.h"
#include "base/alloc.h"
#include "base/filecache.h"
#include "base/log.h"
#include "base/text.h"

#include <pthread.h>

/* Some thousand kernels. */
#define CACHE_BYTES ((size_t)256 << 20)
#define MAX_ARCHS   64

static const char *const flags[] = { "--fmad=false", "--std=c++17" };
#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

static gr_status check(const gr_nvrtc *rtc, nvrtcResult r, const char *what)
{
    if (r == NVRTC_SUCCESS)
        return GR_OK;
    return gr_fail(r == NVRTC_ERROR_OUT_OF_MEMORY ? GR_ERR_NOMEM : GR_ERR_DEVICE, "%s: %s", what,
                   rtc->GetErrorString(r));
}

/* ---- what to compile for ---- */

/* The newest that the compiler knows, up to `most`; 0: none. */
static gr_status newest(const gr_nvrtc *rtc, int most, int *out)
{
    int n = 0, archs[MAX_ARCHS];

    *out = 0;
    GR_TRY(check(rtc, rtc->GetNumSupportedArchs(&n), "nvrtc"));
    if (n > MAX_ARCHS)
        return gr_fail(GR_ERR_DEVICE, "nvrtc knows %d architectures, more than expected", n);
    GR_TRY(check(rtc, rtc->GetSupportedArchs(archs), "nvrtc"));
    for (int i = 0; i < n; i++)
        if (archs[i] <= most && archs[i] > *out)
            *out = archs[i];
    return GR_OK;
}

gr_status gr_cuda_target_of(gr_cuda_target *out, int gpu, int cap)
{
    const gr_nvrtc *rtc;

    GR_TRY(gr_nvrtc_load(&rtc));
    GR_TRY(newest(rtc, cap > 0 && cap < gpu ? cap : gpu, &out->arch));
    if (out->arch == 0)
        return gr_fail(GR_ERR_DEVICE,
                       "this CUDA compiler has no code for a GPU of compute capability %d.%d",
                       gpu / 10, gpu % 10);
    out->as_ptx = out->arch != gpu;
    return GR_OK;
}

/* ---- the cache ---- */

static gr_filecache *cache;
static gr_error cache_error;

static void open_cache(void)
{
    gr_error_take(&cache_error, gr_filecache_open(&cache, "kernels", CACHE_BYTES));
}

/* Opened once, and kept for as long as the process. */
static gr_status the_cache(gr_filecache **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_cache);
    *out = cache;
    return gr_error_raise(&cache_error);
}

static gr_status make_key(gr_text *out, const gr_nvrtc *rtc, const char *source,
                          const gr_cuda_target *t)
{
    int major = 0, minor = 0;

    GR_TRY(check(rtc, rtc->Version(&major, &minor), "nvrtc"));
    gr_text_addf(out, "nvrtc %d.%d %s %d", major, minor, t->as_ptx ? "compute" : "sm", t->arch);
    for (size_t i = 0; i < N_FLAGS; i++)
        gr_text_addf(out, " %s", flags[i]);
    gr_text_addf(out, "\n%s", source);
    return gr_text_status(out);
}

/* ---- compiling ---- */

/* The compiler refused our own text: its log is the only thing that helps. */
static gr_status refused(const gr_nvrtc *rtc, nvrtcProgram p, nvrtcResult r)
{
    size_t n = 0;
    char *log;
    gr_status st;

    if (rtc->GetProgramLogSize(p, &n) != NVRTC_SUCCESS)
        return check(rtc, r, "nvrtc compile");
    log = gr_calloc(n + 1, 1);
    if (!log)
        return GR_ERR_NOMEM;
    if (rtc->GetProgramLog(p, log) != NVRTC_SUCCESS)
        log[0] = '\0';
    gr_log(CUDA, DEBUG, "nvrtc: %s", log);
    st = gr_fail(GR_ERR_DEVICE, "nvrtc compile: %s: %.300s", rtc->GetErrorString(r), log);
    gr_free(log);
    return st;
}

static gr_status take_image(const gr_nvrtc *rtc, nvrtcProgram p, bool as_ptx, char **image,
                            size_t *n_bytes)
{
    size_t n = 0;
    nvrtcResult r = as_ptx ? rtc->GetPTXSize(p, &n) : rtc->GetCUBINSize(p, &n);
    gr_status st;
    char *mem;

    GR_TRY(check(rtc, r, "nvrtc image"));
    mem = gr_malloc(n);
    if (!mem)
        return GR_ERR_NOMEM;
    r = as_ptx ? rtc->GetPTX(p, mem) : rtc->GetCUBIN(p, mem);
    st = check(rtc, r, "nvrtc image");
    if (st != GR_OK) {
        gr_free(mem);
        return st;
    }
    *image = mem;
    *n_bytes = n;
    return GR_OK;
}

static gr_status compile(const gr_nvrtc *rtc, const char *source, const gr_cuda_target *t,
                         char **image, size_t *n_bytes)
{
    const char *options[1 + N_FLAGS];
    nvrtcProgram p = NULL;
    nvrtcResult r;
    char target[48];
    gr_status st;

    snprintf(target, sizeof(target), "--gpu-architecture=%s_%d", t->as_ptx ? "compute" : "sm",
             t->arch);
    options[0] = target;
    for (size_t i = 0; i < N_FLAGS; i++)
        options[1 + i] = flags[i];
    GR_TRY(check(rtc, rtc->CreateProgram(&p, source, "kernel.cu", 0, NULL, NULL), "nvrtc"));
    r = rtc->CompileProgram(p, (int)(1 + N_FLAGS), options);
    st = r == NVRTC_SUCCESS ? take_image(rtc, p, t->as_ptx, image, n_bytes) : refused(rtc, p, r);
    rtc->DestroyProgram(&p);
    return st;
}

gr_status gr_cuda_compile(const char *source, const gr_cuda_target *t, char **image,
                          size_t *n_bytes, bool *was_cached)
{
    gr_filecache *c;
    const gr_nvrtc *rtc;
    gr_text key = GR_TEXT_INIT;
    gr_status st;

    GR_TRY(gr_nvrtc_load(&rtc));
    GR_TRY(the_cache(&c));
    GR_TRY_GOTO(st, make_key(&key, rtc, source, t), done);
    *was_cached = gr_filecache_get(c, gr_text_str(&key), image, n_bytes);
    if (*was_cached)
        goto done;
    GR_TRY_GOTO(st, compile(rtc, source, t, image, n_bytes), done);
    gr_filecache_put(c, gr_text_str(&key), *image, *n_bytes);
done:
    gr_text_fini(&key);
    return st;
}

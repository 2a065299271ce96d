/*
 * Kernels compiled at run time, up to the code that a driver would load: this needs CUDA's
 * compiler, and no GPU. The files are part of the module, which exports nothing of them, so they
 * are compiled into this test.
 */
#if __has_include(<nvrtc.h>)

#include "backend/cuda/compile.c"
#include "backend/cuda/lib_nvrtc.c"
#include "backend/cuda/libs.c"
#include "check.h"
#include "scratch.h"

#include <dirent.h>

static const char text[] = "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] *= 2.0f; }";

static int n_entries(void)
{
    DIR *d = opendir("cache/kernels");
    struct dirent *f;
    int n = 0;

    while (d && (f = readdir(d)) != NULL)
        n += f->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void compile_once(const gr_cuda_target *t, const char *start, bool expect_cached)
{
    char *image;
    size_t n;
    bool was_cached;

    GR_CHECK_OK(gr_cuda_compile(text, t, &image, &n, &was_cached));
    GR_CHECK_EQ(was_cached, expect_cached);
    GR_CHECK(n > strlen(start) && memcmp(image, start, strlen(start)) == 0);
    if (t->as_ptx)
        GR_CHECK(strstr(image, ".target sm_75") != NULL);
    gr_free(image);
}

static void compiled(void)
{
    gr_cuda_target gpu, old;

    GR_CHECK_OK(gr_cuda_target_of(&gpu, 90, 0));
    GR_CHECK(gpu.arch == 90 && !gpu.as_ptx);
    GR_CHECK_OK(gr_cuda_target_of(&old, 90, 75));
    GR_CHECK(old.arch == 75 && old.as_ptx);
    compile_once(&gpu, "\177ELF", false);
    GR_CHECK_EQ(n_entries(), 1);
    compile_once(&gpu, "\177ELF", true);
    compile_once(&old, "//", false);
    compile_once(&old, "//", true);
    GR_CHECK_EQ(n_entries(), 2);
}

/* Later GPUs than the compiler knows get a text that their driver translates; earlier ones
 * nothing. */
static void targets(void)
{
    gr_cuda_target t;

    GR_CHECK_OK(gr_cuda_target_of(&t, 999, 0));
    GR_CHECK(t.arch >= 90 && t.arch < 999 && t.as_ptx);
    GR_CHECK_OK(gr_cuda_target_of(&t, 80, 90));
    GR_CHECK(t.arch == 80 && !t.as_ptx);
    GR_CHECK_EQ(gr_cuda_target_of(&t, 10, 0), GR_ERR_DEVICE);
    GR_CHECK(strstr(gr_error_message(), "compute capability 1.0") != NULL);
}

static void refusals(void)
{
    gr_cuda_target t;
    char *image;
    size_t n;
    bool was_cached;

    GR_CHECK_OK(gr_cuda_target_of(&t, 90, 0));
    GR_CHECK_EQ(gr_cuda_compile("no kernel", &t, &image, &n, &was_cached), GR_ERR_DEVICE);
    GR_CHECK(strstr(gr_error_message(), "error") != NULL);
    GR_CHECK_EQ(n_entries(), 2);
}

int main(void)
{
    const gr_nvrtc *rtc;

    gr_test_scratch();
    setenv("GR_CACHE", "cache", 1);
    if (gr_nvrtc_load(&rtc) != GR_OK) {
        printf("%s\n", gr_error_message());
        return 77;
    }
    compiled();
    targets();
    refusals();
    return 0;
}

#else

int main(void)
{
    return 77;
}

#endif

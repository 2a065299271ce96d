/*
 * Libraries of vendors that are opened while the program runs, so that it also works where
 * they are not installed. A library is a list of file names and a table of its functions:
 *
 *     #define NVRTC_MAP(X) X(Version) X(CreateProgram)
 *     #define X(fn) GR_LIBRARY_FIELD(nvrtc, fn)
 *     typedef struct table { NVRTC_MAP(X) } table;
 *     #define X(fn) GR_LIBRARY_SYMBOL(table, nvrtc, fn)
 *     static const gr_library_symbol symbols[] = { NVRTC_MAP(X) { NULL, 0 } };
 *
 * Places, in this order: the folders of an environment variable, separated by colons, and in each
 * also lib and <any>/lib, which is how Python packages are laid out; what the system's loader
 * finds by itself; the library's usual folders.
 */
#ifndef GR_BACKEND_LIBRARY_H
#define GR_BACKEND_LIBRARY_H

#include <pthread.h>
#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_library_symbol {
    const char *name; /* NULL ends the array */
    size_t offset;    /* of its pointer in the table */
} gr_library_symbol;

typedef struct gr_library {
    const char *name;           /* "cuBLASLt", for messages */
    const char *env;            /* "GR_CUDA_LIBS" */
    const char *const *files;   /* best first, ended by NULL: "libcublasLt.so.13" */
    const char *const *folders; /* usual ones, ended by NULL */
    const gr_library_symbol *symbols;
    void *table;
    /* Zeros at first. */
    pthread_mutex_t lock;
    void *handle;
    gr_error error; /* of the first attempt: there is no second one */
} gr_library;

/* Opens the library and fills its table at the first call; later ones answer the same. Any thread.
 * GR_ERR_DEVICE says where it was looked for, or which function it lacks. */
GR_API gr_status gr_library_load(gr_library *l) GR_MUST_CHECK;

#define GR_LIBRARY_FIELD(prefix, fn)         __typeof__(&prefix##fn) fn;
#define GR_LIBRARY_SYMBOL(table, prefix, fn) { #prefix #fn, offsetof(table, fn) },

#ifdef __cplusplus
}
#endif

#endif

/*
 * The log: area, level, rank, one write per line to stderr:
 *     1763172345.201 D r3 COMM bucket 2: 26214400 bytes
 * Info lines of ranks other than 0 are dropped; warnings and errors always pass.
 * GR_LOG=comm:debug,op:info selects areas, GR_LOG=debug all of them; NCCL_DEBUG=INFO means
 * comm:info on every rank. Configured once before threads start.
 */
#ifndef GR_BASE_LOG_H
#define GR_BASE_LOG_H

#include <stdbool.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GR_LOG_AREA_MAP(X) \
    X(BASE, "base")        \
    X(NET, "net")          \
    X(COMM, "comm")        \
    X(GRAPH, "graph")      \
    X(OP, "op")            \
    X(PASS, "pass")        \
    X(EXEC, "exec")        \
    X(STEP, "step")        \
    X(CKPT, "ckpt")        \
    X(TRAIN, "train")      \
    X(LAUNCH, "launch")    \
    X(CUDA, "cuda")

typedef enum gr_log_area {
#define X(id, name) GR_LOG_##id,
    GR_LOG_AREA_MAP(X)
#undef X
        GR_LOG_AREA_COUNT
} gr_log_area;

typedef enum gr_log_level {
    GR_LEVEL_ERROR,
    GR_LEVEL_WARN,
    GR_LEVEL_INFO,
    GR_LEVEL_DEBUG
} gr_log_level;

/* Reads GR_LOG; a wrong word is GR_ERR_ARG and names the known ones. */
gr_status gr_log_setup(int rank) GR_MUST_CHECK;
/* The same unless that was done: for groups of programs that know nothing of logs. */
gr_status gr_log_open(int rank) GR_MUST_CHECK;
/* A level for all areas on all ranks, over gr_log_setup(); GR_LOG wins over it. */
void gr_log_set_level(gr_log_level level);
/*
 * From here on lines go to a file as well (made if need be, appended to), and info lines of
 * every rank, whatever the levels say. NULL ends that. GR_ERR_IO: it cannot be opened, and the
 * log is as before. One thread calls this; others may log meanwhile, but for the end.
 */
gr_status gr_log_to_file(const char *path) GR_MUST_CHECK;
/* A line for the file alone, if there is one: what people have read elsewhere. */
void gr_log_keep(const char *text);
GR_API bool gr_log_wants(gr_log_area area, gr_log_level level);
GR_API void gr_log_write(gr_log_area area, gr_log_level level, const char *fmt, ...)
    GR_PRINTF(3, 4);

/* gr_log(COMM, DEBUG, "bucket %d", i): arguments are evaluated only when wanted. */
#define gr_log(area, level, ...)                                        \
    do {                                                                \
        if (gr_log_wants(GR_LOG_##area, GR_LEVEL_##level))              \
            gr_log_write(GR_LOG_##area, GR_LEVEL_##level, __VA_ARGS__); \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif

/*
 * gradrun's options: torchrun's, in both spellings, and our own. One table makes the parser,
 * the PET_* variables and --help.
 */
#ifndef GR_LAUNCH_OPTIONS_H
#define GR_LAUNCH_OPTIONS_H

#include "base/option.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As the user said it; launch/config.h makes sense of it. Texts are borrowed from the words
 * and from the environment. */
typedef struct gr_run_options {
    const char *nnodes, *nproc;
    bool standalone;
    int64_t node_rank;
    const char *master_addr;
    int64_t master_port; /* -1: not given */
    const char *rdzv_backend, *rdzv_endpoint, *rdzv_id, *rdzv_conf, *local_addr;
    const char *port_range;
    int64_t max_restarts;
    double monitor_interval, restart_delay;
    int64_t shutdown_s; /* -1: not given */
    const char *signals, *role;
    bool no_python, module, run_path, use_env;
    const char *log_dir, *redirects, *tee, *ranks_filter, *prefix_template;
    bool prefix;
    const char *out_filters, *err_filters;
    const char *gpu_ids;
    bool virtual_local_rank;
    int bind; /* GR_BIND_* */
    const char *numa_binding;
    int start_method;
    const char *event_log_handler, *logs_specs;
    int completion;
    bool help, version;
    /* The texts above as PET_ variables gave them; NULL: not given so. Words put others there. */
    const char *nnodes_variable, *nproc_variable;
} gr_run_options;

enum { GR_BIND_NONE, GR_BIND_CORES, GR_BIND_NUMA };

/*
 * Defaults, then PET_* of the environment, then the words; *n_used says how many of these were
 * options. Beginnings of names are enough where they fit one name only. GR_ERR_ARG names option
 * or variable, and the nearest name for an unknown one. `legacy`: gradrun-launch. The texts of
 * `o` may point into *words, which the caller destroys last.
 */
typedef struct gr_run_words gr_run_words;
gr_status gr_run_options_parse(gr_run_options *o, gr_run_words **words, bool legacy, int argc,
                               char **argv, int *n_used) GR_MUST_CHECK;
void gr_run_words_destroy(gr_run_words *w);

/* GR_ERR_ARG: --nproc-per-node or --nnodes has a word that is no count, usually the program, since
 * the number was forgotten. */
gr_status gr_run_options_check_counts(const gr_run_options *o) GR_MUST_CHECK;

/* Who said it, for messages: "option '--nnodes'" or "variable PET_NNODES". */
const char *gr_run_options_nnodes_name(const gr_run_options *o);
const char *gr_run_options_nproc_name(const gr_run_options *o);

/* --help: two screens. */
void gr_run_options_help(gr_text *out, bool legacy);
/* Names of all options, for completion in a shell and for tests; NULL-ended rows. */
const char *gr_run_option_name(int i);

#ifdef __cplusplus
}
#endif

#endif

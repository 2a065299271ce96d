/* What a rank finds in its environment; docs/launch.md has the list. */
#include "launch/environ.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

void gr_environ_fini(gr_environ *e)
{
    for (int i = 0; i < e->n; i++)
        gr_free(e->words[i]);
    gr_free(e->words);
    *e = (gr_environ){ 0 };
}

/* Takes over `word`, also when it fails. */
static gr_status take(gr_environ *e, char *word)
{
    size_t name_len = strcspn(word, "=") + 1;

    for (int i = 0; i < e->n; i++)
        if (strncmp(e->words[i], word, name_len) == 0) {
            gr_free(e->words[i]);
            e->words[i] = word;
            return GR_OK;
        }
    if (gr_grow((void **)&e->words, &e->cap, e->n + 2, sizeof(char *)) != GR_OK) {
        gr_free(word);
        return GR_ERR_NOMEM;
    }
    e->words[e->n++] = word;
    e->words[e->n] = NULL;
    return GR_OK;
}

static gr_status put(gr_environ *e, const char *name, const char *value)
{
    gr_text word = GR_TEXT_INIT;

    gr_text_addf(&word, "%s=%s", name, value);
    if (gr_text_status(&word) != GR_OK) {
        gr_text_fini(&word);
        return GR_ERR_NOMEM;
    }
    return take(e, word.str);
}

static gr_status put_int(gr_environ *e, const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    return put(e, name, text);
}

static gr_status put_threads(gr_environ *e, const gr_launch_config *c, const gr_place *p)
{
    int n = gr_cpu_count() / c->n_local;

    if (getenv("OMP_NUM_THREADS") || c->n_local == 1)
        return GR_OK;
    n = n > 0 ? n : 1;
    if (p->attempt == 0)
        gr_log(LAUNCH, INFO, "OMP_NUM_THREADS is not set: %d for each of %d ranks (cores / ranks)",
               n, c->n_local);
    return put_int(e, "OMP_NUM_THREADS", n);
}

static gr_status put_ports(gr_environ *e, const gr_launch_config *c)
{
    char range[32];

    if (c->ports.first == 0)
        return GR_OK;
    snprintf(range, sizeof(range), "%d:%d", c->ports.first, c->ports.last);
    return put(e, "GR_PORT_RANGE", range);
}

gr_status gr_environ_init(gr_environ *e, const gr_launch_config *c, const gr_place *p)
{
    *e = (gr_environ){ 0 };
    for (char **word = environ; *word; word++) {
        char *copy = gr_strdup(*word);

        if (!copy)
            return GR_ERR_NOMEM;
        GR_TRY(take(e, copy));
    }
    GR_TRY(put_int(e, "GROUP_RANK", p->host));
    GR_TRY(put_int(e, "GROUP_WORLD_SIZE", p->n_hosts));
    GR_TRY(put(e, "ROLE_NAME", c->role));
    GR_TRY(put_int(e, "ROLE_WORLD_SIZE", p->n_ranks));
    GR_TRY(put_int(e, "LOCAL_WORLD_SIZE", c->n_local));
    GR_TRY(put_int(e, "WORLD_SIZE", p->n_ranks));
    GR_TRY(put(e, "MASTER_ADDR", p->master_addr));
    GR_TRY(put_int(e, "MASTER_PORT", p->master_port));
    GR_TRY(put_int(e, "TORCHELASTIC_RESTART_COUNT", p->restart));
    GR_TRY(put_int(e, "TORCHELASTIC_MAX_RESTARTS", c->max_restarts));
    GR_TRY(put(e, "TORCHELASTIC_RUN_ID", c->run_id));
    GR_TRY(put(e, "TORCHELASTIC_USE_AGENT_STORE", "True"));
    GR_TRY(put(e, "TORCHELASTIC_SIGNALS_TO_HANDLE", c->signals_text));
    if (!getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
        GR_TRY(put(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"));
    GR_TRY(put(e, "GR_JOB_TOKEN", p->token));
    GR_TRY(put(e, "GR_LAUNCHER", "gradrun"));
    if (c->gpu_ids)
        GR_TRY(put(e, "CUDA_VISIBLE_DEVICES", c->gpu_ids));
    if (p->n_hosts > 1)
        GR_TRY(put_int(e, "GR_HEARTBEAT_TIMEOUT", c->silence_ms / 1000));
    GR_TRY(put_ports(e, c));
    return put_threads(e, c, p);
}

/* The rank's own entry of the list of devices, or its number when there is no list. */
static gr_status put_device(gr_environ *e, const gr_launch_config *c, int local_rank)
{
    const char *list = c->gpu_ids ? c->gpu_ids : getenv("CUDA_VISIBLE_DEVICES");
    const char *at = list;
    char one[80];

    if (!list || !*list)
        return put_int(e, "CUDA_VISIBLE_DEVICES", local_rank);
    for (int i = 0; i < local_rank && *at; i++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    if (!*at)
        return gr_fail(
            GR_ERR_ARG,
            "--virtual-local-rank: local rank %d has no GPU in CUDA_VISIBLE_DEVICES '%s'",
            local_rank, list);
    snprintf(one, sizeof(one), "%.*s", (int)strcspn(at, ","), at);
    return put(e, "CUDA_VISIBLE_DEVICES", one);
}

gr_status gr_environ_rank(gr_environ *e, const gr_launch_config *c, const gr_place *p,
                          int local_rank, const char *error_file)
{
    GR_TRY(put_int(e, "RANK", p->first_rank + local_rank));
    GR_TRY(put_int(e, "ROLE_RANK", p->first_rank + local_rank));
    GR_TRY(put_int(e, "LOCAL_RANK", c->virtual_local_rank ? 0 : local_rank));
    GR_TRY(put(e, "TORCHELASTIC_ERROR_FILE", error_file));
    return c->virtual_local_rank ? put_device(e, c, local_rank) : GR_OK;
}

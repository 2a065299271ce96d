/* A thread per rank. Each destroys its own group object when its function returns. */
#include "comm/world.h"

#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>

static const char *transport = "shm";

void world_transport(const char *name)
{
    transport = name;
}

typedef struct member {
    pthread_t thread;
    gr_pg *pg;
    world_fn *fn;
    void *arg;
    gr_error *error;
} member;

static void *live(void *arg)
{
    member *m = (member *)arg;

    gr_error_take(m->error, m->fn(m->pg, m->arg));
    gr_pg_destroy(m->pg);
    return NULL;
}

void world_try(int n_ranks, int timeout_ms, world_fn *fn, void *arg, gr_error *e)
{
    gr_pg_config config = GR_PG_CONFIG_INIT;
    gr_pg *pg[WORLD_MAX];
    member m[WORLD_MAX];

    config.timeout_ms = timeout_ms;
    config.transport = transport;
    GR_CHECK_OK(gr_pg_create_threads(pg, n_ranks, &config));
    for (int r = 0; r < n_ranks; r++) {
        m[r] = (member){ .pg = pg[r], .fn = fn, .arg = arg, .error = &e[r] };
        GR_CHECK_EQ(pthread_create(&m[r].thread, NULL, live, &m[r]), 0);
    }
    for (int r = 0; r < n_ranks; r++)
        GR_CHECK_EQ(pthread_join(m[r].thread, NULL), 0);
}

void world_run(int n_ranks, world_fn *fn, void *arg)
{
    gr_error e[WORLD_MAX];

    world_try(n_ranks, 240000, fn, arg, e);
    for (int r = 0; r < n_ranks; r++)
        if (e[r].status != GR_OK) {
            fprintf(stderr, "rank %d of %d: %s: %s\n", r, n_ranks, gr_status_text(e[r].status),
                    e[r].text);
            exit(1);
        }
}

static bool has_name(const char *task, const char *name)
{
    char path[300], text[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
    f = fopen(path, "r");
    if (f && !fgets(text, sizeof(text), f))
        text[0] = '\0';
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, name) == 0;
}

int world_threads(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    const struct dirent *e;
    int n = 0;

    GR_CHECK(d != NULL);
    while ((e = readdir(d)))
        n += has_name(e->d_name, name);
    closedir(d);
    return n;
}

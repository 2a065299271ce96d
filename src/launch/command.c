/* What is executed. Everything is found before fork(): the child only calls execve(). */
#include "launch/command.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCAL_RANK_BYTES 32

static bool is_program(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(gr_text *file, const char *name)
{
    const char *path = getenv("PATH");
    bool found = false;

    path = path ? path : "/usr/local/bin:/usr/bin:/bin";
    while (*path && !found) {
        size_t len = strcspn(path, ":");

        file->len = 0;
        gr_text_addf(file, "%.*s/%s", len > 0 ? (int)len : 1, len > 0 ? path : ".", name);
        found = is_program(gr_text_str(file));
        path += len + (path[len] == ':');
    }
    return found;
}

/* Our programs lie in one folder, which need not be in PATH. */
static bool find_beside(gr_text *file, const char *name)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));

    while (n > 0 && self[n - 1] != '/')
        n--;
    file->len = 0;
    gr_text_addn(file, self, n > 0 ? (size_t)n : 0);
    gr_text_add(file, name);
    return n > 0 && is_program(gr_text_str(file));
}

static gr_status find(char **out, const char *name)
{
    gr_text file = GR_TEXT_INIT;

    if (strchr(name, '/') || (!find_in_path(&file, name) && !find_beside(&file, name))) {
        file.len = 0;
        gr_text_add(&file, name);
    }
    if (gr_text_status(&file) != GR_OK) {
        gr_text_fini(&file);
        return GR_ERR_NOMEM;
    }
    *out = file.str;
    return GR_OK;
}

static bool is_python(const gr_launch_config *c)
{
    size_t len = strlen(c->argv[0]);

    if (c->module || c->run_path)
        return true;
    return !c->no_python && len > 3 && strcmp(c->argv[0] + len - 3, ".py") == 0;
}

static gr_status fill(gr_command *m, const gr_launch_config *c)
{
    static char unbuffered[] = "-u", module[] = "-m", python3[] = "python3";
    size_t n = 0, at = 0;

    GR_BUG_IF(!c->argv[0]); /* refused by the configuration */
    while (c->argv[n])
        n++;
    m->words = (char **)gr_calloc(n + 5, sizeof(*m->words));
    m->local_rank = c->passes_local_rank ? (char *)gr_calloc(1, LOCAL_RANK_BYTES) : NULL;
    if (!m->words || (c->passes_local_rank && !m->local_rank))
        return GR_ERR_NOMEM;
    if (is_python(c)) {
        char *python = getenv("PYTHON_EXEC");

        m->words[at++] = python && *python ? python : python3;
        m->words[at++] = unbuffered;
        if (c->module)
            m->words[at++] = module;
    }
    m->words[at++] = c->argv[0];
    if (m->local_rank)
        m->words[at++] = m->local_rank;
    memcpy(m->words + at, c->argv + 1, (n - 1) * sizeof(*m->words));
    return find(&m->path, m->words[0]);
}

gr_status gr_command_init(gr_command *m, const gr_launch_config *c)
{
    gr_status st;

    *m = (gr_command){ 0 };
    st = fill(m, c);
    if (st != GR_OK)
        gr_command_fini(m);
    return st;
}

void gr_command_set_rank(gr_command *m, int local_rank)
{
    if (m->local_rank)
        snprintf(m->local_rank, LOCAL_RANK_BYTES, "--local-rank=%d", local_rank);
}

void gr_command_fini(gr_command *m)
{
    gr_free(m->path);
    gr_free(m->words);
    gr_free(m->local_rank);
    *m = (gr_command){ 0 };
}

/* The client's upload, started at the end of a run when it can succeed unasked. */
#include "base/alloc.h"
#include "track/wandb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static bool on_path(const char *program)
{
    const char *path = getenv("PATH");
    bool found = false;

    for (; path && *path && !found; path += strcspn(path, ":"), path += *path == ':') {
        gr_text file = GR_TEXT_INIT;

        gr_text_addn(&file, path, strcspn(path, ":"));
        gr_text_addf(&file, "/%s", program);
        found = gr_text_status(&file) == GR_OK && access(file.str, X_OK) == 0;
        gr_text_fini(&file);
    }
    return found;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value;
}

/* The environment without WANDB_MODE; NULL: no memory. Freed by the caller, the texts borrowed. */
static char **client_environ(void)
{
    size_t n = 0, n_kept = 0;
    char **kept;

    while (environ[n])
        n++;
    kept = gr_calloc(n + 1, sizeof(*kept));
    for (size_t i = 0; kept && i < n; i++)
        if (strncmp(environ[i], "WANDB_MODE=", 11) != 0)
            kept[n_kept++] = environ[i];
    return kept;
}

/* Quoted for a shell, so that the line can be pasted. */
static void add_quoted(gr_text *out, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:,@%";

    if (*s && s[strspn(s, plain)] == '\0') {
        gr_text_add(out, s);
        return;
    }
    gr_text_add(out, "'");
    for (; *s; s++) {
        if (*s == '\'')
            gr_text_add(out, "'\\''");
        else
            gr_text_addn(out, s, 1);
    }
    gr_text_add(out, "'");
}

/* A process of its own session: what ends the run's group does not end it. It starts with no
 * signal blocked and the usual actions, whatever the run has set. */
static int spawn(const char *run_folder, const char *log, pid_t *child)
{
    char program[] = "wandb", sync[] = "sync";
    char *argv[] = { program, sync, (char *)(uintptr_t)run_folder, NULL };
    char **env = client_environ();
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    int rc;

    if (!env)
        return ENOMEM;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(
        &how, (short)(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                                     0666);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    rc = posix_spawnp(child, program, &files, &how, argv, env);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    gr_free(env);
    return rc;
}

gr_status gr_wandb_sync(const char *run_folder, pid_t *child, gr_text *command)
{
    gr_text log = GR_TEXT_INIT;
    int rc = -1;

    if (child)
        *child = -1;
    if (child && is_set("WANDB_API_KEY") && on_path("wandb")) {
        gr_text_addf(&log, "%s/logs/sync.log", run_folder);
        if (gr_text_status(&log) == GR_OK)
            rc = spawn(run_folder, log.str, child);
        gr_text_fini(&log);
    }
    if (child && rc != 0)
        *child = -1; /* the user can still do it */
    gr_text_add(command, "wandb sync ");
    add_quoted(command, run_folder);
    return gr_text_status(command);
}

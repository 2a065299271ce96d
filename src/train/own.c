/*
 * Whose run it is. The folder of a run keeps, in the file `home`, which folder it is and whose:
 * number in its file system, and user. A folder that came out of an archive or from another host
 * has another number, and one that lies here but belongs to somebody else another owner, and no
 * stranger can know either beforehand. So a run whose `home` is right was begun here by this user.
 *
 * This decides no more than whether settings that lead out of a run are obeyed without being said
 * again (config/saved.c). A run that was copied is a stranger's in that respect, and no more than
 * that happens to it.
 */
#include "train/own.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gr_status identify(const char *folder, gr_text *out)
{
    struct stat info;

    if (stat(folder, &info) != 0)
        return gr_fail(GR_ERR_IO, "cannot look at '%s': %s", folder, strerror(errno));
    gr_text_addf(out, "folder %ju of user %ju\n", (uintmax_t)info.st_ino, (uintmax_t)info.st_uid);
    return info.st_uid == geteuid() ? gr_text_status(out)
                                    : gr_fail(GR_ERR_ARG, "'%s' is another user's", folder);
}

gr_status gr_run_settle(const char *folder)
{
    gr_text path = GR_TEXT_INIT, text = GR_TEXT_INIT;
    gr_outfile *f = NULL;
    gr_status st = identify(folder, &text);

    if (st == GR_ERR_ARG) { /* written by permission of a group: nobody's own */
        gr_text_fini(&text);
        return GR_OK;
    }
    gr_text_addf(&path, "%s/" GR_HOME_FILE, folder);
    if (st == GR_OK)
        st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_outfile_open(&f, path.str);
    if (st == GR_OK) {
        gr_outfile_write(f, text.str, text.len);
        st = gr_outfile_commit(f);
    }
    gr_text_fini(&path);
    gr_text_fini(&text);
    return st;
}

bool gr_run_is_own(const char *folder)
{
    gr_text path = GR_TEXT_INIT, text = GR_TEXT_INIT;
    char *home = NULL;
    size_t n = 0;
    bool own;

    gr_text_addf(&path, "%s/" GR_HOME_FILE, folder);
    own = gr_text_status(&path) == GR_OK && identify(folder, &text) == GR_OK &&
          access(path.str, R_OK) == 0 && gr_file_read(path.str, &home, &n) == GR_OK &&
          strcmp(home, text.str) == 0;
    gr_free(home);
    gr_text_fini(&path);
    gr_text_fini(&text);
    return own;
}

/* A record of a run lies where a run put it, beside its checkpoints. */
bool gr_config_is_foreign(const char *path)
{
    const char *slash = strrchr(path, '/');
    int n = slash ? (int)(slash - path) : 0;
    gr_text folder = GR_TEXT_INIT, inside = GR_TEXT_INIT;
    bool foreign;

    gr_text_addf(&folder, "%.*s%s", n, path, !slash ? "." : n == 0 ? "/" : "");
    gr_text_addf(&inside, "%s/" GR_CKPT_FOLDER, gr_text_str(&folder));
    foreign = gr_text_status(&inside) != GR_OK ||
              (access(inside.str, F_OK) == 0 && !gr_run_is_own(gr_text_str(&folder)));
    gr_text_fini(&folder);
    gr_text_fini(&inside);
    return foreign;
}

/* Marks, locks and removal of temporary folders. */
#include "launch/litter.h"

#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK "temporary"

int gr_litter_mark(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int mark = -1;

    /* The mark comes last: without it nobody looks at the lock. */
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        mark = openat(fd, MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (mark >= 0)
        close(mark);
    else if (fd >= 0)
        close(fd);
    return mark >= 0 ? fd : -1;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    (void)remove(path); /* what cannot be removed stays behind in the temporary folder */
    return 0;
}

void gr_litter_remove(const char *folder)
{
    (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static bool is_left_behind(int fd)
{
    struct stat about, mark;

    return fstat(fd, &about) == 0 && about.st_uid == geteuid() &&
           fstatat(fd, MARK, &mark, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(mark.st_mode) &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

void gr_litter_sweep(const char *place)
{
    DIR *d = opendir(place);
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        gr_text path = GR_TEXT_INIT;
        int fd;

        if (fnmatch("gradrun_??????", e->d_name, 0) != 0)
            continue;
        fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        gr_text_addf(&path, "%s/%s", place, e->d_name);
        if (is_left_behind(fd) && gr_text_status(&path) == GR_OK)
            gr_litter_remove(gr_text_str(&path));
        gr_text_fini(&path);
        close(fd);
    }
    if (d)
        closedir(d);
}

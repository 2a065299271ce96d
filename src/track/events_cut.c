/*
 * Older event files of a run that goes on. Steps never fall within a file, so a file is cut at the
 * first event that is not kept, and what follows it comes again:
 *
 *     version, settings, step 5, step 10 | step 15, step 20, half a reco      kept up to step 10
 *
 * A cut is one ftruncate(): a crash leaves the old length or the new one. Files are known as ours
 * by the writer that their first record names.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "track/events.pb-c.h"
#include "track/events_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX     "events.out.tfevents."
#define HEAD_BYTES 12
#define TAIL_BYTES 4
#define MOST_BYTES (INT64_C(1) << 30) /* of an event: more is no record of ours */

typedef struct scan {
    int fd;
    const char *path;
    const gr_keep *keep;
    int64_t size;
    int64_t end; /* of what is kept */
    bool is_ours;
    bool has_records; /* other than of a start: settings, texts */
    bool is_over;
    uint8_t *bytes; /* owned */
    int cap;
} scan;

static gr_status read_at(const scan *s, void *dst, size_t n_bytes, int64_t at)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(s->fd, (char *)dst + done, n_bytes - done, (off_t)at + (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gr_fail(GR_ERR_IO, "cannot read '%s': %s", s->path,
                           n < 0 ? strerror(errno) : "it has become shorter");
        done += (size_t)n;
    }
    return GR_OK;
}

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The next record, of *n bytes, in s->bytes; *n -1: there is no whole one. */
static gr_status next_record(scan *s, int64_t *n)
{
    uint8_t head[HEAD_BYTES];
    int64_t left = s->size - s->end;

    *n = -1;
    if (left < HEAD_BYTES + TAIL_BYTES)
        return GR_OK;
    GR_TRY(read_at(s, head, sizeof(head), s->end));
    if (u32(head + 8) != gr_events_masked(head, 8) || u32(head + 4) != 0 ||
        u32(head) > MOST_BYTES || left < HEAD_BYTES + TAIL_BYTES + (int64_t)u32(head))
        return GR_OK;
    GR_TRY(gr_grow((void **)&s->bytes, &s->cap, (int)u32(head) + TAIL_BYTES, 1));
    GR_TRY(read_at(s, s->bytes, (size_t)u32(head) + TAIL_BYTES, s->end + HEAD_BYTES));
    if (u32(s->bytes + u32(head)) == gr_events_masked(s->bytes, u32(head)))
        *n = u32(head);
    return GR_OK;
}

static bool comes_again(const gr_keep *keep, const GrTb__Event *e)
{
    if (e->step != keep->last_step || e->what_case != GR_TB__EVENT__WHAT_SUMMARY)
        return false;
    for (size_t v = 0; v < e->summary->n_value; v++)
        for (int i = 0; i < keep->n_again; i++)
            if (strcmp(e->summary->value[v]->tag, keep->again[i]) == 0)
                return true;
    return false;
}

/* A number, picture or histogram; no settings and no text, which each start writes. */
static bool is_record(const GrTb__Event *e)
{
    for (size_t v = 0; e->what_case == GR_TB__EVENT__WHAT_SUMMARY && v < e->summary->n_value; v++) {
        const GrTb__Metadata *m = e->summary->value[v]->metadata;
        const char *plugin = m && m->plugin_data ? m->plugin_data->plugin_name : "";

        if (strcmp(plugin, "hparams") != 0 && strcmp(plugin, "text") != 0)
            return true;
    }
    return false;
}

static void look_at(scan *s, const GrTb__Event *e, int64_t n_bytes)
{
    if (s->end == 0)
        s->is_ours =
            e->source_metadata && strcmp(e->source_metadata->writer, GR_EVENTS_WRITER) == 0;
    s->is_over = !s->is_ours || comes_again(s->keep, e) ||
                 (e->step > s->keep->last_step && e->what_case == GR_TB__EVENT__WHAT_SUMMARY);
    if (s->is_over)
        return;
    s->has_records = s->has_records || is_record(e);
    s->end += HEAD_BYTES + n_bytes + TAIL_BYTES;
}

static gr_status scan_file(scan *s)
{
    while (!s->is_over) {
        GrTb__Event *e;
        int64_t n;

        GR_TRY(next_record(s, &n));
        e = n < 0 ? NULL : gr_tb__event__unpack(NULL, (size_t)n, s->bytes);
        if (!e)
            break;
        look_at(s, e, n);
        gr_tb__event__free_unpacked(e, NULL);
    }
    return GR_OK;
}

static gr_status cut(const scan *s)
{
    if (!s->is_ours)
        return GR_OK;
    if (!s->has_records) {
        if (unlink(s->path) != 0)
            return gr_fail(GR_ERR_IO, "cannot remove '%s': %s", s->path, strerror(errno));
        return GR_OK;
    }
    if (s->end == s->size)
        return GR_OK;
    if (ftruncate(s->fd, (off_t)s->end) != 0)
        return gr_fail(GR_ERR_IO, "cannot cut '%s': %s", s->path, strerror(errno));
    return gr_sync_records(s->fd, s->path);
}

static gr_status cut_file(const char *path, const gr_keep *keep)
{
    scan s = { .path = path, .keep = keep };
    struct stat about;
    gr_status st;

    s.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (s.fd < 0)
        return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    if (fstat(s.fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(s.fd);
        return GR_OK; /* none of ours */
    }
    s.size = about.st_size;
    st = scan_file(&s);
    if (st == GR_OK)
        st = cut(&s);
    gr_free(s.bytes);
    close(s.fd);
    return st;
}

gr_status gr_events_cut(const char *folder, const gr_keep *keep)
{
    DIR *d = opendir(folder);
    gr_text path = GR_TEXT_INIT;
    gr_status st = GR_OK;

    if (!d)
        return errno == ENOENT
                   ? GR_OK
                   : gr_fail(GR_ERR_IO, "cannot open folder '%s': %s", folder, strerror(errno));
    for (struct dirent *e = readdir(d); e && st == GR_OK; e = readdir(d)) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        path.len = 0;
        gr_text_addf(&path, "%s/%s", folder, e->d_name);
        st = gr_text_status(&path);
        if (st == GR_OK)
            st = cut_file(path.str, keep);
    }
    closedir(d);
    gr_text_fini(&path);
    return st;
}

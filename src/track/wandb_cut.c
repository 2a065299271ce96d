/*
 * Older offline files of a W&B run that goes on under the same id: each is cut before its first row
 * that is not kept, as event files are (events_cut.c), and a record that a crash left half goes,
 * too. What follows a row of that kind, the summary and the exit of that start, would speak of
 * steps that come again. What was uploaded before is the server's.
 */
#include "base/alloc.h"
#include "base/outfile.h"
#include "track/sink.h"
#include "track/wandb.h"
#include "track/wandb.pb-c.h"
#include "track/wandb_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct reader {
    const uint8_t *bytes;
    size_t size, at;
    gr_text record; /* the parts read so far */
} reader;

static uint32_t u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The next chunk's type, its bytes behind the record's; 0: there is no whole one. */
static int next_chunk(reader *r)
{
    size_t room = GR_WANDB_BLOCK - r->at % GR_WANDB_BLOCK, n;
    const uint8_t *head;
    uint8_t type;

    if (room < GR_WANDB_HEAD)
        r->at += room;
    if (r->size < GR_WANDB_HEAD || r->at > r->size - GR_WANDB_HEAD)
        return 0;
    head = r->bytes + r->at;
    n = (size_t)head[4] | (size_t)head[5] << 8;
    type = head[6];
    if (n > r->size - r->at - GR_WANDB_HEAD || type < 1 || type > 4 ||
        u32(head) != (uint32_t)crc32(crc32(0, &type, 1), head + GR_WANDB_HEAD, (uInt)n))
        return 0;
    gr_text_addn(&r->record, (const char *)head + GR_WANDB_HEAD, n);
    r->at += GR_WANDB_HEAD + n;
    return type;
}

static bool next_record(reader *r)
{
    int type;

    r->record.len = 0;
    do
        type = next_chunk(r);
    while (type == 2 || type == 3);
    return type != 0 && gr_text_status(&r->record) == GR_OK;
}

static bool comes_again(const GrWb__History *h, const gr_keep *keep)
{
    for (size_t k = 0; k < h->n_item; k++)
        for (int i = 0; i < keep->n_again; i++)
            if (h->item[k]->n_nested_key > 0 &&
                strcmp(h->item[k]->nested_key[0], keep->again[i]) == 0)
                return true;
    return false;
}

static bool stays(const GrWb__Record *record, const gr_keep *keep)
{
    const GrWb__History *h = record->history;
    int64_t step;

    if (record->record_type_case != GR_WB__RECORD__RECORD_TYPE_HISTORY || !h->step)
        return true;
    step = h->step->num;
    return step < keep->last_step || (step == keep->last_step && !comes_again(h, keep));
}

/* Bytes of the file up to the end of what is kept. */
static size_t kept_bytes(const uint8_t *bytes, size_t size, const gr_keep *keep)
{
    reader r = { .bytes = bytes, .size = size, .at = GR_WANDB_HEAD }; /* the file's own head */
    size_t end = r.at < size ? r.at : size;

    while (next_record(&r)) {
        GrWb__Record *record =
            gr_wb__record__unpack(NULL, r.record.len, (const uint8_t *)gr_text_str(&r.record));
        bool is_kept = record && stays(record, keep);

        gr_wb__record__free_unpacked(record, NULL);
        if (!is_kept)
            break;
        end = r.at;
    }
    gr_text_fini(&r.record);
    return end;
}

static gr_status cut_file(const char *path, const gr_keep *keep)
{
    char *bytes;
    size_t size, end;
    gr_status st = GR_OK;
    int fd;

    if (access(path, F_OK) != 0)
        return GR_OK;
    GR_TRY(gr_file_read(path, &bytes, &size));
    end = kept_bytes((const uint8_t *)bytes, size, keep);
    gr_free(bytes);
    if (end == size)
        return GR_OK;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || ftruncate(fd, (off_t)end) != 0)
        st = gr_fail(GR_ERR_IO, "cannot cut '%s': %s", path, strerror(errno));
    if (st == GR_OK)
        st = gr_sync_records(fd, path);
    if (fd >= 0)
        close(fd);
    return st;
}

static bool is_of(const char *name, const char *id)
{
    size_t n = strlen(name), n_id = strlen(id);

    return strncmp(name, "offline-run-", 12) == 0 && n > n_id && name[n - n_id - 1] == '-' &&
           strcmp(name + n - n_id, id) == 0;
}

gr_status gr_wandb_cut(const char *top, const char *id, const gr_keep *keep)
{
    gr_text path = GR_TEXT_INIT;
    gr_status st;
    DIR *d;

    gr_text_addf(&path, "%s/wandb", top);
    d = gr_text_status(&path) == GR_OK ? opendir(path.str) : NULL;
    st = gr_text_status(&path);
    for (struct dirent *e = d ? readdir(d) : NULL; e && st == GR_OK; e = readdir(d)) {
        if (!is_of(e->d_name, id))
            continue;
        path.len = 0;
        gr_text_addf(&path, "%s/wandb/%s/run-%s.wandb", top, e->d_name, id);
        st = gr_text_status(&path);
        if (st == GR_OK)
            st = cut_file(path.str, keep);
    }
    if (d)
        closedir(d);
    gr_text_fini(&path);
    return st;
}

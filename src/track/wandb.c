/*
 * W&B's offline file. After a header of 7 bytes come blocks as in leveldb's log, the header
 * counted into the first one:
 *
 *     block    32768 bytes: chunks; what is too short for a chunk's head is filled with zeros
 *     chunk    u32 CRC-32 of type and bytes, u16 length, u8 type, bytes; little-endian
 *     type     1 a whole record; 2, 3, 4 its first, middle and last part
 *
 * A record is a protobuf Record, packed by protobuf-c. The order here: header, run, config,
 * history rows, summary, exit, footer. A run that was killed has no exit; the client takes
 * that as failed.
 */
#include "track/wandb.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "track/sink.h"
#include "track/wandb.pb-c.h"
#include "track/wandb_impl.h"
#include "track/wandb_items.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* The generated initialisers cast a const away. */
#pragma GCC diagnostic ignored "-Wcast-qual"

#define FLUSH_NS INT64_C(2000000000)

struct gr_wandb {
    gr_sink sink;
    gr_text folder, id;
    int64_t n_records;
    double started_at;
    bool row_open;
    int64_t row_step;
    double row_time;
    gr_items row;     /* values of the step that is being collected */
    gr_items summary; /* the last value of each name */
};

/* --- framing ------------------------------------------------------------------------------ */

static void add_chunk(gr_wandb *w, uint8_t type, const uint8_t *bytes, size_t n)
{
    uint8_t head[GR_WANDB_HEAD];
    uint32_t crc = (uint32_t)crc32(crc32(0, &type, 1), bytes, (uInt)n);

    for (int i = 0; i < 4; i++)
        head[i] = (uint8_t)(crc >> (8 * i));
    head[4] = (uint8_t)n;
    head[5] = (uint8_t)(n >> 8);
    head[6] = type;
    gr_sink_add(&w->sink, head, sizeof(head));
    gr_sink_add(&w->sink, bytes, n);
}

static void add_framed(gr_wandb *w, const uint8_t *bytes, size_t n)
{
    static const uint8_t zeros[GR_WANDB_HEAD];
    bool first = true, last;

    do {
        size_t room = GR_WANDB_BLOCK - (size_t)(w->sink.n_bytes % GR_WANDB_BLOCK), part;

        if (room < GR_WANDB_HEAD) {
            gr_sink_add(&w->sink, zeros, room);
            room = GR_WANDB_BLOCK;
        }
        room -= GR_WANDB_HEAD;
        last = n <= room;
        part = last ? n : room;
        add_chunk(w, first && last ? 1 : first ? 2 : last ? 4 : 3, bytes, part);
        first = false;
        bytes += part;
        n -= part;
    } while (!last);
}

static gr_status add_record(gr_wandb *w, GrWb__Record *record)
{
    size_t n;
    uint8_t *bytes;

    record->num = ++w->n_records;
    n = gr_wb__record__get_packed_size(record);
    bytes = gr_malloc(n);
    if (!bytes)
        return GR_ERR_NOMEM;
    gr_wb__record__pack(record, bytes);
    add_framed(w, bytes, n);
    gr_free(bytes);
    return gr_wandb_flush(w, false);
}

gr_status gr_wandb_flush(gr_wandb *w, bool now)
{
    return gr_sink_flush(&w->sink, now ? 0 : FLUSH_NS);
}

/* --- settings ----------------------------------------------------------------------------- */

static const char *setting(const char *given, const char *variable, const char *otherwise)
{
    const char *from = getenv(variable);

    if (given && *given)
        return given;
    return from && *from ? from : otherwise;
}

bool gr_wandb_disabled(void)
{
    const char *off = setting(NULL, "WANDB_DISABLED", "");

    return strcasecmp(off, "true") == 0 || strcmp(off, "1") == 0;
}

static gr_status make_id(gr_wandb *w, const char *given)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t random[8];

    if (!given) {
        if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
            return gr_fail(GR_ERR_IO, "cannot get random bytes: %s", strerror(errno));
        for (size_t i = 0; i < sizeof(random); i++)
            gr_text_addn(&w->id, &letters[random[i] % (sizeof(letters) - 1)], 1);
        return gr_text_status(&w->id);
    }
    for (const char *c = given; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            return gr_fail(GR_ERR_ARG,
                           "W&B run id '%s': use letters, digits, '-', '_' and '.' only", given);
    gr_text_add(&w->id, given);
    return gr_text_status(&w->id);
}

/* The name has the second of the start. A run that is started again within it, as launchers do
 * with one that fails early, takes the next second that is free. */
static gr_status name_run_folder(gr_wandb *w, const char *top)
{
    time_t second = (time_t)w->started_at;
    char when[32];
    struct tm local;

    do {
        if (!localtime_r(&second, &local) || !strftime(when, sizeof(when), "%Y%m%d_%H%M%S", &local))
            return gr_fail(GR_ERR_IO, "cannot tell the local time");
        w->folder.len = 0;
        gr_text_addf(&w->folder, "%s/wandb/offline-run-%s-%s", top, when, gr_text_str(&w->id));
        GR_TRY(gr_text_status(&w->folder));
        second++;
    } while (access(w->folder.str, F_OK) == 0);
    return GR_OK;
}

static gr_status make_run_folder(gr_wandb *w, const char *top)
{
    static const char *const inside[] = { "files", "logs", "tmp" };

    GR_TRY(name_run_folder(w, top));
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        gr_text path = GR_TEXT_INIT;
        gr_status st;

        gr_text_addf(&path, "%s/%s", w->folder.str, inside[i]);
        st = gr_text_status(&path);
        if (st == GR_OK)
            st = gr_make_folders(path.str);
        gr_text_fini(&path);
        GR_TRY(st);
    }
    return GR_OK;
}

static gr_status create_file(gr_wandb *w)
{
    static const uint8_t head[] = { ':', 'W', '&', 'B', 0xe1, 0xbe, 0 };
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    gr_text_addf(&path, "%s/run-%s.wandb", w->folder.str, w->id.str);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_sink_create(&w->sink, path.str);
    if (st == GR_OK)
        gr_sink_add(&w->sink, head, sizeof(head));
    gr_text_fini(&path);
    return st;
}

/* --- records ------------------------------------------------------------------------------ */

static gr_status add_header(gr_wandb *w)
{
    static char producer[] = "gradus " GR_VERSION, consumer[] = "0.10.0";
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__Header header = GR_WB__HEADER__INIT;
    GrWb__Version version = GR_WB__VERSION__INIT;

    version.producer = producer;
    version.min_consumer = consumer;
    header.version_info = &version;
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_HEADER;
    record.header = &header;
    return add_record(w, &record);
}

static gr_status add_config(gr_wandb *w, const gr_wandb_config *c)
{
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__Update config = GR_WB__UPDATE__INIT;
    gr_items items = { 0 };
    gr_status st = GR_OK;

    for (int i = 0; i < c->n_params && st == GR_OK; i++) {
        gr_text json = GR_TEXT_INIT;

        gr_json_add_param(&json, &c->params[i]);
        st = gr_text_status(&json);
        if (st == GR_OK)
            st = gr_items_set(&items, c->params[i].name, json.str);
        gr_text_fini(&json);
    }
    if (st == GR_OK)
        st = gr_items_pack(&items, false, &config.update);
    config.n_update = (size_t)items.n;
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_CONFIG;
    record.config = &config;
    if (st == GR_OK && items.n > 0)
        st = add_record(w, &record);
    gr_items_fini(&items);
    return st;
}

/* The words between commas, in place. */
static size_t split_tags(char *text, char **tags, size_t most)
{
    size_t n = 0;
    char *rest = NULL;

    for (char *t = strtok_r(text, ",", &rest); t && n < most; t = strtok_r(NULL, ",", &rest))
        tags[n++] = t;
    return n;
}

static gr_status add_run(gr_wandb *w, const gr_wandb_config *c)
{
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__Run run = GR_WB__RUN__INIT;
    GrWb__Time start = GR_WB__TIME__INIT;
    char host[256], *tags[32];
    const char *from[] = { setting(c->entity, "WANDB_ENTITY", ""),
                           setting(c->project, "WANDB_PROJECT", "uncategorized"),
                           setting(c->group, "WANDB_RUN_GROUP", ""),
                           setting(c->job_type, "WANDB_JOB_TYPE", ""),
                           setting(c->name, "WANDB_NAME", ""),
                           setting(c->notes, "WANDB_NOTES", ""),
                           setting(c->tags, "WANDB_TAGS", ""),
                           host };
    char **to[] = { &run.entity,       &run.project, &run.run_group, &run.job_type,
                    &run.display_name, &run.notes,   &tags[0],       &run.host };
    gr_text clean[8] = { 0 };
    gr_status st = GR_OK;

    gr_host_name(host, sizeof(host));
    for (size_t i = 0; i < 8 && st == GR_OK; i++) {
        gr_text_add(&clean[i], ""); /* never NULL, also when nothing is added */
        gr_utf8_add(&clean[i], from[i]);
        st = gr_text_status(&clean[i]);
        *to[i] = clean[i].str;
    }
    if (st == GR_OK) {
        run.n_tags = split_tags(clean[6].str, tags, sizeof(tags) / sizeof(tags[0]));
        run.tags = tags;
        run.run_id = w->id.str;
        start.seconds = (int64_t)w->started_at;
        start.nanos = (int32_t)((w->started_at - (double)start.seconds) * 1e9);
        run.start_time = &start;
        record.record_type_case = GR_WB__RECORD__RECORD_TYPE_RUN;
        record.run = &run;
        st = add_record(w, &record);
    }
    for (size_t i = 0; i < 8; i++)
        gr_text_fini(&clean[i]);
    return st;
}

static gr_status start_run(gr_wandb *w, const gr_wandb_config *c)
{
    const char *top = setting(NULL, "WANDB_DIR", c->folder ? c->folder : ".");

    w->started_at = gr_wall_time();
    GR_TRY(make_id(w, setting(c->run_id, "WANDB_RUN_ID", NULL)));
    if (c->keep)
        GR_TRY(gr_wandb_cut(top, gr_text_str(&w->id), c->keep));
    GR_TRY(make_run_folder(w, top));
    GR_TRY(create_file(w));
    GR_TRY(add_header(w));
    GR_TRY(add_run(w, c));
    GR_TRY(add_config(w, c));
    return gr_wandb_flush(w, true);
}

static gr_status free_all(gr_wandb *w)
{
    gr_status st = gr_sink_close(&w->sink);

    gr_items_fini(&w->row);
    gr_items_fini(&w->summary);
    gr_text_fini(&w->folder);
    gr_text_fini(&w->id);
    gr_free(w);
    return st;
}

gr_status gr_wandb_open(gr_wandb **out, const gr_wandb_config *c)
{
    gr_wandb *w = gr_calloc(1, sizeof(*w));
    gr_status st;

    if (!w)
        return GR_ERR_NOMEM;
    st = start_run(w, c);
    if (st != GR_OK) {
        GR_IGNORE(free_all(w)); /* the first failure is the one to tell */
        return st;
    }
    *out = w;
    return GR_OK;
}

static gr_status set_number(gr_items *items, const char *name, double value)
{
    gr_text json = GR_TEXT_INIT;
    gr_status st;

    gr_json_add_number(&json, value);
    st = gr_text_status(&json);
    if (st == GR_OK)
        st = gr_items_set(items, name, json.str);
    gr_text_fini(&json);
    return st;
}

static gr_status set_integer(gr_items *items, const char *name, int64_t value)
{
    char json[32];

    snprintf(json, sizeof(json), "%lld", (long long)value);
    return gr_items_set(items, name, json);
}

static gr_status set_time(gr_items *items, const char *name, double seconds)
{
    char json[40]; /* nine digits would cut the microseconds off */

    snprintf(json, sizeof(json), "%.6f", seconds);
    return gr_items_set(items, name, json);
}

/* What every row and the summary carry beside the values. */
static gr_status set_common(gr_wandb *w, gr_items *items)
{
    GR_TRY(set_integer(items, "_step", w->row_step));
    GR_TRY(set_time(items, "_timestamp", w->row_time));
    return set_time(items, "_runtime", w->row_time - w->started_at);
}

static gr_status end_row(gr_wandb *w)
{
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__History history = GR_WB__HISTORY__INIT;
    GrWb__Step step = GR_WB__STEP__INIT;

    if (!w->row_open)
        return GR_OK;
    w->row_open = false;
    GR_TRY(set_common(w, &w->row));
    GR_TRY(gr_items_pack(&w->row, true, &history.item));
    history.n_item = (size_t)w->row.n;
    step.num = w->row_step;
    history.step = &step;
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_HISTORY;
    record.history = &history;
    GR_TRY(add_record(w, &record));
    gr_items_clear(&w->row);
    return GR_OK;
}

/* *is_late: its row has ended, and it is left out. */
static gr_status open_row(gr_wandb *w, int64_t step, double wall_time, bool *is_late)
{
    *is_late = w->row_open && step < w->row_step;
    if (*is_late)
        return GR_OK;
    if (w->row_open && step > w->row_step)
        GR_TRY(end_row(w));
    w->row_open = true;
    w->row_step = step;
    w->row_time = wall_time;
    return GR_OK;
}

static gr_status add_file(gr_wandb *w, char *path)
{
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__Files files = GR_WB__FILES__INIT;
    GrWb__File file = GR_WB__FILE__INIT, *list = &file;

    file.path = path;
    files.n_files = 1;
    files.files = &list;
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_FILES;
    record.files = &files;
    return add_record(w, &record);
}

gr_status gr_wandb_image(gr_wandb *w, int64_t step, double wall_time, const char *name,
                         const gr_pixels *p)
{
    gr_text path = GR_TEXT_INIT, json = GR_TEXT_INIT;
    bool is_late;
    gr_status st;

    GR_TRY(open_row(w, step, wall_time, &is_late));
    if (is_late)
        return GR_OK;
    GR_TRY_GOTO(st, gr_wandb_media(gr_text_str(&w->folder), name, step, p, &path, &json), done);
    GR_TRY_GOTO(st, add_file(w, path.str), done);
    GR_TRY_GOTO(st, gr_items_set(&w->row, name, json.str), done);
    st = gr_items_set(&w->summary, name, json.str);

done:
    gr_text_fini(&path);
    gr_text_fini(&json);
    return st;
}

gr_status gr_wandb_log(gr_wandb *w, int64_t step, double wall_time, const char *name, double value)
{
    bool is_late;

    GR_TRY(open_row(w, step, wall_time, &is_late));
    if (is_late)
        return GR_OK;
    GR_TRY(set_number(&w->row, name, value));
    return set_number(&w->summary, name, value);
}

gr_status gr_wandb_end_row(gr_wandb *w)
{
    return end_row(w);
}

gr_status gr_wandb_sync_rows(gr_wandb *w)
{
    return gr_sink_sync(&w->sink);
}

static gr_status end_run(gr_wandb *w, int exit_code)
{
    GrWb__Record record = GR_WB__RECORD__INIT;
    GrWb__Update summary = GR_WB__UPDATE__INIT;
    GrWb__Exit end = GR_WB__EXIT__INIT;
    GrWb__Footer footer = GR_WB__FOOTER__INIT;

    GR_TRY(end_row(w));
    if (w->summary.n > 0) {
        GR_TRY(set_common(w, &w->summary));
        GR_TRY(gr_items_pack(&w->summary, false, &summary.update));
        summary.n_update = (size_t)w->summary.n;
        record.record_type_case = GR_WB__RECORD__RECORD_TYPE_SUMMARY;
        record.summary = &summary;
        GR_TRY(add_record(w, &record));
    }
    end.exit_code = exit_code;
    end.runtime = (int32_t)(gr_wall_time() - w->started_at);
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_EXIT;
    record.exit = &end;
    GR_TRY(add_record(w, &record));
    record.record_type_case = GR_WB__RECORD__RECORD_TYPE_FOOTER;
    record.footer = &footer;
    return add_record(w, &record);
}

gr_status gr_wandb_close(gr_wandb *w, int exit_code)
{
    gr_status st, closed;

    if (!w)
        return GR_OK;
    st = end_run(w, exit_code);
    closed = free_all(w);
    return st != GR_OK ? st : closed;
}

const char *gr_wandb_folder(const gr_wandb *w)
{
    return gr_text_str(&w->folder);
}

const char *gr_wandb_id(const gr_wandb *w)
{
    return gr_text_str(&w->id);
}

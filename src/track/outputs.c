/* The files of a run. Every failure ends here: one line in the log, and the output is off. */
#include "track/outputs.h"

#include "base/log.h"
#include "base/outfile.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say_off(const char *what)
{
    gr_log(TRAIN, WARN, "%s is off from here on: %s; training goes on without it", what,
           gr_error_message());
}

/* Each: nothing when the call went well. */
static void check_jsonl(gr_outputs *o, gr_status st)
{
    if (st == GR_OK)
        return;
    say_off("metrics.jsonl");
    gr_metrics_close(o->jsonl);
    o->jsonl = NULL;
}

static void check_csv(gr_outputs *o, gr_status st)
{
    if (st == GR_OK)
        return;
    say_off("metrics.csv");
    gr_csv_close(o->csv);
    o->csv = NULL;
}

static void check_events(gr_outputs *o, gr_status st)
{
    if (st == GR_OK)
        return;
    say_off("TensorBoard");
    GR_IGNORE(gr_events_close(o->events)); /* that it fails was just said */
    o->events = NULL;
}

static void check_wandb(gr_outputs *o, gr_status st)
{
    if (st == GR_OK)
        return;
    say_off("W&B");
    GR_IGNORE(gr_wandb_close(o->wandb, 1)); /* that it fails was just said */
    o->wandb = NULL;
}

static void check_curves(gr_outputs *o, gr_status st)
{
    if (st == GR_OK)
        return;
    say_off("plotting");
    gr_curves_destroy(o->curves);
    o->curves = NULL;
}

static bool is_plotted(const char *name)
{
    return strcmp(name, "epoch") != 0;
}

/* What a resumed run has in its table belongs into its curves. */
static void old_value(void *arg, int64_t step, const char *name, double value)
{
    gr_outputs *o = arg;

    if (o->curves && is_plotted(name))
        check_curves(o, gr_curves_add(o->curves, step, name, value));
}

static gr_status path_in(gr_text *path, const char *folder, const char *name)
{
    path->len = 0;
    gr_text_addf(path, "%s/%s", folder, name);
    return gr_text_status(path);
}

static gr_keep keep_of(const gr_track_config *c)
{
    return (gr_keep){ .last_step = c->last_step,
                      .again = c->metrics,
                      .n_again = c->metrics_again ? c->n_metrics : 0 };
}

static void open_tables(gr_outputs *o, const gr_track_config *c)
{
    gr_keep keep = keep_of(c);
    gr_text path = GR_TEXT_INIT;
    gr_status st;

    if (c->jsonl) {
        st = path_in(&path, c->folder, "metrics.jsonl");
        check_jsonl(o, st != GR_OK ? st : gr_metrics_open(&o->jsonl, path.str, &keep));
    }
    if (c->csv) {
        st = path_in(&path, c->folder, "metrics.csv");
        check_csv(o, st != GR_OK ? st : gr_csv_open(&o->csv, path.str, &keep, old_value, o));
    }
    gr_text_fini(&path);
}

static void open_events(gr_outputs *o, const gr_track_config *c)
{
    gr_text path = GR_TEXT_INIT;
    gr_keep keep = keep_of(c);
    gr_status st = path_in(&path, c->folder, "tensorboard");

    if (st == GR_OK)
        st = gr_events_cut(path.str, &keep);
    if (st == GR_OK)
        st = gr_events_open(&o->events, path.str, c->scalar_form);
    if (st == GR_OK && c->last_step > 0)
        st = gr_events_restarted(o->events, c->last_step + 1);
    if (st == GR_OK && c->n_params > 0)
        st = gr_events_hparams(o->events, gr_wall_time(), c->params, c->n_params, c->metrics,
                               c->n_metrics);
    check_events(o, st);
    gr_text_fini(&path);
}

static void open_wandb(gr_outputs *o, const gr_track_config *c)
{
    gr_wandb_config config = *c->wandb;
    gr_keep keep = keep_of(c);
    gr_status st;

    if (!config.folder)
        config.folder = c->folder;
    config.params = c->params;
    config.n_params = c->n_params;
    config.keep = &keep;
    st = gr_wandb_open(&o->wandb, &config);
    if (st == GR_OK) {
        gr_text_add(&o->wandb_folder, gr_wandb_folder(o->wandb));
        gr_text_add(&o->wandb_id, gr_wandb_id(o->wandb));
    }
    check_wandb(o, st);
}

/* What a start that was killed while it replaced a file has left. No other process writes here. */
static void remove_asides(const char *folder)
{
    static const char end[] = ".png.tmp";
    gr_text path = GR_TEXT_INIT;
    DIR *d = path_in(&path, folder, "plots") == GR_OK ? opendir(path.str) : NULL;

    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        size_t n = strlen(e->d_name);

        if (n > sizeof(end) - 1 && strcmp(e->d_name + n - (sizeof(end) - 1), end) == 0)
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
    if (path_in(&path, folder, "metrics.csv.tmp") == GR_OK)
        unlink(path.str);
    if (path_in(&path, folder, "metrics.jsonl.tmp") == GR_OK)
        unlink(path.str);
    gr_text_fini(&path);
}

void gr_outputs_open(gr_outputs *o, const gr_track_config *c)
{
    *o = (gr_outputs){ 0 };
    GR_IGNORE(gr_make_folders(c->folder)); /* each output says why it cannot be opened */
    remove_asides(c->folder);
    if (c->plots) {
        gr_status st = path_in(&o->plots_folder, c->folder, "plots");

        check_curves(o, st != GR_OK ? st : gr_curves_create(&o->curves));
    }
    open_tables(o, c);
    if (c->tensorboard)
        open_events(o, c);
    if (c->wandb)
        open_wandb(o, c);
}

static gr_status record_csv(gr_csv *csv, const gr_track_record *r)
{
    gr_csv_begin(csv, r->step);
    for (int i = 0; i < r->n; i++)
        GR_TRY(gr_csv_value(csv, gr_track_value_at(r, i)->name, gr_track_value_at(r, i)->value));
    return gr_csv_end(csv);
}

static gr_status record_jsonl(gr_metrics *m, const gr_track_record *r)
{
    gr_metrics_begin(m, r->step);
    for (int i = 0; i < r->n; i++) {
        const gr_track_value *v = gr_track_value_at(r, i);

        if (v->is_whole)
            gr_metrics_i64(m, v->name, (int64_t)v->value);
        else
            gr_metrics_f64(m, v->name, v->value);
    }
    return gr_metrics_end(m);
}

void gr_outputs_record(gr_outputs *o, const gr_track_record *r)
{
    if (o->jsonl)
        check_jsonl(o, record_jsonl(o->jsonl, r));
    if (o->csv)
        check_csv(o, record_csv(o->csv, r));
    for (int i = 0; i < r->n; i++) {
        const char *name = gr_track_value_at(r, i)->name;
        double value = gr_track_value_at(r, i)->value;
        gr_event_at at = { name, r->step, r->wall_time };

        if (o->events)
            check_events(o, gr_events_scalar(o->events, &at, value));
        if (o->wandb)
            check_wandb(o, gr_wandb_log(o->wandb, r->step, r->wall_time, name, value));
        if (o->curves && is_plotted(name))
            check_curves(o, gr_curves_add(o->curves, r->step, name, value));
    }
}

void gr_outputs_blob(gr_outputs *o, const gr_blob *b)
{
    gr_status st = GR_OK;

    if (o->wandb && b->kind == GR_BLOB_PICTURE)
        check_wandb(o,
                    gr_wandb_image(o->wandb, b->at.step, b->at.wall_time, b->at.tag, &b->pixels));
    if (!o->events)
        return;
    switch (b->kind) {
    case GR_BLOB_PICTURE:
    case GR_BLOB_IMAGE: st = gr_events_image(o->events, &b->at, &b->pixels); break;
    case GR_BLOB_TEXT: st = gr_events_text(o->events, &b->at, b->data); break;
    case GR_BLOB_HISTOGRAM: st = gr_events_histogram(o->events, &b->at, b->data, b->n); break;
    }
    check_events(o, st);
}

void gr_outputs_plot(gr_outputs *o)
{
    if (o->curves)
        check_curves(o, gr_curves_draw(o->curves, gr_text_str(&o->plots_folder)));
}

void gr_outputs_end_step(gr_outputs *o)
{
    if (o->wandb)
        check_wandb(o, gr_wandb_end_row(o->wandb));
}

void gr_outputs_flush(gr_outputs *o)
{
    if (o->events)
        check_events(o, gr_events_flush(o->events, false));
    if (o->wandb)
        check_wandb(o, gr_wandb_flush(o->wandb, false));
}

void gr_outputs_sync(gr_outputs *o)
{
    if (o->jsonl)
        check_jsonl(o, gr_metrics_sync(o->jsonl));
    if (o->csv)
        check_csv(o, gr_csv_sync(o->csv));
    if (o->events)
        check_events(o, gr_events_sync(o->events));
    if (o->wandb)
        check_wandb(o, gr_wandb_sync_rows(o->wandb));
}

void gr_outputs_close(gr_outputs *o, int exit_code)
{
    if (o->events)
        check_events(o, gr_events_ended(o->events, gr_wall_time(), exit_code == 0));
    if (o->events && gr_events_close(o->events) != GR_OK)
        say_off("TensorBoard");
    if (o->wandb && gr_wandb_close(o->wandb, exit_code) != GR_OK)
        say_off("W&B");
    gr_metrics_close(o->jsonl);
    gr_csv_close(o->csv);
    gr_curves_destroy(o->curves);
    gr_text_fini(&o->plots_folder);
    o->events = NULL;
    o->wandb = NULL;
    o->jsonl = NULL;
    o->csv = NULL;
    o->curves = NULL;
}

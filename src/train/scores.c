/* Results of a test as table, JSON and CSV. Numbers read back as what they were. */
#include "train/scores.h"

#include "base/outfile.h"
#include "base/shown.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WIDTH 24

void gr_scores_table(const gr_recipe_view *view, const gr_scores *s, gr_text *out)
{
    if (!s->has_no_loss)
        gr_text_addf(out, "  %-*s %.6g\n", WIDTH, "loss", s->loss);
    for (int i = 0; i < s->n_parts; i++)
        gr_text_addf(out, "  %-*s %.6g\n", WIDTH, s->parts[i].name, s->parts[i].value);
    for (int i = 0; i < view->n_metrics; i++) {
        const gr_metric_info *m = &view->metrics[i];
        size_t from = out->len;

        if (m->is_share && isnan(s->values[i])) /* of nothing: no sample has that class */
            gr_text_addf(out, "  %-*s -", WIDTH, m->name);
        else if (m->is_share)
            gr_text_addf(out, "  %-*s %.2f%%", WIDTH, m->name, 100 * s->values[i]);
        else
            gr_text_addf(out, "  %-*s %.6g", WIDTH, m->name, s->values[i]);
        gr_text_make_shown(out, from, GR_SHOWN_LINE); /* names of classes come with the data */
        gr_text_add(out, "\n");
    }
}

static void add_string(gr_text *out, const char *s)
{
    gr_text_add(out, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            gr_text_addf(out, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            gr_text_addf(out, "\\u%04x", (unsigned)(unsigned char)*s);
        else
            gr_text_addn(out, s, 1);
    }
    gr_text_add(out, "\"");
}

static void add_pair(gr_text *out, const char *name, double value)
{
    gr_text_add(out, ", ");
    add_string(out, name);
    if (isfinite(value))
        gr_text_addf(out, ": %.17g", value);
    else
        gr_text_add(out, ": null");
}

void gr_scores_json(const gr_recipe_view *view, const gr_scores *s, gr_text *out)
{
    gr_text_addf(out, "{\"samples\": %" PRId64, s->n_samples);
    if (!s->has_no_loss)
        add_pair(out, "loss", s->loss);
    for (int i = 0; i < s->n_parts; i++)
        add_pair(out, s->parts[i].name, s->parts[i].value);
    for (int i = 0; i < view->n_metrics; i++)
        add_pair(out, view->metrics[i].name, s->values[i]);
    gr_text_add(out, "}\n");
}

/* Commas, quotes and control characters would break the line. */
static void add_cell(gr_text *out, const char *name)
{
    for (; *name; name++)
        gr_text_addf(out, "%c",
                     *name == ',' || *name == '"' || (unsigned char)*name < ' ' ? '_' : *name);
}

void gr_scores_csv(const gr_recipe_view *view, const gr_scores *s, gr_text *out)
{
    gr_text_addf(out, "metric,value\nsamples,%" PRId64 "\n", s->n_samples);
    if (!s->has_no_loss)
        gr_text_addf(out, "loss,%.17g\n", s->loss);
    for (int i = 0; i < s->n_parts; i++) {
        add_cell(out, s->parts[i].name);
        gr_text_addf(out, ",%.17g\n", s->parts[i].value);
    }
    for (int i = 0; i < view->n_metrics; i++) {
        add_cell(out, view->metrics[i].name);
        gr_text_addf(out, ",%.17g\n", s->values[i]);
    }
}

static gr_status write_file(const char *folder, const char *name, const gr_text *text)
{
    gr_text path = GR_TEXT_INIT;
    gr_outfile *f;
    gr_status st;

    gr_text_addf(&path, "%s/%s", folder, name);
    st = gr_text_status(&path);
    if (st == GR_OK)
        st = gr_outfile_open(&f, gr_text_str(&path));
    gr_text_fini(&path);
    GR_TRY(st);
    gr_outfile_write(f, text->str, text->len);
    return gr_outfile_commit(f);
}

gr_status gr_scores_write(const gr_recipe_view *view, const gr_scores *s, const char *folder)
{
    gr_text json = GR_TEXT_INIT, csv = GR_TEXT_INIT;
    gr_status st;

    gr_scores_json(view, s, &json);
    gr_scores_csv(view, s, &csv);
    GR_TRY_GOTO(st, gr_text_status(&json), done);
    GR_TRY_GOTO(st, gr_text_status(&csv), done);
    GR_TRY_GOTO(st, gr_make_folders(folder), done);
    GR_TRY_GOTO(st, write_file(folder, "test_metrics.json", &json), done);
    st = write_file(folder, "test_metrics.csv", &csv);

done:
    gr_text_fini(&json);
    gr_text_fini(&csv);
    return gr_wrap(st, "results (--output names another folder)");
}

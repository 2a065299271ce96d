/* Learning curves. Curves of one group are drawn together; a group is what is left of a name
 * without the part of the data it was measured on. */
#include "track/curves.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "base/text.h"
#include "track/plot.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_POINTS  4096
#define MAX_LINES   16 /* in one file */
#define GROUP_BYTES 64 /* names are at most 48 (track.h); a longer one is cut */

typedef struct curve {
    char *name;
    double *x, *y; /* MAX_POINTS each, in one block that x owns */
    int n;
    int64_t n_seen, every; /* one of `every` values is kept */
} curve;

struct gr_curves {
    curve *list;
    int n, cap;
};

gr_status gr_curves_create(gr_curves **out)
{
    *out = gr_calloc(1, sizeof(**out));
    return *out ? GR_OK : GR_ERR_NOMEM;
}

void gr_curves_destroy(gr_curves *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++) {
        gr_free(c->list[i].name);
        gr_free(c->list[i].x);
    }
    gr_free(c->list);
    gr_free(c);
}

static gr_status find_curve(gr_curves *c, const char *name, curve **out)
{
    curve new = { .every = 1 };

    for (int i = 0; i < c->n; i++)
        if (strcmp(c->list[i].name, name) == 0) {
            *out = &c->list[i];
            return GR_OK;
        }
    GR_TRY(gr_grow((void **)&c->list, &c->cap, c->n + 1, sizeof(new)));
    new.name = gr_strdup(name);
    new.x = gr_calloc((size_t)2 * MAX_POINTS, sizeof(*new.x));
    if (!new.name || !new.x) {
        gr_free(new.name);
        gr_free(new.x);
        return GR_ERR_NOMEM;
    }
    new.y = new.x + MAX_POINTS;
    *out = &c->list[c->n];
    c->list[c->n++] = new;
    return GR_OK;
}

gr_status gr_curves_add(gr_curves *c, int64_t step, const char *name, double value)
{
    curve *k;

    GR_TRY(find_curve(c, name, &k));
    if (k->n_seen++ % k->every != 0)
        return GR_OK;
    if (k->n == MAX_POINTS) {
        for (int i = 0; i < MAX_POINTS / 2; i++) {
            k->x[i] = k->x[2 * i];
            k->y[i] = k->y[2 * i];
        }
        k->n = MAX_POINTS / 2;
        k->every *= 2;
    }
    k->x[k->n] = (double)step;
    k->y[k->n++] = value;
    return GR_OK;
}

/* "val_loss" and "val/loss" are about the loss. */
static const char *subject_of(const char *name)
{
    static const char *const parts[] = { "train", "val", "valid", "validation", "test", "eval" };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t n = strlen(parts[i]);

        if (strncmp(name, parts[i], n) == 0 && name[n] && strchr("_/.", name[n]) && name[n + 1])
            return name + n + 1;
    }
    return name;
}

/* Beside "train_loss", which is an epoch's mean, "loss" is that of single steps: in a picture with
 * the others it would be taken for the epoch's. */
static const char *group_of(const gr_curves *c, const char *name, char group[GROUP_BYTES])
{
    const char *subject = subject_of(name);
    bool is_of_steps = false;

    for (int i = 0; i < c->n && subject == name; i++) {
        const char *other = c->list[i].name;

        is_of_steps = is_of_steps || (strncmp(other, "train", 5) == 0 && other[5] != '\0' &&
                                      strcmp(other + 6, name) == 0);
    }
    snprintf(group, GROUP_BYTES, "%s%s", is_of_steps ? "step_" : "", subject);
    return group;
}

static bool wants_log(const gr_series *series, int n)
{
    double low = HUGE_VAL, high = -HUGE_VAL;

    for (int s = 0; s < n; s++)
        for (int i = 0; i < series[s].n; i++)
            if (isfinite(series[s].y[i])) {
                low = fmin(low, series[s].y[i]);
                high = fmax(high, series[s].y[i]);
            }
    return low > 0 && high / low >= 1000;
}

static gr_status draw_group(const gr_curves *c, int first, const char *folder)
{
    gr_series series[MAX_LINES];
    char group[GROUP_BYTES], other[GROUP_BYTES];
    gr_plot plot = {
        .title = group, .x_label = "step", .series = series, .width = 960, .height = 600
    };
    gr_text path = GR_TEXT_INIT;
    size_t start;
    gr_status st;

    group_of(c, c->list[first].name, group);
    for (int i = first; i < c->n && plot.n_series < MAX_LINES; i++)
        if (strcmp(group_of(c, c->list[i].name, other), group) == 0)
            series[plot.n_series++] =
                (gr_series){ c->list[i].name, c->list[i].x, c->list[i].y, c->list[i].n };
    plot.log_y = wants_log(series, plot.n_series);
    gr_text_addf(&path, "%s/", folder);
    start = path.len;
    gr_text_addf(&path, "%s.png", group);
    GR_TRY_GOTO(st, gr_text_status(&path), out);
    for (size_t i = start; i < path.len; i++) /* a name is no path, and no hidden file */
        if (!isalnum((unsigned char)path.str[i]) && (i == start || !strchr("._-", path.str[i])))
            path.str[i] = '_';
    st = gr_plot_write(&plot, path.str);

out:
    gr_text_fini(&path);
    return st;
}

gr_status gr_curves_draw(const gr_curves *c, const char *folder)
{
    GR_TRY(gr_make_folders(folder));
    for (int i = 0; i < c->n; i++) {
        char group[GROUP_BYTES], other[GROUP_BYTES];
        int before = 0;

        group_of(c, c->list[i].name, group);
        while (strcmp(group_of(c, c->list[before].name, other), group) != 0)
            before++;
        if (before == i) /* the first of its group draws all of it */
            GR_TRY(draw_group(c, i, folder));
    }
    return GR_OK;
}

/* The judge of evaluations. */
#include "train/judge.h"

#include "base/alloc.h"
#include "base/option.h"
#include "train/rate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static gr_status unknown_metric(const char *word, const gr_recipe_view *view)
{
    const char **names = gr_calloc((size_t)view->n_metrics + 2, sizeof(*names));
    gr_text known = GR_TEXT_INIT;
    const char *near;
    gr_status st;

    if (!names)
        return GR_ERR_NOMEM;
    for (int i = 0; i < view->n_metrics; i++) {
        names[i] = view->metrics[i].name;
        gr_text_addf(&known, "%s, ", names[i]);
    }
    names[view->n_metrics] = "loss";
    near = gr_nearest(word, names);
    st = gr_fail(GR_ERR_ARG, "best_by: the recipe has no metric '%s'; it has %s%s", word,
                 near ? near : gr_text_str(&known), near ? "" : "loss");
    gr_text_fini(&known);
    gr_free(names);
    return st;
}

gr_status gr_judge_init(gr_judge *j, const gr_train_options *o, const gr_recipe_view *view)
{
    const char *word = o->best_by;

    *j = (gr_judge){ .metric = -1,
                     .name = "loss",
                     .patience = o->patience,
                     .min_delta = o->min_delta,
                     .has_plateau = o->schedule == GR_SCHEDULE_PLATEAU };
    if (!word && view->n_metrics > 0)
        word = view->metrics[0].name;
    for (int i = 0; word && i < view->n_metrics; i++)
        if (j->metric < 0 && strcmp(view->metrics[i].name, word) == 0)
            j->metric = i;
    if (j->metric >= 0)
        j->name = view->metrics[j->metric].name;
    else if (word && strcmp(word, "loss") != 0 && strcmp(word, "val_loss") != 0)
        return unknown_metric(word, view);
    j->maximize = j->metric >= 0 && !view->metrics[j->metric].is_less_better;
    if (o->best_direction != GR_DIRECTION_AUTO)
        j->maximize = o->best_direction == GR_DIRECTION_MAX;
    j->plateau = gr_rate_plateau(o, j->maximize);
    return GR_OK;
}

static bool is_better(const gr_judge *j, double value, double than, double by)
{
    return j->maximize ? value > than + by : value < than - by;
}

bool gr_judge_observe(gr_judge *j, double value, int64_t step)
{
    bool is_best = !isnan(value) && (!j->has_best || is_better(j, value, j->best, 0));

    if (j->has_plateau)
        gr_plateau_observe(&j->plateau, value);
    if (!isnan(value) && (!j->has_best || is_better(j, value, j->mark, j->min_delta))) {
        j->mark = value;
        j->n_bad = 0;
    } else {
        j->n_bad++;
    }
    if (is_best) {
        j->has_best = true;
        j->best = value;
        j->best_step = step;
    }
    return is_best;
}

bool gr_judge_gives_up(const gr_judge *j)
{
    return j->patience > 0 && j->n_bad >= j->patience;
}

double gr_judge_lr_scale(const gr_judge *j)
{
    return j->has_plateau ? j->plateau.scale : 1;
}

/* ---- memory ---- */

#define FORM "%d %a %" PRId64 " %a %" PRId64 " %a %d %a %" PRId64 " %" PRId64
#define SCAN "%d %lf %" SCNd64 " %lf %" SCNd64 " %lf %d %lf %" SCNd64 " %" SCNd64 "%n"

void gr_judge_print(const gr_judge *j, gr_text *out)
{
    const gr_plateau *p = &j->plateau;

    gr_text_addf(out, FORM, j->has_best, j->best, j->best_step, j->mark, j->n_bad, p->scale,
                 p->has_best, p->best, p->n_bad, p->n_cooling);
}

gr_status gr_judge_parse(gr_judge *j, const char *text)
{
    gr_plateau *p = &j->plateau;
    int has_best, plateau_has_best, n_used = -1;

    if (sscanf(text, SCAN, &has_best, &j->best, &j->best_step, &j->mark, &j->n_bad, &p->scale,
               &plateau_has_best, &p->best, &p->n_bad, &p->n_cooling, &n_used) != 10 ||
        text[n_used] != '\0')
        return gr_fail(GR_ERR_FORMAT, "'%.100s' is no record of the best evaluation", text);
    j->has_best = has_best != 0;
    p->has_best = plateau_has_best != 0;
    return GR_OK;
}

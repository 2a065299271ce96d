/*
 * Metrics by name. All counts lie in one array: the confusion matrix first, which most metrics
 * share, then the counts of top-k and the histograms of auc.
 *
 * With one logit the classes are no (0) and yes (1), and metrics of a class are those of yes,
 * as for any test that is positive or negative; miou and mdice are means over both.
 */
#include "recipe/vision/vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BINS       1024
#define CLASS_MEAN (-1)

enum { ACCURACY, OF_CLASS, TOP_K, AUC };

static const struct {
    const char *name, *shown;
    int kind;
    gr_class_metric which;
    bool is_mean; /* over all classes, also when there is one logit */
} known[] = {
    { "accuracy", "accuracy", ACCURACY, 0, false },
    { "acc", "accuracy", ACCURACY, 0, false },
    { "pixelaccuracy", "pixel_accuracy", ACCURACY, 0, false },
    { "precision", "precision", OF_CLASS, GR_METRIC_PRECISION, false },
    { "recall", "recall", OF_CLASS, GR_METRIC_RECALL, false },
    { "f1", "f1", OF_CLASS, GR_METRIC_F1, false },
    { "f1score", "f1", OF_CLASS, GR_METRIC_F1, false },
    { "iou", "iou", OF_CLASS, GR_METRIC_IOU, false },
    { "miou", "miou", OF_CLASS, GR_METRIC_IOU, true },
    { "meaniou", "miou", OF_CLASS, GR_METRIC_IOU, true },
    { "dice", "dice", OF_CLASS, GR_METRIC_DICE, false },
    { "mdice", "mdice", OF_CLASS, GR_METRIC_DICE, true },
    { "auc", "auc", AUC, 0, false },
};

static int n_histograms(const gr_vision *v)
{
    return v->model.n_out == 1 ? 1 : v->model.n_out;
}

static gr_status make_room(gr_vision_metrics *m)
{
    int cap = m->cap ? 2 * m->cap : 16;
    gr_vision_metric *list;
    gr_metric_info *info;

    if (m->n < m->cap)
        return GR_OK;
    list = realloc(m->list, (size_t)cap * sizeof(*list));
    m->list = list ? list : m->list;
    info = realloc(m->info, (size_t)cap * sizeof(*info));
    m->info = info ? info : m->info;
    if (!list || !info)
        return gr_fail(GR_ERR_NOMEM, "no memory for %d metrics", cap);
    m->cap = cap;
    return GR_OK;
}

static gr_status add(gr_vision *v, gr_vision_metric metric, const char *name, const char *suffix)
{
    gr_vision_metrics *m = &v->metrics;
    size_t n = strlen(name) + strlen(suffix) + 2;
    char *text;

    GR_TRY(make_room(m));
    text = malloc(n);
    if (!text)
        return gr_fail(GR_ERR_NOMEM, "no memory for the name of a metric");
    snprintf(text, n, "%s%s%s", name, suffix[0] ? "/" : "", suffix);
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->info[i].name, text) == 0) {
            free(text);
            return GR_OK;
        }
    metric.count = m->n_counts;
    if (metric.kind == TOP_K)
        m->n_counts += 2;
    if (metric.kind == AUC)
        m->n_counts += (int64_t)n_histograms(v) * 2 * BINS;
    m->info[m->n] = (gr_metric_info){ .name = text, .is_share = true };
    m->list[m->n++] = metric;
    return GR_OK;
}

static gr_status add_top_k(gr_vision *v, const char *name)
{
    char shown[16], *end;
    long k = strtol(name + 3, &end, 10);

    if (*end || end == name + 3 || k < 1 || k > v->model.n_out)
        return gr_settings_fail(v->s, "metrics", "'%s': k is from 1 to %d, the number of classes",
                                name, v->model.n_out);
    if (gr_vision_segments(&v->model))
        return gr_settings_fail(v->s, "metrics", "'%s' is not for masks", name);
    snprintf(shown, sizeof(shown), "top%ld", k);
    return add(v, (gr_vision_metric){ .kind = TOP_K, .at = (int)k }, shown, "");
}

static gr_status add_named(gr_vision *v, const char *name)
{
    bool one = v->model.n_out == 1;
    char text[32];

    gr_vision_plain(name, text, sizeof(text));
    if (strncmp(text, "top", 3) == 0)
        return add_top_k(v, text);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        gr_vision_metric m = { known[i].kind, known[i].which, CLASS_MEAN, 0 };

        if (strcmp(known[i].name, text) != 0)
            continue;
        if (one && !known[i].is_mean)
            m.at = 1;
        if (m.kind == AUC && gr_vision_segments(&v->model) && !one)
            return gr_settings_fail(v->s, "metrics",
                                    "auc of masks is for one class (model.config.num_classes: 1)");
        v->metrics.has_scores |= m.kind == AUC;
        return add(v, m, known[i].shown, "");
    }
    return gr_settings_fail(v->s, "metrics",
                            "there is no metric '%s'; known: accuracy, pixel_accuracy, top1, "
                            "top5 ..., precision, recall, f1, iou, miou, dice, mdice, auc",
                            name);
}

/* iou/road, iou/sky ...: for each class metric in the list. */
static gr_status add_classes(gr_vision *v)
{
    int n = v->metrics.n;

    for (int i = 0; i < n; i++) {
        gr_vision_metric m = v->metrics.list[i];
        const char *name = v->metrics.info[i].name;

        if (m.kind != OF_CLASS)
            continue;
        name += strcmp(name, "miou") == 0 || strcmp(name, "mdice") == 0;
        for (m.at = 0; m.at < v->n_classes; m.at++)
            GR_TRY(add(v, m, name, v->class_names[m.at]));
    }
    return GR_OK;
}

gr_status gr_vision_metrics_read(gr_vision *v)
{
    static const char *const usual[][4] = { { "accuracy", "precision", "recall", "f1" },
                                            { "miou", "dice", "pixel_accuracy", NULL } };
    int n = gr_settings_count(v->s, "metrics");
    bool by_class;

    v->metrics.n_matrix = v->n_classes;
    v->metrics.n_counts = (int64_t)v->n_classes * v->n_classes;
    for (int i = 0; i < n; i++) {
        GR_TRY(add_named(v, gr_settings_text_at(v->s, "metrics", i)));
        if (v->metrics.n == i)
            return gr_settings_fail(v->s, "metrics", "'%s' is there twice, by whatever name",
                                    gr_settings_text_at(v->s, "metrics", i));
    }
    for (int i = 0; n == 0 && i < 4; i++)
        if (usual[gr_vision_segments(&v->model)][i])
            GR_TRY(add_named(v, usual[gr_vision_segments(&v->model)][i]));
    by_class = gr_settings_given(v->s, "per_class") ? gr_settings_bool(v->s, "per_class")
                                                    : v->task == GR_TASK_TEST;
    GR_TRY(by_class ? add_classes(v) : GR_OK);
    return GR_OK;
}

void gr_vision_metrics_fini(gr_vision_metrics *m)
{
    for (int i = 0; i < m->n; i++)
        free((char *)(uintptr_t)m->info[i].name);
    free(m->info);
    free(m->list);
}

/* ---- counting ---- */

static float sigmoid(float z)
{
    return 1.0f / (1.0f + expf(-z));
}

int32_t gr_vision_decide(const gr_vision *v, const float *row)
{
    int32_t best = 0;

    if (v->model.n_out == 1)
        return (double)sigmoid(row[0]) >= v->threshold;
    for (int c = 1; c < v->model.n_out; c++)
        best = row[c] > row[best] ? c : best;
    return best;
}

/* Probabilities of one row, a histogram per class. */
static void add_areas(const gr_vision *v, const float *row, const int32_t *target, double *at)
{
    int n = v->model.n_out;
    float most = row[0], sum = 0;

    for (int c = 1; c < n; c++)
        most = row[c] > most ? row[c] : most;
    for (int c = 0; c < n; c++)
        sum += expf(row[c] - most);
    for (int c = 0; c < n; c++) {
        gr_metric_truth truth = { target, n == 1 ? 1 : c, v->criterion.ignore };
        float p = n == 1 ? sigmoid(row[0]) : expf(row[c] - most) / sum;

        gr_metric_auc_add(at + (int64_t)c * 2 * BINS, BINS, &p, 1, &truth, 1);
    }
}

static void score_labels(const gr_vision *v, const gr_eval *e, double *counts)
{
    const int32_t *target = e->feeds[GR_FEED_TARGET];
    const float *logits = e->outputs[GR_OUTPUT_MAIN];
    int n_out = v->model.n_out;

    for (int64_t i = 0; i < e->n; i++) {
        const float *row = logits + i * n_out;
        gr_metric_scores one = { row, target + i, 1, n_out };
        int32_t said = gr_vision_decide(v, row);

        gr_metric_confusion_add(counts, v->metrics.n_matrix, target + i, &said, 1,
                                v->criterion.ignore);
        for (int k = 0; k < v->metrics.n; k++) {
            const gr_vision_metric *m = &v->metrics.list[k];

            if (m->kind == TOP_K)
                gr_metric_top_k_add(counts + m->count, &one, m->at, v->criterion.ignore);
            else if (m->kind == AUC)
                add_areas(v, row, target + i, counts + m->count);
        }
    }
}

static void score_masks(const gr_vision *v, const gr_eval *e, double *counts)
{
    const int32_t *target = e->feeds[GR_FEED_TARGET], *said = e->outputs[GR_OUTPUT_MAIN];
    gr_metric_truth truth = { target, 1, v->criterion.ignore };
    int64_t n = e->n * v->model.height * v->model.width;

    gr_metric_confusion_add(counts, v->metrics.n_matrix, target, said, n, v->criterion.ignore);
    for (int k = 0; k < v->metrics.n; k++)
        if (v->metrics.list[k].kind == AUC)
            gr_metric_auc_add(counts + v->metrics.list[k].count, BINS, e->outputs[v->score_at], 1,
                              &truth, n);
}

void gr_vision_score(const void *user, const gr_eval *e, double *counts)
{
    const gr_vision *v = user;

    if (gr_vision_segments(&v->model))
        score_masks(v, e, counts);
    else
        score_labels(v, e, counts);
}

/* The mean over classes that have both kinds. */
static double area(const gr_vision *v, const double *histograms)
{
    double sum = 0;
    int n = 0;

    for (int c = 0; c < n_histograms(v); c++) {
        double a = gr_metric_auc(histograms + (int64_t)c * 2 * BINS, BINS);

        if (!isnan(a)) {
            sum += a;
            n++;
        }
    }
    return n ? sum / n : (double)NAN;
}

void gr_vision_measure(const void *user, const double *counts, double *values)
{
    const gr_vision *v = user;
    int n = v->metrics.n_matrix;

    for (int i = 0; i < v->metrics.n; i++) {
        const gr_vision_metric *m = &v->metrics.list[i];

        switch (m->kind) {
        case ACCURACY: values[i] = gr_metric_accuracy(counts, n); break;
        case TOP_K: values[i] = gr_metric_share(counts + m->count); break;
        case AUC: values[i] = area(v, counts + m->count); break;
        default:
            values[i] = m->at == CLASS_MEAN ? gr_metric_mean(counts, n, m->which)
                                            : gr_metric_of_class(counts, n, m->at, m->which);
        }
    }
}

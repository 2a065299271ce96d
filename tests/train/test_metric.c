/*
 * Metrics against values computed from the definitions (tests/golden/make_metric.py), counted
 * in one piece and in three that are added: sums of counts give the values of the whole,
 * whatever a rank held (guards P35), and nothing but the counts travels (guards P28).
 */
#include "gradus/metric.h"

#include "base/alloc.h"
#include "base/outfile.h"
#include "check.h"

#include <stdbool.h>

#define MAX_ROWS 128
#define MAX_N    8
#define BINS     128 /* one per possible score of the golden cases, so areas are exact */
#define IGNORED  255
#define N_PARTS  3

typedef struct sample {
    int n;
    int64_t rows;
    int32_t target[MAX_ROWS], predicted[MAX_ROWS];
    float score[MAX_ROWS * MAX_N];
} sample;

typedef struct counts {
    double matrix[MAX_N * MAX_N], top[4][2];
    double fine[MAX_N][2 * BINS], coarse[MAX_N][2 * 8];
} counts;

static void count(const sample *s, int64_t from, int64_t to, counts *c)
{
    gr_metric_scores rows = { s->score + from * s->n, s->target + from, to - from, s->n };

    gr_metric_confusion_add(c->matrix, s->n, s->target + from, s->predicted + from, to - from,
                            IGNORED);
    for (int k = 1; k <= 3; k++)
        gr_metric_top_k_add(c->top[k], &rows, k, IGNORED);
    for (int i = 0; i < s->n; i++) {
        gr_metric_truth truth = { s->target + from, i, IGNORED };

        gr_metric_auc_add(c->fine[i], BINS, rows.score + i, s->n, &truth, to - from);
        gr_metric_auc_add(c->coarse[i], 8, rows.score + i, s->n, &truth, to - from);
    }
}

/* In three parts, added as ranks add theirs. */
static void count_parts(const sample *s, counts *sum)
{
    int64_t cut[N_PARTS + 1] = { 0, 7, s->rows / 2, s->rows };

    *sum = (counts){ 0 };
    for (int p = 0; p < N_PARTS; p++) {
        counts part = { 0 };
        const double *from = (const double *)&part;
        double *to = (double *)sum;

        count(s, cut[p], cut[p + 1], &part);
        for (size_t i = 0; i < sizeof(part) / sizeof(double); i++)
            to[i] += from[i];
    }
}

static void check_value(double got, const char **text)
{
    char *end;
    double want = strtod(*text, &end);

    GR_CHECK(end != *text);
    *text = end;
    if (isnan(want))
        GR_CHECK(isnan(got));
    else
        GR_CHECK_NEAR(got, want, 1e-14);
}

static void check_area(const counts *c, int i, const char **text)
{
    double coarse = gr_metric_auc(c->coarse[i], 8), bound = gr_metric_auc_error(c->coarse[i], 8);
    double exact = gr_metric_auc(c->fine[i], BINS);

    check_value(exact, text);
    if (isnan(exact))
        GR_CHECK(isnan(coarse) && isnan(bound));
    else
        GR_CHECK_NEAR(coarse, exact, bound);
}

/* One "name value ..." line of a case. */
static void check_line(const sample *s, const counts *c, const char *name, const char *text)
{
    static const char *const by_class[] = { "precision", "recall", "f1", "iou", "dice" };

    if (strcmp(name, "accuracy") == 0)
        check_value(gr_metric_accuracy(c->matrix, s->n), &text);
    else if (strncmp(name, "top", 3) == 0)
        check_value(gr_metric_share(c->top[name[3] - '0']), &text);
    else if (strcmp(name, "auc") == 0)
        for (int i = 0; i < s->n; i++)
            check_area(c, i, &text);
    for (int m = 0; m < 5; m++) {
        bool mean = strncmp(name, "mean_", 5) == 0;

        if (strcmp(name + (mean ? 5 : 0), by_class[m]) != 0)
            continue;
        if (mean)
            check_value(gr_metric_mean(c->matrix, s->n, (gr_class_metric)m), &text);
        for (int i = 0; i < s->n && !mean; i++)
            check_value(gr_metric_of_class(c->matrix, s->n, i, (gr_class_metric)m), &text);
    }
}

static void read_ints(const char *text, int32_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        char *end;

        to[i] = (int32_t)strtol(text, &end, 10);
        text = end;
    }
}

/* Reads a line into the case, or checks it. Returns how many checks it was. */
static int take_line(sample *s, counts *c, int64_t *n_scores, char *line)
{
    char *text = strchr(line, ' '), *end = line + strlen(line);

    text = text ? text : end;
    if (*text)
        *text++ = 0;
    if (strcmp(line, "case") == 0) {
        *s = (sample){ 0 };
        *n_scores = 0;
        s->n = (int)strtol(text + strcspn(text, " "), &end, 10);
        s->rows = strtol(end, NULL, 10);
        GR_CHECK(s->n > 0 && s->rows > 0);
        GR_CHECK(s->n <= MAX_N && s->rows <= MAX_ROWS);
    } else if (strcmp(line, "target") == 0) {
        read_ints(text, s->target, s->rows);
    } else if (strcmp(line, "predicted") == 0) {
        read_ints(text, s->predicted, s->rows);
    } else if (strcmp(line, "score") == 0) {
        for (int i = 0; i < s->n; i++)
            s->score[(*n_scores)++] = strtof(text, &text);
        if (*n_scores == s->rows * s->n)
            count_parts(s, c);
    } else if (strcmp(line, "end") != 0) {
        check_line(s, c, line, text);
        return 1;
    }
    return 0;
}

static void golden(void)
{
    char *text, *line, *save = NULL;
    int64_t n_scores = 0;
    int n_checks = 0;
    size_t n_bytes;
    static sample s;
    static counts c;

    GR_CHECK_OK(gr_file_read(GR_TESTS_DIR "/golden/metric.txt", &text, &n_bytes));
    for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        n_checks += take_line(&s, &c, &n_scores, line);
    GR_CHECK_EQ(n_checks, 4 * 15);
    gr_free(text);
}

static void nothing_counted(void)
{
    double matrix[9] = { 0 }, none[3] = { 0 }, histogram[16] = { 0 };
    int32_t target[3] = { IGNORED, -1, 3 }, predicted[3] = { 0, 1, 2 };

    gr_metric_confusion_add(matrix, 3, target, predicted, 3, IGNORED);
    GR_CHECK(gr_metric_count(matrix, 3) == 0);
    GR_CHECK(isnan(gr_metric_accuracy(matrix, 3)));
    GR_CHECK(isnan(gr_metric_mean(matrix, 3, GR_METRIC_IOU)));
    GR_CHECK(isnan(gr_metric_share(none)));
    GR_CHECK(isnan(gr_metric_mae(none)) && isnan(gr_metric_mse(none)));
    GR_CHECK(isnan(gr_metric_auc(histogram, 8)));
}

/* NaN is never right and in no bin; scores beyond 0 and 1 are in the outer bins. */
static void odd_scores(void)
{
    float score[6] = { NAN, 0.2f, 2.0f, NAN, -3.0f, 0.5f };
    int32_t target[3] = { 0, 0, 1 };
    gr_metric_scores rows = { score, target, 3, 2 };
    gr_metric_truth truth = { target, 1, IGNORED };
    double top[2] = { 0 }, histogram[4] = { 0 };

    gr_metric_top_k_add(top, &rows, 2, IGNORED);
    GR_CHECK(top[0] == 2 && top[1] == 3);
    gr_metric_auc_add(histogram, 2, score, 2, &truth, 3);
    GR_CHECK(histogram[0] == 0 && histogram[1] == 1 && histogram[2] == 1 && histogram[3] == 0);
    GR_CHECK(gr_metric_auc(histogram, 2) == 0 && gr_metric_auc_error(histogram, 2) == 0);
}

static void distances(void)
{
    float a[4] = { 1, 2, 3, -4 }, b[4] = { 1, 4, 2.5f, 0 };
    double sum[3] = { 0 };

    gr_metric_error_add(sum, a, b, 1);
    gr_metric_error_add(sum, a + 1, b + 1, 3);
    GR_CHECK_NEAR(gr_metric_mae(sum), 6.5 / 4, 0);
    GR_CHECK_NEAR(gr_metric_mse(sum), 20.25 / 4, 0);
}

int main(void)
{
    golden();
    nothing_counted();
    odd_scores();
    distances();
    return 0;
}

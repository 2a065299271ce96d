/*
 * Where the time of a run goes: every node timed by itself, several runs, the median of
 * each. On a device the host waits after every node, so launch gaps count there too.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/plan_private.h"

typedef struct profile_row {
    const gr_entry *entry;
    double us;
    double bytes; /* read and written at the least */
} profile_row;

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int compare_rows(const void *a, const void *b)
{
    double x = ((const profile_row *)a)->us, y = ((const profile_row *)b)->us;

    return (x < y) - (x > y);
}

static double count_bytes(const gr_node *n)
{
    double sum = 0;

    for (int i = 0; i < n->n_src; i++)
        sum += n->src[i]->space == GR_SPACE_NONE ? 0 : (double)gr_value_bytes(n->src[i]);
    for (int i = 0; i < n->n_out; i++)
        sum += n->out[i].space == GR_SPACE_NONE ? 0 : (double)gr_value_bytes(&n->out[i]);
    return sum;
}

/* ns[entry * n_runs + run] */
static gr_status time_runs(gr_plan *p, const gr_run *r, int n_runs, int64_t *ns)
{
    for (int run = 0; run < n_runs; run++)
        for (int i = 0; i < p->n_entries; i++) {
            int64_t from = gr_now_ns();

            GR_TRY(gr_plan_run_entries(p, r, i, i + 1));
            GR_TRY(p->device->ops->sync(p->device));
            ns[i * n_runs + run] = gr_now_ns() - from;
        }
    return GR_OK;
}

static void print_rows(const profile_row *row, int n, gr_text *out)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += row[i].us;
    gr_text_addf(out, "%10s %6s %8s  %-18s %-12s %s\n", "us", "share", "GB/s", "operator", "kernel",
                 "node");
    for (int i = 0; i < n; i++)
        gr_text_addf(out, "%10.1f %5.1f%% %8.1f  %-18s %-12s %%%d (%s)\n", row[i].us,
                     100 * row[i].us / sum, row[i].bytes / row[i].us / 1e3,
                     row[i].entry->launch.node->op->name, row[i].entry->ready.kernel->name,
                     row[i].entry->launch.node->out[0].id, row[i].entry->launch.node->site);
    gr_text_addf(out, "%10.1f in %d nodes\n", sum, n);
}

gr_status gr_plan_profile(gr_plan *p, const gr_run *r, int n_runs, gr_text *out)
{
    size_t n = (size_t)p->n_entries;
    size_t middle = (size_t)n_runs / 2;
    int64_t *ns = gr_malloc((n * (size_t)n_runs + 1) * sizeof(*ns));
    profile_row *row = gr_malloc((n + 1) * sizeof(*row));
    gr_status st = ns && row ? gr_plan_place_inputs(p, r->inputs) : GR_ERR_NOMEM;

    if (st == GR_OK)
        st = time_runs(p, r, n_runs, ns);
    for (size_t i = 0; i < n && st == GR_OK; i++) {
        int64_t *of_entry = ns + i * (size_t)n_runs;

        qsort(of_entry, (size_t)n_runs, sizeof(*ns), compare_ns);
        row[i] = (profile_row){ &p->entries[i], (double)of_entry[middle] * 1e-3,
                                count_bytes(p->entries[i].launch.node) };
    }
    if (st == GR_OK) {
        qsort(row, n, sizeof(*row), compare_rows);
        print_rows(row, p->n_entries, out);
    }
    gr_free(row);
    gr_free(ns);
    return st;
}

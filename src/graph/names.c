/* Parameters by patterns of their names, as the shell matches files, and what comes nearest to a
 * pattern that matches none. */
#include "graph/vars.h"

#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

#define N_NEAREST 3
#define MAX_NAME  256

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* How many letters are put in, left out or changed until the name matches; '*' is any letters and
 * '?' is one. Sets like [ab] are letters here: it is for a hint. */
static int distance(const char *pattern, const char *name)
{
    int n = (int)strnlen(name, MAX_NAME);
    int row[MAX_NAME + 1]; /* of the pattern so far against each beginning of the name */

    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (; *pattern; pattern++) {
        int before = row[0]; /* one letter less of both */
        bool any = *pattern == '*';

        row[0] += !any;
        for (int j = 1; j <= n; j++) {
            int same = before + (*pattern != '?' && *pattern != name[j - 1]);

            before = row[j];
            row[j] = any ? least(row[j], row[j - 1]) : least(same, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

/* The nearest ones, in the order of the model where they are equally near. */
static int find_nearest(const gr_vars *t, const char *pattern, const char *best[N_NEAREST])
{
    int far[N_NEAREST] = { 0 }, n = 0;

    for (int i = 0; i < t->n; i++) {
        const gr_var *v = t->list[i];
        int d = v->kind == GR_VAR_PARAM ? distance(pattern, v->name) : 0;
        int at = n;

        if (v->kind != GR_VAR_PARAM)
            continue;
        while (at > 0 && d < far[at - 1])
            at--;
        if (at == N_NEAREST)
            continue;
        n = least(n + 1, N_NEAREST);
        memmove(&far[at + 1], &far[at], (size_t)(n - 1 - at) * sizeof(far[0]));
        memmove(&best[at + 1], &best[at], (size_t)(n - 1 - at) * sizeof(best[0]));
        far[at] = d;
        best[at] = v->name;
    }
    return n;
}

gr_status gr_vars_check_pattern(const gr_vars *t, const char *pattern)
{
    const char *best[N_NEAREST] = { 0 };
    gr_text near = GR_TEXT_INIT;
    int n;

    for (int i = 0; i < t->n; i++)
        if (t->list[i]->kind == GR_VAR_PARAM && fnmatch(pattern, t->list[i]->name, 0) == 0)
            return GR_OK;
    n = find_nearest(t, pattern, best);
    for (int i = 0; i < n; i++)
        gr_text_addf(&near, "%s'%s'", i == 0 ? "; the nearest: " : ", ", best[i]);
    gr_fail(GR_ERR_ARG, "no parameter is called '%s'%s", pattern, gr_text_str(&near));
    gr_text_fini(&near);
    return GR_ERR_ARG;
}

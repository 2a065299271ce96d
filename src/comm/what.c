/* Calls in words. */
#include "comm/what.h"

#include "comm/reduce.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_text[GR_WHAT_COUNT] = {
#define X(id, text) text,
    GR_CALL_MAP(X) GR_WHAT_MAP(X)
#undef X
};

static const char *dtype_text(int32_t t)
{
    return (uint32_t)t < GR_DTYPE_COUNT ? gr_dtype_name((gr_dtype)t) : "unknown";
}

static bool has_root(int32_t kind)
{
    return kind == GR_CALL_REDUCE || kind == GR_CALL_BROADCAST || kind == GR_CALL_GATHER ||
           kind == GR_CALL_SCATTER;
}

/* The part in parentheses. */
static void describe_numbers(const gr_what *w, char *text, size_t n_bytes)
{
    unsigned long long n = w->n_elem;
    const char *type = dtype_text(w->dtype);
    char root[48] = "";

    text[0] = '\0';
    if (has_root(w->kind))
        snprintf(root, sizeof(root), ", root %d", (int)w->root);
    if (w->id > 0)
        snprintf(root, sizeof(root), " at byte %llu", (unsigned long long)w->detail);
    switch (w->kind) {
    case GR_CALL_ALLREDUCE:
    case GR_CALL_REDUCE:
    case GR_CALL_REDUCE_SCATTER:
    case GR_WHAT_ROWS:
        snprintf(text, n_bytes, " (%s of %llu %s%s)", gr_reduce_name((gr_reduce)w->op), n, type,
                 root);
        break;
    case GR_CALL_SEND:
    case GR_CALL_RECV: snprintf(text, n_bytes, " (%llu %s, rank %d)", n, type, (int)w->root); break;
    case GR_WHAT_EXCHANGE: snprintf(text, n_bytes, " (%llu bytes)", n); break;
    case GR_CALL_BARRIER:
    case GR_WHAT_JOIN:
    case GR_WHAT_GATHER_BYTES: break;
    default:
        if (w->detail)
            snprintf(text, n_bytes, " (unequal counts of %s, %llu in all%s)", type, n, root);
        else
            snprintf(text, n_bytes, " (%llu %s%s)", n, type, root);
    }
}

const char *gr_what_text(const gr_what *w, const char *label, char *text, size_t n_bytes)
{
    const char *kind = (uint32_t)w->kind < GR_WHAT_COUNT ? kind_text[w->kind] : "unknown call";
    char numbers[96], id[24] = "";

    describe_numbers(w, numbers, sizeof(numbers));
    if (w->id > 0)
        snprintf(id, sizeof(id), " %d", (int)w->id - 1);
    if (label && *label)
        snprintf(text, n_bytes, "%s%s '%.*s'%s", kind, id, GR_LABEL, label, numbers);
    else
        snprintf(text, n_bytes, "%s%s%s", kind, id, numbers);
    return text;
}

gr_status gr_what_differ(const gr_side *mine, const gr_side *theirs, const char *agreed_name)
{
    char a[GR_WHAT_TEXT], b[GR_WHAT_TEXT];
    double here = mine->what->agreed, there = theirs->what->agreed;

    if (agreed_name && memcmp(&here, &there, sizeof(here)) != 0)
        return gr_fail(GR_ERR_ARG, "ranks differ in %s: %.9g on rank %d, %.9g on rank %d",
                       agreed_name, here, mine->rank, there, theirs->rank);
    gr_what_text(mine->what, mine->label, a, sizeof(a));
    gr_what_text(theirs->what, theirs->label, b, sizeof(b));
    if (strcmp(a, b) == 0 && mine->what->detail != theirs->what->detail)
        return gr_fail(GR_ERR_ARG,
                       "ranks differ in the place or the counts of %s: %llu on rank %d, %llu on "
                       "rank %d",
                       a, (unsigned long long)mine->what->detail, mine->rank,
                       (unsigned long long)theirs->what->detail, theirs->rank);
    return gr_fail(GR_ERR_ARG, "ranks call different collectives: rank %d is in %s, rank %d in %s",
                   mine->rank, a, theirs->rank, b);
}

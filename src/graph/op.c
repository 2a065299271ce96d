/* Choosing a kernel: the first in the list that takes the node and can be prepared. */
#include "graph/op.h"

#include "base/log.h"
#include "graph/fusion.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

gr_status gr_decline(gr_prepare *p, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(p->why, sizeof(p->why), fmt, args);
    va_end(args);
    if (!p->why[0])
        snprintf(p->why, sizeof(p->why), "no reason given");
    return gr_fail(GR_ERR_DEVICE, "%s", p->why);
}

const gr_kernel *gr_kernel_list(const gr_kernel_set *sets, const gr_op *op)
{
    if (!sets)
        return op->kernels;
    for (; sets->op; sets++)
        if (strcmp(sets->op, op->name) == 0)
            return sets->kernels;
    return NULL;
}

const gr_kernel *gr_kernel_at(const gr_kernel_set *sets, const gr_node *n, int i)
{
    for (const gr_kernel *k = gr_kernel_list(sets, n->op); k && k->name; k++)
        if (i-- == 0)
            return k;
    return n->fusion && i == 0 ? n->fusion->rules->apart : NULL;
}

const char *gr_kernel_refusal(const gr_kernel *k, const gr_node *n)
{
    const char *why = NULL;

    if (n->fusion)
        why = k->takes ? k->takes(n, n->fusion) : "takes no fusion";
    return why || !k->reject ? why : k->reject(n);
}

/* ---- by name ---- */

static bool has_name(const gr_kernel *k, const char *name, size_t len)
{
    return strlen(k->name) == len && memcmp(k->name, name, len) == 0;
}

/* The kernel of that name if it takes the node by its table. */
static const gr_kernel *named(const gr_kernel_set *sets, const gr_node *n, const char *name,
                              size_t len)
{
    const gr_kernel *k;

    for (int i = 0; (k = gr_kernel_at(sets, n, i)); i++)
        if (has_name(k, name, len) && !gr_kernel_refusal(k, n))
            return k;
    return NULL;
}

/* The reference is the last one; of a fusion that it does not take, the pieces are run. */
static const gr_kernel *last(const gr_kernel_set *sets, const gr_node *n)
{
    const gr_kernel *k = gr_kernel_list(sets, n->op);

    while (k && k->name && (k + 1)->name)
        k++;
    if (n->fusion && (!k || !k->name || gr_kernel_refusal(k, n)))
        return n->fusion->rules->apart;
    return k && k->name ? k : NULL;
}

/* ---- choosing ---- */

static gr_status none(const gr_node *n, const gr_text *why)
{
    char text[GR_ERROR_TEXT / 2];

    gr_node_describe(n, text, sizeof(text));
    return gr_fail(GR_ERR_ARG, "%s: %s: no kernel takes it%s", n->site ? n->site : "?", text,
                   gr_text_str(why));
}

const gr_kernel *gr_kernel_pick(const gr_kernel_set *sets, const gr_node *n, const char *only)
{
    gr_text why = GR_TEXT_INIT;
    const gr_kernel *k, *found = NULL;

    if (only && gr_kernel_at(sets, n, 0)) {
        found = named(sets, n, only, strlen(only));
        return found ? found : last(sets, n);
    }
    for (int i = 0; !found && (k = gr_kernel_at(sets, n, i)); i++) {
        const char *reason = gr_kernel_refusal(k, n);

        if (!reason)
            found = k;
        else
            gr_text_addf(&why, "; %s: %s", k->name, reason);
    }
    if (!found)
        GR_IGNORE(none(n, &why)); /* for its message */
    gr_text_fini(&why);
    return found;
}

gr_status gr_kernel_ready_one(gr_ready *out, const gr_prepare *p, const gr_kernel *k,
                              const char *variant, bool *declined)
{
    gr_prepare own = *p;
    gr_status st = GR_OK;

    own.variant = variant;
    own.data = NULL;
    own.why[0] = '\0';
    if (own.work_limit == 0)
        own.work_limit = GR_WORK_LIMIT;
    *out = (gr_ready){ .kernel = k };
    if (declined)
        *declined = false;
    if (variant && !k->variants)
        st = gr_decline(&own, "has no variants");
    else if (k->prepare)
        st = k->prepare(&own);
    if (st != GR_OK) {
        if (declined)
            *declined = own.why[0] != '\0';
        return own.why[0] ? gr_fail(GR_ERR_ARG, "%s", own.why) : st;
    }
    out->data = own.data;
    out->is_prepared = k->prepare != NULL;
    out->work_bytes = k->workspace ? k->workspace(p->node, own.data) : 0;
    return GR_OK;
}

gr_status gr_kernel_ready_choice(gr_ready *out, const gr_prepare *p, const char *choice,
                                 bool *declined)
{
    size_t len = strcspn(choice, ":");
    const gr_kernel *k = named(p->sets, p->node, choice, len);

    *out = (gr_ready){ 0 };
    if (k)
        return gr_kernel_ready_one(out, p, k, choice[len] ? choice + len + 1 : NULL, declined);
    *declined = true;
    return gr_fail(GR_ERR_ARG, "there is no kernel '%.*s' that takes it", (int)len, choice);
}

void gr_kernel_end(gr_ready *r)
{
    if (r->is_prepared && r->kernel->release)
        r->kernel->release(r->data);
    *r = (gr_ready){ 0 };
}

/* Tries one and takes its reason down; *done: the search ends here, with the status. */
static gr_status attempt(gr_ready *out, const gr_prepare *p, const gr_kernel *k, gr_text *why,
                         bool *done)
{
    const char *reason = gr_kernel_refusal(k, p->node);
    bool declined = false;
    gr_status st = GR_OK;

    if (!reason) {
        st = gr_kernel_ready_one(out, p, k, NULL, &declined);
        if (declined)
            reason = gr_error_message();
    }
    *done = !reason;
    if (reason)
        gr_text_addf(why, "; %s: %s", k->name, reason);
    return reason ? GR_OK : st;
}

/* What was chosen before, by this process or another. A library may have changed since, and
 * then the list decides. */
static gr_status attempt_choice(gr_ready *out, const gr_prepare *p, const char *choice, bool *done)
{
    bool declined = false;
    gr_status st = gr_kernel_ready_choice(out, p, choice, &declined);

    *done = !declined;
    if (declined)
        gr_log(GRAPH, WARN, "%s: '%s' was chosen and cannot run it now: %s", p->node->op->name,
               choice, gr_error_message());
    return declined ? GR_OK : st;
}

static gr_status search(gr_ready *out, const gr_prepare *p, const char *choice, gr_text *why)
{
    const gr_kernel *k;
    bool done = false;
    gr_status st = GR_OK;

    if (p->only && gr_kernel_at(p->sets, p->node, 0)) {
        k = named(p->sets, p->node, p->only, strlen(p->only));
        if (k)
            st = attempt(out, p, k, why, &done);
        return done ? st : gr_kernel_ready_one(out, p, last(p->sets, p->node), NULL, NULL);
    }
    if (choice)
        st = attempt_choice(out, p, choice, &done);
    for (int i = 0; !done && (k = gr_kernel_at(p->sets, p->node, i)); i++)
        st = attempt(out, p, k, why, &done);
    return done ? st : none(p->node, why);
}

gr_status gr_kernel_ready(gr_ready *out, const gr_prepare *p, const char *choice)
{
    gr_text why = GR_TEXT_INIT;
    gr_status st;

    *out = (gr_ready){ 0 };
    st = search(out, p, choice, &why);
    gr_text_fini(&why);
    return st;
}

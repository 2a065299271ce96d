/* What the meeting knows, counted and put into words. */
#include "launch/hub_impl.h"

#include <signal.h>
#include <string.h>

int gr_meeting_size(const gr_hub *h)
{
    int n = 0;

    for (int i = 0; i < h->n_peers; i++)
        n += h->peers[i]->has_joined;
    return n;
}

void gr_meeting_describe(const gr_hub *h, gr_text *out)
{
    const gr_launch_config *c = h->config;
    int n = gr_meeting_size(h);

    gr_text_addf(out, "%d of %d hosts are here", n, c->max_hosts);
    if (c->min_hosts < c->max_hosts)
        gr_text_addf(out, " (%d are enough)", c->min_hosts);
    for (int i = 0, k = 0; i < h->n_peers; i++) {
        const gr_peer *p = h->peers[i];

        if (!p->has_joined)
            continue;
        gr_text_addf(out, "%s'%s'", k++ ? ", " : ": ", p->host);
        if (p->node >= 0)
            gr_text_addf(out, " as node %d", p->node);
        gr_text_addf(out, " from %s with %d rank%s", p->address, p->n_local, gr_plural(p->n_local));
    }
    for (int node = 0, k = 0; c->node_rank >= 0 && node < c->max_hosts; node++) {
        bool here = false;

        for (int i = 0; i < h->n_peers; i++)
            here = here || (h->peers[i]->has_joined && h->peers[i]->node == node);
        if (!here)
            gr_text_addf(out, "%s%d", k++ ? ", " : "; missing: node ", node);
    }
}

gr_peer *gr_meeting_root(const gr_hub *h)
{
    gr_peer *root = NULL;

    for (int i = 0; i < h->n_peers; i++) {
        gr_peer *p = h->peers[i];

        if (p->in_round && p->blame != GR_BLAME_NONE &&
            (!root || p->blame < root->blame ||
             (p->blame == root->blame && p->order < root->order)))
            root = p;
    }
    return root;
}

int gr_meeting_verdict(const gr_hub *h, gr_text *out)
{
    const gr_peer *root = gr_meeting_root(h);
    bool host_is_root = h->lost.len > 0;

    if (host_is_root)
        gr_text_add(out, gr_text_str(&h->lost));
    else if (root)
        gr_text_addn(out, gr_text_str(&root->report), root->report.len);
    for (int order = 0; order < h->n_bad; order++)
        for (int i = 0; i < h->n_peers; i++) {
            const gr_peer *p = h->peers[i];

            if (p->in_round && p->blame != GR_BLAME_NONE && p->order == order &&
                (p != root || host_is_root))
                gr_text_addf(out, "  then on host '%s': %s\n", p->host, p->line);
        }
    if (!host_is_root && !root && h->stop_signal != 0) {
        gr_text_addf(out, "stopped by SIG%s; all ranks ended with exit code 0 when told to end\n",
                     sigabbrev_np(h->stop_signal));
        return 128 + h->stop_signal;
    }
    return host_is_root ? 1 : root ? root->exit_code : 0;
}

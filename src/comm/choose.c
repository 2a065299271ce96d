/*
 * Which algorithm: rows are tried from top to bottom, and the first that fits is taken.
 *
 * The limits come from bench/comm.sh on loopback with 2 to 8 ranks: below 16 KiB a second
 * step costs more than the bytes it saves; a tree beats a chain until several pieces flow.
 * With more than 64 ranks, exchanges between all pairs open too many streams at once.
 * What `shares` over TCP reaches, and its floor: docs/comm.md, "Speed".
 */
#include "comm/choose.h"

#include <stdio.h>
#include <string.h>

#define ANY_RANKS 1000000
#define ANY_BYTES SIZE_MAX
#define KIB(n)    ((size_t)(n) << 10)

#define LANES_BYTES KIB(256) /* of a whole call: below, waking threads costs what they gain */

static const struct row {
    gr_call_kind kind;
    bool hosts; /* only with several hosts whose ranks follow each other */
    int max_ranks;
    size_t max_bytes;
    const char *name;
    gr_algo_fn *fn;
    bool has_lanes; /* knows how to carry a part of everything */
} rows[] = {
    { GR_CALL_ALLREDUCE, false, 16, KIB(16), "all", gr_algo_sum_all, false },
    { GR_CALL_ALLREDUCE, true, ANY_RANKS, ANY_BYTES, "hosts", gr_algo_sum_hosts, false },
    { GR_CALL_ALLREDUCE, false, 64, ANY_BYTES, "shares", gr_algo_sum_shares, true },
    { GR_CALL_ALLREDUCE, false, ANY_RANKS, ANY_BYTES, "chain", gr_algo_sum_chain, false },
    { GR_CALL_REDUCE, false, ANY_RANKS, KIB(64), "root", gr_algo_reduce_root, false },
    { GR_CALL_REDUCE, false, ANY_RANKS, ANY_BYTES, "shares", gr_algo_reduce_shares, true },
    { GR_CALL_REDUCE_SCATTER, false, ANY_RANKS, ANY_BYTES, "shares", gr_algo_reduce_scatter, true },
    { GR_CALL_ALLGATHER, true, ANY_RANKS, ANY_BYTES, "ring", gr_algo_allgather_ring, false },
    { GR_CALL_ALLGATHER, false, 64, ANY_BYTES, "direct", gr_algo_allgather_direct, true },
    { GR_CALL_ALLGATHER, false, ANY_RANKS, ANY_BYTES, "ring", gr_algo_allgather_ring, false },
    { GR_CALL_BROADCAST, false, ANY_RANKS, KIB(512), "tree", gr_algo_broadcast_tree, false },
    { GR_CALL_BROADCAST, false, ANY_RANKS, ANY_BYTES, "chain", gr_algo_broadcast_chain, true },
    { GR_CALL_GATHER, false, ANY_RANKS, ANY_BYTES, "direct", gr_algo_gather, false },
    { GR_CALL_SCATTER, false, ANY_RANKS, ANY_BYTES, "direct", gr_algo_scatter, false },
    { GR_CALL_ALLTOALL, false, ANY_RANKS, ANY_BYTES, "direct", gr_algo_alltoall, false },
    { GR_CALL_BARRIER, false, ANY_RANKS, ANY_BYTES, "steps", gr_algo_barrier, false },
    { GR_CALL_SEND, false, ANY_RANKS, ANY_BYTES, "direct", gr_algo_pair, false },
    { GR_CALL_RECV, false, ANY_RANKS, ANY_BYTES, "direct", gr_algo_pair, false },
};

#define N_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const char *kind_name(gr_call_kind kind)
{
    static const char *const names[GR_CALL_COUNT] = {
#define X(id, text) text,
        GR_CALL_MAP(X)
#undef X
    };

    return names[kind];
}

static bool is_word(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(text, name, len) == 0;
}

bool gr_choose_lanes(const gr_algo_args *a, gr_algo_fn *fn)
{
    bool is_blocks = a->call->kind == GR_CALL_REDUCE_SCATTER || a->call->kind == GR_CALL_ALLGATHER;
    size_t n = is_blocks ? gr_call_first(a->call, a->size) : a->call->n_elem;

    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].fn == fn && rows[i].kind == a->call->kind)
            return rows[i].has_lanes && n * a->elem_bytes >= LANES_BYTES;
    return false;
}

/* The next "kind=name" of the list, cut into its halves; false at the end. */
static bool next_pair(const char **at, const char *half[2], size_t len[2])
{
    const char *word = *at;
    size_t n = strcspn(word, ","), eq = strcspn(word, "=,");

    if (!*word)
        return false;
    half[0] = word;
    len[0] = eq;
    half[1] = eq < n ? word + eq + 1 : word + n;
    len[1] = eq < n ? n - eq - 1 : 0;
    *at = word + n + (word[n] == ',');
    return true;
}

static gr_algo_fn *find_forced(const gr_algo_args *a, const char *forced)
{
    const char *half[2];
    size_t len[2];

    while (forced && next_pair(&forced, half, len)) {
        if (!is_word(half[0], len[0], kind_name(a->call->kind)))
            continue;
        for (int i = 0; i < N_ROWS; i++)
            if (rows[i].kind == a->call->kind && is_word(half[1], len[1], rows[i].name) &&
                (a->hosts.n > 1 || !rows[i].hosts))
                return rows[i].fn;
    }
    return NULL;
}

gr_status gr_choose_check(const char *forced)
{
    const char *half[2];
    size_t len[2];

    while (forced && next_pair(&forced, half, len)) {
        bool known = false;

        for (int i = 0; i < N_ROWS; i++)
            known = known || (is_word(half[0], len[0], kind_name(rows[i].kind)) &&
                              is_word(half[1], len[1], rows[i].name));
        if (!known)
            return gr_fail(GR_ERR_ARG,
                           "GR_COMM_ALGO: there is no algorithm '%.*s' for '%.*s'; "
                           "'gradus bench comm --table' lists them",
                           (int)len[1], half[1], (int)len[0], half[0]);
    }
    return GR_OK;
}

gr_algo_fn *gr_choose(const gr_algo_args *a, const char *forced)
{
    gr_algo_fn *fn = find_forced(a, forced);
    size_t n = a->call->n_elem;

    if (fn)
        return fn;
    for (int k = 0; a->call->counts && k < a->size; k++)
        n = a->call->counts[k] > n || k == 0 ? a->call->counts[k] : n;
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].kind == a->call->kind && (a->hosts.n > 1 || !rows[i].hosts) &&
            a->size <= rows[i].max_ranks && n * a->elem_bytes <= rows[i].max_bytes)
            return rows[i].fn;
    return NULL; /* not reached: each kind ends with a row without limits */
}

void gr_choose_print(gr_text *text)
{
    gr_text_addf(text, "%-15s %-8s %9s %12s  %s\n", "call", "hosts", "ranks", "bytes", "algorithm");
    for (int i = 0; i < N_ROWS; i++) {
        char ranks[24] = "any", bytes[24] = "any";

        if (rows[i].max_ranks != ANY_RANKS)
            snprintf(ranks, sizeof(ranks), "<= %d", rows[i].max_ranks);
        if (rows[i].max_bytes != ANY_BYTES)
            snprintf(bytes, sizeof(bytes), "<= %zu", rows[i].max_bytes);
        gr_text_addf(text, "%-15s %-8s %9s %12s  %s\n", kind_name(rows[i].kind),
                     rows[i].hosts ? "several" : "any", ranks, bytes, rows[i].name);
    }
}

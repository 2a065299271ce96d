/* Files of token numbers, mapped: all ranks of a host read the same pages (P25). Any thread. */
#include "gradus/data.h"

#include "base/alloc.h"
#include "data/listing.h"
#include "data/mapped.h"

#include <string.h>

struct gr_tokens {
    gr_mapped map;
    int token_bytes;
    int64_t n;
    char *path; /* owned */
};

static int bytes_by_suffix(const char *path)
{
    return gr_ends_with(path, ".u16") ? 2 : gr_ends_with(path, ".u32") ? 4 : 0;
}

static gr_status open_tokens(gr_tokens *t, const char *path, int token_bytes)
{
    t->token_bytes = token_bytes != 0 ? token_bytes : bytes_by_suffix(path);
    if (t->token_bytes != 2 && t->token_bytes != 4)
        return gr_fail(GR_ERR_ARG,
                       "tokens of %d bytes in '%s': say 2 or 4, or end the name in .u16 or "
                       ".u32",
                       token_bytes, path);
    t->path = gr_strdup(path);
    if (!t->path)
        return GR_ERR_NOMEM;
    GR_TRY(gr_mapped_open(&t->map, path));
    if (t->map.n_bytes % (size_t)t->token_bytes != 0)
        return gr_fail(GR_ERR_FORMAT, "'%s' has %zu bytes, which is no number of tokens of %d",
                       path, t->map.n_bytes, t->token_bytes);
    t->n = (int64_t)(t->map.n_bytes / (size_t)t->token_bytes);
    return GR_OK;
}

void gr_tokens_close(gr_tokens *t)
{
    if (!t)
        return;
    gr_mapped_close(&t->map);
    gr_free(t->path);
    gr_free(t);
}

gr_status gr_tokens_open(gr_tokens **out, const char *path, int token_bytes)
{
    gr_tokens *t;
    gr_status st;

    if (!out || !path)
        return gr_fail(GR_ERR_ARG, "tokens: out or path is NULL");
    *out = NULL;
    t = gr_calloc(1, sizeof(*t));
    st = t ? open_tokens(t, path, token_bytes) : GR_ERR_NOMEM;
    if (st != GR_OK) {
        gr_tokens_close(t);
        return st;
    }
    *out = t;
    return GR_OK;
}

int64_t gr_tokens_count(const gr_tokens *t)
{
    return t->n;
}

gr_status gr_tokens_read(const gr_tokens *t, int64_t at, int64_t n, int64_t n_vocab, int64_t *dst)
{
    if (at < 0 || n < 0 || at > t->n || n > t->n - at)
        return gr_fail(GR_ERR_ARG, "'%s' has %lld tokens; %lld from place %lld on are not there",
                       t->path, (long long)t->n, (long long)n, (long long)at);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = at + i;
        const uint8_t *p = t->map.mem + (size_t)place * (size_t)t->token_bytes;
        int64_t token = t->token_bytes == 2 ? p[0] | p[1] << 8 : (int64_t)gr_le32(p);

        if (n_vocab > 0 && token >= n_vocab)
            return gr_fail(GR_ERR_FORMAT,
                           "'%s': token %lld at place %lld, but the vocabulary has %lld", t->path,
                           (long long)token, (long long)place, (long long)n_vocab);
        dst[i] = token;
    }
    return GR_OK;
}

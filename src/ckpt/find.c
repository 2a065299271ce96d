/* Which checkpoint of a folder is read: the newest that is whole, or the best. Any thread. */
#include "gradus/ckpt.h"

#include "base/status.h"
#include "base/text.h"
#include "ckpt/listing.h"

typedef struct search {
    const char *folder;
    gr_ckpt_pick pick;
    gr_text path; /* of the one that was read */
    gr_text note; /* what could not be read before it */
    int n_tried;
} search;

static bool is_candidate(const search *s, const gr_ckpt_entry *e)
{
    return !e->is_aside && (s->pick == GR_CKPT_LAST || e->kind == GR_CKPT_IS_BEST);
}

/* Reads the first whole one; notes the damaged ones before it. */
static gr_status read_first(search *s, const gr_ckpt_listing *l, gr_snapshot **out)
{
    gr_status st = GR_ERR_IO;

    for (int i = 0; i < l->n; i++) {
        if (!is_candidate(s, &l->entries[i]))
            continue;
        s->path.len = 0;
        gr_text_addf(&s->path, "%s/%s", s->folder, l->entries[i].name);
        GR_TRY(gr_text_status(&s->path));
        st = gr_ckpt_read(gr_text_str(&s->path), out);
        /* Only what lies in the file: short of memory, an older one would not help. */
        if (st != GR_ERR_FORMAT && st != GR_ERR_IO)
            break;
        gr_text_addf(&s->note, "%s%s", s->n_tried++ ? "; " : "", gr_error_message());
    }
    GR_TRY(gr_text_status(&s->note));
    if (st == GR_OK && s->n_tried > 0)
        gr_text_addf(&s->note, "; '%s' is used instead", gr_text_str(&s->path));
    if (st == GR_OK)
        return gr_text_status(&s->note);
    if (st != GR_ERR_FORMAT && st != GR_ERR_IO)
        return st;
    if (s->n_tried > 0)
        return gr_fail(GR_ERR_IO, "none of %d checkpoints can be read: %s", s->n_tried,
                       gr_text_str(&s->note));
    return gr_fail(GR_ERR_IO,
                   s->pick == GR_CKPT_BEST ? "it holds no best_model" : "it holds no checkpoint");
}

gr_status gr_ckpt_find(const char *folder, gr_ckpt_pick pick, gr_snapshot **out, char **path,
                       char **note)
{
    search s = { .folder = folder, .pick = pick, .path = GR_TEXT_INIT, .note = GR_TEXT_INIT };
    gr_ckpt_listing l = { 0 };
    gr_status st;

    if (!folder || !out || !path || !note)
        return gr_fail(GR_ERR_ARG, "find a checkpoint: folder, out, path or note is NULL");
    *out = NULL;
    *path = *note = NULL;
    GR_TRY_GOTO(st, gr_ckpt_list(&l, folder, true), done);
    gr_ckpt_listing_sort(&l);
    GR_TRY_GOTO(st, read_first(&s, &l, out), done);
    *path = s.path.str; /* both handed over */
    *note = s.note.str;
    s.path = s.note = (gr_text)GR_TEXT_INIT;

done:
    if (st != GR_OK) {
        gr_snapshot_destroy(*out);
        *out = NULL;
    }
    gr_text_fini(&s.path);
    gr_text_fini(&s.note);
    gr_ckpt_listing_fini(&l);
    return gr_wrap(st, "checkpoint folder '%s'", folder);
}

int gr_ckpt_count(const char *folder)
{
    gr_ckpt_listing l;
    int n = 0;

    if (!folder)
        return 0;
    if (gr_ckpt_list(&l, folder, false) == GR_OK)
        for (int i = 0; i < l.n; i++)
            n += !l.entries[i].is_aside;
    gr_ckpt_listing_fini(&l);
    return n;
}

/*
 * The reader of PyTorch's files on arbitrary bytes: as a whole file, zip or legacy, or, when
 * they begin like neither, as the pickle in a file that is otherwise whole (the CRC would
 * keep a mutated pickle from the machine). It must not crash, and whatever it accepts it
 * must give back: written and read again, the snapshot is the same.
 */
#include "ckpt/pt_golden.h"
#include "ckpt/sample.h"
#include "src/base/status.h"
#include "src/ckpt/pt.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static gr_status parse(const uint8_t *data, size_t n_bytes, gr_snapshot **out)
{
    gr_text file = GR_TEXT_INIT;
    gr_status st;

    if (gr_pt_is_zip(data, n_bytes) || gr_pt_is_legacy(data, n_bytes))
        return gr_pt_parse(data, n_bytes, out);
    GR_BUG_IF(pt_golden_wrap(data, n_bytes, &file) != GR_OK);
    st = gr_pt_parse((const unsigned char *)file.str, file.len, out);
    gr_text_fini(&file);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    gr_text bytes = GR_TEXT_INIT;
    gr_snapshot *s = NULL, *again = NULL;
    gr_status st = parse(data, n_bytes, &s);

    if (st != GR_OK) {
        GR_BUG_IF(s != NULL || gr_error_message()[0] == '\0' || st != GR_ERR_FORMAT);
        return 0;
    }
    /* The one name that a file may have and ours cannot. */
    if (!gr_snapshot_find(s, GR_PK_TEXTS)) {
        GR_BUG_IF(pt_golden_format(s, GR_ZIP_LIMIT, &bytes) != GR_OK);
        GR_BUG_IF(pt_golden_parse(bytes.str, bytes.len, &again) != GR_OK);
        GR_BUG_IF(!ckpt_sample_equal(s, again));
    }
    gr_snapshot_destroy(again);
    gr_snapshot_destroy(s);
    gr_text_fini(&bytes);
    return 0;
}

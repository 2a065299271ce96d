/*
 * Checkpoint files by path: which format a file has, and the way through the disk.
 *
 * Reading looks at the first bytes, whatever the name; writing goes by the name. A
 * safetensors file is read front to back; one of PyTorch's has its directory at the end
 * and is mapped. A mapped file must not be cut while it is read: the system would end the
 * process. Ours are never changed in place, only replaced.
 *
 * Any thread.
 */
#include "gradus/ckpt.h"

#include "base/outfile.h"
#include "ckpt/pt.h"
#include "ckpt/safetensors.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the first bytes can be a header's length and its '{'. */
static bool is_safetensors(const unsigned char *lead, size_t n)
{
    uint64_t n_header = 0;

    if (n <= GR_ST_LEAD_BYTES || lead[GR_ST_LEAD_BYTES] != '{')
        return false;
    for (int i = GR_ST_LEAD_BYTES - 1; i >= 0; i--)
        n_header = n_header << 8 | lead[i];
    return n_header <= GR_ST_MAX_HEADER_BYTES;
}

/* What people have in place of a model, and how they come to the model. */
static const char *guess(const unsigned char *lead, size_t n)
{
    static const struct {
        const char *start, *says;
    } known[] = {
        { "version https://git-lfs", "; a pointer of Git LFS: 'git lfs pull' brings the file" },
        { "<", "; a web page, it seems: the download failed" },
        { "\x80", "; a pickle, but not by torch.save(): save it anew with that" },
        { "\x1f\x8b", "; packed with gzip: unpack it first" },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t len = strlen(known[i].start);

        if (n >= len && memcmp(lead, known[i].start, len) == 0)
            return known[i].says;
    }
    return "";
}

static gr_status refuse(const unsigned char *lead, size_t n, size_t n_file)
{
    enum { SHOWN = 12 };
    static const char digits[] = "0123456789abcdef";
    char hex[3 * SHOWN + 1] = "", text[SHOWN + 1] = "";

    if (n == 0)
        return gr_fail(GR_ERR_FORMAT, "the file is empty");
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        hex[3 * i] = ' ';
        hex[3 * i + 1] = digits[lead[i] >> 4];
        hex[3 * i + 2] = digits[lead[i] & 15];
        text[i] = (char)(lead[i] >= ' ' && lead[i] < 127 ? lead[i] : '.');
    }
    return gr_fail(GR_ERR_FORMAT,
                   "by its content neither a file of torch.save() (a zip archive, or the pickles "
                   "of old versions) nor of safetensors; its %zu bytes begin with%s ('%s')%s",
                   n_file, hex, text, guess(lead, n));
}

static gr_status read_mapped(int fd, size_t n_bytes, bool texts_only, gr_snapshot **out)
{
    void *map = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    gr_status st;

    if (map == MAP_FAILED)
        return gr_fail(GR_ERR_IO, "cannot map %zu bytes: %s", n_bytes, strerror(errno));
    st = texts_only ? gr_pt_parse_texts(map, n_bytes, out) : gr_pt_parse(map, n_bytes, out);
    if (st == GR_ERR_FORMAT && gr_pt_is_legacy(map, n_bytes))
        st = gr_wrap(st, "pickles of torch.save()");
    munmap(map, n_bytes);
    return st;
}

static gr_status read_open(int fd, bool texts_only, gr_snapshot **out)
{
    unsigned char lead[GR_PT_LEAD_BYTES];
    struct stat info;
    ssize_t n;

    if (fstat(fd, &info) != 0)
        return gr_fail(GR_ERR_IO, "fstat: %s", strerror(errno));
    if (!S_ISREG(info.st_mode))
        return gr_fail(GR_ERR_IO, "not a file");
    do {
        n = pread(fd, lead, sizeof(lead), 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return gr_fail(GR_ERR_IO, "read: %s", strerror(errno));
    if (gr_pt_is_zip(lead, (size_t)n) || gr_pt_is_legacy(lead, (size_t)n))
        return read_mapped(fd, (size_t)info.st_size, texts_only, out);
    if (!is_safetensors(lead, (size_t)n))
        return refuse(lead, (size_t)n, (size_t)info.st_size);
    if (texts_only)
        return gr_st_read_texts(fd, (size_t)info.st_size, out);
    return gr_st_read_fd(fd, (size_t)info.st_size, out);
}

static gr_status read_path(const char *path, bool texts_only, gr_snapshot **out)
{
    int fd = gr_open_input(path);
    gr_status st;

    *out = NULL;
    if (fd < 0)
        return gr_fail(GR_ERR_IO, "checkpoint '%s': %s", path, strerror(errno));
    st = read_open(fd, texts_only, out);
    close(fd); /* only read from: nothing can be lost */
    return gr_wrap(st, "checkpoint '%s'", path);
}

gr_status gr_ckpt_read(const char *path, gr_snapshot **out)
{
    if (!path || !out)
        return gr_fail(GR_ERR_ARG, "checkpoint: path or out is NULL");
    return read_path(path, false, out);
}

gr_status gr_ckpt_peek(const char *path, gr_snapshot **out)
{
    if (!path || !out)
        return gr_fail(GR_ERR_ARG, "checkpoint: path or out is NULL");
    return read_path(path, true, out);
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), n_suffix = strlen(suffix);

    return n > n_suffix && strcmp(path + n - n_suffix, suffix) == 0;
}

static void write_file(void *arg, const void *src, size_t n_bytes)
{
    gr_outfile_write((gr_outfile *)arg, src, n_bytes);
}

gr_status gr_ckpt_write(const char *path, const gr_snapshot *snap)
{
    gr_outfile *f = NULL;
    gr_status st;
    bool is_pt;

    if (!path || !snap)
        return gr_fail(GR_ERR_ARG, "checkpoint: path or snapshot is NULL");
    is_pt = ends_with(path, ".pt") || ends_with(path, ".pth");
    GR_TRY_GOTO(st, gr_outfile_open(&f, path), fail);
    if (is_pt)
        st = gr_pt_format(snap, write_file, f, GR_ZIP_LIMIT);
    else
        st = gr_safetensors_format(snap, write_file, f);
    if (st != GR_OK)
        goto fail;
    st = gr_outfile_commit(f);
    return gr_wrap(st, "checkpoint '%s'", path);

fail:
    gr_outfile_discard(f);
    return gr_wrap(st, "checkpoint '%s'", path);
}

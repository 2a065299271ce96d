/*
 * The log.
 *
 * (1) One line is one write(2), so lines of ranks that share a pipe do not mix.
 * (2) The configuration is the program's only global state; gr_log_setup() writes it
 *     before threads start and it is read without a lock afterwards.
 * (3) An area's level is a number; what is not above it passes. Without GR_LOG that is
 *     info on rank 0 and warn elsewhere. An area named in GR_LOG has the level given
 *     there on every rank: who asks for debug lines wants them from the rank that hangs.
 * (4) A file beside stderr (gr_log_to_file) is one descriptor, read without a lock: it is
 *     opened while threads run, and closed when none logs any more.
 */
#include "base/log.h"

#include "base/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048

static const struct {
    const char *name;  /* as written in GR_LOG */
    const char *title; /* as written in a line */
} areas[GR_LOG_AREA_COUNT] = {
#define X(id, name) { name, #id },
    GR_LOG_AREA_MAP(X)
#undef X
};

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static const char level_letters[] = { 'E', 'W', 'I', 'D' };

#define N_LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))

static int log_rank;
static bool is_set_up;
static _Atomic int log_file = -1;
static gr_log_level levels[GR_LOG_AREA_COUNT] = {
#define X(id, name) GR_LEVEL_INFO,
    GR_LOG_AREA_MAP(X)
#undef X
};

static bool is_word(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(word, name, len) == 0;
}

static gr_status parse_level(const char *word, size_t len, gr_log_level *level)
{
    for (int i = 0; i < N_LEVELS; i++)
        if (is_word(word, len, level_names[i])) {
            /* Warnings and errors always pass, whatever is asked for. */
            *level = i < GR_LEVEL_WARN ? GR_LEVEL_WARN : (gr_log_level)i;
            return GR_OK;
        }
    return gr_fail(GR_ERR_ARG, "GR_LOG: '%.*s' is no level; levels are error, warn, info, debug",
                   (int)len, word);
}

static gr_status unknown_area(const char *word, size_t len)
{
    gr_text known = GR_TEXT_INIT;
    gr_status st;

    for (int i = 0; i < GR_LOG_AREA_COUNT; i++)
        gr_text_addf(&known, "%s%s", i > 0 ? ", " : "", areas[i].name);
    st = gr_fail(GR_ERR_ARG, "GR_LOG: '%.*s' is no area; areas are %s", (int)len, word,
                 gr_text_str(&known));
    gr_text_fini(&known);
    return st;
}

/* One word of GR_LOG: "area:level", or "level" for all areas. */
static gr_status parse_word(const char *word, size_t len)
{
    const char *colon = (const char *)memchr(word, ':', len);
    size_t area_len = colon ? (size_t)(colon - word) : 0;
    gr_log_level level = GR_LEVEL_INFO;

    if (!colon) {
        GR_TRY(parse_level(word, len, &level));
        for (int i = 0; i < GR_LOG_AREA_COUNT; i++)
            levels[i] = level;
        return GR_OK;
    }
    GR_TRY(parse_level(colon + 1, len - area_len - 1, &level));
    for (int i = 0; i < GR_LOG_AREA_COUNT; i++)
        if (is_word(word, area_len, areas[i].name)) {
            levels[i] = level;
            return GR_OK;
        }
    return unknown_area(word, area_len);
}

gr_status gr_log_setup(int rank)
{
    const char *word = getenv("GR_LOG"), *nccl = getenv("NCCL_DEBUG");

    log_rank = rank;
    is_set_up = true;
    for (int i = 0; i < GR_LOG_AREA_COUNT; i++)
        levels[i] = rank == 0 ? GR_LEVEL_INFO : GR_LEVEL_WARN;
    /* Who looks for trouble with NCCL's own variable means us, too. */
    if (nccl && (strcmp(nccl, "INFO") == 0 || strcmp(nccl, "TRACE") == 0))
        levels[GR_LOG_COMM] = strcmp(nccl, "TRACE") == 0 ? GR_LEVEL_DEBUG : GR_LEVEL_INFO;
    while (word && *word) {
        size_t len = strcspn(word, ",");

        if (len > 0)
            GR_TRY(parse_word(word, len));
        word += len;
        word += *word == ',';
    }
    return GR_OK;
}

gr_status gr_log_open(int rank)
{
    return is_set_up ? GR_OK : gr_log_setup(rank);
}

void gr_log_set_level(gr_log_level level)
{
    const char *word = getenv("GR_LOG");

    if (word && *word)
        return;
    for (int i = 0; i < GR_LOG_AREA_COUNT; i++)
        levels[i] = level;
}

gr_status gr_log_to_file(const char *path)
{
    int fd = -1, old;

    if (path) {
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0)
            return gr_fail(GR_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    }
    old = atomic_exchange(&log_file, fd);
    if (old >= 0)
        close(old); /* what is not on the disk by now has no place left to be missed */
    return GR_OK;
}

/* Does stderr get it? */
static bool shows(gr_log_area area, gr_log_level level)
{
    GR_BUG_IF((unsigned)area >= GR_LOG_AREA_COUNT || (int)level >= N_LEVELS);
    return level <= levels[area];
}

bool gr_log_wants(gr_log_area area, gr_log_level level)
{
    return shows(area, level) ||
           (level <= GR_LEVEL_INFO && atomic_load_explicit(&log_file, memory_order_relaxed) >= 0);
}

/* Text behind the head is cut rather than split, and shown as shown.h says: what a peer or a file
 * put into a message cannot forge lines or steer a terminal. */
static size_t finish_line(char *line, size_t head, const char *text, int would)
{
    size_t room = LINE_BYTES - 1 - head, n = would < 0 ? 0 : (size_t)would, len;

    len = gr_shown(line + head, room, text, n < LINE_BYTES ? n : LINE_BYTES - 1, GR_SHOWN_LINE);
    if (n >= LINE_BYTES || len >= room)
        gr_shown_cut(line + head, room, strlen(line + head));
    len = strlen(line);
    line[len] = '\n';
    return len + 1;
}

/* A log that cannot be written has no place left to say so. */
static void write_line(int fd, const char *line, size_t len)
{
    ssize_t n;

    do
        n = write(fd, line, len);
    while (n < 0 && errno == EINTR);
}

void gr_log_keep(const char *text)
{
    int fd = atomic_load_explicit(&log_file, memory_order_relaxed);
    gr_text line = GR_TEXT_INIT;

    if (fd < 0)
        return;
    gr_text_add_shown(&line, text, strlen(text), GR_SHOWN_LINES);
    gr_text_add(&line, "\n");
    if (gr_text_status(&line) == GR_OK)
        write_line(fd, line.str, line.len);
    gr_text_fini(&line);
}

void gr_log_write(gr_log_area area, gr_log_level level, const char *fmt, ...)
{
    int fd = atomic_load_explicit(&log_file, memory_order_relaxed);
    char line[LINE_BYTES], text[LINE_BYTES];
    struct timespec t;
    va_list args;
    size_t len;
    int head, would;

    if (!gr_log_wants(area, level))
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    head = snprintf(line, sizeof(line), "%lld.%03ld %c r%d %s ", (long long)t.tv_sec,
                    t.tv_nsec / 1000000, level_letters[level], log_rank, areas[area].title);
    va_start(args, fmt);
    would = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    len = finish_line(line, (size_t)head, text, would);
    if (shows(area, level))
        write_line(STDERR_FILENO, line, len);
    if (fd >= 0)
        write_line(fd, line, len);
}

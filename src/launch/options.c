/*
 * The table of options and what is made of it.
 *
 * (1) A row's PET_ variable is its name in capitals; flags take 0 or 1 there.
 * (2) A word "--nproc" that begins one name only stands for it, as in torchrun.
 * (3) "-np" is "-n", as mpirun has them. There they count the ranks of all hosts: on several hosts
 *     they are refused.
 * (4) The words of the program behind the first that is no option are never looked at.
 */
#include "launch/options.h"

#include "base/alloc.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NO_ENV = 1, /* torchrun has no PET_ variable for it */
    PYTHON = 2, /* has no meaning outside Python; taken and left alone */
    LEGACY = 4, /* gradrun-launch only */
};

typedef struct row {
    const char *name;
    char letter; /* short name, or 0 */
    gr_option_kind kind;
    size_t offset;
    double min, max;
    const char *choices;
    const char *arg, *help;
    int flags;
} row;

#define AT(field) offsetof(gr_run_options, field)
#define TEXT      GR_OPTION_TEXT
#define INT       GR_OPTION_INT
#define F64       GR_OPTION_F64
#define FLAG      GR_OPTION_FLAG
#define CHOICE    GR_OPTION_CHOICE

static const row rows[] = {
    { "nproc-per-node", 'n', TEXT, AT(nproc), 0, 0, NULL, "N",
      "ranks on this host: a number, auto, gpu or cpu [1]", 0 },
    { "nnodes", 0, TEXT, AT(nnodes), 0, 0, NULL, "N|MIN:MAX", "hosts of the job [1]", 0 },
    { "node-rank", 0, INT, AT(node_rank), 0, 65535, NULL, "I", "number of this host [0]", 0 },
    { "master-addr", 0, TEXT, AT(master_addr), 0, 0, NULL, "HOST",
      "host 0; also the variable MASTER_ADDR [127.0.0.1]", 0 },
    { "master-port", 0, INT, AT(master_port), 0, 65535, NULL, "P",
      "port of the store; also MASTER_PORT [free, 29500 on several hosts]", 0 },
    { "standalone", 0, FLAG, AT(standalone), 0, 0, NULL, NULL, "this host alone, on a free port",
      0 },
    { "rdzv-backend", 0, TEXT, AT(rdzv_backend), 0, 0, NULL, "B",
      "static (numbered hosts) or c10d (any order) [static]", 0 },
    { "rdzv-endpoint", 0, TEXT, AT(rdzv_endpoint), 0, 0, NULL, "HOST:P",
      "where hosts meet [port 29400]", 0 },
    { "rdzv-id", 0, TEXT, AT(rdzv_id), 0, 0, NULL, "ID",
      "name of the job, equal on all hosts [none]", 0 },
    { "rdzv-conf", 0, TEXT, AT(rdzv_conf), 0, 0, NULL, "K=V,..",
      "join_timeout, last_call_timeout, heartbeat_timeout, is_host", 0 },
    { "local-addr", 0, TEXT, AT(local_addr), 0, 0, NULL, "HOST", "address of this host for others",
      0 },
    { "port-range", 0, TEXT, AT(port_range), 0, 0, NULL, "A:B", "stay within these ports", 0 },
    { "max-restarts", 0, INT, AT(max_restarts), 0, 1e9, NULL, "N",
      "start all ranks again after a failure [0]", 0 },
    { "restart-delay", 0, F64, AT(restart_delay), 0, 3600, NULL, "S",
      "pause before the first restart, then doubled [1]", 0 },
    { "shutdown-timeout", 0, INT, AT(shutdown_s), 0, 86400, NULL, "S",
      "from SIGTERM to SIGKILL [30]", 0 },
    { "signals-to-handle", 0, TEXT, AT(signals), 0, 0, NULL, "LIST",
      "signals that end the job [SIGTERM,SIGINT,SIGHUP,SIGQUIT]", 0 },
    { "monitor-interval", 0, F64, AT(monitor_interval), 0, 3600, NULL, "S",
      "taken for torchrun's sake: an end is seen at once", 0 },
    { "role", 0, TEXT, AT(role), 0, 0, NULL, "NAME", "ROLE_NAME of the ranks [default]", 0 },
    { "no-python", 0, FLAG, AT(no_python), 0, 0, NULL, NULL,
      "execute PROGRAM even if it ends in .py", 0 },
    { "module", 'm', FLAG, AT(module), 0, 0, NULL, NULL, "PROGRAM is a Python module", 0 },
    { "use-env", 0, FLAG, AT(use_env), 0, 0, NULL, NULL,
      "do not pass --local-rank=N to the program", NO_ENV | LEGACY },
    { "log-dir", 0, TEXT, AT(log_dir), 0, 0, NULL, "DIR", "folder for the files of -r and -t", 0 },
    { "redirects", 'r', TEXT, AT(redirects), 0, 0, NULL, "MODE",
      "into files: 1 stdout, 2 stderr, 3 both, 0:3,1:1 by rank", 0 },
    { "tee", 't', TEXT, AT(tee), 0, 0, NULL, "MODE", "the same, and to the terminal", 0 },
    { "local-ranks-filter", 0, TEXT, AT(ranks_filter), 0, 0, NULL, "0,1",
      "show the output of these ranks only", 0 },
    { "prefix", 0, FLAG, AT(prefix), 0, 0, NULL, NULL, "put [rank]: before each line", 0 },
    { "log-line-prefix-template", 0, TEXT, AT(prefix_template), 0, 0, NULL, "T",
      "${role_name} ${local_rank} ${rank} ${hostname}", 0 },
    { "duplicate-stdout-filters", 0, TEXT, AT(out_filters), 0, 0, NULL, "A,B",
      "lines with A or B also to filtered_stdout.log", 0 },
    { "duplicate-stderr-filters", 0, TEXT, AT(err_filters), 0, 0, NULL, "A,B",
      "the same for stderr", 0 },
    { "gpu-ids", 0, TEXT, AT(gpu_ids), 0, 0, NULL, "0,2", "CUDA_VISIBLE_DEVICES for all ranks", 0 },
    { "virtual-local-rank", 0, FLAG, AT(virtual_local_rank), 0, 0, NULL, NULL,
      "each rank sees its own GPU only, as LOCAL_RANK 0", 0 },
    { "bind", 0, CHOICE, AT(bind), 0, 0, "none|cores|numa", "WHAT",
      "bind ranks to none, cores or numa nodes [none]", 0 },
    { "run-path", 0, FLAG, AT(run_path), 0, 0, NULL, NULL, NULL, PYTHON },
    { "start-method", 0, CHOICE, AT(start_method), 0, 0, "spawn|fork|forkserver", "M", NULL,
      PYTHON },
    { "event-log-handler", 0, TEXT, AT(event_log_handler), 0, 0, NULL, "NAME", NULL, PYTHON },
    { "logs-specs", 0, TEXT, AT(logs_specs), 0, 0, NULL, "NAME", NULL, PYTHON | NO_ENV },
    { "numa-binding", 0, TEXT, AT(numa_binding), 0, 0, NULL, "M",
      "torchrun's --bind: node, socket, exclusive, core-complex", NO_ENV },
    { "print-completion", 0, CHOICE, AT(completion), 0, 0, "none|bash|zsh|tcsh", "SHELL",
      "print a completion script and exit", NO_ENV },
    { "help", 'h', FLAG, AT(help), 0, 0, NULL, NULL, "print this and exit", NO_ENV },
    { "version", 0, FLAG, AT(version), 0, 0, NULL, NULL, "print the version and exit", NO_ENV },
};

#define N_ROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const gr_run_options defaults = {
    .nnodes = "1:1",
    .nproc = "1",
    .master_port = -1,
    .rdzv_backend = "static",
    .rdzv_endpoint = "",
    .rdzv_conf = "",
    .monitor_interval = 0.1,
    .restart_delay = 1,
    .shutdown_s = -1,
    .signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    .role = "default",
    .redirects = "0",
    .tee = "0",
    .ranks_filter = "",
};

/* Strings that the parser made; the options point into them. */
struct gr_run_words {
    char **items;
    int n, cap;
    bool like_mpirun; /* -n or -np was among them */
};

void gr_run_words_destroy(gr_run_words *w)
{
    if (!w)
        return;
    for (int i = 0; i < w->n; i++)
        gr_free(w->items[i]);
    gr_free(w->items);
    gr_free(w);
}

static gr_status keep(gr_run_words *w, gr_text *t, char **out)
{
    gr_status st = gr_text_status(t);

    if (st == GR_OK)
        st = gr_grow((void **)&w->items, &w->cap, w->n + 1, sizeof(char *));
    if (st != GR_OK) {
        gr_text_fini(t);
        return st;
    }
    *out = w->items[w->n++] = t->str;
    return GR_OK;
}

/* Two entries per row at most: the long name and the letter. */
typedef struct table {
    gr_option options[2 * N_ROWS + 1];
    char letters[N_ROWS][2];
} table;

static void make_table(table *t, gr_run_options *o, bool legacy)
{
    gr_option *at = t->options;

    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];

        if ((r->flags & LEGACY) && !legacy)
            continue;
        *at = (gr_option){ r->name, r->kind, (char *)o + r->offset, r->min, r->max, r->choices,
                           r->arg,  r->help };
        if (r->letter) {
            t->letters[i][0] = r->letter;
            t->letters[i][1] = '\0';
            at[1] = at[0];
            at[1].name = t->letters[i];
            at++;
        }
        at++;
    }
    *at = (gr_option){ 0 };
}

/* ---- PET_ variables ---- */

static gr_status take_variable(const table *t, const row *r, gr_run_words *w)
{
    char name[64] = "PET_", *word, *argv[2] = { NULL, NULL };
    gr_text text = GR_TEXT_INIT;
    const char *value;
    int n_used;
    size_t n = 4;

    for (const char *c = r->name; *c && n + 1 < sizeof(name); c++)
        name[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    name[n] = '\0';
    value = getenv(name);
    if (!value || !*value)
        return GR_OK;
    if (r->kind == FLAG)
        value = strcmp(value, "0") == 0 ? "false" : strcmp(value, "1") == 0 ? "true" : value;
    gr_text_addf(&text, "--%s=%s", r->name, value);
    GR_TRY(keep(w, &text, &word));
    argv[0] = word;
    return gr_wrap(gr_option_parse(t->options, 1, argv, &n_used), "variable %s", name);
}

/* ---- words ---- */

static bool begins(const char *name, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!name[i] || name[i] != (word[i] == '_' ? '-' : word[i]))
            return false;
    return true;
}

/* The one option that the word names or begins; NULL when none or several. */
static const gr_option *find(const table *t, const char *word, size_t len)
{
    const gr_option *found = NULL;
    int n = 0;

    for (const gr_option *o = t->options; o->name; o++)
        if (begins(o->name, word, len)) {
            if (!o->name[len])
                return o;
            if (o->name[1]) {
                found = o;
                n++;
            }
        }
    return n == 1 ? found : NULL;
}

/* "-np 2" and "-np=2", written with "-n". */
static gr_status complete_np(gr_run_words *w, char **word)
{
    gr_text text = GR_TEXT_INIT;

    w->like_mpirun = w->like_mpirun || (*word)[1] == 'n';
    if (strncmp(*word, "-np", 3) != 0 || ((*word)[3] && (*word)[3] != '='))
        return GR_OK;
    gr_text_addf(&text, "-n%s", *word + 3);
    return keep(w, &text, word);
}

/* "-r", "-r=3", and "-r3", which is written as "-r=3". */
static gr_status complete_letter(const table *t, gr_run_words *w, char **word,
                                 const gr_option **out)
{
    const gr_option *o = find(t, *word + 1, 1);
    char next = (*word)[2];
    gr_text text = GR_TEXT_INIT;

    *out = o && (!next || (o->kind != FLAG)) ? o : NULL;
    if (!*out || !next || next == '=')
        return GR_OK;
    gr_text_addf(&text, "-%c=%s", (*word)[1], *word + 2);
    return keep(w, &text, word);
}

/* Writes names that were only begun in full, up to the first word that is no option. */
static gr_status complete(const table *t, gr_run_words *w, int argc, char **argv)
{
    for (int i = 0; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *name = argv[i] + 2;
        size_t len = strcspn(name, "=");
        const gr_option *o = NULL;
        gr_text text = GR_TEXT_INIT;

        if (strcmp(argv[i], "--") == 0)
            return GR_OK;
        if (argv[i][1] == '-') {
            o = find(t, name, len);
            if (o && o->name[len] && len >= 2) {
                gr_text_addf(&text, "--%s%s", o->name, name + len);
                GR_TRY(keep(w, &text, &argv[i]));
            }
        } else {
            GR_TRY(complete_np(w, &argv[i]));
            GR_TRY(complete_letter(t, w, &argv[i], &o));
        }
        if (!o)
            return GR_OK; /* the parser says what is wrong */
        if (o->kind != FLAG && !strchr(argv[i], '='))
            i++;
    }
    return GR_OK;
}

static gr_status parse_words(const table *t, gr_run_words *w, int argc, char **argv, int *n_used)
{
    char **copy = (char **)gr_calloc((size_t)argc + 1, sizeof(*copy));
    gr_status st;

    if (!copy)
        return GR_ERR_NOMEM;
    memcpy(copy, argv, (size_t)argc * sizeof(*copy));
    st = complete(t, w, argc, copy);
    if (st == GR_OK)
        st = gr_option_parse(t->options, argc, copy, n_used);
    gr_free(copy);
    return st;
}

/* A number, or a range of them; or one of the words that stand for a number. */
static bool is_count(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return isdigit((unsigned char)*text);
}

const char *gr_run_options_nnodes_name(const gr_run_options *o)
{
    return o->nnodes == o->nnodes_variable ? "variable PET_NNODES" : "option '--nnodes'";
}

const char *gr_run_options_nproc_name(const gr_run_options *o)
{
    return o->nproc == o->nproc_variable ? "variable PET_NPROC_PER_NODE"
                                         : "option '--nproc-per-node'";
}

/* A word that took the place of a count; a variable takes no words. */
static gr_status no_count(const char *name, bool is_variable, const char *text, const char *needs,
                          const char *example)
{
    if (is_variable)
        return gr_fail(GR_ERR_ARG, "%s is '%s'; it must be %s", name, text, needs);
    return gr_fail(GR_ERR_ARG,
                   "%s took '%s' for its value; it needs %s, as in: gradrun %s gradus train ...",
                   name, text, needs, example);
}

gr_status gr_run_options_check_counts(const gr_run_options *o)
{
    static const char *const devices[] = { "auto", "gpu", "cpu", NULL };

    if (!is_count(o->nproc, devices))
        return no_count(gr_run_options_nproc_name(o), o->nproc == o->nproc_variable, o->nproc,
                        "a number, auto, gpu or cpu", "--nproc-per-node 2");
    if (!is_count(o->nnodes, devices + 3))
        return no_count(gr_run_options_nnodes_name(o), o->nnodes == o->nnodes_variable, o->nnodes,
                        "a number of hosts or MIN:MAX", "--nnodes 2 --nproc-per-node 4");
    return GR_OK;
}

gr_status gr_run_options_parse(gr_run_options *o, gr_run_words **words, bool legacy, int argc,
                               char **argv, int *n_used)
{
    gr_run_words *w = (gr_run_words *)gr_calloc(1, sizeof(*w));
    gr_status st = w ? GR_OK : GR_ERR_NOMEM;
    table t;

    *o = defaults;
    make_table(&t, o, legacy);
    for (int i = 0; i < N_ROWS && st == GR_OK; i++)
        if (!(rows[i].flags & (NO_ENV | LEGACY)))
            st = take_variable(&t, &rows[i], w);
    o->nnodes_variable = o->nnodes == defaults.nnodes ? NULL : o->nnodes;
    o->nproc_variable = o->nproc == defaults.nproc ? NULL : o->nproc;
    if (st == GR_OK)
        st = parse_words(&t, w, argc, argv, n_used);
    if (st == GR_OK && w->like_mpirun && strcmp(o->nnodes, "1") != 0 &&
        strcmp(o->nnodes, "1:1") != 0)
        st = gr_fail(GR_ERR_ARG, "option '-n' counts the ranks of all hosts in mpirun and those of "
                                 "one here; on several hosts write --nproc-per-node");
    if (st != GR_OK) {
        /* Where the program was taken for a count, its options were taken for ours: that is what
         * there is to say then, and otherwise the message stays. */
        gr_status counts = st == GR_ERR_ARG ? gr_run_options_check_counts(o) : GR_OK;

        gr_run_words_destroy(w);
        return counts == GR_OK ? st : counts;
    }
    *words = w;
    return GR_OK;
}

/* ---- help ---- */

static const char intro[] =
    "usage: %s [OPTIONS] PROGRAM [ARGUMENTS]\n"
    "  %s --nproc-per-node 2 gradus train ...             two ranks on this host\n"
    "  %s --nproc-per-node gpu train.py --lr 0.1          a PyTorch script, a rank per GPU\n"
    "  %s --nproc_per_node=4 --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 ./program\n"
    "  %s --nnodes 2:4 --rdzv-backend c10d --rdzv-endpoint host:29400 ./program\n"
    "  %s --nproc-per-node 4 --max-restarts 3 --log-dir logs --tee 3 ./program\n";

static const char outro[] =
    "Also as PET_NPROC_PER_NODE=2 and so on. Exit code: 0, or that of the rank that failed first\n"
    "(128 plus the signal that killed it); 1 when the job could not run, 2 for wrong usage.\n";

void gr_run_options_help(gr_text *out, bool legacy)
{
    const char *p = legacy ? "gradrun-launch" : "gradrun";

    gr_text_addf(out, intro, p, p, p, p, p, p);
    for (int i = 0; i < N_ROWS; i++) {
        const row *r = &rows[i];
        char left[64];

        if ((r->flags & PYTHON) || ((r->flags & LEGACY) && !legacy))
            continue;
        snprintf(left, sizeof(left), "%s%c%s--%s%s%s", r->letter ? "-" : "",
                 r->letter ? r->letter : ' ', r->letter ? " " : "", r->name, r->arg ? " " : "",
                 r->arg ? r->arg : "");
        gr_text_addf(out, " %-30s %s\n", left, r->help);
    }
    gr_text_add(out, "  Python only, taken and left alone:");
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].flags & PYTHON)
            gr_text_addf(out, " --%s", rows[i].name);
    gr_text_add(out, "\n");
    gr_text_add(out, outro);
}

const char *gr_run_option_name(int i)
{
    return i < N_ROWS ? rows[i].name : NULL;
}

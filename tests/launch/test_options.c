/*
 * gradrun's options: every flag in both spellings, PET_ variables, beginnings of names, what is
 * refused, and that the help has them all.
 */
#include "base/alloc.h"
#include "check.h"
#include "launch/config.h"

#include <stdbool.h>

#define WORDS 8

typedef struct setup {
    gr_run_options o;
    gr_run_words *words;
    gr_launch_config c;
} setup;

static void clear_variables(void)
{
    static const char *const names[] = { "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "SLURM_STEP_ID",
                                         "CUDA_VISIBLE_DEVICES",
                                         "GR_PORT_RANGE",
                                         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
                                         "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

/* "prog" and the words, ended by NULL, through parser and configuration. */
static gr_status make(setup *s, bool legacy, const char *const *words)
{
    static char copies[WORDS + 2][256], *argv[WORDS + 2];
    int argc = 0, n_used;
    gr_status st;

    for (; words[argc]; argc++) {
        snprintf(copies[argc], sizeof(copies[argc]), "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    s->words = NULL;
    st = gr_run_options_parse(&s->o, &s->words, legacy, argc, argv, &n_used);
    if (st == GR_OK)
        st = gr_launch_config_make(&s->c, &s->o, legacy, argv + n_used);
    return st;
}

#define LIST(...)    ((const char *const[]){ __VA_ARGS__, NULL })
#define MAKE(s, ...) make((s), false, LIST(__VA_ARGS__))
#define DONE(s)      gr_run_words_destroy((s)->words)

static void expect_refused(const char *part, const char *const *words)
{
    setup s;

    GR_CHECK_FAILS(make(&s, false, words), GR_ERR_ARG, part);
    DONE(&s);
}

/* ---- every flag ---- */

/* A value that each option takes, in the order of the table; NULL: a flag. */
static const struct {
    const char *name, *value;
} every[] = {
    { "nproc-per-node", "2" },
    { "nnodes", "1:3" },
    { "node-rank", "1" },
    { "master-addr", "10.0.0.1" },
    { "master-port", "1234" },
    { "standalone", NULL },
    { "rdzv-backend", "c10d" },
    { "rdzv-endpoint", "h:1" },
    { "rdzv-id", "x" },
    { "rdzv-conf", "join_timeout=3" },
    { "local-addr", "h" },
    { "port-range", "1000:1001" },
    { "max-restarts", "3" },
    { "restart-delay", "0.5" },
    { "shutdown-timeout", "3" },
    { "signals-to-handle", "SIGTERM" },
    { "monitor-interval", "5" },
    { "role", "trainer" },
    { "no-python", NULL },
    { "module", NULL },
    { "use-env", NULL },
    { "log-dir", "/tmp/x" },
    { "redirects", "3" },
    { "tee", "0:3,1:1" },
    { "local-ranks-filter", "0,1" },
    { "prefix", NULL },
    { "log-line-prefix-template", "${rank}" },
    { "duplicate-stdout-filters", "a,b" },
    { "duplicate-stderr-filters", "a" },
    { "gpu-ids", "0,1" },
    { "virtual-local-rank", NULL },
    { "bind", "cores" },
    { "run-path", NULL },
    { "start-method", "fork" },
    { "event-log-handler", "null" },
    { "logs-specs", "x" },
    { "numa-binding", "node" },
    { "print-completion", "bash" },
    { "help", NULL },
    { "version", NULL },
};

/* Without making a configuration of it: is the flag taken at all? */
static bool is_taken(const char *word, const char *value)
{
    char name[64], text[64], program[] = "program", *argv[] = { name, text, program, NULL };
    gr_run_options o;
    gr_run_words *words = NULL;
    int n_used = 0, n = value ? 2 : 1;
    gr_status st;

    snprintf(name, sizeof(name), "%s", word);
    snprintf(text, sizeof(text), "%s", value ? value : "program");
    st = gr_run_options_parse(&o, &words, true, 3, argv, &n_used);
    gr_run_words_destroy(words);
    return st == GR_OK && n_used == n;
}

static void test_every_flag(void)
{
    gr_text help = GR_TEXT_INIT;
    size_t n = sizeof(every) / sizeof(every[0]);

    gr_run_options_help(&help, true);
    for (size_t i = 0; i < n; i++) {
        char dashes[80], lines[80];

        GR_CHECK_STR(gr_run_option_name((int)i), every[i].name);
        snprintf(dashes, sizeof(dashes), "--%s", every[i].name);
        snprintf(lines, sizeof(lines), "%s", dashes);
        for (char *c = lines + 2; *c; c++)
            *c = *c == '-' ? '_' : *c;
        GR_CHECK(is_taken(dashes, every[i].value));
        GR_CHECK(is_taken(lines, every[i].value));
        if (!strstr(gr_text_str(&help), dashes)) {
            fprintf(stderr, "--help does not have %s\n", dashes);
            exit(1);
        }
    }
    GR_CHECK(gr_run_option_name((int)n) == NULL);
    GR_CHECK(is_taken("-r", "3") && is_taken("-t", "1") && is_taken("-m", NULL));
    GR_CHECK(is_taken("-r3", NULL) && is_taken("-t=0:1", NULL) && is_taken("-t0:1,1:2", NULL));
    GR_CHECK(is_taken("-n", "2") && is_taken("-n2", NULL) && is_taken("-np", "2"));
    GR_CHECK(is_taken("-np=2", NULL) && !is_taken("-nq", "2"));
    GR_CHECK(!is_taken("-m3", NULL) && !is_taken("-x3", NULL));
    GR_CHECK(is_taken("-h", NULL) && is_taken("--nproc", "2") && is_taken("--max", "2"));
    GR_CHECK(!is_taken("--rdzv", "x")); /* begins several */
    gr_text_fini(&help);
}

/* ---- what they mean ---- */

static void test_defaults(void)
{
    setup s;

    GR_CHECK_OK(MAKE(&s, "prog", "--nproc-per-node", "7"));
    GR_CHECK_EQ(s.c.n_local, 1); /* words behind the program are the program's */
    GR_CHECK(s.c.min_hosts == 1 && s.c.max_hosts == 1 && s.c.port == 0);
    GR_CHECK_STR(s.c.host, "127.0.0.1");
    GR_CHECK_EQ(strlen(s.c.run_id), 16); /* as torchrun: a random name */
    GR_CHECK_EQ(s.c.shutdown_ms, 30000);
    GR_CHECK(s.c.max_restarts == 0 && s.c.join_ms == 600000 && s.c.last_call_ms == 30000);
    GR_CHECK_STR(s.c.argv[1], "--nproc-per-node");
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nproc_per_node=cpu", "--", "-x"));
    GR_CHECK(s.c.n_local >= 1);
    GR_CHECK_STR(s.c.argv[0], "-x");
    DONE(&s);
    setenv("CUDA_VISIBLE_DEVICES", "0,3,5", 1);
    GR_CHECK_OK(MAKE(&s, "--nproc-per-node", "gpu", "prog"));
    GR_CHECK_EQ(s.c.n_local, 3);
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nproc-per-node", "auto", "--gpu_ids", "0,2", "prog"));
    GR_CHECK_EQ(s.c.n_local, 2);
    DONE(&s);
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    expect_refused("there is no GPU", LIST("--nproc-per-node", "gpu", "prog"));
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_meeting(void)
{
    setup s;

    GR_CHECK_OK(MAKE(&s, "--nproc_per_node=4", "--nnodes=2", "--node_rank=1",
                     "--master_addr=192.168.1.100", "--master_port=29501", "main.py"));
    GR_CHECK(s.c.min_hosts == 2 && s.c.max_hosts == 2 && s.c.node_rank == 1);
    GR_CHECK_STR(s.c.host, "192.168.1.100");
    GR_CHECK(s.c.port == 29501 && s.c.is_host == 0);
    GR_CHECK_STR(s.c.run_id, "none");
    DONE(&s);
    setenv("MASTER_ADDR", "a.b", 1);
    setenv("MASTER_PORT", "77", 1);
    GR_CHECK_OK(MAKE(&s, "--nnodes", "2", "p"));
    GR_CHECK_STR(s.c.host, "a.b");
    GR_CHECK(s.c.port == 77 && s.c.is_host == 1);
    DONE(&s);
    setenv("PET_MASTER_ADDR", "c.d", 1); /* PET_ wins over these, words over both */
    setenv("PET_MASTER_PORT", "79", 1);
    GR_CHECK_OK(MAKE(&s, "--nnodes", "2", "p"));
    GR_CHECK_STR(s.c.host, "c.d");
    GR_CHECK_EQ(s.c.port, 79);
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nnodes", "2", "--master-port=80", "p"));
    GR_CHECK_STR(s.c.host, "c.d");
    GR_CHECK_EQ(s.c.port, 80);
    DONE(&s);
    unsetenv("PET_MASTER_ADDR");
    unsetenv("PET_MASTER_PORT");
    GR_CHECK_OK(MAKE(&s, "p")); /* one host: a foreign MASTER_ADDR is not ours */
    GR_CHECK_STR(s.c.host, "127.0.0.1");
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nnodes", "2", "--master-addr", "[::1]", "--master-port", "78", "p"));
    GR_CHECK_STR(s.c.host, "::1");
    GR_CHECK_EQ(s.c.port, 78);
    DONE(&s);
    setenv("MASTER_PORT", "x", 1);
    expect_refused("MASTER_PORT is 'x'", LIST("p"));
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");

    GR_CHECK_OK(MAKE(&s, "--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=h", "--rdzv-id=j",
                     "--rdzv-conf=join_timeout=5,last_call_timeout=2,is_host=true,read_timeout=9",
                     "p"));
    GR_CHECK(s.c.port == 29400 && s.c.is_host == 1 && s.c.node_rank == -1);
    GR_CHECK(s.c.join_ms == 5000 && s.c.last_call_ms == 2000);
    GR_CHECK_STR(s.c.run_id, "j");
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nnodes=2", "--rdzv-conf=timeout=7", "-r3", "p"));
    GR_CHECK_STR(s.c.host, "127.0.0.1"); /* as torchrun, with a warning */
    GR_CHECK(s.c.port == 29500 && s.c.is_host == 1 && s.c.join_ms == 7000);
    GR_CHECK_STR(s.c.redirects, "3");
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "p"));
    GR_CHECK(s.c.max_hosts == 1 && s.c.port == 0);
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--standalone", "--rdzv-id=j", "--nproc-per-node=2", "p"));
    GR_CHECK_EQ(strlen(s.c.run_id), 16);
    DONE(&s);
}

static void test_variables(void)
{
    setup s;

    setenv("PET_NPROC_PER_NODE", "3", 1);
    setenv("PET_STANDALONE", "1", 1);
    setenv("PET_MODULE", "0", 1);
    setenv("PET_TEE", "3", 1);
    GR_CHECK_OK(MAKE(&s, "p"));
    GR_CHECK(s.c.n_local == 3 && s.o.standalone && !s.c.module);
    GR_CHECK_STR(s.c.tee, "3");
    DONE(&s);
    GR_CHECK_OK(MAKE(&s, "--nproc-per-node=2", "p")); /* words win */
    GR_CHECK_EQ(s.c.n_local, 2);
    DONE(&s);
    setenv("PET_MAX_RESTARTS", "many", 1);
    expect_refused("variable PET_MAX_RESTARTS", LIST("p"));
    unsetenv("PET_MAX_RESTARTS");
    setenv("PET_NPROC_PER_NODE", "two", 1);
    expect_refused("variable PET_NPROC_PER_NODE is 'two'; it must be a number, auto, gpu or cpu",
                   LIST("p"));
    expect_refused("option '--nproc-per-node' took 'two'", LIST("--nproc-per-node=two", "p"));
    GR_CHECK_OK(MAKE(&s, "--nproc-per-node=2", "p")); /* a word in its place */
    DONE(&s);
    setenv("PET_NPROC_PER_NODE", "0", 1);
    expect_refused("variable PET_NPROC_PER_NODE: '0' is none of", LIST("p"));
    setenv("PET_NPROC_PER_NODE", "1", 1);
    setenv("PET_NNODES", "all", 1);
    expect_refused("variable PET_NNODES is 'all'; it must be a number of hosts or MIN:MAX",
                   LIST("p"));
    setenv("PET_NNODES", "3:2", 1);
    expect_refused("variable PET_NNODES: '3:2' is neither", LIST("p"));
    unsetenv("PET_NNODES");
    unsetenv("PET_NPROC_PER_NODE");
    unsetenv("PET_STANDALONE");
    unsetenv("PET_MODULE");
    unsetenv("PET_TEE");
    setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "5", 1);
    GR_CHECK_OK(MAKE(&s, "p"));
    GR_CHECK_EQ(s.c.shutdown_ms, 5000);
    DONE(&s);
    unsetenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
}

static void test_output(void)
{
    GR_CHECK_EQ(gr_std_mode("3", 17), 3);
    GR_CHECK_EQ(gr_std_mode("0:3,12:1", 12), 1);
    GR_CHECK_EQ(gr_std_mode("0:3,12:1", 1), 0);
    GR_CHECK_EQ(gr_std_mode("0:4", 0), -1);
    GR_CHECK_EQ(gr_std_mode("x", 0), -1);
    GR_CHECK(gr_list_has("", 4) && gr_list_has("0,4", 4) && !gr_list_has("0,4", 1));
}

static void test_refused(void)
{
    static const struct {
        const char *part, *words[5];
    } bad[] = {
        { "no program", { "--nproc-per-node", "2" } },
        { "'--nproc-per-node' took 'gradus' for its value; it needs a number",
          { "--nproc", "gradus" } },
        { "took 'gradus' for its value", { "--nproc-per-node", "gradus", "--lr", "1" } },
        { "took 'gradus' for its value", { "--nproc_per_node", "gradus", "train", "shapes" } },
        { "took '--standalone' for its value", { "--nproc=--standalone", "gradus" } },
        { "'--nnodes' took 'gradus' for its value; it needs a number of hosts",
          { "--nnodes", "gradus" } },
        { "gradrun --nnodes 2 --nproc-per-node 4", { "--nnodes", "gradus", "--config", "a" } },
        { "on several hosts write --nproc-per-node", { "-n", "2", "--nnodes=2", "p" } },
        { "took 'p' for its value", { "-np", "p" } },
        { "unknown option '-x'; --help lists all", { "-x", "2", "p" } },
        { "did you mean '--standalone'? --help lists all", { "--standalon3", "p" } },
        { "unknown option '--lr'", { "--nproc-per-node", "2", "--lr", "1" } },
        { "did you mean '--nproc-per-node'", { "--nproc-pernode", "2", "p" } },
        { "unknown option '--rdzv=1'", { "--rdzv=1", "p" } },
        { "'0' is none of", { "--nproc-per-node", "0", "p" } },
        { "'5000' is none of", { "--nproc-per-node", "5000", "p" } },
        { "'xpu'", { "--nproc-per-node", "xpu", "p" } },
        { "'1:2:3'", { "--nnodes", "1:2:3", "p" } },
        { "'3:2'", { "--nnodes", "3:2", "p" } },
        { "'0'", { "--nnodes", "0", "p" } },
        { "where do the hosts meet", { "--nnodes=2", "--rdzv-backend=c10d", "p" } },
        { "'etcd' is not here", { "--rdzv-backend=etcd", "p" } },
        { "--standalone is for one host", { "--standalone", "--nnodes=2", "p" } },
        { "but there are 2 hosts", { "--nnodes=2", "--node-rank=2", "--master-addr=a", "p" } },
        { "contradict", { "-m", "--no-python", "p" } },
        { "'--redirects': '4'", { "-r", "4", "p" } },
        { "'--tee': '0:9'", { "-t", "0:9", "p" } },
        { "'0,x' is no list", { "--local-ranks-filter=0,x", "p" } },
        { "'SIGFOO' is no signal", { "--signals-to-handle=SIGTERM,SIGFOO", "p" } },
        { "'SIGKILL' is no signal", { "--signals-to-handle=SIGKILL", "p" } },
        { "are fewer than", { "--gpu-ids=0", "--nproc-per-node=2", "p" } },
        { "no key 'nonsense'", { "--rdzv-conf=nonsense=1", "p" } },
        { "is not KEY=VALUE", { "--rdzv-conf=x", "p" } },
        { "'--port-range'", { "--port-range=5", "p" } },
        { "'both' is none of", { "--numa-binding=both", "p" } },
        { "must not have a '/'", { "--rdzv-id=a/b", "p" } },
        { "unknown option '--use-env'", { "--use-env", "p" } },
        { "has no port", { "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:x", "p" } },
    };
    setup s;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i].part, bad[i].words);
    GR_CHECK_OK(make(&s, true, LIST("--nproc_per_node=2", "main.py")));
    GR_CHECK(s.c.passes_local_rank);
    DONE(&s);
    GR_CHECK_OK(make(&s, true, LIST("--use_env", "main.py")));
    GR_CHECK(!s.c.passes_local_rank);
    DONE(&s);
    GR_CHECK_FAILS(make(&s, true, LIST("--no-python", "main")), GR_ERR_ARG, "needs --use-env");
    DONE(&s);
}

int main(void)
{
    clear_variables();
    test_every_flag();
    test_defaults();
    test_meeting();
    test_variables();
    test_output();
    test_refused();
    return 0;
}

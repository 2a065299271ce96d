/* The agent's side of the meeting, against something else than a meeting. */
#include "check.h"
#include "launch/member.h"
#include "net/frame.h"

#include <sys/socket.h>
#include <unistd.h>

/* What comes of an answer: the first event, or a failure. */
static gr_status hear(gr_launch_config *c, const char *answer, size_t n_bytes, gr_event *e)
{
    gr_member *m;
    int ends[2];
    gr_status st;

    GR_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    GR_CHECK_OK(gr_member_create(&m, ends[0], c, 1, "me"));
    GR_CHECK(write(ends[1], answer, n_bytes) == (ssize_t)n_bytes);
    st = gr_member_next(m, e);
    gr_member_destroy(m);
    close(ends[1]);
    return st;
}

static void test_strangers(void)
{
    static const char *const answers[] = {
        "<!DOCTYPE HTML>\n<html>", "HTTP/1.0 400 Bad Request\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
        "\x05\x01\x01\x01\x01", /* a length that is too large, of no text */
    };
    gr_launch_config c = {
        .host = "web", .port = 80, .node_rank = 1, .n_local = 1, .min_hosts = 2, .max_hosts = 2
    };
    gr_event e = { 0 };
    gr_text t = GR_TEXT_INIT;

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        GR_CHECK_FAILS(hear(&c, answers[i], strlen(answers[i]), &e), GR_ERR_ARG,
                       "what listens on 'web' port 80 is no gradrun, it answered with other bytes; "
                       "check --master-addr and --master-port");
    c.node_rank = -1;
    GR_CHECK_FAILS(hear(&c, answers[0], strlen(answers[0]), &e), GR_ERR_ARG,
                   "check --rdzv-endpoint");
    /* A meeting that says something wrong later is one nevertheless. */
    gr_frame_begin(&t, "NOTE");
    gr_frame_end(&t, "hello");
    GR_CHECK_OK(hear(&c, t.str, t.len, &e));
    GR_CHECK_EQ(e.kind, GR_EVENT_NOTE);
    gr_frame_begin(&t, "BEAT");
    gr_frame_end(&t, "");
    gr_text_add(&t, answers[0]);
    GR_CHECK_FAILS(hear(&c, t.str, t.len, &e), GR_ERR_FORMAT, "a frame of 1329865020 bytes");
    gr_text_fini(&t);
    gr_text_fini(&e.text);
}

int main(void)
{
    test_strangers();
    return 0;
}

/* Random numbers for drawing: a counter, hashed. A stream is a value; nothing is shared. */
#ifndef GR_RECIPE_SHAPES_STREAM_H
#define GR_RECIPE_SHAPES_STREAM_H

#include <stdint.h>

typedef struct gr_draw_stream {
    uint64_t at;
} gr_draw_stream;

static inline uint64_t gr_draw_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

/* Of sample `index` of the stream `key`. */
static inline gr_draw_stream gr_draw_stream_of(uint64_t key, uint64_t index)
{
    gr_draw_stream s;

    s.at = gr_draw_mix(key) + gr_draw_mix(index ^ 0x5851f42d4c957f2du);
    return s;
}

static inline uint64_t gr_draw_u64(gr_draw_stream *s)
{
    s->at += 0x9e3779b97f4a7c15u;
    return gr_draw_mix(s->at);
}

/* Uniform in [from, to). */
static inline float gr_draw_f32(gr_draw_stream *s, float from, float to)
{
    return from + (to - from) * (float)(gr_draw_u64(s) >> 40) * 0x1p-24f;
}

#endif

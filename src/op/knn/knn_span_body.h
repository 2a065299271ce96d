/* Distances from a stretch of points; plain loops, which the compiler makes vectors of. */
static void span(const gr_knn_span *s, float *restrict out)
{
    for (int64_t i = 0; i < s->n; i++)
        out[i] = 0;
    for (int64_t c = 0; c < s->d; c++) {
        const float *restrict q = s->cols + c * s->l + s->at;
        const float p = s->p[c * s->l];

        for (int64_t i = 0; i < s->n; i++) {
            const float x = q[i] - p;

            out[i] += x * x;
        }
    }
}

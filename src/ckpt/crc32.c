/* CRC-32 with the polynomial of zip. Any thread: the tables are filled once, on first use. */
#include "base/crc.h"
#include "ckpt/zip.h"

#include <pthread.h>

#define POLYNOMIAL 0xedb88320u

static gr_crc_tables tables;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    gr_crc_fill(&tables, POLYNOMIAL);
}

uint32_t gr_crc32(uint32_t crc, const void *src, size_t n_bytes)
{
    pthread_once(&once, fill_tables);
    return gr_crc_run(&tables, crc, src, n_bytes);
}

/* The bytes of a shard, as docs/data.md has them: for its reader and its writer. */
#ifndef GR_DATA_SHARD_BYTES_H
#define GR_DATA_SHARD_BYTES_H

#include <stdint.h>

#define SHARD_MAGIC      "GRSHARD1"
#define SHARD_END        "GRSE"
#define SHARD_HEAD_BYTES 16 /* magic, u32 version, u32 0 */
#define SHARD_VERSION    1
#define SHARD_ALIGN      8

/* An entry of the index. */
#define ENTRY_PLACE 0  /* u64: where the record begins */
#define ENTRY_IMAGE 8  /* u32: bytes of the image */
#define ENTRY_MASK  12 /* u32: bytes of the mask */
#define ENTRY_NAME  16 /* u32: bytes of the name */
#define ENTRY_CLASS 20 /* i32 */
#define ENTRY_CRC   24 /* u32: CRC-32C of the record: name, image, mask */
#define ENTRY_BYTES 32 /* the last four are 0 */

/* The end of the file. */
#define TAIL_INDEX       0  /* u64: where the index begins */
#define TAIL_INDEX_BYTES 8  /* u64: entries and class names */
#define TAIL_RECORDS     16 /* u32 */
#define TAIL_CLASSES     20 /* u32 */
#define TAIL_NUMBER      24 /* u32 */
#define TAIL_SHARDS      28 /* u32 */
#define TAIL_FIRST       32 /* u64 */
#define TAIL_TOTAL       40 /* u64 */
#define TAIL_INDEX_CRC   48 /* u32 */
#define TAIL_FLAGS       52 /* u32 */
#define TAIL_CRC         56 /* u32: of the file's first 16 bytes and the tail's first 56 */
#define TAIL_END         60
#define TAIL_BYTES       64

#define FLAG_NAMES UINT32_C(1)
#define FLAG_MASKS UINT32_C(2)

#endif

/* Versions of the libraries that this room uses, as they are at run time. Static text. */
#ifndef GR_TRACK_LIBRARIES_H
#define GR_TRACK_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_protobuf_version(void);
const char *gr_png_version(void);
const char *gr_zlib_version(void);

#ifdef __cplusplus
}
#endif

#endif

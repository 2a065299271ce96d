/* Versions of the libraries that this room uses, as they are at run time. Static text. */
#ifndef GR_DATA_LIBRARIES_H
#define GR_DATA_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_jpeg_version(void); /* as compiled: the library does not tell */

#ifdef __cplusplus
}
#endif

#endif

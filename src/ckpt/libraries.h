/* Versions of the libraries that this room uses, as they are at run time. Static text. */
#ifndef GR_CKPT_LIBRARIES_H
#define GR_CKPT_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_jansson_version(void);

#ifdef __cplusplus
}
#endif

#endif

/* Versions of the libraries that this room uses, as they are at run time. Static text. */
#ifndef GR_OP_LIBRARIES_H
#define GR_OP_LIBRARIES_H

#ifdef __cplusplus
extern "C" {
#endif

const char *gr_onednn_version(void); /* NULL: built without it */

#ifdef __cplusplus
}
#endif

#endif

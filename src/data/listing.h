/* What is in folders: images, sub folders, anything; sorted by name, without a stat per file. */
#ifndef GR_DATA_LISTING_H
#define GR_DATA_LISTING_H

#include <stdbool.h>

#include "base/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gr_listed {
    const char *dir; /* the folder's path; equal ones are one string */
    const char *name;
} gr_listed;

/* Strings live in the arena that was given; `at` is owned. */
typedef struct gr_listing {
    gr_listed *at;
    int n, cap;
} gr_listing;

/* Appends the .jpg, .jpeg and .png files of a folder and of those below it, folder by folder,
 * names in byte order (which is Python's sorted()). Hidden files and those that are no images
 * are left out; an image of a kind that cannot be read (.bmp, .tif ...) is GR_ERR_FORMAT. */
gr_status gr_listing_images(gr_listing *l, gr_arena *a, const char *folder) GR_MUST_CHECK;
/* Appends the sub folders of a folder, sorted, hidden ones left out. */
gr_status gr_listing_folders(gr_listing *l, gr_arena *a, const char *folder) GR_MUST_CHECK;
/* Appends the plain files of a folder, of all kinds, sorted, hidden ones left out. */
gr_status gr_listing_files(gr_listing *l, gr_arena *a, const char *folder) GR_MUST_CHECK;
void gr_listing_fini(gr_listing *l);

/* By suffix: an image that can be read here? */
bool gr_is_image_name(const char *name);
/* "cats/001.jpg" -> length of "cats/001". */
size_t gr_stem_length(const char *name);
bool gr_ends_with(const char *name, const char *suffix); /* letters of both cases are alike */
bool gr_is_folder(const char *path);
bool gr_is_file(const char *path);

#ifdef __cplusplus
}
#endif

#endif

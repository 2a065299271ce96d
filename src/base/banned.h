/*
 * Functions that cannot be used safely do not compile. The build includes this file
 * before every C source of the project (-include base/banned.h).
 *
 * The system headers come first, because their own declarations name the functions.
 * Instead: snprintf, gr_text (base/text.h), memcpy with a checked size, strtol and
 * strtod with the end pointer looked at, strtok_r.
 */
#ifndef GR_BASE_BANNED_H
#define GR_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy sprintf vsprintf gets atoi atol atof strtok

#endif

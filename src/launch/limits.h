/* The number of files we may open: many ranks have many pipes. */
#ifndef GR_LAUNCH_LIMITS_H
#define GR_LAUNCH_LIMITS_H

/* Raises our limit as far as the system lets us; the ranks get the old one back. */
void gr_limits_raise(void);
/* In a child before exec. */
void gr_limits_restore(void);

#endif

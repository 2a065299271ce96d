/* Losses of steps on a device, counted without waiting: for tests with and without a GPU. */
#ifndef GR_TESTS_TRAIN_QUEUED_H
#define GR_TESTS_TRAIN_QUEUED_H

/* Trains n steps twice: once each loss is read, once all are queued. Sums and state must be equal.
 */
void check_queued_losses(const char *device, int n_steps);

#endif

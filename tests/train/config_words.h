/* Command lines and files for tests of the trainer's settings. */
#ifndef GR_TESTS_TRAIN_CONFIG_WORDS_H
#define GR_TESTS_TRAIN_CONFIG_WORDS_H

#include "train/options.h"

#define CONFIG_MAX_WORDS 40

/* A recipe with the settings that the five guides have beside the trainer's. */
extern const gr_recipe config_recipe;

/* The one under test; each parse ends the one before. */
extern gr_train_options config_options;

/* Words separated by single spaces; '~' stands for a space inside of one. They live until the
 * next call. */
int config_split(const char *line, char *argv[CONFIG_MAX_WORDS]);
gr_status config_parse(const char *line) GR_MUST_CHECK;
/* Writes "test_config.yaml"; its name. */
const char *config_write(const char *text);
/* A file and words beside it. */
gr_status config_parse_file(const char *text, const char *line) GR_MUST_CHECK;

#endif

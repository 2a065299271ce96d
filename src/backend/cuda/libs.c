/* Where CUDA's libraries are. */
#include "backend/cuda/libs.h"

const char *const gr_cuda_folders[] = { "/usr/local/cuda/lib64",     "/usr/local/cuda/lib",
                                        "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                        "/opt/cuda/lib64",           NULL };

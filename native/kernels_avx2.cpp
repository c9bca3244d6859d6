// The kernels, built for the avx2 level.
#define COASSOC_LEVEL avx2_kernels
#include "kernels_body.h"

// The kernels, built for the avx512 level.
#define COASSOC_LEVEL avx512_kernels
#include "kernels_body.h"

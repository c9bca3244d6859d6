// The kernels, built for the baseline level.
#define COASSOC_LEVEL baseline_kernels
#include "kernels_body.h"

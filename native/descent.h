// The table of k-means from counts, and its loss: what a pass needs besides the rows. Operation for operation what
// coassoc/consensus/_objectives.py does in NumPy, so that the numbers are the same to the last bit.
#pragma once

#include "rows.h"

namespace coassoc {

// Sets labelling.next_ to the fixed-point table of the centres `given` (d, k), or of the labelling's own counts when
// null, whose cells_ and squares_ are then set too; returns its bits.
int next_table(const Kernels& kernels, const Shape& shape, Labelling& labelling, const int64_t* given,
               const double* weights);

// The same for centres that are single rows of codes (k, p) of `width` bytes each.
int table_of_rows(const Shape& shape, Labelling& labelling, const void* codes, int width, const double* weights);

// Loss of the labelling's counts, whose table was made.
double kmeans_loss(const Kernels& kernels, const Shape& shape, const Labelling& labelling, const double* weights);

// Clusters that no row is in, copies counted.
int64_t count_empty(const Shape& shape, const Labelling& labelling);

}  // namespace coassoc

// Pairs of rows: in how many partitions they are together.
#pragma once

#include <cstdint>

#include "tables.h"

namespace coassoc {

// For each of m pairs of rows, the partitions in which both have one label, and those that label both. `codes` is the
// (n, p) table with codes of `width` bytes; row numbers must be below n.
void pair_counts(const void* codes, int width, const Shape& shape, const int64_t* pairs, int64_t m, int32_t* together,
                 int32_t* observed, int n_threads);

}  // namespace coassoc

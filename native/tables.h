// The score table in the kernels' layouts, and how far a new table can have moved the bounds of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "buffer.h"
#include "kernels.h"

namespace coassoc {

// Partitions of the ensemble as the tables see them.
struct Shape {
    int64_t p, d;
    std::vector<int64_t> n_clusters, first;  // first: padded rows, offsets[j] + j
    std::vector<uint8_t> missing;            // whether a partition has missing labels
    int64_t padded() const { return d + p; }
};

// A (d, k) table and how it differs from the one before it.
struct Comparison {
    std::vector<int64_t> low, high;  // smallest and largest entry of each partition, with the 0 of missing labels
    std::vector<uint32_t> drop;      // (k,) or empty: units a bound of a row can have lost, by its label
};

// Bounds are in units of 2**shift of the new table. A row labelled c can have lost the most that any other cluster
// gained, less the least that c gained, summed over partitions. `before` null: nothing to compare with.
Comparison compare(const Kernels& kernels, const Shape& shape, const int32_t* before, int before_bits,
                   const int32_t* after, int after_bits, int32_t k, int shift);

// (d, k) int32 -> tiles with a zero row after each partition and columns past k that never win.
WideTable widen(const Shape& shape, const int32_t* values, int32_t k, Buffer& space);

// (d, k) int32 -> padded (d + p, k) with zero rows.
void pad_rows(const Shape& shape, const int32_t* values, int32_t k, int32_t* out);

// Where each partition's bytes are in a narrow table. Not possible when codes need more than a byte.
struct NarrowPlan {
    bool possible = false;
    std::vector<int64_t> column;  // (p,) in order of size: where the partition starts in a block
    std::vector<int64_t> start;   // (p,) where its part starts in a cluster's bytes
    int64_t stride = 0;
    int32_t n64 = 0, n128 = 0, n256 = 0;
};
NarrowPlan plan_narrow(const Shape& shape, int width);

// (d, k) int32 -> 7-bit table; `values` stays null when 7 bits cannot separate the scores.
NarrowTable narrow(const Kernels& kernels, const Shape& shape, const NarrowPlan& plan, const Comparison& ranges,
                   const int32_t* values, int32_t k, int shift, Buffer& space);

// Rows in each cluster (k,), copies counted, from padded counts: every row has one code of partition 0, missing
// included.
std::vector<int64_t> cluster_sizes(const Shape& shape, const int64_t* alpha, int64_t k);

}  // namespace coassoc

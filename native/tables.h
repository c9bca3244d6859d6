// What a pass needs besides the rows: the score table in the kernels' layouts, and how far it can have moved bounds.
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
    std::vector<int64_t> low, high;  // smallest and largest entry of each partition, the zero of missing labels included
    std::vector<uint32_t> drop;      // (k,) or empty: units a bound of a row can have lost, by its label
    // of two clusters only their difference counts, (second - first) / 2 rounded to a whole: low and high are its own
    std::vector<int32_t> half;  // (d,)
    int64_t rounded = 0;        // partitions where some half is not exact
};

// Units are 2**shift of the new table. A row labelled c can have lost the most any other cluster gained, less the least
// that c gained, summed over partitions; of two clusters, what their difference changed. `before` null: nothing to
// compare with.
Comparison compare(const Kernels& kernels, const Shape& shape, const int32_t* before, int before_bits,
                   const int32_t* after, int after_bits, int32_t k, int shift);

// (d, k) int32 -> tiles with a zero row after each partition and columns past k that never win.
WideTable widen(const Kernels& kernels, const Shape& shape, const Comparison& ranges, const int32_t* values, int32_t k, Buffer& space);

// (d, k) int32 -> padded (d + p, k) with zero rows.
void pad_rows(const Shape& shape, const int32_t* values, int32_t k, int32_t* out);

// Static part of a narrow table: where each partition's bytes are. Empty when codes need more than a byte.
struct NarrowPlan {
    bool possible = false;
    std::vector<int64_t> column;  // (p,) in order of size: where the partition starts in a block
    std::vector<int64_t> start;   // (p,) where its part starts in a cluster's bytes
    int64_t stride = 0;
    int32_t n64 = 0, n128 = 0, n256 = 0;
};
NarrowPlan plan_narrow(const Shape& shape, int width);

// (d, k) int32 -> 7-bit table; `values` stays null when the scores cannot be told apart in 7 bits. `common` divides all
// differences of scores in a partition, where that is known; else 0.
NarrowTable narrow(const Kernels& kernels, const Shape& shape, const NarrowPlan& plan, const Comparison& ranges,
                   const int32_t* values, int32_t k, int shift, int64_t common, Buffer& space);

// Rows in each cluster (k,), copies counted, from padded counts: every row has one code of partition 0, missing included.
std::vector<int64_t> cluster_sizes(const Shape& shape, const int64_t* alpha, int64_t k);

}  // namespace coassoc

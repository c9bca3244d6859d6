// Arithmetic on (d, k) tables of counts and scores, operation for operation what coassoc/engines/_verbs.py does in
// NumPy. Partition j owns the next n_clusters[j] rows.
#pragma once

#include <cstdint>

namespace coassoc {

// cells, squares (p, k): sums of alpha and of its squares over each partition
void partition_sums(const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k, int64_t* cells,
                    int64_t* squares);

// scores (d, k): weight * (2 alpha / cells - squares / cells / cells), cells at least 1; 0 <= alpha < 2**52
void mean_scores(const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k, const int64_t* cells,
                 const int64_t* squares, const double* weights, double* scores);

// largest (p,): the largest size of a score in each partition
void largest_scores(const double* scores, const int64_t* n_clusters, int64_t p, int64_t k, double* largest);

// values (n,): score * scale rounded to even; sizes below 2**31
void rounded_scores(const double* scores, int64_t n, double scale, int32_t* values);

// the sum of n finite numbers, exactly rounded: no order of them can matter
double exact_sum(const double* values, int64_t n);

}  // namespace coassoc

// Arithmetic on (d, k) tables of counts and scores, operation for operation what coassoc/engines/_verbs.py does in
// NumPy. Partition j owns the next n_clusters[j] rows.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace coassoc {

// cells, squares (p, k): sums of alpha and of its squares over each partition
void partition_sums(const Kernels& kernels, const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k,
                    int64_t* cells, int64_t* squares);

// what the scores of one partition need of each cluster: cells, at least 1, and squares / cells / cells
class CentreTerms {
  public:
    explicit CentreTerms(int64_t k) : k_(k), terms_((std::size_t)(3 * k)) {}
    Centres of(const Kernels& kernels, const int64_t* cells, const int64_t* squares, double weight);

  private:
    int64_t k_;
    std::vector<double> terms_;
};

// scores (d, k): weight * (2 alpha / cells - squares / cells / cells), cells at least 1; counts below 2**32
void mean_scores(const Kernels& kernels, const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k,
                 const int64_t* cells, const int64_t* squares, const double* weights, double* scores);

// largest (p,): the largest size of a score in each partition
void largest_scores(const double* scores, const int64_t* n_clusters, int64_t p, int64_t k, double* largest);

// the sum of n finite numbers, exactly rounded: no order of them can matter
double exact_sum(const double* values, int64_t n);

}  // namespace coassoc

#include "arithmetic.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace coassoc {

void partition_sums(const Kernels& kernels, const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k,
                    int64_t* cells, int64_t* squares) {
    for (int64_t j = 0; j < p; alpha += n_clusters[j++] * k, cells += k, squares += k)
        kernels.sum_rows(alpha, n_clusters[j], k, cells, squares);
}

Centres CentreTerms::of(const Kernels& kernels, const int64_t* cells, const int64_t* squares, double weight) {
    double *size = terms_.data(), *inverse = size + k_, *penalty = inverse + k_;
    kernels.centre_terms(cells, squares, k_, size, inverse, penalty);
    return {size, inverse, penalty, weight};
}

void mean_scores(const Kernels& kernels, const int64_t* alpha, const int64_t* n_clusters, int64_t p, int64_t k,
                 const int64_t* cells, const int64_t* squares, const double* weights, double* scores) {
    CentreTerms terms(k);
    for (int64_t j = 0; j < p; ++j, cells += k, squares += k) {
        kernels.score_rows(alpha, n_clusters[j], k, terms.of(kernels, cells, squares, weights[j]), scores);
        alpha += n_clusters[j] * k;
        scores += n_clusters[j] * k;
    }
}

void largest_scores(const double* scores, const int64_t* n_clusters, int64_t p, int64_t k, double* largest) {
    for (int64_t j = 0; j < p; ++j) {
        const int64_t n = n_clusters[j] * k;
        double most[4] = {0, 0, 0, 0};
        int64_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int lane = 0; lane < 4; ++lane) {
                const double size = std::fabs(scores[i + lane]);
                most[lane] = most[lane] < size ? size : most[lane];
            }
        for (; i < n; ++i) most[0] = std::max(most[0], std::fabs(scores[i]));
        largest[j] = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
        scores += n;
    }
}

double exact_sum(const double* values, int64_t n) {
    // partial sums that do not overlap, smallest first (Shewchuk); together they are the exact sum
    std::vector<double> parts;
    for (int64_t i = 0; i < n; ++i) {
        double x = values[i];
        size_t kept = 0;
        for (double y : parts) {
            if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
            const double high = x + y, low = y - (high - x);
            if (low != 0.0) parts[kept++] = low;
            x = high;
        }
        parts.resize(kept);
        parts.push_back(x);
    }
    if (parts.empty()) return 0.0;
    double sum = parts.back(), low = 0.0;
    size_t at = parts.size() - 1;
    while (at > 0 && low == 0.0) {
        const double x = sum, y = parts[--at];
        sum = x + y;
        low = y - (sum - x);
    }
    // half way between two numbers: the parts below decide
    if (at > 0 && ((low < 0.0 && parts[at - 1] < 0.0) || (low > 0.0 && parts[at - 1] > 0.0))) {
        const double twice = 2.0 * low, beyond = sum + twice;
        if (twice == beyond - sum) sum = beyond;
    }
    return sum;
}

}  // namespace coassoc

#include "descent.h"

#include <algorithm>
#include <cmath>

#include "arithmetic.h"

namespace coassoc {
namespace {

// The largest power of two that scores with these largest sizes can be multiplied by without overflow of their sum.
int bits_for(const std::vector<double>& largest) {
    const double total = exact_sum(largest.data(), (int64_t)largest.size()), p = (double)largest.size();
    if (!(total > 0)) return 0;
    int bits = 31 - std::ilogb(total);
    while (std::ldexp(total, bits) + p >= 2147483648.0) --bits;
    while (std::ldexp(total, bits + 1) + p < 2147483648.0) ++bits;
    return bits;
}

}  // namespace

int next_table(const Kernels& kernels, const Shape& shape, Labelling& labelling, const int64_t* given,
               const double* weights) {
    const int64_t k = labelling.k_, p = shape.p;
    if (!given) sum_counts(kernels, shape, labelling);
    std::vector<int64_t> own(given ? (size_t)(2 * k) : 0);
    std::vector<double> size((size_t)k), penalty((size_t)k), largest((size_t)p);
    labelling.scores_.resize((size_t)(shape.d * k));
    for (int64_t j = 0; j < p; ++j) {
        const int64_t n = shape.n_clusters[j], at = (shape.first[j] - j) * k;
        const int64_t* alpha = given ? given + at : labelling.alpha_.data() + shape.first[j] * k;
        const int64_t *cells = labelling.cells_.data() + j * k, *squares = labelling.squares_.data() + j * k;
        if (given) {
            kernels.sum_rows(alpha, n, k, own.data(), own.data() + k);
            cells = own.data(), squares = own.data() + k;
        }
        centre_terms(cells, squares, k, size.data(), penalty.data());
        largest[j] = kernels.score_rows(alpha, n, k, size.data(), penalty.data(), weights[j],
                                        labelling.scores_.data() + at);
    }
    const int bits = bits_for(largest);
    labelling.next_.resize((size_t)(shape.d * k));
    kernels.round_scores(labelling.scores_.data(), shape.d * k, std::ldexp(1.0, bits), labelling.next_.data());
    return bits;
}

void sum_counts(const Kernels& kernels, const Shape& shape, Labelling& labelling) {
    if (labelling.summed_) return;
    const int64_t k = labelling.k_;
    labelling.cells_.resize((size_t)(shape.p * k));
    labelling.squares_.resize((size_t)(shape.p * k));
    for (int64_t j = 0; j < shape.p; ++j)
        kernels.sum_rows(labelling.alpha_.data() + shape.first[j] * k, shape.n_clusters[j], k,
                         labelling.cells_.data() + j * k, labelling.squares_.data() + j * k);
    labelling.summed_ = true;
}

double kmeans_loss(const Shape& shape, const Labelling& labelling, const double* weights) {
    const int64_t k = labelling.k_;
    bool plain = true;
    for (int64_t j = 0; j < shape.p; ++j) plain = plain && weights[j] == 1.0;
    std::vector<double> terms;
    int64_t whole = 0, parts = 0;  // the exact sum is whole - parts / 2**52
    for (int64_t j = 0, i = 0; j < shape.p; ++j)
        for (int64_t c = 0; c < k; ++c, ++i) {
            const int64_t cells = labelling.cells_[i];
            const double kept = (double)labelling.squares_[i] / (double)std::max<int64_t>(cells, 1);
            if (plain) {  // kept is 0 or at least 1, so its digits end at 2**-52
                const int64_t floor = (int64_t)kept;
                whole += cells - floor;
                parts += (int64_t)((kept - (double)floor) * 4503599627370496.0);
                if (parts >= int64_t(1) << 52) parts -= int64_t(1) << 52, --whole;
            } else {
                terms.push_back(weights[j] * (double)cells);
                terms.push_back(weights[j] * -kept);
            }
        }
    if (!plain) return exact_sum(terms.data(), (int64_t)terms.size());
    return (double)whole - (double)parts / 4503599627370496.0;  // both exact, so rounded once
}

int64_t count_empty(const Shape& shape, const Labelling& labelling) {
    const std::vector<int64_t> sizes = cluster_sizes(shape, labelling.alpha_.data(), labelling.k_);
    return std::count(sizes.begin(), sizes.end(), 0);
}

}  // namespace coassoc

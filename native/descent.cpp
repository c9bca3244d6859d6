#include "descent.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
    std::vector<int64_t> given_sums(given ? (size_t)(2 * p * k) : 0);
    if (!given) {
        labelling.cells_.resize((size_t)(p * k));
        labelling.squares_.resize((size_t)(p * k));
    }
    int64_t* cells = given ? given_sums.data() : labelling.cells_.data();
    int64_t* squares = given ? cells + p * k : labelling.squares_.data();
    std::vector<double> largest((size_t)p);
    CentreTerms terms(k);
    labelling.next_.resize((size_t)(shape.d * k));
    bool summed = false;
    // tables seldom change their bits: those of the last one are tried first
    for (int bits = labelling.bits_, found;; bits = found, summed = true) {
        const double scale = std::ldexp(1.0, bits);
        for (int64_t j = 0; j < p; ++j) {
            const int64_t n = shape.n_clusters[j], at = (shape.first[j] - j) * k;
            const int64_t* alpha = given ? given + at : labelling.alpha_.data() + shape.first[j] * k;
            if (!summed) kernels.sum_rows(alpha, n, k, cells + j * k, squares + j * k);
            const Centres centres = terms.of(kernels, cells + j * k, squares + j * k, weights[j]);
            largest[j] = kernels.fixed_score_rows(alpha, n, k, centres, scale, labelling.next_.data() + at);
        }
        found = bits_for(largest);
        if (found != bits) continue;
        if (!given) labelling.summed_ = true;
        return bits;
    }
}

namespace {

// Each label the centre carries scores its weight, every other one loses it, and partitions it misses count nothing.
template <class T>
int table_of_rows_as(const Shape& shape, Labelling& labelling, const T* codes, const double* weights) {
    const int64_t k = labelling.k_, p = shape.p;
    const auto seen = [&](int64_t c, int64_t j) { return (int64_t)codes[c * p + j] < shape.n_clusters[j]; };
    std::vector<double> largest((size_t)p, 0.0);
    for (int64_t c = 0; c < k; ++c)
        for (int64_t j = 0; j < p; ++j)
            if (seen(c, j)) largest[j] = std::fabs(weights[j]);
    const int bits = bits_for(largest);
    labelling.next_.resize((size_t)(shape.d * k));
    labelling.common_ = 0;
    std::vector<int32_t> row((size_t)k);
    for (int64_t j = 0; j < p; ++j) {
        const int32_t value = (int32_t)std::nearbyint(std::ldexp(weights[j], bits));
        labelling.common_ = std::gcd(labelling.common_, (int64_t)value);
        int32_t* part = labelling.next_.data() + (shape.first[j] - j) * k;
        for (int64_t c = 0; c < k; ++c) row[c] = seen(c, j) ? -value : 0;
        for (int64_t f = 0; f < shape.n_clusters[j]; ++f) std::copy(row.begin(), row.end(), part + f * k);
        for (int64_t c = 0; c < k; ++c)
            if (seen(c, j)) part[(int64_t)codes[c * p + j] * k + c] = value;
    }
    return bits;
}

}  // namespace

int table_of_rows(const Shape& shape, Labelling& labelling, const void* codes, int width, const double* weights) {
    switch (width) {
        case 1: return table_of_rows_as(shape, labelling, (const uint8_t*)codes, weights);
        case 2: return table_of_rows_as(shape, labelling, (const uint16_t*)codes, weights);
        default: return table_of_rows_as(shape, labelling, (const uint32_t*)codes, weights);
    }
}

double kmeans_loss(const Kernels& kernels, const Shape& shape, const Labelling& labelling, const double* weights) {
    const int64_t n = shape.p * labelling.k_;
    const int64_t *cells = labelling.cells_.data(), *squares = labelling.squares_.data();
    if (std::all_of(weights, weights + shape.p, [](double weight) { return weight == 1.0; })) {
        constexpr int64_t unit = int64_t(1) << 52;  // squares / cells is 0 or at least 1: its digits end at 2**-52
        int64_t whole = 0, parts = 0;               // the exact sum is whole - parts / 2**52
        for (int64_t i = 0; i < n; i += 1024) {
            int64_t some, rest;
            kernels.loss_sums(cells + i, squares + i, std::min<int64_t>(1024, n - i), &some, &rest);
            parts += rest % unit;
            whole += some - rest / unit - parts / unit;
            parts %= unit;
        }
        return (double)whole - (double)parts / (double)unit;  // both exact, so rounded once
    }
    std::vector<double> terms;
    for (int64_t i = 0; i < n; ++i) {
        const double weight = weights[i / labelling.k_];
        terms.push_back(weight * (double)cells[i]);
        terms.push_back(weight * -((double)squares[i] / (double)std::max<int64_t>(cells[i], 1)));
    }
    return exact_sum(terms.data(), (int64_t)terms.size());
}

int64_t count_empty(const Shape& shape, const Labelling& labelling) {
    const std::vector<int64_t> sizes = cluster_sizes(shape, labelling.alpha_.data(), labelling.k_);
    return std::count(sizes.begin(), sizes.end(), 0);
}

}  // namespace coassoc

// Gains of moving one row to each cluster, for the exchange. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

// x[c] = sum over the m table rows named of alpha[row * k + c]; `sum` is space for k counts.
template <class Count>
void sum_named(const Count* alpha, const int64_t* named, int64_t m, int32_t k, Count* sum, double* x) {
    for (int32_t c = 0; c < k; ++c) sum[c] = 0;
    for (int64_t j = 0; j < m; ++j) {
        const Count* row = alpha + named[j] * k;
        for (int32_t c = 0; c < k; ++c) sum[c] += row[c];
    }
    for (int32_t c = 0; c < k; ++c) x[c] = (double)sum[c];
}

void density_gains(const DensityTerms& t, int32_t k, double copies, double more, double* gain) {
    const double unit = t.unit;
    for (int32_t c = 0; c < k; ++c) {
        const double num = t.together[c] + (copies * (2.0 * t.x[c] + more)) * unit;
        const double den = t.observed[c] + (copies * (2.0 * t.y[c] + more)) * unit;
        const double share = den > 0.0 ? num / den : 0.0;
        gain[c] = (t.sizes[c] + copies) * share - t.values[c];
    }
}

void add_agreement(const int64_t* in, const int64_t* in_cells, int64_t shared, int64_t entropy, double twice,
                   double before, int32_t k, double* gain) {
    const double half = 0.5 * twice;
    for (int32_t c = 0; c < k; ++c) {
        const int64_t n = shared + in[c] - in_cells[c], e = entropy - in_cells[c];
        const double term = twice * (double)n / (double)(e == 0 ? 1 : e);
        gain[c] += (e == 0 ? half : term) - before;
    }
}

}  // namespace
}  // namespace coassoc

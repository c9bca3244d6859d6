// HᵀH, plain and weighted.
#include <algorithm>

#include "rows.h"

namespace coassoc {

void Rows::overlap(int64_t* out) {
    const int64_t size = shape_.padded();
    const Opened opened = open(true);
    const View& rows = opened.view;
    std::vector<Buffer> scratch = scratches(n_threads_);
    Buffer space(size * size * 8);
    int64_t* total = (int64_t*)space.data();
    std::fill(total, total + size * size, 0);
    const int64_t p = shape_.p;
    run_tasks(n_threads_, p, [&](int64_t j, int slot) {
        kernels_->overlap_chunk(rows, j, 0, n_blocks(), total + shape_.first[j] * size, size, scratch[slot].data());
    });
    for (int64_t j = 0; j < p; ++j)
        for (int64_t g = j; g < p; ++g)
            for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
                for (int64_t c = 0; c < shape_.n_clusters[g]; ++c) {
                    const int64_t value = total[(shape_.first[j] + a) * size + shape_.first[g] + c];
                    const int64_t x = shape_.first[j] - j + a, y = shape_.first[g] - g + c;
                    out[x * shape_.d + y] = out[y * shape_.d + x] = value;
                }
}

void Rows::weighted_overlap(const double* weights, double* out) {
    const int64_t size = shape_.padded(), p = shape_.p;
    const Opened opened = open(true);
    const View& rows = opened.view;
    std::vector<double> padded((size_t)size, 0.0);
    for (int64_t j = 0; j < p; ++j)
        for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
            padded[(size_t)(shape_.first[j] + a)] = weights[shape_.first[j] - j + a];
    std::vector<Buffer> scratch = scratches(n_threads_);
    int64_t most = 0;
    for (int64_t n : shape_.n_clusters) most = std::max(most, n + 1);
    std::vector<std::vector<double>> own((size_t)n_threads_);
    std::vector<double> factor((size_t)kOverlapRows), total((size_t)(size * size), 0.0);
    for (int64_t start = 0; start < view_.n; start += kOverlapRows) {
        const int64_t stop = std::min(view_.n, start + kOverlapRows);
        const auto code = [&](int64_t row, int64_t j) -> int64_t {
            const int64_t at = (view_.ids ? (int64_t)view_.ids[row] : row) * p + j;
            if (view_.width == 1) return ((const uint8_t*)view_.codes)[at];
            if (view_.width == 2) return ((const uint16_t*)view_.codes)[at];
            return ((const uint32_t*)view_.codes)[at];
        };
        const int64_t step = 4096, tasks = (stop - start + step - 1) / step;
        run_tasks(n_threads_, tasks, [&](int64_t t, int) {
            for (int64_t row = start + t * step; row < std::min(stop, start + (t + 1) * step); ++row) {
                double spread = 0.0;
                for (int64_t j = 0; j < p; ++j) spread += padded[(size_t)(shape_.first[j] + code(row, j))];
                const double share = spread > 0 ? 1.0 / spread : 0.0;
                factor[(size_t)(row - start)] = view_.copies ? (double)view_.copies[row] * share : share;
            }
        });
        run_tasks(n_threads_, p, [&](int64_t j, int slot) {
            const int64_t cells = (shape_.n_clusters[j] + 1) * size;
            own[slot].assign((size_t)(most * size), 0.0);
            kernels_->weighted_overlap_chunk(rows, j, start / kLanes, (stop + kLanes - 1) / kLanes, factor.data(),
                                             own[slot].data(), size, scratch[slot].data());
            double* to = total.data() + shape_.first[j] * size;
            for (int64_t c = 0; c < cells; ++c) to[c] += own[slot][(size_t)c];
        });
    }
    for (int64_t j = 0; j < p; ++j)
        for (int64_t g = j; g < p; ++g)
            for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
                for (int64_t c = 0; c < shape_.n_clusters[g]; ++c) {
                    const double value = total[(size_t)((shape_.first[j] + a) * size + shape_.first[g] + c)];
                    const int64_t x = shape_.first[j] - j + a, y = shape_.first[g] - g + c;
                    out[x * shape_.d + y] = out[y * shape_.d + x] = value;
                }
}

}  // namespace coassoc

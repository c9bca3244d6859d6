// Arithmetic on tables of counts and scores. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

void narrow_row(const int32_t* row, int32_t k, double base, double step, int32_t top, double* worst, uint8_t* out,
                int64_t stride) {
    const double inverse = 1.0 / step;
    int32_t level[64];
    for (int32_t start = 0; start < k; start += 64) {
        const int32_t n = smaller(k - start, 64);
        for (int32_t c = 0; c < n; ++c) {
            const double height = (double)row[start + c] - base;
            level[c] = smaller((int32_t)(height * inverse + 0.5), top);
            const double off = height - (double)level[c] * step, size = off < 0 ? -off : off;
            worst[start + c] = worst[start + c] < size ? size : worst[start + c];
        }
        for (int32_t c = 0; c < n; ++c) out[(start + c) * stride] = (uint8_t)level[c];
    }
}

void change_row(const int32_t* before, const int32_t* after, int32_t k, double scale, double* high, double* low) {
    for (int32_t c = 0; c < k; ++c) {
        const double change = (double)after[c] - (double)before[c] * scale;
        high[c] = high[c] > change ? high[c] : change;
        low[c] = low[c] < change ? low[c] : change;
    }
}

}  // namespace
}  // namespace coassoc

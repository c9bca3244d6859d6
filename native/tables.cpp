#include "tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace coassoc {
namespace {

// What a row of each cluster can have lost, given the most and the least that each cluster gained.
std::vector<int64_t> losses_of(const std::vector<int64_t>& gained, const std::vector<int64_t>& least) {
    const size_t k = gained.size(), top = (size_t)(std::max_element(gained.begin(), gained.end()) - gained.begin());
    int64_t other = least[top];  // the most gained by any cluster but `top`
    for (size_t c = 0; c < k; ++c)
        if (c != top) other = std::max(other, gained[c]);
    std::vector<int64_t> lost(k);
    for (size_t c = 0; c < k; ++c) lost[c] = (c == top ? other : gained[top]) - least[c];
    return lost;
}

}  // namespace

Comparison compare(const Kernels& kernels, const Shape& shape, const int32_t* before, int before_bits,
                   const int32_t* after, int after_bits, int32_t k, int shift) {
    Comparison out;
    // both tables in the coarser one's units, and halved, so that no difference can overflow
    const int finer = before ? after_bits - before_bits : 0;
    const int after_shift = 1 + std::max(finer, 0), before_shift = 1 + std::max(-finer, 0);
    std::vector<int64_t> gained((size_t)k, 0), least((size_t)k, 0);
    std::vector<int32_t> high((size_t)k), low((size_t)k);
    for (int64_t j = 0; j < shape.p; ++j) {
        const int64_t at = (shape.first[j] - j) * k, n = shape.n_clusters[j];
        const int32_t none = shape.missing[j] || !n ? 0 : 2147483647;
        int32_t smallest = 0, largest = 0;
        std::fill(high.begin(), high.end(), -none);
        std::fill(low.begin(), low.end(), none);
        if (n)
            kernels.compare_rows(before ? before + at : nullptr, before_shift, after + at, after_shift, n, k,
                                 high.data(), low.data(), &smallest, &largest);
        out.low.push_back(shape.missing[j] ? std::min(smallest, 0) : smallest);
        out.high.push_back(shape.missing[j] ? std::max(largest, 0) : largest);
        for (int32_t c = 0; c < k && before; ++c) {  // shifts round down: a change may be one more, or one less
            gained[c] += (int64_t)high[c] + 1;
            least[c] += (int64_t)low[c] - 1;
        }
    }
    if (!before) return out;
    for (const int64_t some : losses_of(gained, least)) {
        const double units = std::ceil(std::ldexp((double)std::max<int64_t>(some, 0), after_shift - shift));
        out.drop.push_back((uint32_t)std::min(units, 1e9));
    }
    return out;
}

WideTable widen(const Shape& shape, const int32_t* values, int32_t k, Buffer& space) {
    WideTable out{};
    out.rows = shape.padded();
    out.k = k;
    out.n_tiles = (k + 63) / 64;
    const int32_t remaining = k - 64 * (out.n_tiles - 1);
    out.last = remaining > 32 ? 64 : (remaining + 7) / 8 * 8;
    const int64_t cells = out.rows * ((int64_t)(out.n_tiles - 1) * 64 + out.last);
    const bool fresh = space.bytes() < cells * 4;  // else only the scores change
    space.reserve(cells * 4);
    int32_t* tiles = (int32_t*)space.data();
    for (int64_t j = 0; j < shape.p; ++j) {
        const int64_t n = shape.n_clusters[j];
        const int32_t* part = values + (shape.first[j] - j) * k;
        // columns past k sum to the lowest of all numbers, so that they never beat a real one
        const int32_t share = 2147483647 / (int32_t)shape.p;
        const int32_t never = j ? -share : -(2147483647 - share * (int32_t)(shape.p - 1));
        for (int32_t t = 0; t < out.n_tiles; ++t) {
            const int32_t width = t + 1 < out.n_tiles ? 64 : out.last, real = std::min(width, k - 64 * t);
            int32_t* to = tiles + (int64_t)t * out.rows * 64 + shape.first[j] * width;
            if (fresh)  // the last row is that of a missing label
                for (int64_t f = 0; f <= n; ++f)
                    for (int32_t c = 0; c < width; ++c) to[f * width + c] = c < real ? 0 : never;
            for (int64_t f = 0; f < n; ++f)
                for (int32_t c = 0; c < real; ++c) to[f * width + c] = part[f * k + 64 * t + c];
        }
    }
    out.values = tiles;
    return out;
}

void pad_rows(const Shape& shape, const int32_t* values, int32_t k, int32_t* out) {
    for (int64_t j = 0; j < shape.p; ++j) {
        const int64_t n = shape.n_clusters[j] * k;
        std::memcpy(out + shape.first[j] * k, values + (shape.first[j] - j) * k, 4 * (size_t)n);
        std::memset(out + shape.first[j] * k + n, 0, 4 * (size_t)k);
    }
}

NarrowPlan plan_narrow(const Shape& shape, int width) {
    NarrowPlan plan;
    if (width != 1 || shape.p > 4096) return plan;
    plan.start.resize((size_t)shape.p);
    const auto part = [&](int64_t j) {
        const int64_t entries = shape.n_clusters[j] + shape.missing[j];
        return entries <= 64 ? 64 : entries <= 128 ? 128 : 256;
    };
    for (const int size : {64, 128, 256}) {
        int32_t& count = size == 64 ? plan.n64 : size == 128 ? plan.n128 : plan.n256;
        for (int64_t j = 0; j < shape.p; ++j) {
            if (part(j) != size) continue;
            plan.start[j] = plan.stride;
            plan.stride += size;
            plan.column.push_back(j * kLanes);
            ++count;
        }
    }
    plan.possible = true;
    return plan;
}

NarrowTable narrow(const Kernels& kernels, const Shape& shape, const NarrowPlan& plan, const Comparison& ranges,
                   const int32_t* values, int32_t k, int shift, Buffer& space) {
    NarrowTable out{};
    if (!plan.possible || k > 65535) return out;
    const int64_t top = std::min<int64_t>(127, 65535 / shape.p);
    int64_t range = 0;
    for (int64_t j = 0; j < shape.p; ++j) range = std::max(range, ranges.high[j] - ranges.low[j]);
    const int64_t step = std::max<int64_t>(1, (range + top - 1) / top);
    space.reserve(plan.stride * k);
    int64_t error = 0;  // by which the levels of a row can be off, together
    for (int64_t j = 0; j < shape.p; ++j)
        error += kernels.narrow_rows(values + (shape.first[j] - j) * k, shape.n_clusters[j], shape.missing[j], k,
                                     {(int32_t)ranges.low[j], (uint32_t)step, (uint32_t)top},
                                     (uint8_t*)space.data() + plan.start[j], plan.stride);
    const int64_t bound = 2 * error;  // by which a gap can be off
    const int64_t need = bound ? bound / step + 1 : 0;
    if (need > 65535) return out;
    out.values = (const uint8_t*)space.data();
    out.stride = plan.stride;
    out.column = plan.column.data();
    out.n64 = plan.n64, out.n128 = plan.n128, out.n256 = plan.n256;
    out.need = (uint32_t)need;
    out.slack = (uint32_t)((bound + step - 1) / step);
    out.scale = (uint32_t)std::min<int64_t>(65535, step >> shift);
    return out;
}

std::vector<int64_t> cluster_sizes(const Shape& shape, const int64_t* alpha, int64_t k) {
    std::vector<int64_t> sizes((size_t)k, 0);
    for (int64_t f = 0; f <= shape.n_clusters[0]; ++f)
        for (int64_t c = 0; c < k; ++c) sizes[c] += alpha[f * k + c];
    return sizes;
}

}  // namespace coassoc

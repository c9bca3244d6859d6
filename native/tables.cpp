#include "tables.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace coassoc {
namespace {

void reserve(Buffer& space, int64_t bytes) {
    if (space.bytes() < bytes) space = Buffer(bytes);
}

void halve(const int32_t* pairs, int64_t n, int32_t* half) {
    for (int64_t f = 0; f < n; ++f) half[f] = (pairs[2 * f + 1] >> 1) - (pairs[2 * f] >> 1);
}

bool any_odd(const int32_t* pairs, int64_t n) {
    int32_t odd = 0;
    for (int64_t f = 0; f < n; ++f) odd |= pairs[2 * f] ^ pairs[2 * f + 1];
    return odd & 1;
}

// Bounds fall by what clusters gained and lost, in units of 2**exponent of a bound's.
std::vector<uint32_t> drops(const std::vector<int64_t>& lost, int exponent) {
    std::vector<uint32_t> out;
    for (const int64_t some : lost) {
        const double units = std::ceil(std::ldexp((double)std::max<int64_t>(some, 0), exponent));
        out.push_back((uint32_t)std::min(units, 1e9));
    }
    return out;
}

Comparison compare_halves(const Kernels& kernels, const Shape& shape, const int32_t* before, int before_shift,
                          const int32_t* after, int after_shift, int shift) {
    Comparison out;
    std::vector<int32_t> earlier(before ? (size_t)shape.d : 0);
    out.half.resize((size_t)shape.d);
    halve(after, shape.d, out.half.data());
    if (before) halve(before, shape.d, earlier.data());
    std::vector<int64_t> lost(2, 0);  // by rows of the first cluster as the difference rises, of the second as it falls
    for (int64_t j = 0; j < shape.p; ++j) {
        const int64_t at = shape.first[j] - j, n = shape.n_clusters[j];
        const int32_t none = shape.missing[j] || !n ? 0 : 2147483647;
        int32_t high = -none, low = none, smallest = 0, largest = 0;
        if (n)
            kernels.compare_rows(before ? earlier.data() + at : nullptr, before_shift, out.half.data() + at,
                                 after_shift, n, 1, &high, &low, &smallest, &largest);
        out.low.push_back(shape.missing[j] ? std::min(smallest, 0) : smallest);
        out.high.push_back(shape.missing[j] ? std::max(largest, 0) : largest);
        out.rounded += any_odd(after + 2 * at, n);
        lost[0] += (int64_t)high + 2;  // one for the shifts, which round down, and one for the halves
        lost[1] -= (int64_t)low - 2;
    }
    if (before) out.drop = drops(lost, after_shift + 1 - shift);
    return out;
}

}  // namespace

Comparison compare(const Kernels& kernels, const Shape& shape, const int32_t* before, int before_bits,
                   const int32_t* after, int after_bits, int32_t k, int shift) {
    // both tables in the coarser one's units, and halved, so that no difference can overflow
    const int finer = before ? after_bits - before_bits : 0;
    const int after_shift = 1 + std::max(finer, 0), before_shift = 1 + std::max(-finer, 0);
    if (k == 2) return compare_halves(kernels, shape, before, before_shift, after, after_shift, shift);
    Comparison out;
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
    const int64_t top = std::max_element(gained.begin(), gained.end()) - gained.begin();
    int64_t other = least[top];  // the most gained by any cluster but `top`
    for (int32_t c = 0; c < k; ++c)
        if (c != top) other = std::max(other, gained[c]);
    std::vector<int64_t> lost((size_t)k);
    for (int32_t c = 0; c < k; ++c) lost[c] = (c == top ? other : gained[top]) - least[c];
    out.drop = drops(lost, after_shift - shift);
    return out;
}

WideTable widen(const Kernels& kernels, const Shape& shape, const Comparison& ranges, const int32_t* values, int32_t k, Buffer& space) {
    WideTable out{};
    out.rows = shape.padded();
    out.k = k;
    if (k == 2) {
        reserve(space, out.rows * 8);
        int64_t* packed = (int64_t*)space.data();
        for (int64_t j = 0; j < shape.p; ++j) {
            const int32_t* part = values + (shape.first[j] - j) * 2;
            int64_t* to = packed + shape.first[j];
            for (int64_t f = 0; f < shape.n_clusters[j]; ++f)
                to[f] = (int64_t)part[2 * f + 1] * ((int64_t)1 << 32) + part[2 * f];
            to[shape.n_clusters[j]] = 0;
        }
        out.values = (const int32_t*)packed;
        out.n_tiles = 1;
        out.last = 2;
        return out;
    }
    out.n_tiles = (k + 63) / 64;
    const int32_t rest = k - 64 * (out.n_tiles - 1);
    out.last = rest > 32 ? 64 : (rest + 7) / 8 * 8;
    reserve(space, out.rows * ((int64_t)(out.n_tiles - 1) * 64 + out.last) * 4);
    int32_t* tiles = (int32_t*)space.data();
    const std::vector<int32_t> zeros(64, 0);
    for (int64_t j = 0; j < shape.p; ++j) {
        const int64_t n = shape.n_clusters[j];
        const int32_t* part = values + (shape.first[j] - j) * k;
        const int64_t low = ranges.low[j], high = ranges.high[j];
        // any score is at least minus the sum of the largest sizes, so these columns never beat a real one
        const int32_t never = (int32_t)std::max<int64_t>(-std::max(std::abs(low), std::abs(high)), -2147483647);
        for (int32_t t = 0; t < out.n_tiles; ++t) {
            const int32_t width = t + 1 < out.n_tiles ? 64 : out.last, real = std::min(width, k - 64 * t);
            int32_t* to = tiles + (int64_t)t * out.rows * 64 + shape.first[j] * width;
            kernels.widen_rows(part + 64 * t, n, k, real, width, never, to);
            kernels.widen_rows(zeros.data(), 1, k, real, width, never, to + n * width);
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
    auto part = [&](int64_t j) {
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

namespace {

// Heights of the entries above the least of their partition, in 7-bit levels of one step.
struct Levels {
    int64_t step = 1;
    std::vector<int64_t> error;  // (k,) that levels of a row can be off by, together
    const uint8_t* bytes = nullptr;
};

// A common divisor of all heights, `range` being the largest; 0 when it is too small for `top` levels.
int64_t common_divisor(const Shape& shape, const std::vector<int64_t>& low, const int32_t* values, int32_t k,
                       int64_t range, int64_t top) {
    int64_t common = range;
    for (int64_t j = 0; j < shape.p && common * top >= range && common > 0; ++j) {
        const int32_t* part = values + (shape.first[j] - j) * k;
        if (shape.missing[j]) common = std::gcd(common, -low[j]);
        int32_t seen = part[0];  // such tables have few different values: most need no division
        if ((seen - low[j]) % common) common = std::gcd(common, seen - low[j]);
        for (int64_t i = 0; i < shape.n_clusters[j] * k && common * top >= range; ++i) {
            if (part[i] == seen || part[i] == low[j]) continue;
            seen = part[i];
            if ((seen - low[j]) % common) common = std::gcd(common, seen - low[j]);
        }
    }
    return common * top >= range ? common : 0;
}

Levels put_levels(const Kernels& kernels, const Shape& shape, const NarrowPlan& plan, const Comparison& ranges,
                  const int32_t* values, int32_t k, int64_t common, Buffer& space) {
    const int64_t top = std::min<int64_t>(127, 65535 / shape.p);
    const std::vector<int64_t>& low = ranges.low;
    int64_t range = 0;
    for (int64_t j = 0; j < shape.p; ++j) range = std::max(range, ranges.high[j] - low[j]);
    // a common divisor makes the narrow scores exact: so it is when centres are single rows, full of ties
    if (common * top < range || common == 0) common = common_divisor(shape, low, values, k, range, top);
    Levels out;
    out.step = common ? common : std::max<int64_t>(1, (range + top - 1) / top);

    reserve(space, plan.stride * k);
    uint8_t* bytes = (uint8_t*)space.data();
    out.bytes = bytes;
    out.error.resize((size_t)k, 0);
    std::vector<uint32_t> worst((size_t)k);
    for (int64_t j = 0; j < shape.p; ++j) {
        std::fill(worst.begin(), worst.end(), 0);
        kernels.narrow_rows(values + (shape.first[j] - j) * k, shape.n_clusters[j], shape.missing[j], k,
                            (int32_t)low[j], (uint32_t)out.step, (int32_t)top, worst.data(), bytes + plan.start[j],
                            plan.stride);
        for (int32_t c = 0; c < k; ++c) out.error[c] += worst[c];
    }
    return out;
}

}  // namespace

NarrowTable narrow(const Kernels& kernels, const Shape& shape, const NarrowPlan& plan, const Comparison& ranges,
                   const int32_t* values, int32_t k, int shift, int64_t common, Buffer& space) {
    NarrowTable out{};
    if (!plan.possible || k > 65535) return out;
    const bool pair = k == 2;
    const Levels levels = pair ? put_levels(kernels, shape, plan, ranges, ranges.half.data(), 1, 0, space)
                               : put_levels(kernels, shape, plan, ranges, values, k, common, space);
    const int64_t step = levels.step;
    int64_t bound;  // that the gap of two clusters can be off by
    if (pair) {     // a row belongs to the second cluster if its level is above that of no difference
        const int64_t zero = -std::accumulate(ranges.low.begin(), ranges.low.end(), int64_t(0));
        const int64_t centre = std::min<int64_t>(65535, (std::max<int64_t>(zero, 0) + step / 2) / step);
        out.centre = (uint32_t)centre;
        bound = levels.error[0] + std::abs(centre * step - zero) + ranges.rounded;
    } else {
        bound = 2 * *std::max_element(levels.error.begin(), levels.error.end());
    }
    const int64_t need = bound ? bound / step + 1 : 0;
    if (need > 65535) return out;
    out.pair = pair;
    out.values = levels.bytes;
    out.stride = plan.stride;
    out.column = plan.column.data();
    out.n64 = plan.n64, out.n128 = plan.n128, out.n256 = plan.n256;
    out.need = (uint32_t)need;
    out.slack = (uint32_t)((bound + step - 1) / step);
    out.scale = (uint32_t)std::min<int64_t>(65535, (pair ? 2 * step : step) >> shift);
    return out;
}

std::vector<int64_t> cluster_sizes(const Shape& shape, const int64_t* alpha, int64_t k) {
    std::vector<int64_t> sizes((size_t)k, 0);
    for (int64_t f = 0; f <= shape.n_clusters[0]; ++f)
        for (int64_t c = 0; c < k; ++c) sizes[c] += alpha[f * k + c];
    return sizes;
}

}  // namespace coassoc

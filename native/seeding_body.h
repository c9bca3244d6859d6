// Distances to candidate rows, for k-means++. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

// Weight shared with the candidates, block by block: acc[c][lane] = sum of weights where the labels are equal or
// one is missing. distance = weight of all partitions - acc.
template <class T, class A>
inline void shared_weight(const View& view, const SeedJob& job, const T* block, A (*acc)[kLanes]) {
    const T* candidates = (const T*)job.candidates;
    for (int c = 0; c < job.m; ++c) {
        A* mine = acc[c];
        for (int lane = 0; lane < kLanes; ++lane) mine[lane] = 0;
        for (int64_t j = 0; j < view.p; ++j) {
            const T* codes = block + j * kLanes;
            const T code = candidates[c * view.p + j], missing = (T)view.n_clusters[j];
            const A weight = (A)job.weights[j];
            if ((int64_t)code == view.n_clusters[j])
                for (int lane = 0; lane < kLanes; ++lane) mine[lane] = (A)(mine[lane] + weight);
            else
                for (int lane = 0; lane < kLanes; ++lane)
                    mine[lane] = (A)(mine[lane] + ((codes[lane] == code) | (codes[lane] == missing) ? weight : 0));
        }
    }
}

template <class A>
inline int64_t sum_lanes(const A* values, const int64_t* copies, int lanes) {
    if (copies) {
        int64_t sum = 0;
        for (int lane = 0; lane < lanes; ++lane) sum += (int64_t)values[lane] * copies[lane];
        return sum;
    }
#if defined(__AVX2__)
    if (sizeof(A) == 1) {  // lanes past the end hold zeros
        const __m256i zero = _mm256_setzero_si256();
        const __m256i a = _mm256_sad_epu8(_mm256_load_si256((const __m256i*)values), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_load_si256((const __m256i*)values + 1), zero);
        const __m256i both = _mm256_add_epi64(a, b);
        const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        return _mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1);
    }
#endif
    int64_t sum = 0;
    for (int lane = 0; lane < lanes; ++lane) sum += (int64_t)values[lane];
    return sum;
}

// A register of bytes, and what distances need of it.
#if defined(__AVX2__)
struct Bytes {
    static constexpr int kSize = 32;
    __m256i v;
    static Bytes of(uint8_t x) { return {_mm256_set1_epi8((char)x)}; }
    static Bytes at(const uint8_t* from) { return {_mm256_load_si256((const __m256i*)from)}; }
    void put(uint8_t* to) const { _mm256_store_si256((__m256i*)to, v); }
    Bytes less_equal(Bytes a, Bytes b) const {
        Bytes out = {_mm256_add_epi8(v, _mm256_cmpeq_epi8(a.v, b.v))};
#if defined(__GNUC__)
        asm("" : "+x"(out.v));  // in place: GCC would hoist the comparisons and spill a sum
#endif
        return out;
    }
    Bytes least(Bytes a) const { return {_mm256_min_epu8(v, a.v)}; }
};
struct ByteSum {
    __m256i v = _mm256_setzero_si256();
    void add(Bytes a) { v = _mm256_add_epi64(v, _mm256_sad_epu8(a.v, _mm256_setzero_si256())); }
    int64_t total() const {
        const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        return _mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1);
    }
};
#elif defined(__SSE2__)
struct Bytes {
    static constexpr int kSize = 16;
    __m128i v;
    static Bytes of(uint8_t x) { return {_mm_set1_epi8((char)x)}; }
    static Bytes at(const uint8_t* from) { return {_mm_load_si128((const __m128i*)from)}; }
    void put(uint8_t* to) const { _mm_store_si128((__m128i*)to, v); }
    Bytes less_equal(Bytes a, Bytes b) const { return {_mm_add_epi8(v, _mm_cmpeq_epi8(a.v, b.v))}; }
    Bytes least(Bytes a) const { return {_mm_min_epu8(v, a.v)}; }
};
struct ByteSum {
    __m128i v = _mm_setzero_si128();
    void add(Bytes a) { v = _mm_add_epi64(v, _mm_sad_epu8(a.v, _mm_setzero_si128())); }
    int64_t total() const { return _mm_cvtsi128_si64(v) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(v, v)); }
};
#else
struct Bytes {
    static constexpr int kSize = 16;
    uint8_t v[kSize];  // loops of 16 become one instruction where there is one
    static Bytes of(uint8_t x) {
        Bytes out;
        for (uint8_t& it : out.v) it = x;
        return out;
    }
    static Bytes at(const uint8_t* from) {
        Bytes out;
        memcpy(out.v, from, kSize);
        return out;
    }
    void put(uint8_t* to) const { memcpy(to, v, kSize); }
    Bytes less_equal(Bytes a, Bytes b) const {
        Bytes out;
        for (int i = 0; i < kSize; ++i) out.v[i] = (uint8_t)(v[i] - (a.v[i] == b.v[i]));
        return out;
    }
    Bytes least(Bytes a) const {
        for (int i = 0; i < kSize; ++i) a.v[i] = smaller(a.v[i], v[i]);
        return a;
    }
};
struct ByteSum {
    int64_t v = 0;
    void add(Bytes a) {
        for (const uint8_t it : a.v) v += it;
    }
    int64_t total() const { return v; }
};
#endif

// Bytes, unit weights, nothing missing, no copies: up to four candidates side by side, one compare and one subtraction
// each.
template <int M>
void plain_distances(const View& view, const SeedJob& job, int first, int64_t b0, int64_t b1, char* scratch) {
    const uint8_t* candidates = (const uint8_t*)job.candidates + first * view.p;
    constexpr int64_t kSuper = kSuperRows / kLanes;
    ByteSum sum[M];
    for (int64_t b = b0; b < b1; ++b) {
        const uint8_t* block = block_of<uint8_t>(view, b, (uint8_t*)scratch);
        alignas(kLanes) uint8_t real[kLanes];  // lanes past the end hold zeros
        const int lanes = lanes_in(view, b);
        for (int lane = 0; lane < kLanes && lanes < kLanes; ++lane) real[lane] = lane < lanes ? 255 : 0;
        for (int lane = 0; lane < kLanes; lane += 2 * Bytes::kSize) {
            Bytes low[M], high[M];
            for (int c = 0; c < M; ++c) low[c] = high[c] = Bytes::of((uint8_t)view.p);
            for (int64_t j = 0; j < view.p; ++j) {
                const Bytes a = Bytes::at(block + j * kLanes + lane);
                const Bytes b = Bytes::at(block + j * kLanes + lane + Bytes::kSize);
                for (int c = 0; c < M; ++c) {
                    const Bytes code = Bytes::of(candidates[c * view.p + j]);
                    low[c] = low[c].less_equal(a, code);
                    high[c] = high[c].less_equal(b, code);
                }
            }
            for (int half = 0; half < 2; ++half) {
                const int64_t from = lane + half * Bytes::kSize, at = b * kLanes + from;
                for (int c = 0; c < M; ++c) {
                    Bytes mine = half ? high[c] : low[c];
                    if (job.now) mine = mine.least(Bytes::at((const uint8_t*)job.now + at));
                    if (lanes < kLanes) mine = mine.least(Bytes::at(real + from));
                    if (job.next) mine.put((uint8_t*)job.next[first + c] + at);
                    sum[c].add(mine);
                }
            }
        }
        if (b + 1 == b1 || (b + 1) % kSuper == 0)
            for (int c = 0; c < M; ++c) {
                job.sums[(first + c) * job.n_super + b / kSuper] += sum[c].total();
                sum[c] = ByteSum{};
            }
    }
}

bool plain_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (view.width != 1 || job.width != 1 || !job.plain || view.copies) return false;
    for (int c = 0; c < job.m; c += 4) {
        switch (smaller(job.m - c, 4)) {
            case 1: plain_distances<1>(view, job, c, b0, b1, scratch); break;
            case 2: plain_distances<2>(view, job, c, b0, b1, scratch); break;
            case 3: plain_distances<3>(view, job, c, b0, b1, scratch); break;
            default: plain_distances<4>(view, job, c, b0, b1, scratch); break;
        }
    }
    return true;
}

template <class T, class A>
void distance_chunk_as(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    alignas(64) A acc[kMaxCandidates][kLanes];
    uint64_t all = 0;
    for (int64_t j = 0; j < view.p; ++j) all += job.weights[j];
    const A whole = (A)all;
    const A* now = (const A*)job.now;
    for (int64_t b = b0; b < b1; ++b) {
        const T* block = block_of<T>(view, b, (T*)scratch);
        const int lanes = lanes_in(view, b);
        shared_weight<T, A>(view, job, block, acc);
        const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
        for (int c = 0; c < job.m; ++c) {
            A* mine = acc[c];
            if (now)
                for (int lane = 0; lane < kLanes; ++lane)
                    mine[lane] = smaller<A>((A)(whole - mine[lane]), now[b * kLanes + lane]);
            else
                for (int lane = 0; lane < kLanes; ++lane) mine[lane] = (A)(whole - mine[lane]);
            for (int lane = lanes; lane < kLanes; ++lane) mine[lane] = 0;
            job.sums[c * job.n_super + b / (kSuperRows / kLanes)] += sum_lanes(mine, copies, lanes);
            if (job.next) memcpy((A*)job.next[c] + b * kLanes, mine, sizeof(A) * kLanes);
        }
    }
}

void mark_nearer(const uint8_t* now, const uint8_t* next, int64_t n, uint8_t c, uint8_t* label) {
    for (int64_t i = 0; i < n; ++i) label[i] = next[i] < now[i] ? c : label[i];
}

template <class T>
void distance_chunk_of(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (plain_distances(view, job, b0, b1, scratch)) return;
    switch (job.width) {
        case 1: return distance_chunk_as<T, uint8_t>(view, job, b0, b1, scratch);
        case 2: return distance_chunk_as<T, uint16_t>(view, job, b0, b1, scratch);
        case 4: return distance_chunk_as<T, uint32_t>(view, job, b0, b1, scratch);
        default: return distance_chunk_as<T, uint64_t>(view, job, b0, b1, scratch);
    }
}

}  // namespace
}  // namespace coassoc

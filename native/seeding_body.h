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

#if defined(__GNUC__)
// Bytes, unit weights, nothing missing: up to four candidates side by side, one compare and one subtract each.
#if defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
typedef uint8_t Bytes __attribute__((vector_size(kBytes), aligned(kBytes)));

template <int M>
inline void shared_bytes(const View& view, const uint8_t* block, const uint8_t* candidates, uint8_t (*acc)[kLanes]) {
    for (int half = 0; half < kLanes; half += 2 * kBytes) {
        Bytes low[M], high[M];
        for (int c = 0; c < M; ++c) low[c] = high[c] = Bytes{};
        for (int64_t j = 0; j < view.p; ++j) {
            const uint8_t* codes = block + j * kLanes + half;
            const Bytes a = *(const Bytes*)codes, b = *(const Bytes*)(codes + kBytes);
            for (int c = 0; c < M; ++c) {
                const Bytes code = Bytes{} + candidates[c * view.p + j];
                low[c] -= (Bytes)(a == code);
                high[c] -= (Bytes)(b == code);
            }
        }
        for (int c = 0; c < M; ++c) {
            *(Bytes*)(acc[c] + half) = low[c];
            *(Bytes*)(acc[c] + half + kBytes) = high[c];
        }
    }
}

inline void shared_bytes(const View& view, const SeedJob& job, const uint8_t* block, uint8_t (*acc)[kLanes]) {
    const uint8_t* candidates = (const uint8_t*)job.candidates;
    for (int c = 0; c < job.m; c += 4) {
        const uint8_t* from = candidates + c * view.p;
        switch (smaller(job.m - c, 4)) {
            case 1: shared_bytes<1>(view, block, from, acc + c); break;
            case 2: shared_bytes<2>(view, block, from, acc + c); break;
            case 3: shared_bytes<3>(view, block, from, acc + c); break;
            default: shared_bytes<4>(view, block, from, acc + c); break;
        }
    }
}
#else
inline void shared_bytes(const View& view, const SeedJob& job, const uint8_t* block, uint8_t (*acc)[kLanes]) {
    shared_weight<uint8_t, uint8_t>(view, job, block, acc);
}
#endif

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
        if (sizeof(T) == 1 && sizeof(A) == 1 && job.plain)
            shared_bytes(view, job, (const uint8_t*)block, (uint8_t(*)[kLanes])acc);
        else
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
    switch (job.width) {
        case 1: return distance_chunk_as<T, uint8_t>(view, job, b0, b1, scratch);
        case 2: return distance_chunk_as<T, uint16_t>(view, job, b0, b1, scratch);
        case 4: return distance_chunk_as<T, uint32_t>(view, job, b0, b1, scratch);
        default: return distance_chunk_as<T, uint64_t>(view, job, b0, b1, scratch);
    }
}

}  // namespace
}  // namespace coassoc

// Distances to candidate rows, for k-means++. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

template <class A>
inline int64_t sum_lanes(const A* values, const int64_t* copies, int lanes) {
    int64_t sum = 0;
    if (copies) {
        for (int lane = 0; lane < lanes; ++lane) sum += (int64_t)values[lane] * copies[lane];
        return sum;
    }
#if defined(__AVX2__)
    if (sizeof(A) == 1) {  // lanes past the end hold zeros
        const __m256i zero = _mm256_setzero_si256();
        const __m256i a = _mm256_sad_epu8(_mm256_loadu_si256((const __m256i*)values), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_loadu_si256((const __m256i*)values + 1), zero);
        const __m256i both = _mm256_add_epi64(a, b);
        const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        return _mm_cvtsi128_si64(half) + _mm_extract_epi64(half, 1);
    }
#endif
    for (int lane = 0; lane < lanes; ++lane) sum += (int64_t)values[lane];
    return sum;
}

// Any weights, missing labels and widths. acc[lane] is the weight of the partitions where the labels are equal, and most
// of it where only one row has a label; the distance is the weight of all partitions less that.
template <class T, class A>
void weighted_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    alignas(64) A acc[kLanes];
    uint64_t all = 0;
    for (int64_t j = 0; j < view.p; ++j) all += job.weights[j];
    const A *now = (const A*)job.now, whole = (A)all;
    for (int64_t b = b0; b < b1; ++b) {
        const T* block = block_of<T>(view, b, (T*)scratch);
        const int lanes = lanes_in(view, b);
        const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
        for (int c = 0; c < job.m; ++c) {
            const T* candidate = (const T*)job.candidates + c * view.p;
            for (int lane = 0; lane < kLanes; ++lane) acc[lane] = 0;
            for (int64_t j = 0; j < view.p; ++j) {
                const T *codes = block + j * kLanes, code = candidate[j], missing = (T)view.n_clusters[j];
                const A weight = (A)job.weights[j];
                // no code means "missing" where the codes need all values of T
                const bool any_missing = (int64_t)missing == view.n_clusters[j];
                const A one_sided = any_missing ? (A)(weight - weight / kOneSided) : 0;
                const A unlike = code == missing ? one_sided : 0;  // for labels that differ from the candidate's
                for (int lane = 0; lane < kLanes; ++lane) {
                    const A other = codes[lane] == missing ? one_sided : unlike;
                    acc[lane] = (A)(acc[lane] + (codes[lane] == code ? weight : other));
                }
            }
            for (int lane = 0; lane < kLanes; ++lane) acc[lane] = (A)(whole - acc[lane]);
            for (int lane = 0; now && lane < kLanes; ++lane) acc[lane] = smaller(acc[lane], now[b * kLanes + lane]);
            for (int lane = lanes; lane < kLanes; ++lane) acc[lane] = 0;
            job.sums[c * job.n_super + b / (kSuperRows / kLanes)] += sum_lanes(acc, copies, lanes);
            if (job.next) memcpy((A*)job.next[c] + b * kLanes, acc, sizeof acc);
        }
    }
}

#if defined(__GNUC__)
typedef uint8_t Bytes __attribute__((vector_size(32)));

// Bytes, unit weights, nothing missing: M candidates at a time, one comparison and one addition for 32 labels.
template <int M>
void plain_distances(const View& view, const SeedJob& job, int first, int64_t b0, int64_t b1, char* scratch) {
    const uint8_t* candidates = (const uint8_t*)job.candidates + first * view.p;
    for (int64_t b = b0; b < b1; ++b) {
        const uint8_t* block = block_of<uint8_t>(view, b, (uint8_t*)scratch);
        const int lanes = lanes_in(view, b);
        alignas(64) uint8_t distance[M][kLanes];
        for (int lane = 0; lane < kLanes; lane += (int)sizeof(Bytes)) {
            Bytes acc[M];
            for (int c = 0; c < M; ++c) acc[c] = Bytes{} + (uint8_t)view.p;
            for (int64_t j = 0; j < view.p; ++j) {
                Bytes codes;
                memcpy(&codes, block + j * kLanes + lane, sizeof codes);
                for (int c = 0; c < M; ++c) {
                    acc[c] += (Bytes)(codes == candidates[c * view.p + j]);  // -1 where the labels are equal
#if defined(__AVX2__)
                    asm("" : "+x"(acc[c]));  // in place: GCC would hoist the comparisons and spill a sum
#endif
                }
            }
            for (int c = 0; c < M; ++c) {
                if (job.now) {
                    Bytes now;
                    memcpy(&now, (const uint8_t*)job.now + b * kLanes + lane, sizeof now);
                    acc[c] = acc[c] < now ? acc[c] : now;
                }
                memcpy(distance[c] + lane, &acc[c], sizeof acc[c]);
            }
        }
        const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
        for (int c = 0; c < M; ++c) {
            for (int lane = lanes; lane < kLanes; ++lane) distance[c][lane] = 0;
            job.sums[(first + c) * job.n_super + b / (kSuperRows / kLanes)] += sum_lanes(distance[c], copies, lanes);
            if (job.next) memcpy((uint8_t*)job.next[first + c] + b * kLanes, distance[c], kLanes);
        }
    }
}

// Bytes, weights kOneSided, labels may be missing: M candidates at a time. With e labels equal (both missing included),
// b of them missing, and `one` missing in one row alone, the distance is kOneSided (p - e - one) + one.
template <int M>
void missing_distances(const View& view, const SeedJob& job, int first, int64_t b0, int64_t b1, char* scratch) {
    const uint8_t* candidates = (const uint8_t*)job.candidates + first * view.p;
    uint8_t gaps[M][256];  // partitions in which a candidate has no label
    int own[M] = {};
    for (int c = 0; c < M; ++c)
        for (int64_t j = 0; j < view.p; ++j)
            if (candidates[c * view.p + j] == view.n_clusters[j]) gaps[c][own[c]++] = (uint8_t)j;
    for (int64_t b = b0; b < b1; ++b) {
        const uint8_t* block = block_of<uint8_t>(view, b, (uint8_t*)scratch);
        const int lanes = lanes_in(view, b);
        alignas(64) uint8_t equal[M][kLanes], both[M][kLanes], absent[kLanes];
        for (int lane = 0; lane < kLanes; lane += (int)sizeof(Bytes)) {
            Bytes same[M] = {}, shared[M] = {}, none = {};
            for (int64_t j = 0; j < view.p; ++j) {
                Bytes codes;
                memcpy(&codes, block + j * kLanes + lane, sizeof codes);
                none -= (Bytes)(codes == (uint8_t)view.n_clusters[j]);
                for (int c = 0; c < M; ++c) {
                    same[c] -= (Bytes)(codes == candidates[c * view.p + j]);
#if defined(__AVX2__)
                    asm("" : "+x"(same[c]));  // as in plain_distances
#endif
                }
            }
            for (int c = 0; c < M; ++c)
                for (int i = 0; i < own[c]; ++i) {
                    Bytes codes;
                    memcpy(&codes, block + gaps[c][i] * kLanes + lane, sizeof codes);
                    shared[c] -= (Bytes)(codes == (uint8_t)view.n_clusters[gaps[c][i]]);
                }
            memcpy(absent + lane, &none, sizeof none);
            for (int c = 0; c < M; ++c) memcpy(equal[c] + lane, &same[c], sizeof same[c]);
            for (int c = 0; c < M; ++c) memcpy(both[c] + lane, &shared[c], sizeof shared[c]);
        }
        const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
        for (int c = 0; c < M; ++c) {
            alignas(64) uint16_t distance[kLanes];
            const uint16_t* now = job.now ? (const uint16_t*)job.now + b * kLanes : nullptr;
            for (int lane = 0; lane < kLanes; ++lane) {
                const uint16_t one = (uint16_t)(absent[lane] + own[c] - 2 * both[c][lane]);
                distance[lane] = (uint16_t)(kOneSided * (view.p - equal[c][lane] - one) + one);
            }
            for (int lane = 0; now && lane < kLanes; ++lane) distance[lane] = smaller(distance[lane], now[lane]);
            for (int lane = lanes; lane < kLanes; ++lane) distance[lane] = 0;
            job.sums[(first + c) * job.n_super + b / (kSuperRows / kLanes)] += sum_lanes(distance, copies, lanes);
            if (job.next) memcpy((uint16_t*)job.next[first + c] + b * kLanes, distance, sizeof distance);
        }
    }
}

bool missing_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (view.width != 1 || job.width != 2 || view.p > 255) return false;
    for (int64_t j = 0; j < view.p; ++j)
        if (job.weights[j] != kOneSided || view.n_clusters[j] > 255) return false;
    for (int c = 0; c < job.m;) {
        const bool four = job.m - c >= 4;
        (four ? missing_distances<4> : missing_distances<1>)(view, job, c, b0, b1, scratch);
        c += four ? 4 : 1;
    }
    return true;
}

bool plain_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (view.width != 1 || job.width != 1 || !job.plain) return false;
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
#else
bool plain_distances(const View&, const SeedJob&, int64_t, int64_t, char*) { return false; }
bool missing_distances(const View&, const SeedJob&, int64_t, int64_t, char*) { return false; }
#endif

void mark_nearer(const uint8_t* now, const uint8_t* next, int64_t n, uint8_t c, uint8_t* label) {
    for (int64_t i = 0; i < n; ++i) label[i] = next[i] < now[i] ? c : label[i];
}

template <class T>
void distance_chunk(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (plain_distances(view, job, b0, b1, scratch) || missing_distances(view, job, b0, b1, scratch)) return;
    switch (job.width) {
        case 1: return weighted_distances<T, uint8_t>(view, job, b0, b1, scratch);
        case 2: return weighted_distances<T, uint16_t>(view, job, b0, b1, scratch);
        case 4: return weighted_distances<T, uint32_t>(view, job, b0, b1, scratch);
        default: return weighted_distances<T, uint64_t>(view, job, b0, b1, scratch);
    }
}

}  // namespace
}  // namespace coassoc

// Distances to candidate rows, for k-means++. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

template <class A>
inline int64_t sum_lanes(const A* values, const int64_t* copies, int lanes) {
    int64_t sum = 0;
#if defined(__AVX2__)
    if (sizeof(A) == 1 && !copies) {  // lanes past the end hold zeros
        const __m256i zero = _mm256_setzero_si256();
        const __m256i a = _mm256_sad_epu8(_mm256_loadu_si256((const __m256i*)values), zero);
        const __m256i b = _mm256_sad_epu8(_mm256_loadu_si256((const __m256i*)values + 1), zero);
        const __m256i both = _mm256_add_epi64(a, b);
        return both[0] + both[1] + both[2] + both[3];
    }
#endif
    for (int lane = 0; lane < lanes; ++lane) sum += (int64_t)values[lane] * (copies ? copies[lane] : 1);
    return sum;
}

// Stores and sums the distances of a block to candidate c, or those to the rows chosen so far where these are nearer.
template <class A>
inline void finish_block(const View& view, const SeedJob& job, int64_t b, int c, A* __restrict distance) {
    const int lanes = lanes_in(view, b);
    if (job.now) {
        const A* __restrict now = (const A*)job.now + b * kLanes;
        for (int lane = 0; lane < kLanes; ++lane) distance[lane] = smaller(distance[lane], now[lane]);
    }
    for (int lane = lanes; lane < kLanes; ++lane) distance[lane] = 0;
    const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
    job.sums[c * job.n_super + b / (kSuperRows / kLanes)] += sum_lanes(distance, copies, lanes);
    if (job.next) memcpy((A*)job.next[c] + b * kLanes, distance, kLanes * sizeof(A));
}

// Any weights, missing labels and widths. acc[lane] is the weight of the partitions where the labels are equal, and most
// of it where only one row has a label; the distance is the weight of all partitions less that.
template <class T, class A>
void weighted_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    alignas(64) A acc[kLanes];
    uint64_t all = 0;
    for (int64_t j = 0; j < view.p; ++j) all += job.weights[j];
    const A whole = (A)all;
    for (int64_t b = b0; b < b1; ++b) {
        const T* block = block_of<T>(view, b, (T*)scratch);
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
            finish_block(view, job, b, c, acc);
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
            for (int c = 0; c < M; ++c) memcpy(distance[c] + lane, &acc[c], sizeof acc[c]);
        }
        for (int c = 0; c < M; ++c) finish_block(view, job, b, first + c, distance[c]);
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
        for (int c = 0; c < M; ++c) {
            alignas(64) uint16_t distance[kLanes];
            for (int lane = 0; lane < kLanes; ++lane) {
                const uint16_t one = (uint16_t)(absent[lane] + own[c] - 2 * both[c][lane]);
                distance[lane] = (uint16_t)(kOneSided * (view.p - equal[c][lane] - one) + one);
            }
            finish_block(view, job, b, first + c, distance);
        }
    }
}

// Bytes and equal weights; false where the codes or the weights are others.
bool byte_distances(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    bool missing = job.width == 2 && view.p <= 255;
    for (int64_t j = 0; j < view.p; ++j) missing &= job.weights[j] == kOneSided && view.n_clusters[j] <= 255;
    if (view.width != 1 || !(missing || (job.plain && job.width == 1))) return false;
    for (int c = 0, m; c < job.m; c += m) {
        m = job.m - c >= 4 ? 4 : job.m - c >= 2 ? 2 : 1;
        const auto measure = missing  ? (m == 4 ? missing_distances<4> : m == 2 ? missing_distances<2> : missing_distances<1>)
                             : m == 4 ? plain_distances<4>
                             : m == 2 ? plain_distances<2>
                                      : plain_distances<1>;
        measure(view, job, c, b0, b1, scratch);
    }
    return true;
}
#else
bool byte_distances(const View&, const SeedJob&, int64_t, int64_t, char*) { return false; }
#endif

void mark_nearer(const uint8_t* now, const uint8_t* next, int64_t n, uint8_t c, uint8_t* label) {
    for (int64_t i = 0; i < n; ++i) label[i] = next[i] < now[i] ? c : label[i];
}

template <class T>
void distance_chunk(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    if (byte_distances(view, job, b0, b1, scratch)) return;
    switch (job.width) {
        case 1: return weighted_distances<T, uint8_t>(view, job, b0, b1, scratch);
        case 2: return weighted_distances<T, uint16_t>(view, job, b0, b1, scratch);
        case 4: return weighted_distances<T, uint32_t>(view, job, b0, b1, scratch);
        default: return weighted_distances<T, uint64_t>(view, job, b0, b1, scratch);
    }
}

}  // namespace
}  // namespace coassoc

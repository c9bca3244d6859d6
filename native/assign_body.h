// Assignment with the int32 table, skipping rows whose bound proves that their label stays. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

constexpr int kBatch = 64;  // rows evaluated together

// Rows to evaluate and what came out; best - second never exceeds 2**32 - 1.
struct Batch {
    int n = 0;
    int64_t row[kBatch];
    int32_t label[kBatch];
    int32_t best[kBatch];
    int32_t second[kBatch];
};

constexpr int32_t kLowest = -2147483647 - 1;

#if defined(__AVX2__)
template <int NV>
inline void top_two(const __m256i* acc, int32_t& best, int32_t& second, int32_t& index) {
    __m256i b = acc[0], s = _mm256_set1_epi32(kLowest);
    for (int i = 1; i < NV; ++i) {
        s = _mm256_max_epi32(s, _mm256_min_epi32(b, acc[i]));
        b = _mm256_max_epi32(b, acc[i]);
    }
    // fold the lanes; the halves are disjoint, so an equal best becomes the second
    __m256i b2 = _mm256_permute2x128_si256(b, b, 1), s2 = _mm256_permute2x128_si256(s, s, 1);
    s = _mm256_max_epi32(_mm256_max_epi32(s, s2), _mm256_min_epi32(b, b2));
    b = _mm256_max_epi32(b, b2);
    b2 = _mm256_shuffle_epi32(b, 0x4E), s2 = _mm256_shuffle_epi32(s, 0x4E);
    s = _mm256_max_epi32(_mm256_max_epi32(s, s2), _mm256_min_epi32(b, b2));
    b = _mm256_max_epi32(b, b2);
    b2 = _mm256_shuffle_epi32(b, 0xB1), s2 = _mm256_shuffle_epi32(s, 0xB1);
    s = _mm256_max_epi32(_mm256_max_epi32(s, s2), _mm256_min_epi32(b, b2));
    b = _mm256_max_epi32(b, b2);
    uint64_t where = 0;
    for (int i = 0; i < NV; ++i) {
        const __m256i same = _mm256_cmpeq_epi32(acc[i], b);
        where |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(same)) << (8 * i);
    }
    best = _mm_cvtsi128_si32(_mm256_castsi256_si128(b));
    second = _mm_cvtsi128_si32(_mm256_castsi256_si128(s));
    index = lowest_bit(where);
}

template <class T, int NV, int I>
inline void score_rows(const T* const* row, const int32_t* table, const View& view, int32_t* best, int32_t* second,
                       int32_t* index) {
    constexpr int W = 8 * NV;
    __m256i acc[I][NV];
    for (int i = 0; i < I; ++i)
        for (int v = 0; v < NV; ++v) acc[i][v] = _mm256_setzero_si256();
    for (int64_t j = 0; j < view.p; ++j) {
        const int32_t* part = table + view.first[j] * W;
        for (int i = 0; i < I; ++i) {
            const __m256i* entry = (const __m256i*)(part + (int64_t)row[i][j] * W);
            for (int v = 0; v < NV; ++v) acc[i][v] = _mm256_add_epi32(acc[i][v], _mm256_load_si256(entry + v));
        }
    }
    for (int i = 0; i < I; ++i) top_two<NV>(acc[i], best[i], second[i], index[i]);
}
#else
template <class T, int NV, int I>
inline void score_rows(const T* const* row, const int32_t* table, const View& view, int32_t* best, int32_t* second,
                       int32_t* index) {
    constexpr int W = 8 * NV;
    for (int i = 0; i < I; ++i) {
        int32_t acc[W] = {0};
        for (int64_t j = 0; j < view.p; ++j) {
            const int32_t* entry = table + (view.first[j] + (int64_t)row[i][j]) * W;
            for (int v = 0; v < W; ++v) acc[v] += entry[v];
        }
        int32_t b = acc[0], s = kLowest, at = 0;
        for (int v = 1; v < W; ++v) {
            s = larger(s, smaller(b, acc[v]));
            at = acc[v] > b ? v : at;
            b = larger(b, acc[v]);
        }
        best[i] = b, second[i] = s, index[i] = at;
    }
}
#endif

// One tile of columns for a batch; `column` is the tile's first, and earlier tiles win ties.
template <class T, int NV, int I>
void score_tile(const T* const* row, const int32_t* table, const View& view, int32_t column, Batch& batch) {
    int32_t best[I], second[I], index[I];
    for (int i = 0; i < batch.n; i += I) {
        const T* group[I];
        for (int g = 0; g < I; ++g) group[g] = row[smaller(i + g, batch.n - 1)];
        score_rows<T, NV, I>(group, table, view, best, second, index);
        for (int g = 0; g < I && i + g < batch.n; ++g) {
            const int at = i + g;
            if (column == 0 || best[g] > batch.best[at]) {
                const int32_t passed = column == 0 ? second[g] : larger(batch.best[at], second[g]);
                batch.second[at] = passed;
                batch.best[at] = best[g];
                batch.label[at] = column + index[g];
            } else {
                batch.second[at] = larger(batch.second[at], best[g]);
            }
        }
    }
}

template <class T>
void score_batch(const View& view, const WideTable& table, Batch& batch) {
    const T* row[kBatch];
    for (int i = 0; i < batch.n; ++i) row[i] = row_of<T>(view, batch.row[i]);
    for (int32_t t = 0; t < table.n_tiles; ++t) {
        const int32_t* values = table.values + (int64_t)t * table.rows * 64;
        switch (t + 1 < table.n_tiles ? 64 : table.last) {
            case 8: score_tile<T, 1, 8>(row, values, view, t * 64, batch); break;
            case 16: score_tile<T, 2, 4>(row, values, view, t * 64, batch); break;
            case 24: score_tile<T, 3, 4>(row, values, view, t * 64, batch); break;
            case 32: score_tile<T, 4, 2>(row, values, view, t * 64, batch); break;
            default: score_tile<T, 8, 1>(row, values, view, t * 64, batch); break;
        }
    }
}

constexpr int kMoves = 256;   // moved rows counted together
constexpr int64_t kTile = 8;  // partitions at a time, so that their cells stay in the first cache

// A row that changes its cluster.
struct Move {
    int64_t row;
    int32_t from, to;
};

// Moves the copies of n rows from one cluster to another in alpha (padded d + p, k).
template <class T>
void count_moves(const View& view, const Move* moves, int n, int32_t k, int64_t* alpha) {
    const int64_t cells = (view.first[view.p - 1] + view.n_clusters[view.p - 1] + 1) * k;
    const int64_t tile = cells <= 4096 ? view.p : kTile;
    for (int64_t start = 0; start < view.p; start += tile) {
        const int64_t stop = smaller(view.p, start + tile);
        for (int i = 0; i < n; ++i) {
            const T* row = row_of<T>(view, moves[i].row);
            int64_t *gains = alpha + moves[i].to, *loses = alpha + moves[i].from;
            const int64_t times = view.copies ? view.copies[moves[i].row] : 1;
            for (int64_t j = start; j < stop; ++j) {
                const int64_t at = (view.first[j] + (int64_t)row[j]) * k;
                gains[at] += times;
                loses[at] -= times;
            }
        }
    }
}

// Stores labels and bounds, and counts the rows that moved, in batches.
template <class T>
struct Writer {
    const View& view;
    const AssignJob& job;
    AssignResult& result;
    int n_moves = 0;
    Move moves[kMoves];

    Writer(const View& v, const AssignJob& j, AssignResult& r) : view(v), job(j), result(r) {}

    void write(int64_t row, int32_t label, uint32_t bound) {
        job.bounds[row] = (uint16_t)bound;
        const int32_t old = job.labels[row];
        if (old != label) move(row, old, label);
    }

    void move(int64_t row, int32_t old, int32_t label) {
        job.labels[row] = label;
        ++result.moved;
        if (!job.delta) return;
        fetch_row<T>(view, row);
        moves[n_moves] = {row, old, label};
        if (++n_moves == kMoves) finish();
    }

    void finish() {
        count_moves<T>(view, moves, n_moves, job.wide.k, job.delta);
        n_moves = 0;
    }

    void evaluate(Batch& batch) {
        if (!batch.n) return;
        score_batch<T>(view, job.wide, batch);
        for (int i = 0; i < batch.n; ++i) {
            const uint32_t gap = (uint32_t)batch.best[i] - (uint32_t)batch.second[i];
            write(batch.row[i], batch.label[i], smaller<uint32_t>(gap >> job.shift, 65535));
        }
        batch.n = 0;
    }

    void add(Batch& batch, int64_t row) {
        fetch_row<T>(view, row);
        batch.row[batch.n] = row;
        if (++batch.n == kBatch) evaluate(batch);
    }
};

// Lanes of a block whose label may change; the bounds of the others fall by what the table changed.
inline uint64_t open_lanes(const View& view, const AssignJob& job, int64_t block) {
    const int lanes = lanes_in(view, block);
    if (!job.drop) return lanes == kLanes ? ~0ull : (1ull << lanes) - 1;
    const int32_t* labels = job.labels + block * kLanes;
    uint16_t* bounds = job.bounds + block * kLanes;
    uint64_t open = 0;
    int lane = 0;
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if (job.wide.k <= 32) {  // the drops fit in two registers
        const __mmask16 high = job.wide.k > 16 ? (__mmask16)((1u << (job.wide.k - 16)) - 1) : 0;
        const __m512i first = _mm512_maskz_loadu_epi32((__mmask16)((1ull << smaller(job.wide.k, 16)) - 1), job.drop);
        const __m512i second = _mm512_maskz_loadu_epi32(high, job.drop + 16);
        for (; lane + 16 <= lanes; lane += 16) {
            const __m512i own = _mm512_loadu_si512(labels + lane);
            const __m512i drop = _mm512_permutex2var_epi32(first, own, second);
            const __m512i bound = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(bounds + lane)));
            const __mmask16 kept = _mm512_cmpgt_epu32_mask(bound, drop);
            const __m512i after = _mm512_mask_sub_epi32(bound, kept, bound, drop);
            _mm256_storeu_si256((__m256i*)(bounds + lane), _mm512_cvtepi32_epi16(after));
            open |= (uint64_t)(uint16_t)~kept << lane;
        }
    }
#endif
#if defined(__AVX2__)
    for (; lane + 8 <= lanes; lane += 8) {
        const __m256i own = _mm256_loadu_si256((const __m256i*)(labels + lane));
        const __m256i drop = _mm256_i32gather_epi32((const int*)job.drop, own, 4);
        const __m128i before = _mm_loadu_si128((const __m128i*)(bounds + lane));
        const __m256i bound = _mm256_cvtepu16_epi32(before);
        const __m256i kept = _mm256_cmpgt_epi32(bound, drop);
        const __m256i after = _mm256_sub_epi32(bound, _mm256_and_si256(kept, drop));
        const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(after, after), 0x08);
        _mm_storeu_si128((__m128i*)(bounds + lane), _mm256_castsi256_si128(packed));
        const uint32_t closed = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(kept));
        open |= (uint64_t)(~closed & 0xFFu) << lane;
    }
#endif
    for (; lane < lanes; ++lane) {
        const uint32_t drop = job.drop[labels[lane]], bound = bounds[lane];
        const bool kept = bound > drop;
        bounds[lane] = (uint16_t)(kept ? bound - drop : bound);
        open |= (uint64_t)!kept << lane;
    }
    return open;
}

template <class T>
void assign_rows(const View& view, const AssignJob& job, int64_t b0, int64_t b1, AssignResult& result) {
    Writer<T> writer(view, job, result);
    Batch batch;
    for (int64_t b = b0; b < b1; ++b) {
        uint64_t open = open_lanes(view, job, b);
        result.evaluated += count_bits(open);
        for (; open; open &= open - 1) writer.add(batch, b * kLanes + lowest_bit(open));
    }
    writer.evaluate(batch);
    writer.finish();
}

}  // namespace
}  // namespace coassoc

// Kernel bodies, included once per instruction set with COASSOC_LEVEL naming it. Everything is in an anonymous
// namespace and nothing from the standard library's templates is used: code built for a newer CPU must never be
// shared with the baseline.
#pragma once

#include <cstring>

#include "kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace coassoc {
namespace {

#if defined(_MSC_VER)
inline int lowest_bit(uint64_t mask) {
    unsigned long at;
    _BitScanForward64(&at, mask);
    return (int)at;
}
inline int count_bits(uint64_t mask) {
    int n = 0;
    for (; mask; mask &= mask - 1) ++n;
    return n;
}
#else
inline int lowest_bit(uint64_t mask) { return __builtin_ctzll(mask); }
inline int count_bits(uint64_t mask) { return __builtin_popcountll(mask); }
#endif

template <class X>
inline X smaller(X a, X b) {
    return b < a ? b : a;
}
template <class X>
inline X larger(X a, X b) {
    return a < b ? b : a;
}

template <class T>
inline const T* row_of(const View& view, int64_t row) {
    const int64_t at = view.ids ? (int64_t)view.ids[row] : row;
    return (const T*)view.codes + at * view.p;
}

// Asks for a row's codes ahead of their use: rows that are done one by one are seldom in a cache.
template <class T>
inline void fetch_row(const View& view, int64_t row) {
#if defined(__GNUC__)
    const char* from = (const char*)row_of<T>(view, row);
    __builtin_prefetch(from);
    __builtin_prefetch(from + view.p * sizeof(T) - 1);
#else
    (void)view, (void)row;
#endif
}

inline int lanes_in(const View& view, int64_t block) {
    return (int)smaller<int64_t>(kLanes, view.n - block * kLanes);
}

// -- the column-wise copy ----------------------------------------------------------------------------------

#if defined(__AVX512BW__)
// 16 columns of 64 rows of bytes: each register holds one row of each quarter, four rounds of unpacking bring a
// column together.
inline void transpose_tile(const uint8_t* const* row, int64_t column, uint8_t* out) {
    __m512i x[16], y[16];
    for (int i = 0; i < 16; ++i) {
        const auto part = [&](int quarter) {
            return _mm_loadu_si128((const __m128i*)(row[16 * quarter + i] + column));
        };
        x[i] = _mm512_castsi128_si512(part(0));
        x[i] = _mm512_inserti32x4(x[i], part(1), 1);
        x[i] = _mm512_inserti32x4(x[i], part(2), 2);
        x[i] = _mm512_inserti32x4(x[i], part(3), 3);
    }
    for (int i = 0; i < 8; ++i) {
        y[2 * i] = _mm512_unpacklo_epi8(x[i], x[i + 8]);
        y[2 * i + 1] = _mm512_unpackhi_epi8(x[i], x[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
        x[2 * i] = _mm512_unpacklo_epi8(y[i], y[i + 8]);
        x[2 * i + 1] = _mm512_unpackhi_epi8(y[i], y[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
        y[2 * i] = _mm512_unpacklo_epi8(x[i], x[i + 8]);
        y[2 * i + 1] = _mm512_unpackhi_epi8(x[i], x[i + 8]);
    }
    for (int i = 0; i < 8; ++i) {
        _mm512_storeu_si512(out + (2 * i) * kLanes, _mm512_unpacklo_epi8(y[i], y[i + 8]));
        _mm512_storeu_si512(out + (2 * i + 1) * kLanes, _mm512_unpackhi_epi8(y[i], y[i + 8]));
    }
}
#elif defined(__SSE2__)
// The same, 16 rows at a time.
inline void transpose_tile(const uint8_t* const* row, int64_t column, uint8_t* out) {
    for (int quarter = 0; quarter < 4; ++quarter) {
        __m128i x[16], y[16];
        for (int i = 0; i < 16; ++i) x[i] = _mm_loadu_si128((const __m128i*)(row[16 * quarter + i] + column));
        for (int i = 0; i < 8; ++i) {
            y[2 * i] = _mm_unpacklo_epi8(x[i], x[i + 8]);
            y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + 8]);
        }
        for (int i = 0; i < 8; ++i) {
            x[2 * i] = _mm_unpacklo_epi8(y[i], y[i + 8]);
            x[2 * i + 1] = _mm_unpackhi_epi8(y[i], y[i + 8]);
        }
        for (int i = 0; i < 8; ++i) {
            y[2 * i] = _mm_unpacklo_epi8(x[i], x[i + 8]);
            y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + 8]);
        }
        for (int i = 0; i < 8; ++i) {
            uint8_t* to = out + (2 * i) * kLanes + 16 * quarter;
            _mm_storeu_si128((__m128i*)to, _mm_unpacklo_epi8(y[i], y[i + 8]));
            _mm_storeu_si128((__m128i*)(to + kLanes), _mm_unpackhi_epi8(y[i], y[i + 8]));
        }
    }
}
#endif

// A block from 64 rows.
template <class T>
inline void transpose(const T* const* row, int64_t p, T* out) {
#if defined(__SSE2__)
    if (sizeof(T) == 1 && p >= 16) {
        for (int64_t j = 0; j < p; j += 16) {
            const int64_t column = smaller(j, p - 16);  // the last tile overlaps the one before
            transpose_tile((const uint8_t* const*)row, column, (uint8_t*)out + column * kLanes);
        }
        return;
    }
#endif
    for (int lane = 0; lane < kLanes; ++lane)
        for (int64_t j = 0; j < p; ++j) out[j * kLanes + lane] = row[lane][j];
}

template <class T>
inline void gather_block(const View& view, int64_t block, T* out) {
    const int lanes = lanes_in(view, block);
    const T* row[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) row[lane] = row_of<T>(view, block * kLanes + smaller(lane, lanes - 1));
    transpose<T>(row, view.p, out);
}

template <class T>
inline const T* block_of(const View& view, int64_t block, T* scratch) {
    if (view.blocked) return (const T*)view.blocked + block * view.p * kLanes;
    gather_block<T>(view, block, scratch);
    return scratch;
}

template <class T>
void block_codes_as(const View& view, int64_t b0, int64_t b1, void* out) {
    for (int64_t b = b0; b < b1; ++b) gather_block<T>(view, b, (T*)out + b * view.p * kLanes);
}

// -- assignment with the int32 table -----------------------------------------------------------------------

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

// Two columns packed in an int64, hi * 2**32 + lo, both signed: exact, and one add per label.
template <class T>
void score_pair(const T* const* row, const int64_t* table, const View& view, Batch& batch) {
    constexpr int I = 4;
    for (int i = 0; i < batch.n; i += I) {
        const T* group[I];
        int64_t sum[I] = {0};
        for (int g = 0; g < I; ++g) group[g] = row[smaller(i + g, batch.n - 1)];
        for (int64_t j = 0; j < view.p; ++j) {
            const int64_t* part = table + view.first[j];
            for (int g = 0; g < I; ++g) sum[g] += part[group[g][j]];
        }
        for (int g = 0; g < I && i + g < batch.n; ++g) {
            const int32_t zero = (int32_t)(uint32_t)(uint64_t)sum[g];
            const int32_t one = (int32_t)((sum[g] - zero) >> 32);
            batch.label[i + g] = one > zero;
            batch.best[i + g] = larger(zero, one);
            batch.second[i + g] = smaller(zero, one);
        }
    }
}

template <class T>
void score_batch(const View& view, const WideTable& table, Batch& batch) {
    const T* row[kBatch];
    for (int i = 0; i < batch.n; ++i) row[i] = row_of<T>(view, batch.row[i]);
    if (table.last == 2) return score_pair<T>(row, (const int64_t*)table.values, view, batch);
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

constexpr int kMoves = 256;  // moved rows counted together
constexpr int64_t kTile = 8;  // partitions at a time: few enough for the cache, and a cell is not met again at once

// The two cells of a label lie side by side: one takes what the other gives.
template <class T>
void move_pairs(const View& view, const Move* moves, int64_t n, int64_t j0, int64_t j1, int64_t* alpha) {
    const int64_t* first = view.first;
    for (int64_t i = 0; i < n; ++i) {
        const T* row = row_of<T>(view, moves[i].row);
        const int64_t times = view.copies ? view.copies[moves[i].row] : 1, up = moves[i].to ? times : -times;
#if defined(__SSE2__)
        const __m128i change = _mm_set_epi64x(up, -up);
        for (int64_t j = j0; j < j1; ++j) {
            __m128i* pair = (__m128i*)(alpha + 2 * (first[j] + (int64_t)row[j]));
            _mm_storeu_si128(pair, _mm_add_epi64(_mm_loadu_si128(pair), change));
        }
#else
        for (int64_t j = j0; j < j1; ++j) {
            int64_t* pair = alpha + 2 * (first[j] + (int64_t)row[j]);
            pair[0] -= up;
            pair[1] += up;
        }
#endif
    }
}

template <class T>
void move_chunk_as(const View& view, const Move* moves, int64_t n, int32_t k, int64_t j0, int64_t j1, int64_t* alpha) {
    if (k == 2) return move_pairs<T>(view, moves, n, j0, j1, alpha);
    for (int64_t start = j0; start < j1; start += kTile) {
        const int64_t stop = smaller(j1, start + kTile);
        for (int64_t i = 0; i < n; ++i) {
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

// Puts results in place: label, bound, and the counts of rows that moved, a batch of them partition by partition so
// that the cells being changed stay in the first cache.
template <class T>
struct Settler {
    const View& view;
    const AssignJob& job;
    AssignResult& result;
    int n_moves = 0;
    Move moves[kMoves];

    Settler(const View& v, const AssignJob& j, AssignResult& r) : view(v), job(j), result(r) {}

    void settle(int64_t row, int32_t label, uint32_t bound) {
        job.bounds[row] = (uint16_t)bound;
        const int32_t old = job.labels[row];
        if (old != label) move(row, old, label);
    }

    void move(int64_t row, int32_t old, int32_t label) {
        job.labels[row] = label;
        if (job.moves) job.moves[result.moved] = {row, old, label};
        ++result.moved;
        if (!job.delta) return;
        fetch_row<T>(view, row);
        moves[n_moves] = {row, old, label};
        if (++n_moves == kMoves) count_moves();
    }

    void count_moves() {
        move_chunk_as<T>(view, moves, n_moves, job.wide.k, 0, view.p, job.delta);
        n_moves = 0;
    }

    void evaluate(Batch& batch) {
        if (!batch.n) return;
        score_batch<T>(view, job.wide, batch);
        for (int i = 0; i < batch.n; ++i) {
            const uint32_t gap = (uint32_t)batch.best[i] - (uint32_t)batch.second[i];
            settle(batch.row[i], batch.label[i], smaller<uint32_t>(gap >> job.shift, 65535));
        }
        batch.n = 0;
    }

    void add(Batch& batch, int64_t row) {
        fetch_row<T>(view, row);
        batch.row[batch.n] = row;
        if (++batch.n == kBatch) evaluate(batch);
    }
};

// Lanes of a block whose label may have changed; the bounds of the others lose what the table moved.
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
    Settler<T> settler(view, job, result);
    Batch batch;
    for (int64_t b = b0; b < b1; ++b) {
        uint64_t open = open_lanes(view, job, b);
        result.evaluated += count_bits(open);
        for (; open; open &= open - 1) settler.add(batch, b * kLanes + lowest_bit(open));
    }
    settler.evaluate(batch);
    settler.count_moves();
}

}  // namespace
}  // namespace coassoc
#include "tables_body.h"
#if defined(__AVX512VBMI__)
#include "permute_body.h"
#endif
namespace coassoc {
namespace {

template <class T>
void assign_chunk_as(const View& view, const AssignJob& job, int64_t b0, int64_t b1, char* scratch,
                     AssignResult& result) {
#if defined(__AVX512VBMI__)
    if (sizeof(T) == 1 && job.narrow.values) return assign_permuted(view, job, b0, b1, scratch, result);
#endif
    (void)scratch;
    assign_rows<T>(view, job, b0, b1, result);
}

}  // namespace
}  // namespace coassoc
#include "counts_body.h"
#include "seeding_body.h"
namespace coassoc {
namespace {

// -- one entry per kernel, for any width of codes ----------------------------------------------------------

#define COASSOC_BY_WIDTH(name, ...)                   \
    switch (view.width) {                             \
        case 1: return name<uint8_t>(__VA_ARGS__);    \
        case 2: return name<uint16_t>(__VA_ARGS__);   \
        default: return name<uint32_t>(__VA_ARGS__);  \
    }

void block_codes(const View& view, int64_t b0, int64_t b1, void* out) {
    COASSOC_BY_WIDTH(block_codes_as, view, b0, b1, out)
}
void assign_chunk(const View& view, const AssignJob& job, int64_t b0, int64_t b1, char* scratch, AssignResult& r) {
    COASSOC_BY_WIDTH(assign_chunk_as, view, job, b0, b1, scratch, r)
}
void count_chunk(const View& view, const int32_t* labels, int32_t k, int64_t b0, int64_t b1, int64_t j0, int64_t j1,
                 int64_t* alpha, char* scratch) {
    COASSOC_BY_WIDTH(count_chunk_as, view, labels, k, b0, b1, j0, j1, alpha, scratch)
}
void move_chunk(const View& view, const Move* moves, int64_t n, int32_t k, int64_t j0, int64_t j1, int64_t* alpha) {
    COASSOC_BY_WIDTH(move_chunk_as, view, moves, n, k, j0, j1, alpha)
}
void count_side_chunk(const View& view, const int32_t* labels, int32_t side, int64_t b0, int64_t b1, int64_t* cells) {
    COASSOC_BY_WIDTH(count_side_as, view, labels, side, b0, b1, cells)
}
void own_scores_chunk(const View& view, const int32_t* values, int32_t k, const int32_t* labels, int64_t start,
                      int64_t stop, int64_t* scores) {
    COASSOC_BY_WIDTH(own_scores_as, view, values, k, labels, start, stop, scores)
}
void distance_chunk(const View& view, const SeedJob& job, int64_t b0, int64_t b1, char* scratch) {
    COASSOC_BY_WIDTH(distance_chunk_of, view, job, b0, b1, scratch)
}

const Kernels kTable = {
    block_codes,    assign_chunk,  count_chunk, move_chunk,
    count_side_chunk, own_scores_chunk, distance_chunk, mark_nearer,
    sum_rows, loss_sums, centre_terms, score_rows, fixed_score_rows, round_scores, compare_rows, widen_rows,
#if defined(__AVX512VBMI__)
    narrow_rows, true,
#else
    nullptr, false,
#endif
};

}  // namespace

const Kernels* COASSOC_LEVEL() { return &kTable; }

}  // namespace coassoc

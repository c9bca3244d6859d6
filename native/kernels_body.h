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

#if defined(__SSE2__)
// 16 columns of 64 rows of bytes, 16 rows at a time: four rounds of unpacking bring a column together.
inline void transpose_tile(const uint8_t* const* row, int64_t column, uint8_t* out) {
    for (int quarter = 0; quarter < 4; ++quarter) {
        __m128i x[16], y[16];
        for (int i = 0; i < 16; ++i) x[i] = _mm_loadu_si128((const __m128i*)(row[16 * quarter + i] + column));
        for (int round = 0; round < 4; ++round) {
            for (int i = 0; i < 8; ++i) {
                y[2 * i] = _mm_unpacklo_epi8(x[i], x[i + 8]);
                y[2 * i + 1] = _mm_unpackhi_epi8(x[i], x[i + 8]);
            }
            for (int i = 0; i < 16; ++i) x[i] = y[i];
        }
        for (int i = 0; i < 16; ++i) _mm_storeu_si128((__m128i*)(out + i * kLanes + 16 * quarter), x[i]);
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
void block_codes(const View& view, int64_t b0, int64_t b1, void* out) {
    for (int64_t b = b0; b < b1; ++b) gather_block<T>(view, b, (T*)out + b * view.p * kLanes);
}

}  // namespace
}  // namespace coassoc
#include "assign_body.h"
#if defined(__AVX512VBMI__)
#include "permute_body.h"
#endif
#include "counts_body.h"
#include "exchange_body.h"
#include "seeding_body.h"
#include "tables_body.h"
namespace coassoc {
namespace {

template <class T>
void assign_chunk(const View& view, const AssignJob& job, int64_t b0, int64_t b1, char* scratch,
                  AssignResult& result) {
#if defined(__AVX512VBMI__)
    if (sizeof(T) == 1 && job.narrow.values) return assign_permuted(view, job, b0, b1, scratch, result);
#endif
    (void)scratch;
    assign_rows<T>(view, job, b0, b1, result);
}

// A kernel for any width of codes.
#define COASSOC_ANY_WIDTH(kernel)                                                                      \
    [](const View& view, auto... rest) {                                                               \
        with_codes(view.width, [&](auto code) { kernel<decltype(code)>(view, rest...); });             \
    }

const Kernels kTable = {
    COASSOC_ANY_WIDTH(block_codes),
    COASSOC_ANY_WIDTH(assign_chunk),
    COASSOC_ANY_WIDTH(count_chunk),
    COASSOC_ANY_WIDTH(count_side),
    COASSOC_ANY_WIDTH(own_scores),
    COASSOC_ANY_WIDTH(distance_chunk),
    mark_nearer,
    sum_rows,
    score_rows,
    compare_rows,
#if defined(__AVX512VBMI__)
    narrow_rows,
#else
    nullptr,
#endif
    sum_named<int32_t>,
    sum_named<int64_t>,
    density_gains,
    add_agreement,
};

}  // namespace

const Kernels* COASSOC_LEVEL() { return &kTable; }

}  // namespace coassoc

// Arithmetic on tables of counts and scores: plain loops over one partition's n rows of k columns, which the compiler
// vectorises for each instruction set. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

// Tables of few columns are worked on several rows at a time, as if those were one row of many columns: what belongs to
// a column is repeated, and folded again at the end.
constexpr int64_t kFewColumns = 64, kWide = 8 * kFewColumns;
inline int64_t wide_columns(int64_t k) {
    if (k > kFewColumns) return k;
    int64_t rows = 8;  // whole vectors of 8, two at least
    while (rows > 1 && k * rows / 2 % 8 == 0 && k * rows / 2 >= 16) rows /= 2;
    return k * rows;
}

// Calls one(i, v) for every entry i, of the repeated column v.
template <class One>
inline void for_entries(int64_t n, int64_t k, One&& one) {
    const int64_t wide = wide_columns(k);
    for (int64_t from = 0; from < n * k; from += wide) {
        const int64_t count = smaller(wide, n * k - from);
        for (int64_t v = 0; v < count; ++v) one(from + v, v);
    }
}

// Calls fold(c, v) for every repetition v of column c.
template <class Fold>
inline void for_repeats(int64_t k, Fold&& fold) {
    const int64_t wide = wide_columns(k);
    for (int64_t v = 0; v < wide; v += k)
        for (int64_t c = 0; c < k; ++c) fold(c, v + c);
}

// The values of k columns, repeated; in `space` unless k is large.
template <class T>
inline T* repeated(T* values, int64_t k, T* space) {
    const int64_t wide = wide_columns(k);
    if (wide == k) return values;
    for_repeats(k, [=](int64_t c, int64_t v) { space[v] = values[c]; });
    return space;
}

void sum_rows(const int64_t* __restrict alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares) {
    for (int64_t c = 0; c < k; ++c) cells[c] = squares[c] = 0;
    int64_t space[2][kWide];
    int64_t *__restrict sum = repeated(cells, k, space[0]), *__restrict square = repeated(squares, k, space[1]);
    for_entries(n, k, [=](int64_t i, int64_t v) {
        sum[v] += alpha[i];
        square[v] += (int64_t)((uint64_t)(uint32_t)alpha[i] * (uint64_t)(uint32_t)alpha[i]);  // counts < 2**32
    });
    if (sum == cells) return;
    for_repeats(k, [=](int64_t c, int64_t v) { cells[c] += sum[v], squares[c] += square[v]; });
}

// A count, 0 <= x < 2**52, as a double: exact, and unlike a plain cast vectorised on every CPU.
inline double as_double(int64_t x) {
    const int64_t bits = x | 0x4330000000000000;
    double above;
    memcpy(&above, &bits, 8);
    return above - 4503599627370496.0;
}

// Adding and subtracting 1.5 * 2**52 rounds a double to a whole number, ties to even, as rint does.
constexpr double kRounder = 6755399441055744.0;

void score_rows(const int64_t* __restrict alpha, int64_t n, int64_t k, const Centers& centers, double scale,
                double* largest, int32_t* __restrict values) {
    double space[3][kWide];
    for (int64_t c = 0; c < k; ++c) largest[c] = 0.0;
    const double* __restrict size = repeated((double*)centers.size, k, space[0]);
    const double* __restrict penalty = repeated((double*)centers.penalty, k, space[1]);
    double* __restrict most = repeated(largest, k, space[2]);
    const double weight = centers.weight;
    for_entries(n, k, [=](int64_t i, int64_t v) {
        const double score = (2.0 * (as_double(alpha[i]) / size[v]) - penalty[v]) * weight;
        const double magnitude = score < 0 ? -score : score;
        most[v] = most[v] < magnitude ? magnitude : most[v];
        double whole = (score * scale + kRounder) - kRounder;
        whole = whole > 2147483647.0 ? 2147483647.0 : whole;  // the scale may be a guess that is too large
        values[i] = (int32_t)(whole < -2147483647.0 ? -2147483647.0 : whole);
    });
    for_repeats(k, [=](int64_t c, int64_t v) { largest[c] = larger(largest[c], most[v]); });
}

void compare_rows(const int32_t* __restrict before, int before_shift, const int32_t* __restrict after, int after_shift,
                  int64_t n, int32_t k, int32_t* high, int32_t* low, int32_t* least, int32_t* most) {
    int32_t smallest = after[0], largest = after[0];
    for (int64_t i = 0; i < n * k; ++i) {
        smallest = smaller(smallest, after[i]);
        largest = larger(largest, after[i]);
    }
    *least = smallest, *most = largest;
    if (!before) return;
    int32_t space[2][kWide];
    int32_t *__restrict up = repeated(high, k, space[0]), *__restrict down = repeated(low, k, space[1]);
    for_entries(n, k, [=](int64_t i, int64_t v) {
        const int32_t change = (after[i] >> after_shift) - (before[i] >> before_shift);
        up[v] = larger(up[v], change);
        down[v] = smaller(down[v], change);
    });
    for_repeats(k, [=](int64_t c, int64_t v) {
        high[c] = larger(high[c], up[v]);
        low[c] = smaller(low[c], down[v]);
    });
}

}  // namespace
}  // namespace coassoc

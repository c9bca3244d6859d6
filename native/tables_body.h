// Arithmetic on tables of counts and scores. Included by kernels_body.h.
//
// The rows of one partition are a flat list of n * k numbers in which a column comes up every k. What belongs to a
// column is repeated until it fills whole vectors, so that no vector is ever cut at the end of a row.
#pragma once

namespace coassoc {
namespace {

#if defined(__AVX512F__)
constexpr int kDoubles = 8;
#elif defined(__AVX2__)
constexpr int kDoubles = 4;
#elif defined(__GNUC__)
constexpr int kDoubles = 2;
#else
constexpr int kDoubles = 1;
#endif
constexpr int kInts = 2 * kDoubles;

#if defined(__GNUC__)
typedef double Doubles __attribute__((vector_size(8 * kDoubles)));
typedef int64_t Longs __attribute__((vector_size(8 * kDoubles)));
typedef int32_t HalfInts __attribute__((vector_size(4 * kDoubles)));
typedef int32_t Ints __attribute__((vector_size(4 * kInts)));
#else
typedef double Doubles;
typedef int64_t Longs;
typedef int32_t HalfInts;
typedef int32_t Ints;
#endif

template <class V, class T>
inline V load(const T* from) {
    V out;
    memcpy(&out, from, sizeof(V));
    return out;
}
template <class V, class T>
inline void store(T* to, V value) {
    memcpy(to, &value, sizeof(V));
}

// A count, 0 <= x < 2**52, as a double: exact, and unlike a plain cast done on whole vectors by every CPU.
inline double as_double(int64_t x) {
    const int64_t bits = x | 0x4330000000000000;
    double above;
    memcpy(&above, &bits, 8);
    return above - 4503599627370496.0;
}

// adding and taking away 1.5 * 2**52 leaves a double rounded to even, as rint does
constexpr double kRounder = 6755399441055744.0;

// Counts as doubles, a * b - c where a * b is exact, sizes, larger ones, and whole numbers nearest, ties to even.
#if defined(__AVX512F__)
inline Doubles as_doubles(Longs x) { return _mm512_cvtepi64_pd((__m512i)x); }
inline Doubles times_less(Doubles a, Doubles b, Doubles c) { return _mm512_fmsub_pd(a, b, c); }
inline Doubles size_of(Doubles x) { return _mm512_abs_pd(x); }
inline Doubles larger_of(Doubles a, Doubles b) { return _mm512_max_pd(a, b); }
inline HalfInts nearest(Doubles x) { return (HalfInts)_mm512_cvtpd_epi32(x); }
#else
inline Doubles as_doubles(Longs x) { return load<Doubles>(&(x |= 0x4330000000000000)) - 4503599627370496.0; }
inline Doubles times_less(Doubles a, Doubles b, Doubles c) { return a * b - c; }
inline Doubles size_of(Doubles x) { return x < 0.0 ? -x : x; }
inline Doubles larger_of(Doubles a, Doubles b) { return a < b ? b : a; }
#if defined(__AVX2__)
inline HalfInts nearest(Doubles x) { return (HalfInts)_mm256_cvtpd_epi32(x); }
#elif defined(__GNUC__)
inline HalfInts nearest(Doubles x) { return __builtin_convertvector((x + kRounder) - kRounder, HalfInts); }
#else
inline HalfInts nearest(Doubles x) { return (int32_t)(int64_t)((x + kRounder) - kRounder); }
#endif
#endif

// a / b, correctly rounded, from y = 1 / b rounded. a and b are whole numbers below 2**32: a / b is then at least
// 2**-33 units in the last place away from where rounding turns, and the corrected quotient within 2**-51 of it.
inline Doubles ratio(Doubles a, Doubles b, Doubles y) {
#if defined(__AVX512F__)
    const Doubles q = a * y;
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(q, b, a), y, q);
#elif defined(__FMA__)
    const Doubles q = a * y;
    return _mm256_fmadd_pd(_mm256_fnmadd_pd(q, b, a), y, q);
#else
    (void)y;
    return a / b;
#endif
}

constexpr int64_t kRepeated = 64;  // more columns than this are swept row by row

// Entries after which columns and vectors of `lanes` begin together again.
inline int64_t period_of(int64_t k, int lanes) {
    if (k > kRepeated) return k;
    int64_t rows = lanes;
    for (int64_t both = k; rows > 1 && both % 2 == 0; both /= 2) rows /= 2;
    return rows * k;
}

template <class T>
inline const T* repeat(const T* given, int64_t k, int64_t period, T* room) {
    if (period == k) return given;
    for (int64_t i = 0; i < period; i += k) memcpy(room + i, given, sizeof(T) * (size_t)k);
    return room;
}

// Calls many(i, v) for every whole vector of `lanes` entries from i on, whose columns are those of v, and one(i, v)
// for the rest.
template <class Many, class One>
inline void sweep(int64_t total, int64_t period, int lanes, Many&& many, One&& one) {
    for (int64_t i = 0; i < total; i += period) {
        const int64_t m = smaller(period, total - i);
        int64_t v = 0;
        for (; v + lanes <= m; v += lanes) many(i + v, v);
        for (; v < m; ++v) one(i + v, v);
    }
}

// Sums of W columns out of k, kept in registers on the way down. When they are all columns, R rows are taken at a
// time, so that two columns (every split of a tree) fill a register too.
template <int W, int R>
void sum_columns(const int64_t* alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares) {
    int64_t sum[W * R] = {0}, square[W * R] = {0};
    const auto add = [&](const int64_t* from, int count) {
        for (int c = 0; c < count; ++c) {
            sum[c] += from[c];
            square[c] += (int64_t)((uint64_t)(uint32_t)from[c] * (uint64_t)(uint32_t)from[c]);  // counts < 2**32
        }
    };
    int64_t f = 0;
    for (; f + R <= n; f += R, alpha += R * k) add(alpha, W * R);
    for (; f < n; ++f, alpha += k) add(alpha, W);
    for (int c = 0; c < W; ++c) {
        cells[c] = squares[c] = 0;
        for (int r = 0; r < R; ++r) cells[c] += sum[r * W + c], squares[c] += square[r * W + c];
    }
}

void sum_rows(const int64_t* alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares) {
    if (k == 2) return sum_columns<2, 4>(alpha, n, k, cells, squares);
    int64_t c = 0;
    for (; c + 8 <= k; c += 8) sum_columns<8, 1>(alpha + c, n, k, cells + c, squares + c);
    for (; c + 4 <= k; c += 4) sum_columns<4, 1>(alpha + c, n, k, cells + c, squares + c);
    for (; c < k; ++c) sum_columns<1, 1>(alpha + c, n, k, cells + c, squares + c);
}

void loss_sums(const int64_t* cells, const int64_t* squares, int64_t n, int64_t* whole, int64_t* parts) {
    int64_t units = 0, rest = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double kept = (double)squares[i] / (double)larger<int64_t>(cells[i], 1);
        const int64_t floor = (int64_t)kept;
        units += cells[i] - floor;
        rest += (int64_t)((kept - (double)floor) * 4503599627370496.0);
    }
    *whole = units, *parts = rest;
}

void centre_terms(const int64_t* cells, const int64_t* squares, int64_t k, double* size, double* inverse,
                  double* penalty) {
    for (int64_t c = 0; c < k; ++c) {
        size[c] = (double)larger<int64_t>(cells[c], 1);
        inverse[c] = 1.0 / size[c];
        penalty[c] = (double)squares[c] / size[c] / size[c];
    }
}

// Scores weight * (2 alpha / size - penalty), or what they are in fixed point; returns the largest size of a score.
// `scale` is a power of two, so that it can be taken in anywhere: before the one rounding there is when weight is 1.
template <bool FIXED>
double score_rows_as(const int64_t* alpha, int64_t n, int64_t k, const Centres& centres, double scale, double* scores,
                     int32_t* values) {
    alignas(64) double room[3][kRepeated * kDoubles];
    const int64_t period = period_of(k, kDoubles);
    const double* size = repeat(centres.size, k, period, room[0]);
    const double* inverse = repeat(centres.inverse, k, period, room[1]);
    const double* penalty = repeat(centres.penalty, k, period, room[2]);
    const bool plain = centres.weight == 1.0;
    const double inside = plain ? scale : 1.0, weight = centres.weight, outside = plain ? 1.0 : scale;
    const Doubles twice = Doubles{} + 2.0 * inside;
    double largest = 0.0;
    Doubles most = Doubles{};
    const auto many = [&](int64_t i, int64_t v) {
        const Doubles share = ratio(as_doubles(load<Longs>(alpha + i)), load<Doubles>(size + v),
                                    load<Doubles>(inverse + v));
        return times_less(share, twice, load<Doubles>(penalty + v) * inside);
    };
    const auto put = [&](int64_t i, Doubles score) {
        most = larger_of(most, size_of(score));
        if constexpr (FIXED)
            store(values + i, nearest(score));
        else
            store(scores + i, score);
    };
    const auto one = [&](int64_t i, int64_t v) {
        const double score = (2.0 * (as_double(alpha[i]) / size[v]) - penalty[v]) * weight * scale;
        largest = larger(largest, score < 0 ? -score : score);
        if constexpr (FIXED)
            values[i] = (int32_t)(int64_t)((score + kRounder) - kRounder);  // a scale that was guessed may be too large
        else
            scores[i] = score;
    };
    if (plain)
        sweep(n * k, period, kDoubles, [&](int64_t i, int64_t v) { put(i, many(i, v)); }, one);
    else
        sweep(n * k, period, kDoubles, [&](int64_t i, int64_t v) { put(i, many(i, v) * weight * outside); }, one);
    double lanes[kDoubles];
    store(lanes, most);
    for (int lane = 0; lane < kDoubles; ++lane) largest = larger(largest, lanes[lane]);
    return largest / scale;
}

double score_rows(const int64_t* alpha, int64_t n, int64_t k, const Centres& centres, double* scores) {
    return score_rows_as<false>(alpha, n, k, centres, 1.0, scores, nullptr);
}

double fixed_score_rows(const int64_t* alpha, int64_t n, int64_t k, const Centres& centres, double scale,
                        int32_t* values) {
    return score_rows_as<true>(alpha, n, k, centres, scale, nullptr, values);
}

void round_scores(const double* scores, int64_t n, double scale, int32_t* values) {
    for (int64_t i = 0; i < n; ++i) values[i] = (int32_t)((scores[i] * scale + kRounder) - kRounder);
}

void compare_rows(const int32_t* before, int before_shift, const int32_t* after, int after_shift, int64_t n, int32_t k,
                  int32_t* high, int32_t* low, int32_t* least, int32_t* most) {
    alignas(64) int32_t room[2][kRepeated * kInts];
    const int64_t period = period_of(k, kInts);
    int32_t* up = (int32_t*)repeat<int32_t>(high, k, period, room[0]);
    int32_t* down = (int32_t*)repeat<int32_t>(low, k, period, room[1]);
    int32_t a = after[0], b = after[0];
    Ints smallest = Ints{} + a, largest = Ints{} + b;
    const auto range = [&](Ints here) {
        smallest = here < smallest ? here : smallest;
        largest = largest < here ? here : largest;
    };
    const auto range_one = [&](int64_t i) { a = smaller(a, after[i]), b = larger(b, after[i]); };
    if (before)
        sweep(n * k, period, kInts, [&](int64_t i, int64_t v) {
            const Ints here = load<Ints>(after + i);
            const Ints change = (here >> after_shift) - (load<Ints>(before + i) >> before_shift);
            const Ints u = load<Ints>(up + v), d = load<Ints>(down + v);
            store(up + v, u < change ? change : u);
            store(down + v, change < d ? change : d);
            range(here);
        }, [&](int64_t i, int64_t v) {
            const int32_t change = (after[i] >> after_shift) - (before[i] >> before_shift);
            up[v] = larger(up[v], change), down[v] = smaller(down[v], change);
            range_one(i);
        });
    else
        sweep(n * k, kInts, kInts, [&](int64_t i, int64_t) { range(load<Ints>(after + i)); },
              [&](int64_t i, int64_t) { range_one(i); });
    int32_t lanes[2][kInts];
    store(lanes[0], smallest), store(lanes[1], largest);
    for (int lane = 0; lane < kInts; ++lane) a = smaller(a, lanes[0][lane]), b = larger(b, lanes[1][lane]);
    *least = a, *most = b;
    for (int64_t v = 0; v < period && up != high; v += k)
        for (int32_t c = 0; c < k; ++c) high[c] = larger(high[c], up[v + c]), low[c] = smaller(low[c], down[v + c]);
}

void widen_rows(const int32_t* rows, int64_t n, int32_t k, int32_t m, int32_t width, int32_t filler, int32_t* out) {
#if defined(__AVX512F__)
    const __m512i fill = _mm512_set1_epi32(filler);
    for (int64_t f = 0; f < n; ++f, rows += k, out += width)
        for (int32_t c = 0; c < width; c += 16) {
            const __mmask16 kept = (__mmask16)((1ull << smaller(larger(m - c, 0), 16)) - 1);
            const __mmask16 room = (__mmask16)((1ull << smaller(width - c, 16)) - 1);
            _mm512_mask_storeu_epi32(out + c, room, _mm512_mask_loadu_epi32(fill, kept, rows + c));
        }
#else
    for (int64_t f = 0; f < n; ++f, rows += k, out += width) {
        memcpy(out, rows, sizeof(int32_t) * (size_t)m);
        for (int32_t c = m; c < width; ++c) out[c] = filler;
    }
#endif
}

}  // namespace
}  // namespace coassoc

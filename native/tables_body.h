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
inline HalfInts to_ints(Doubles x) { return __builtin_convertvector(x, HalfInts); }
#else
typedef double Doubles;
typedef int64_t Longs;
typedef int32_t HalfInts;
typedef int32_t Ints;
inline HalfInts to_ints(Doubles x) { return (int32_t)x; }
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
inline Doubles as_doubles(Longs x) { return load<Doubles>(&(x |= 0x4330000000000000)) - 4503599627370496.0; }

// a / b, correctly rounded, from y = 1 / b rounded. a and b are whole numbers below 2**33: a / b is then at least
// 2**-34 units in the last place away from where rounding turns, and the corrected quotient within 2**-51 of it.
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

// adding and taking away 1.5 * 2**52 leaves a double rounded to even, as rint does
constexpr double kRounder = 6755399441055744.0;

// Scores, or what they are in fixed point; returns the largest size of a score.
template <bool FIXED>
double score_rows_as(const int64_t* alpha, int64_t n, int64_t k, const Centres& centres, double scale, double* scores,
                     int32_t* values) {
    alignas(64) double room[3][kRepeated * kDoubles];
    const int64_t period = period_of(k, kDoubles);
    const double* size = repeat(centres.size, k, period, room[0]);
    const double* inverse = repeat(centres.inverse, k, period, room[1]);
    const double* penalty = repeat(centres.penalty, k, period, room[2]);
    const double weight = centres.weight;
    double largest = 0.0;
    Doubles most = Doubles{};
    sweep(n * k, period, kDoubles, [&](int64_t i, int64_t v) {
        const Doubles share = ratio(2.0 * as_doubles(load<Longs>(alpha + i)), load<Doubles>(size + v),
                                    load<Doubles>(inverse + v));
        const Doubles score = (share - load<Doubles>(penalty + v)) * weight;
        const Doubles height = score < 0.0 ? -score : score;
        most = most < height ? height : most;
        if constexpr (FIXED)
            store(values + i, to_ints((score * scale + kRounder) - kRounder));
        else
            store(scores + i, score);
    }, [&](int64_t i, int64_t v) {
        const double score = (2.0 * as_double(alpha[i]) / size[v] - penalty[v]) * weight;
        largest = larger(largest, score < 0 ? -score : score);
        if constexpr (FIXED)
            values[i] = (int32_t)(int64_t)((score * scale + kRounder) - kRounder);  // bits that were guessed may be too many
        else
            scores[i] = score;
    });
    double lanes[kDoubles];
    store(lanes, most);
    for (int lane = 0; lane < kDoubles; ++lane) largest = larger(largest, lanes[lane]);
    return largest;
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

}  // namespace
}  // namespace coassoc

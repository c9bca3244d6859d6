#include "exchange.h"

#include <cmath>
#include <limits>

// The hot loops are compiled for newer instruction sets too and chosen when the module is loaded. Results are the
// same: integer sums, and doubles without contraction.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define COASSOC_CLONES __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define COASSOC_CLONES
#endif

namespace coassoc {

namespace {

constexpr double kSqrtHalf = 0.7071067811865476;
constexpr double kLn2 = 0.6931471805599453;

inline bool may_leave(int64_t left, int64_t least, bool vanish) { return left >= least || (left == 0 && vanish); }

// x log x is asked for small counts most of the time
class XlogxTable {
public:
    XlogxTable(int64_t size, int32_t bits) : bits_(bits), values_(static_cast<size_t>(size)) {
        for (int64_t x = 0; x < size; ++x) values_[static_cast<size_t>(x)] = fixed_xlogx(x, bits);
    }
    int64_t operator()(int64_t x) const {
        return x < static_cast<int64_t>(values_.size()) ? values_[static_cast<size_t>(x)] : fixed_xlogx(x, bits_);
    }

private:
    int32_t bits_;
    std::vector<int64_t> values_;
};

// with_item[c] = Σ over the m table rows named of alpha[row * k + c]
COASSOC_CLONES void sum_rows(const int32_t* alpha, const int64_t* named, int64_t m, int32_t k, int32_t* with_item) {
    for (int32_t c = 0; c < k; ++c) with_item[c] = 0;
    for (int64_t j = 0; j < m; ++j) {
        const int32_t* a = alpha + named[j] * k;
        for (int32_t c = 0; c < k; ++c) with_item[c] += a[c];
    }
}

COASSOC_CLONES void sum_rows(const int64_t* alpha, const int64_t* named, int64_t m, int32_t k, int64_t* with_item) {
    for (int32_t c = 0; c < k; ++c) with_item[c] = 0;
    for (int64_t j = 0; j < m; ++j) {
        const int64_t* a = alpha + named[j] * k;
        for (int32_t c = 0; c < k; ++c) with_item[c] += a[c];
    }
}

COASSOC_CLONES void to_double(const int32_t* from, int32_t k, double* to) {
    for (int32_t c = 0; c < k; ++c) to[c] = static_cast<double>(from[c]);
}

COASSOC_CLONES void to_double(const int64_t* from, int32_t k, double* to) {
    for (int32_t c = 0; c < k; ++c) to[c] = static_cast<double>(from[c]);
}

// gain of entering each cluster; x: Σ_j w_j α, y: Σ_j w_j n_Cj
COASSOC_CLONES void enter_gains(const double* x, const double* y, const double* sizes, const FrozenTables& t, double m,
                                double more, double* enter) {
    const double unit = t.unit;
    for (int32_t c = 0; c < t.k; ++c) {
        const double num = t.together[c] + (m * (2.0 * x[c] + more)) * unit;
        const double den = t.observed[c] + (m * (2.0 * y[c] + more)) * unit;
        const double share = den > 0.0 ? num / den : 0.0;
        enter[c] = (sizes[c] + m) * share - t.values[c];
    }
}

template <class Code, class Count>
void propose_density(const ExchangeRows& rows, const int32_t* labels, const FrozenTables& t, const Count* alpha,
                     int64_t start, int64_t stop, int32_t* targets) {
    const Code* codes = static_cast<const Code*>(rows.codes);
    const int64_t p = rows.p;
    const int32_t k = t.k;
    std::vector<Count> with_item(k);
    std::vector<int64_t> pairs(k), named(p);
    std::vector<double> sizes(k), enter(k), x(k), y(k), y_all(k);
    int64_t all_steps = 0;
    for (int32_t c = 0; c < k; ++c) {
        int64_t all = 0;
        for (int64_t j = 0; j < p; ++j) all += t.cells[j * k + c];
        y_all[c] = static_cast<double>(all);
        sizes[c] = static_cast<double>(t.sizes[c]);
    }
    for (int64_t j = 0; j < p; ++j) all_steps += t.steps[j];
    for (int64_t i = start; i < stop; ++i) {
        const int64_t copies = rows.copies ? rows.copies[i] : 1;
        const int32_t own = labels[i];
        int32_t& target = targets[i - start];
        target = -1;
        if (copies <= 0 || !may_leave(t.sizes[own] - copies, t.least, t.vanish)) continue;
        const Code* row = codes + (rows.ids ? rows.ids[i] : i) * p;
        int64_t seen = 0, weight = 0;
        for (int64_t j = 0; j < p; ++j) {
            if (static_cast<int64_t>(row[j]) >= rows.n_clusters[j]) continue;
            named[seen++] = rows.offsets[j] + static_cast<int64_t>(row[j]);
            weight += t.steps[j];
        }
        sum_rows(alpha, named.data(), seen, k, with_item.data());
        to_double(with_item.data(), k, x.data());
        const double* below = y_all.data();
        if (seen < p) {
            for (int32_t c = 0; c < k; ++c) pairs[c] = 0;
            for (int64_t j = 0; j < p; ++j) {
                if (static_cast<int64_t>(row[j]) >= rows.n_clusters[j]) continue;
                for (int32_t c = 0; c < k; ++c) pairs[c] += t.cells[j * k + c];
            }
            to_double(pairs.data(), k, y.data());
            below = y.data();
        }
        const double m = static_cast<double>(copies), w = static_cast<double>(seen < p ? weight : all_steps);
        enter_gains(x.data(), below, sizes.data(), t, m, (m - 1.0) * w, enter.data());
        int32_t best = -1;
        double most = -std::numeric_limits<double>::infinity();
        for (int32_t c = 0; c < k; ++c) {
            if (c != own && enter[c] > most && (t.sizes[c] > 0 || copies >= t.least)) {
                most = enter[c];
                best = c;
            }
        }
        if (best < 0) continue;
        const double less = (m + 1.0) * w;
        const double num = t.together[own] - (m * (2.0 * x[own] - less)) * t.unit;
        const double den = t.observed[own] - (m * (2.0 * below[own] - less)) * t.unit;
        const double share = den > 0.0 ? num / den : 0.0;
        const double leave = (sizes[own] - m) * share - t.values[own];
        if (leave + most > t.threshold) target = best;
    }
}

// adds to gain[c] what moving a single copy brings in one partition
COASSOC_CLONES void add_agreement(const int64_t* in, const int64_t* in_cells, int64_t shared, int64_t entropy,
                                  double twice, double before, int32_t k, double* gain) {
    const double half = 0.5 * twice;
    for (int32_t c = 0; c < k; ++c) {
        const int64_t n = shared + in[c] - in_cells[c], e = entropy - in_cells[c];
        const double term = twice * static_cast<double>(n) / static_cast<double>(e == 0 ? 1 : e);
        gain[c] += (e == 0 ? half : term) - before;
    }
}

template <class Code>
void propose_agreement(const ExchangeRows& rows, const int32_t* labels, const FrozenTables& t, int64_t start,
                       int64_t stop, int32_t* targets) {
    const Code* codes = static_cast<const Code*>(rows.codes);
    const int64_t p = rows.p;
    const int32_t k = t.k;
    std::vector<double> gain(k);
    for (int64_t i = start; i < stop; ++i) {
        const int64_t m = rows.copies ? rows.copies[i] : 1;
        const int32_t own = labels[i];
        int32_t& target = targets[i - start];
        target = -1;
        if (m <= 0 || !may_leave(t.sizes[own] - m, t.least, t.vanish)) continue;
        const Code* row = codes + (rows.ids ? rows.ids[i] : i) * p;
        for (int32_t c = 0; c < k; ++c) gain[c] = 0.0;
        for (int64_t j = 0; j < p; ++j) {
            if (static_cast<int64_t>(row[j]) >= rows.n_clusters[j]) continue;
            const int64_t f = (rows.offsets[j] + static_cast<int64_t>(row[j])) * k, cell = j * k;
            const double twice = t.twice[j], half = 0.5 * twice, before = t.values[j];
            if (m == 1) {
                const int64_t shared = t.shared[j] + t.leave[f + own] - t.leave_cells[cell + own];
                const int64_t entropy = t.entropy[j] - t.leave_cells[cell + own];
                add_agreement(t.enter + f, t.enter_cells + cell, shared, entropy, twice, before, k, gain.data());
                continue;
            }
            const int64_t a_o = t.alpha[f + own], n_o = t.cells[cell + own];
            const int64_t out = fixed_xlogx(a_o - m, t.bits) - fixed_xlogx(a_o, t.bits);
            const int64_t out_cells = fixed_xlogx(n_o - m, t.bits) - fixed_xlogx(n_o, t.bits);
            for (int32_t c = 0; c < k; ++c) {
                if (c == own) continue;
                const int64_t a = t.alpha[f + c], cells = t.cells[cell + c];
                const int64_t joint = fixed_xlogx(a + m, t.bits) - fixed_xlogx(a, t.bits) + out;
                const int64_t change = fixed_xlogx(cells + m, t.bits) - fixed_xlogx(cells, t.bits) + out_cells;
                const int64_t n = t.shared[j] + joint - change, e = t.entropy[j] - change;
                const double term = twice * static_cast<double>(n) / static_cast<double>(e == 0 ? 1 : e);
                gain[c] += (e == 0 ? half : term) - before;
            }
        }
        int32_t best = -1;
        double most = -std::numeric_limits<double>::infinity();
        for (int32_t c = 0; c < k; ++c) {
            if (c != own && gain[c] > most && (t.sizes[c] > 0 || m >= t.least)) {
                most = gain[c];
                best = c;
            }
        }
        if (best >= 0 && most > t.threshold) target = best;
    }
}

template <class Code>
void settle_density_of(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha,
                       int64_t* cells, int64_t* squares, int64_t* sizes, double* values, const double* v, int64_t least,
                       bool vanish, double threshold, uint8_t* accepted) {
    const Code* codes = static_cast<const Code*>(moves.codes);
    const int64_t p = layout.p;
    for (int64_t t = 0; t < moves.m; ++t) {
        const int32_t o = moves.sources[t], c = moves.targets[t];
        const int64_t m = moves.copies[t];
        accepted[t] = 0;
        if (!may_leave(sizes[o] - m, least, vanish) || (sizes[c] == 0 && m < least)) continue;
        const Code* row = codes + t * p;
        double t_o = 0.0, p_o = 0.0, t_c = 0.0, p_c = 0.0;
        for (int64_t j = 0; j < p; ++j) {
            int64_t q_o = squares[j * k + o], n_o = cells[j * k + o];
            int64_t q_c = squares[j * k + c], n_c = cells[j * k + c];
            if (static_cast<int64_t>(row[j]) < layout.n_clusters[j]) {
                const int64_t* a = alpha + (layout.offsets[j] + static_cast<int64_t>(row[j])) * k;
                q_o -= m * (2 * a[o] - m);
                q_c += m * (2 * a[c] + m);
                n_o -= m;
                n_c += m;
            }
            t_o += v[j] * static_cast<double>(q_o - n_o);
            p_o += v[j] * static_cast<double>(n_o * (n_o - 1));
            t_c += v[j] * static_cast<double>(q_c - n_c);
            p_c += v[j] * static_cast<double>(n_c * (n_c - 1));
        }
        const double value_o = p_o > 0.0 ? static_cast<double>(sizes[o] - m) * (t_o / p_o) : 0.0;
        const double value_c = p_c > 0.0 ? static_cast<double>(sizes[c] + m) * (t_c / p_c) : 0.0;
        if (!((value_o - values[o]) + (value_c - values[c]) > threshold)) continue;
        accepted[t] = 1;
        for (int64_t j = 0; j < p; ++j) {
            if (static_cast<int64_t>(row[j]) >= layout.n_clusters[j]) continue;
            int64_t* a = alpha + (layout.offsets[j] + static_cast<int64_t>(row[j])) * k;
            squares[j * k + o] -= m * (2 * a[o] - m);
            squares[j * k + c] += m * (2 * a[c] + m);
            cells[j * k + o] -= m;
            cells[j * k + c] += m;
            a[o] -= m;
            a[c] += m;
        }
        sizes[o] -= m;
        sizes[c] += m;
        values[o] = value_o;
        values[c] = value_c;
    }
}

template <class Code>
void settle_agreement_of(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha,
                         int64_t* cells, int64_t* sizes, int64_t* shared, int64_t* entropy, double* values,
                         const double* v, int64_t least, bool vanish, double threshold, int32_t bits, uint8_t* accepted) {
    const Code* codes = static_cast<const Code*>(moves.codes);
    const int64_t p = layout.p;
    const XlogxTable h(moves.m > 1024 ? 1 << 16 : 256, bits);
    std::vector<int64_t> new_shared(p), new_entropy(p);
    std::vector<double> terms(p);
    for (int64_t t = 0; t < moves.m; ++t) {
        const int32_t o = moves.sources[t], c = moves.targets[t];
        const int64_t m = moves.copies[t];
        accepted[t] = 0;
        if (!may_leave(sizes[o] - m, least, vanish) || (sizes[c] == 0 && m < least)) continue;
        const Code* row = codes + t * p;
        double gain = 0.0;
        for (int64_t j = 0; j < p; ++j) {
            if (static_cast<int64_t>(row[j]) >= layout.n_clusters[j]) continue;
            const int64_t* a = alpha + (layout.offsets[j] + static_cast<int64_t>(row[j])) * k;
            const int64_t n_o = cells[j * k + o], n_c = cells[j * k + c];
            const int64_t joint = (h(a[c] + m) - h(a[c])) + (h(a[o] - m) - h(a[o]));
            const int64_t change = (h(n_c + m) - h(n_c)) + (h(n_o - m) - h(n_o));
            new_shared[j] = shared[j] + joint - change;
            new_entropy[j] = entropy[j] - change;
            terms[j] = new_entropy[j] == 0
                           ? v[j]
                           : (2.0 * v[j]) * static_cast<double>(new_shared[j]) / static_cast<double>(new_entropy[j]);
            gain += terms[j] - values[j];
        }
        if (!(gain > threshold)) continue;
        accepted[t] = 1;
        for (int64_t j = 0; j < p; ++j) {
            if (static_cast<int64_t>(row[j]) >= layout.n_clusters[j]) continue;
            int64_t* a = alpha + (layout.offsets[j] + static_cast<int64_t>(row[j])) * k;
            a[o] -= m;
            a[c] += m;
            cells[j * k + o] -= m;
            cells[j * k + c] += m;
            shared[j] = new_shared[j];
            entropy[j] = new_entropy[j];
            values[j] = terms[j];
        }
        sizes[o] -= m;
        sizes[c] += m;
    }
}

}  // namespace

int64_t fixed_xlogx(int64_t x, int32_t bits) {
    if (x < 2) return 0;
    int exponent = 0;
    const double value = static_cast<double>(x);
    double fraction = std::frexp(value, &exponent);
    if (fraction < kSqrtHalf) {
        fraction = fraction + fraction;
        --exponent;
    }
    const double s = (fraction - 1.0) / (fraction + 1.0);
    const double z = s * s;
    double r = 1.0 / 23.0;
    for (int i = 21; i > 0; i -= 2) r = r * z + 1.0 / static_cast<double>(i);
    const double log = static_cast<double>(exponent) * kLn2 + (s + s) * r;
    return static_cast<int64_t>(std::rint(value * log * std::ldexp(1.0, bits)));
}

void propose_chunk(const ExchangeRows& rows, const int32_t* labels, const FrozenTables& tables, int64_t start,
                   int64_t stop, int32_t* targets) {
    auto run = [&](auto code) {
        using Code = decltype(code);
        if (tables.density && tables.narrow)
            propose_density<Code>(rows, labels, tables, tables.narrow, start, stop, targets);
        else if (tables.density)
            propose_density<Code>(rows, labels, tables, tables.alpha, start, stop, targets);
        else
            propose_agreement<Code>(rows, labels, tables, start, stop, targets);
    };
    if (rows.width == 1)
        run(uint8_t{});
    else if (rows.width == 2)
        run(uint16_t{});
    else
        run(uint32_t{});
}

void settle_density(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha, int64_t* cells,
                    int64_t* squares, int64_t* sizes, double* values, const double* v, int64_t least, bool vanish, double threshold,
                    uint8_t* accepted) {
    auto run = [&](auto code) {
        settle_density_of<decltype(code)>(layout, moves, k, alpha, cells, squares, sizes, values, v, least, vanish, threshold,
                                          accepted);
    };
    if (layout.width == 1)
        run(uint8_t{});
    else if (layout.width == 2)
        run(uint16_t{});
    else
        run(uint32_t{});
}

void settle_agreement(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha,
                      int64_t* cells, int64_t* sizes, int64_t* shared, int64_t* entropy, double* values,
                      const double* v, int64_t least, bool vanish, double threshold, int32_t bits, uint8_t* accepted) {
    auto run = [&](auto code) {
        settle_agreement_of<decltype(code)>(layout, moves, k, alpha, cells, sizes, shared, entropy, values, v, least,
                                            vanish, threshold, bits, accepted);
    };
    if (layout.width == 1)
        run(uint8_t{});
    else if (layout.width == 2)
        run(uint16_t{});
    else
        run(uint32_t{});
}

}  // namespace coassoc

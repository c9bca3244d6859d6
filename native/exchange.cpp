#include "exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "pool.h"

namespace coassoc {
namespace {

constexpr double kSqrtHalf = 0.7071067811865476;
constexpr double kLn2 = 0.6931471805599453;
constexpr int64_t kCheckMoves = 4096;  // moves applied between two checks for Ctrl-C

// x log x in fixed point, by a series in plain double precision: the same bits on every machine.
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

// The table row of label j of a row of codes; -1 when it is missing.
template <class Code>
inline int64_t table_row(const View& view, const Code* row, int64_t j) {
    const int64_t code = static_cast<int64_t>(row[j]);
    return code < view.n_clusters[j] ? view.first[j] - j + code : -1;
}

// The other cluster with the largest gain, the first of equals, that a row may enter; -1: none.
int32_t best_target(const FrozenTables& t, const std::vector<double>& gain, int32_t own, int64_t copies) {
    int32_t best = -1;
    double most = -std::numeric_limits<double>::infinity();
    for (int32_t c = 0; c < t.k; ++c) {
        if (c != own && gain[c] > most && (t.sizes[c] > 0 || copies >= t.rules.least)) {
            most = gain[c];
            best = c;
        }
    }
    return best;
}

template <class Code>
void propose_density(const Kernels& kernels, const View& view, const int32_t* labels, const FrozenTables& t,
                     int64_t start, int64_t stop, int32_t* targets) {
    const int64_t p = view.p;
    const int32_t k = t.k;
    std::vector<int32_t> narrow_sum(k);
    std::vector<int64_t> sum(k), cells(k), named(p);
    std::vector<double> sizes(t.sizes, t.sizes + k), enter(k), x(k), y(k), y_all(k);
    int64_t all_steps = 0;
    for (int32_t c = 0; c < k; ++c)
        for (int64_t j = 0; j < p; ++j) cells[c] += t.cells[j * k + c];
    y_all.assign(cells.begin(), cells.end());
    for (int64_t j = 0; j < p; ++j) all_steps += t.steps[j];
    for (int64_t i = start; i < stop; ++i) {
        const int64_t copies = view.copies ? view.copies[i] : 1;
        const int32_t own = labels[i];
        int32_t& target = targets[i - start];
        target = -1;
        if (copies <= 0 || t.sizes[own] - copies < t.rules.least) continue;
        const Code* row = static_cast<const Code*>(view.codes) + (view.ids ? view.ids[i] : i) * p;
        int64_t seen = 0, weight = 0;
        for (int64_t j = 0; j < p; ++j) {
            const int64_t f = table_row(view, row, j);
            if (f < 0) continue;
            named[seen++] = f;
            weight += t.steps[j];
        }
        if (t.narrow)
            kernels.sum_narrow(t.narrow, named.data(), seen, k, narrow_sum.data(), x.data());
        else
            kernels.sum_exact(t.alpha, named.data(), seen, k, sum.data(), x.data());
        const double* below = y_all.data();
        if (seen < p) {
            std::fill(cells.begin(), cells.end(), 0);
            for (int64_t j = 0; j < p; ++j) {
                if (table_row(view, row, j) < 0) continue;
                for (int32_t c = 0; c < k; ++c) cells[c] += t.cells[j * k + c];
            }
            y.assign(cells.begin(), cells.end());
            below = y.data();
        }
        const double m = static_cast<double>(copies), w = static_cast<double>(seen < p ? weight : all_steps);
        kernels.density_gains({x.data(), below, sizes.data(), t.together, t.observed, t.values, t.unit}, k, m,
                              (m - 1.0) * w, enter.data());
        const int32_t best = best_target(t, enter, own, copies);
        if (best < 0) continue;
        const double less = (m + 1.0) * w;
        const double num = t.together[own] - (m * (2.0 * x[own] - less)) * t.unit;
        const double den = t.observed[own] - (m * (2.0 * below[own] - less)) * t.unit;
        const double share = den > 0.0 ? num / den : 0.0;
        const double leave = (sizes[own] - m) * share - t.values[own];
        if (leave + enter[best] > t.rules.threshold) target = best;
    }
}

// A bound on the gain of moving a single copy, from sums of integers: most rows need no exact gains.
//
// With N, E the parts of 2 N / E, J and w the changes of the joint and the own sum, a partition's term changes by
// exactly (2 v / E) (J - (1 - N / E) w) E / (E - w). All but the last factor is a sum of an entry for the cluster
// entered and one for the cluster left; the last factor is 1 up to |w| / (E - |w|).
struct MoveBound {
    std::vector<int32_t> enter, leave;  // (d, k) in multiples of `unit`
    double unit = 0.0, slack = std::numeric_limits<double>::infinity();

    MoveBound(const View& view, const FrozenTables& t) {
        const int64_t k = t.k, d = table_row_end(view, view.p - 1);
        std::vector<double> in(d * k), out(d * k);
        double total = 0.0, error = 0.0;
        for (int64_t j = 0; j < view.p; ++j) {
            if (t.entropy[j] <= 0) return;
            const double e = static_cast<double>(t.entropy[j]), slope = t.twice[j] / e;
            const double rest = 1.0 - static_cast<double>(t.shared[j]) / e;
            double most_in = 0.0, most_out = 0.0, own_in = 0.0, own_out = 0.0;
            for (int64_t f = view.first[j] - j; f < table_row_end(view, j); ++f) {
                for (int64_t c = 0; c < k; ++c) {
                    const double own[2] = {static_cast<double>(t.enter_cells[j * k + c]),
                                           static_cast<double>(t.leave_cells[j * k + c])};
                    in[f * k + c] = slope * (static_cast<double>(t.enter[f * k + c]) - rest * own[0]);
                    out[f * k + c] = slope * (static_cast<double>(t.leave[f * k + c]) - rest * own[1]);
                    most_in = std::max(most_in, std::abs(in[f * k + c]));
                    most_out = std::max(most_out, std::abs(out[f * k + c]));
                    own_in = std::max(own_in, std::abs(own[0]));
                    own_out = std::max(own_out, std::abs(own[1]));
                }
            }
            if (own_in + own_out >= e) return;
            total += most_in + most_out;
            error += (most_in + most_out) * ((own_in + own_out) / (e - own_in - own_out) + 1e-12);
        }
        unit = std::max(total, 1e-300) / (1 << 30);
        const auto rounded = [this](double x) { return static_cast<int32_t>(std::rint(x / unit)); };
        enter.resize(in.size());
        leave.resize(out.size());
        std::transform(in.begin(), in.end(), enter.begin(), rounded);
        std::transform(out.begin(), out.end(), leave.begin(), rounded);
        slack = error + static_cast<double>(view.p) * unit;
    }
    bool usable() const { return slack < std::numeric_limits<double>::infinity(); }

private:
    static int64_t table_row_end(const View& view, int64_t j) { return view.first[j] - j + view.n_clusters[j]; }
};

template <class Code>
void propose_agreement(const Kernels& kernels, const View& view, const int32_t* labels, const FrozenTables& t,
                       const MoveBound& bound, int64_t start, int64_t stop, int32_t* targets) {
    const int64_t p = view.p;
    const int32_t k = t.k;
    std::vector<double> gain(k);
    std::vector<int32_t> sums(k);
    std::vector<int64_t> named(p);
    for (int64_t i = start; i < stop; ++i) {
        const int64_t m = view.copies ? view.copies[i] : 1;
        const int32_t own = labels[i];
        int32_t& target = targets[i - start];
        target = -1;
        if (m <= 0 || t.sizes[own] - m < t.rules.least) continue;
        const Code* row = static_cast<const Code*>(view.codes) + (view.ids ? view.ids[i] : i) * p;
        if (m == 1 && bound.usable()) {
            int64_t seen = 0, leaving = 0;
            for (int64_t j = 0; j < p; ++j) {
                const int64_t f = table_row(view, row, j);
                if (f < 0) continue;
                named[seen++] = f;
                leaving += bound.leave[f * k + own];
            }
            kernels.sum_narrow(bound.enter.data(), named.data(), seen, k, sums.data(), gain.data());
            gain[own] = -std::numeric_limits<double>::infinity();
            const double most = *std::max_element(gain.begin(), gain.end()) + static_cast<double>(leaving);
            if (most * bound.unit + bound.slack <= t.rules.threshold) continue;
        }
        std::fill(gain.begin(), gain.end(), 0.0);
        for (int64_t j = 0; j < p; ++j) {
            if (table_row(view, row, j) < 0) continue;
            const int64_t f = table_row(view, row, j) * k, cell = j * k;
            const double twice = t.twice[j], half = 0.5 * twice, before = t.values[j];
            if (m == 1) {
                const int64_t shared = t.shared[j] + t.leave[f + own] - t.leave_cells[cell + own];
                const int64_t entropy = t.entropy[j] - t.leave_cells[cell + own];
                kernels.add_agreement(t.enter + f, t.enter_cells + cell, shared, entropy, twice, before, k,
                                      gain.data());
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
        const int32_t best = best_target(t, gain, own, m);
        if (best >= 0 && gain[best] > t.rules.threshold) target = best;
    }
}

template <class Code>
void settle_of(const View& view, const ProposedMoves& moves, const MoveRules& rules, const LiveCounts& live,
               uint8_t* accepted) {
    const auto [density, k, v, values, alpha, cells, sizes, squares, shared, entropy, bits] = live;
    const int64_t p = view.p;
    const auto h = [&live](int64_t x) { return fixed_xlogx(x, live.bits); };
    std::vector<int64_t> named(p), new_shared(p), new_entropy(p);
    std::vector<double> terms(p);
    const Code* row = static_cast<const Code*>(view.codes);
    for (int64_t t = 0; t < moves.m; ++t, row += p) {
        if (t % kCheckMoves == 0) check_interrupt();
        const int32_t o = moves.sources[t], c = moves.targets[t];
        const int64_t m = moves.copies[t];
        accepted[t] = 0;
        if (sizes[o] - m < rules.least || (sizes[c] == 0 && m < rules.least)) continue;
        for (int64_t j = 0; j < p; ++j) named[j] = table_row(view, row, j);
        double gain = 0.0, value_o = 0.0, value_c = 0.0;
        if (density) {
            double t_o = 0.0, p_o = 0.0, t_c = 0.0, p_c = 0.0;
            for (int64_t j = 0; j < p; ++j) {
                int64_t q_o = squares[j * k + o], n_o = cells[j * k + o];
                int64_t q_c = squares[j * k + c], n_c = cells[j * k + c];
                if (named[j] >= 0) {
                    const int64_t* a = alpha + named[j] * k;
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
            value_o = p_o > 0.0 ? static_cast<double>(sizes[o] - m) * (t_o / p_o) : 0.0;
            value_c = p_c > 0.0 ? static_cast<double>(sizes[c] + m) * (t_c / p_c) : 0.0;
            gain = (value_o - values[o]) + (value_c - values[c]);
        }
        for (int64_t j = 0; j < p && !density; ++j) {
            if (named[j] < 0) continue;
            const int64_t *a = alpha + named[j] * k, *n = cells + j * k;
            const int64_t joint = (h(a[c] + m) - h(a[c])) + (h(a[o] - m) - h(a[o]));
            const int64_t change = (h(n[c] + m) - h(n[c])) + (h(n[o] - m) - h(n[o]));
            new_shared[j] = shared[j] + joint - change;
            new_entropy[j] = entropy[j] - change;
            terms[j] = new_entropy[j] == 0
                           ? v[j]
                           : (2.0 * v[j]) * static_cast<double>(new_shared[j]) / static_cast<double>(new_entropy[j]);
            gain += terms[j] - values[j];
        }
        if (!(gain > rules.threshold)) continue;
        accepted[t] = 1;
        for (int64_t j = 0; j < p; ++j) {
            if (named[j] < 0) continue;
            int64_t *a = alpha + named[j] * k, *n = cells + j * k;
            if (density) {
                squares[j * k + o] -= m * (2 * a[o] - m);
                squares[j * k + c] += m * (2 * a[c] + m);
            } else {
                shared[j] = new_shared[j];
                entropy[j] = new_entropy[j];
                values[j] = terms[j];
            }
            a[o] -= m;
            a[c] += m;
            n[o] -= m;
            n[c] += m;
        }
        sizes[o] -= m;
        sizes[c] += m;
        if (density) {
            values[o] = value_o;
            values[c] = value_c;
        }
    }
}

}  // namespace

Proposals propose_moves(const Kernels& kernels, const View& view, const int32_t* labels, const FrozenTables& tables,
                        int64_t start, int64_t limit, int n_threads, int64_t task_rows) {
    Proposals out{{}, {}, view.n};
    const int64_t wave = task_rows * 16 * std::max(1, n_threads);  // rows judged before the limit is looked at
    const std::optional<MoveBound> bound =
        tables.density ? std::nullopt : std::optional<MoveBound>(std::in_place, view, tables);
    std::vector<int32_t> found(static_cast<size_t>(std::max<int64_t>(0, std::min(wave, view.n - start))));
    for (int64_t first = start; first < view.n; first += wave) {
        const int64_t last = std::min(view.n, first + wave), tasks = (last - first + task_rows - 1) / task_rows;
        run_tasks(n_threads, tasks, [&](int64_t number, int) {
            const int64_t from = first + number * task_rows, to = std::min(last, from + task_rows);
            int32_t* targets = found.data() + (from - first);
            with_codes(view.width, [&](auto code) {
                if (tables.density)
                    propose_density<decltype(code)>(kernels, view, labels, tables, from, to, targets);
                else
                    propose_agreement<decltype(code)>(kernels, view, labels, tables, *bound, from, to, targets);
            });
        });
        for (int64_t i = first; i < last; ++i) {
            if (found[static_cast<size_t>(i - first)] < 0) continue;
            out.rows.push_back(i);
            out.targets.push_back(found[static_cast<size_t>(i - first)]);
            if (static_cast<int64_t>(out.rows.size()) == limit) {
                out.stop = i + 1;
                return out;
            }
        }
    }
    return out;
}

void settle(const View& rows, const ProposedMoves& moves, const MoveRules& rules, const LiveCounts& counts,
            uint8_t* accepted) {
    with_codes(rows.width, [&](auto code) { settle_of<decltype(code)>(rows, moves, rules, counts, accepted); });
}

}  // namespace coassoc

#include "linkage.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels.h"
#include "pool.h"

namespace coassoc {

namespace {
constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int64_t kCells = 1 << 24;  // cells touched between two checks for Ctrl-C
}  // namespace

Agglomeration::Agglomeration(double* triangle, const double* weights, int64_t n, Kind kind)
    : triangle_(triangle), n_(n), kind_(kind), weights_(weights, weights + n), best_(n, kNone), alive_(n),
      nearest_(n, 0), stale_(n, 0) {
    for (int64_t i = 0; i < n; ++i) alive_[i] = i;
    for (auto* part : {&first, &second}) part->reserve(n);
    similarity.reserve(n);
}

void Agglomeration::run() {
    int64_t touched = 0;
    const auto count = [&](int64_t cells) {
        if ((touched += cells) < kCells) return;
        check_interrupt();
        touched = 0;
    };
    for (int64_t i = 0; i < n_ - 1; ++i) {
        find_nearest(i);
        count(n_);
    }
    while (alive_.size() > 1) {
        const int64_t a = top(), b = nearest_[a];
        first.push_back(a);
        second.push_back(b);
        similarity.push_back(best_[a]);
        n_ties += tied(a);
        merge(a, b);
        count(4 * (int64_t)alive_.size());
    }
}

// Where in `alive_` the clusters after i begin.
int64_t Agglomeration::position_after(int64_t i) const {
    return std::upper_bound(alive_.begin(), alive_.end(), i) - alive_.begin();
}

// Most similar living cluster after i, the lowest one on ties.
void Agglomeration::find_nearest(int64_t i) {
    stale_[i] = 0;
    double most = kNone;
    int64_t where = 0;
    const double* row = triangle_ + start(i);
    const int64_t size = (int64_t)alive_.size();
    for (int64_t x = position_after(i); x < size; ++x) {
        const double now = value(row[alive_[x]], i, alive_[x]);
        if (now > most) {
            most = now;
            where = alive_[x];
        }
    }
    best_[i] = most;
    nearest_[i] = where;
}

int64_t Agglomeration::top() {
    for (;;) {
        int64_t where = alive_[0];
        for (const int64_t i : alive_)
            if (best_[i] > best_[where]) where = i;
        if (!stale_[where]) return where;
        find_nearest(where);
    }
}

// Whether a pair other than (a, nearest of a) is as similar.
bool Agglomeration::tied(int64_t a) {
    const double most = best_[a];
    for (const int64_t i : alive_) {
        if (i == a || best_[i] != most) continue;
        if (stale_[i]) find_nearest(i);
        if (best_[i] == most) return true;
    }
    const double* row = triangle_ + start(a);
    const int64_t size = (int64_t)alive_.size();
    int equal = 0;
    for (int64_t x = position_after(a); x < size && equal < 2; ++x)
        equal += value(row[alive_[x]], a, alive_[x]) == most;
    return equal > 1;
}

void Agglomeration::merge(int64_t a, int64_t b) {
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), b));
    best_[b] = kNone;
    weights_[a] += weights_[b];
    for (const int64_t k : alive_) {
        if (k == a) continue;
        double& to_a = triangle_[k < a ? start(k) + a : start(a) + k];
        const double to_b = triangle_[k < b ? start(k) + b : start(b) + k];
        if (kind_ == kAverage)
            to_a += to_b;
        else if (kind_ == kSingle)
            to_a = std::max(to_a, to_b);
        else
            to_a = std::min(to_a, to_b);
        if (k < a) {  // a row holds the pairs of a cluster with later ones, so row k has the merged cluster
            const double now = value(to_a, k, a);
            const bool lost = !stale_[k] && (nearest_[k] == a || nearest_[k] == b);
            if (now > best_[k] || (now == best_[k] && !stale_[k] && (lost || a < nearest_[k]))) {
                best_[k] = now;
                nearest_[k] = a;
                stale_[k] = 0;
            } else if (lost) {
                stale_[k] = 1;
            }
        } else if (k < b && nearest_[k] == b) {
            stale_[k] = 1;  // row k had b, but has no a
        }
    }
    find_nearest(a);
}

namespace {

// One row of the triangle: in how many columns rows j > i hold the code of row i. Columns are contiguous.
template <class T>
void count_row(const T* columns, int64_t n, int64_t p, int64_t i, double* out) {
    constexpr int64_t kBlock = 512;
    for (int64_t from = i + 1; from < n; from += kBlock) {
        const int64_t size = std::min(kBlock, n - from);
        T total[kBlock] = {};
        for (int64_t j = 0; j < p; ++j) {
            const T own = columns[j * n + i];
            const T* other = columns + j * n + from;
            for (int64_t x = 0; x < size; ++x) total[x] = (T)(total[x] + (T)(other[x] == own));
        }
        for (int64_t x = 0; x < size; ++x) out[from - i - 1 + x] = (double)total[x];
    }
}

template <class T>
void count_all(const T* columns, int64_t n, int64_t p, double* triangle) {
    if (p > std::numeric_limits<T>::max()) throw std::invalid_argument("too many columns for codes this narrow");
    for (int64_t i = 0, touched = 0; i < n; ++i) {
        count_row(columns, n, p, i, triangle + i * n - i * (i + 1) / 2);
        if ((touched += (n - i) * p / 8 + 1) < kCells) continue;
        check_interrupt();
        touched = 0;
    }
}

}  // namespace

void co_occurrences(const void* columns, int width, int64_t n, int64_t p, double* triangle) {
    with_codes(width, [&](auto code) { count_all((const decltype(code)*)columns, n, p, triangle); });
}

}  // namespace coassoc

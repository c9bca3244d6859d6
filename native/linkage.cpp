// Linkage over a condensed triangle, and the co-occurrence counts that fill it.
#include "linkage.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace nb = nanobind;

namespace coassoc {

namespace {
constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int64_t kCells = 1 << 24;  // cells touched between two looks at the signals
}  // namespace

Agglomeration::Agglomeration(double* triangle, const double* weights, int64_t n, Kind kind)
    : triangle_(triangle), n_(n), kind_(kind), weights_(weights, weights + n), best_(n, kNone), alive_(n),
      nearest_(n, 0), stale_(n, 0) {
    for (int64_t i = 0; i < n; ++i) alive_[i] = i;
    for (auto* part : {&first, &second}) part->reserve(n);
    similarity.reserve(n);
}

bool Agglomeration::work() {
    int64_t budget = kCells;
    for (; prepared_ < n_ - 1 && budget > 0; budget -= n_) look(prepared_++);
    for (; prepared_ >= n_ - 1 && alive_.size() > 1 && budget > 0; budget -= 4 * (int64_t)alive_.size()) {
        const int64_t a = top(), b = nearest_[a];
        first.push_back(a);
        second.push_back(b);
        similarity.push_back(best_[a]);
        n_ties += tied(a);
        merge(a, b);
    }
    return alive_.size() > 1;
}

// Where in `alive_` the clusters after i begin.
int64_t Agglomeration::position_after(int64_t i) const {
    return std::upper_bound(alive_.begin(), alive_.end(), i) - alive_.begin();
}

// Most similar living cluster after i, the lowest one on ties.
void Agglomeration::look(int64_t i) {
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
        look(where);
    }
}

// Whether a pair other than (a, nearest of a) is as similar.
bool Agglomeration::tied(int64_t a) {
    const double most = best_[a];
    for (const int64_t i : alive_) {
        if (i == a || best_[i] != most) continue;
        if (stale_[i]) look(i);
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
        if (k < a) {  // k sees the merged cluster: its new nearest, or what k remembers becomes a mere bound
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
            stale_[k] = 1;  // k saw b, but cannot see a
        }
    }
    look(a);
}

namespace {

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned(const std::vector<T>& values) {
    T* data = new T[values.size() + 1];
    std::copy(values.begin(), values.end(), data);
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {values.size()}, owner);
}

void check_signals() {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

using Triangle = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple agglomerate(Triangle triangle, nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu> weights,
                      int kind) {
    const int64_t n = (int64_t)weights.shape(0);
    if (n < 1 || (int64_t)triangle.shape(0) != n * (n - 1) / 2)
        throw std::invalid_argument("the triangle must hold n(n-1)/2 values for n weights");
    if (kind < 0 || kind > 2) throw std::invalid_argument("no such linkage");
    Agglomeration state(triangle.data(), weights.data(), n, (Agglomeration::Kind)kind);
    for (bool more = true; more;) {
        {
            nb::gil_scoped_release release;
            more = state.work();
        }
        check_signals();
    }
    return nb::make_tuple(owned(state.first), owned(state.second), owned(state.similarity), state.n_ties);
}

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
    const int64_t most = std::numeric_limits<T>::max();
    if (p > most) throw std::invalid_argument("too many columns for codes this narrow");
    int64_t budget = 0;
    for (int64_t i = 0; i < n; ++i) {
        {
            nb::gil_scoped_release release;
            for (budget = kCells; i < n && budget > 0; ++i, budget -= (n - i) * p / 8 + 1)
                count_row(columns, n, p, i, triangle + i * n - i * (i + 1) / 2);
            --i;
        }
        check_signals();
    }
}

// Fills `triangle` with the number of columns in which two rows of codes agree; `columns` is the table transposed.
void co_occurrences(nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu> columns, Triangle triangle) {
    const int64_t p = (int64_t)columns.shape(0), n = (int64_t)columns.shape(1);
    if ((int64_t)triangle.shape(0) != n * (n - 1) / 2)
        throw std::invalid_argument("the triangle must hold n(n-1)/2 values for n columns of codes");
    const auto type = columns.dtype();
    if (type == nb::dtype<uint8_t>())
        count_all(static_cast<const uint8_t*>(columns.data()), n, p, triangle.data());
    else if (type == nb::dtype<uint16_t>())
        count_all(static_cast<const uint16_t*>(columns.data()), n, p, triangle.data());
    else if (type == nb::dtype<uint32_t>())
        count_all(static_cast<const uint32_t*>(columns.data()), n, p, triangle.data());
    else
        throw nb::type_error("codes must be uint8, uint16 or uint32");
}

}  // namespace

void bind_linkage(nb::module_& m) {
    m.def("agglomerate", &agglomerate, nb::arg("triangle").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("kind"));
    m.def("co_occurrences", &co_occurrences, nb::arg("columns").noconvert(), nb::arg("triangle").noconvert());
}

}  // namespace coassoc

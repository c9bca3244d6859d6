// The nanobind door of exchange.cpp.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "exchange.h"
#include "exchange_door.h"
#include "pool.h"

namespace nb = nanobind;

namespace coassoc {

namespace {

using Codes = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> owned(const std::vector<T>& values) {
    T* data = new T[values.size() + 1];
    std::copy(values.begin(), values.end(), data);
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {values.size()}, owner);
}

template <class T>
const T* field(nb::handle table, const char* name, std::vector<nb::object>& held) {
    nb::object value = table.attr(name);
    if (value.is_none()) return nullptr;
    auto array = nb::cast<In<T>>(value);
    held.push_back(std::move(value));
    return array.data();
}

ExchangeRows rows_of(const Codes& codes, const In<int64_t>& n_clusters, const In<int64_t>& offsets) {
    const auto bits = codes.dtype().bits;
    if (codes.ndim() != 2 || (bits != 8 && bits != 16 && bits != 32))
        throw std::invalid_argument("codes must be a two-dimensional array of uint8, uint16 or uint32.");
    if (n_clusters.size() != codes.shape(1) || offsets.size() != codes.shape(1) + 1)
        throw std::invalid_argument("n_clusters and offsets must fit the columns of codes.");
    return {codes.data(), nullptr,           bits / 8, static_cast<int64_t>(codes.shape(1)),
            n_clusters.data(), offsets.data(), nullptr};
}

// indices, targets and the row to go on from
auto propose_moves(const Codes& codes, nb::object ids, nb::object copies, const In<int32_t>& labels,
                   const In<int64_t>& n_clusters, const In<int64_t>& offsets, nb::handle table, int64_t start,
                   int64_t limit, int n_threads, int64_t task_rows) {
    std::vector<nb::object> held;
    FrozenTables t{};
    t.density = std::strcmp(nb::cast<nb::str>(table.attr("kind")).c_str(), "density") == 0;
    t.alpha = field<int64_t>(table, "alpha", held);
    t.cells = field<int64_t>(table, "cells", held);
    t.sizes = field<int64_t>(table, "sizes", held);
    t.k = static_cast<int32_t>(nb::cast<In<int64_t>>(table.attr("sizes")).size());
    t.values = field<double>(table, "values", held);
    t.threshold = nb::cast<double>(table.attr("threshold"));
    t.least = nb::cast<int64_t>(table.attr("least"));
    t.vanish = nb::cast<bool>(table.attr("vanish"));
    t.steps = field<int64_t>(table, "steps", held);
    t.unit = nb::cast<double>(table.attr("unit"));
    t.together = field<double>(table, "together", held);
    t.observed = field<double>(table, "observed", held);
    t.enter = field<int64_t>(table, "enter", held);
    t.leave = field<int64_t>(table, "leave", held);
    t.enter_cells = field<int64_t>(table, "enter_cells", held);
    t.leave_cells = field<int64_t>(table, "leave_cells", held);
    t.shared = field<int64_t>(table, "shared", held);
    t.entropy = field<int64_t>(table, "entropy", held);
    t.twice = field<double>(table, "double", held);
    t.bits = nb::cast<int32_t>(table.attr("bits"));
    std::vector<int32_t> narrow;
    if (t.density) {
        const size_t cells = nb::cast<In<int64_t>>(table.attr("alpha")).size();
        int64_t largest = 0;
        for (size_t i = 0; i < cells; ++i) largest = std::max(largest, t.alpha[i]);
        if (largest < (int64_t(1) << 31) / static_cast<int64_t>(codes.shape(1))) {
            narrow.assign(t.alpha, t.alpha + cells);
            t.narrow = narrow.data();
        }
    }

    ExchangeRows rows = rows_of(codes, n_clusters, offsets);
    if (!ids.is_none()) rows.ids = nb::cast<In<uint32_t>>(ids).data();
    if (!copies.is_none()) rows.copies = nb::cast<In<int64_t>>(copies).data();
    const int64_t n = static_cast<int64_t>(labels.size());
    const int32_t* label = labels.data();

    std::vector<int64_t> indices;
    std::vector<int32_t> targets;
    int64_t stop = n;
    bool whole = true;
    {
        nb::gil_scoped_release release;
        Run run;
        run.n_threads = n_threads;
        run.interrupted = [] {
            nb::gil_scoped_acquire acquire;
            return PyErr_CheckSignals() != 0;
        };
        const int64_t wave = task_rows * 16 * std::max(1, n_threads);
        std::vector<int32_t> found(static_cast<size_t>(std::max<int64_t>(0, std::min(wave, n - start))));
        for (int64_t first = start; first < n && whole; first += wave) {
            const int64_t last = std::min(n, first + wave), tasks = (last - first + task_rows - 1) / task_rows;
            whole = run_tasks(run, tasks, [&](int64_t number, int) {
                const int64_t from = first + number * task_rows, to = std::min(last, from + task_rows);
                propose_chunk(rows, label, t, from, to, found.data() + (from - first));
            });
            if (!whole) break;
            for (int64_t i = first; i < last; ++i) {
                if (found[static_cast<size_t>(i - first)] < 0) continue;
                indices.push_back(i);
                targets.push_back(found[static_cast<size_t>(i - first)]);
                if (static_cast<int64_t>(indices.size()) == limit) {
                    stop = i + 1;
                    break;
                }
            }
            if (stop < n || static_cast<int64_t>(indices.size()) == limit) break;
        }
    }
    if (!whole) throw nb::python_error();
    return std::make_tuple(owned(indices), owned(targets), stop);
}

ProposedMoves moves_of(const Codes& codes, const In<int32_t>& sources, const In<int32_t>& targets,
                       const In<int64_t>& copies) {
    return {sources.data(), targets.data(), codes.data(), copies.data(), static_cast<int64_t>(sources.size())};
}

void settle_density_door(const Codes& codes, const In<int32_t>& sources, const In<int32_t>& targets,
                         const In<int64_t>& copies, const In<int64_t>& n_clusters, const In<int64_t>& offsets,
                         Out<int64_t> alpha, Out<int64_t> cells, Out<int64_t> squares, Out<int64_t> sizes,
                         Out<double> values, const In<double>& v, int64_t least, bool vanish, double threshold, Out<uint8_t> accepted) {
    const ExchangeRows layout = rows_of(codes, n_clusters, offsets);
    const ProposedMoves moves = moves_of(codes, sources, targets, copies);
    const auto k = static_cast<int32_t>(sizes.size());
    nb::gil_scoped_release release;
    settle_density(layout, moves, k, alpha.data(), cells.data(), squares.data(), sizes.data(), values.data(), v.data(),
                   least, vanish, threshold, accepted.data());
}

void settle_agreement_door(const Codes& codes, const In<int32_t>& sources, const In<int32_t>& targets,
                           const In<int64_t>& copies, const In<int64_t>& n_clusters, const In<int64_t>& offsets,
                           Out<int64_t> alpha, Out<int64_t> cells, Out<int64_t> sizes, Out<int64_t> shared,
                           Out<int64_t> entropy, Out<double> values, const In<double>& v, int64_t least, bool vanish, double threshold,
                           int32_t bits, Out<uint8_t> accepted) {
    const ExchangeRows layout = rows_of(codes, n_clusters, offsets);
    const ProposedMoves moves = moves_of(codes, sources, targets, copies);
    const auto k = static_cast<int32_t>(sizes.size());
    nb::gil_scoped_release release;
    settle_agreement(layout, moves, k, alpha.data(), cells.data(), sizes.data(), shared.data(), entropy.data(),
                     values.data(), v.data(), least, vanish, threshold, bits, accepted.data());
}

}  // namespace

void bind_exchange(nb::module_& m) {
    m.def("propose_moves", &propose_moves, nb::arg("codes"), nb::arg("ids").none(), nb::arg("copies").none(),
          nb::arg("labels"), nb::arg("n_clusters"), nb::arg("offsets"), nb::arg("table"), nb::arg("start"),
          nb::arg("limit"), nb::arg("n_threads"), nb::arg("task_rows"));
    m.def("settle_density", &settle_density_door);
    m.def("settle_agreement", &settle_agreement_door);
}

}  // namespace coassoc

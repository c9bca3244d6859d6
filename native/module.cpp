// The Python bindings, the only file that knows Python: they check arguments, hold references to arrays and release the
// GIL around the work.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>

#include "dispatch.h"
#include "duplicates.h"
#include "exchange.h"
#include "kmeans.h"
#include "linkage.h"
#include "rows.h"
#include "seeding.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace coassoc {
namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool right, const char* message) {
    if (!right) throw std::invalid_argument(message);
}

// Calls `work` without the GIL. An Interrupted that leaves it becomes the exception of the signal handler.
template <class Work>
auto released(Work&& work) {
    nb::gil_scoped_release release;
    return work();
}

bool signal_pending() {
    nb::gil_scoped_acquire acquire;
    return PyErr_CheckSignals() != 0;
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> as_array(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* it) noexcept { delete (std::vector<T>*)it; });
    return {kept->data(), {kept->size()}, owner};
}

// Bytes of a code.
int code_width(const AnyMatrix& codes) {
    const auto type = codes.dtype();
    if (type.code != (uint8_t)nb::dlpack::dtype_code::UInt || (type.bits != 8 && type.bits != 16 && type.bits != 32))
        throw nb::type_error("codes must be uint8, uint16 or uint32");
    return type.bits / 8;
}

Shape shape_of(const Vector<const int64_t>& n_clusters, const uint8_t* missing) {
    Shape shape;
    shape.p = (int64_t)n_clusters.shape(0);
    shape.d = 0;
    for (int64_t j = 0; j < shape.p; ++j) {
        shape.n_clusters.push_back(n_clusters(j));
        shape.first.push_back(shape.d + j);
        shape.missing.push_back(missing ? missing[j] : 1);
        shape.d += n_clusters(j);
    }
    return shape;
}

void new_rows(Rows* self, AnyMatrix codes, Vector<const int64_t> n_clusters, Vector<const uint8_t> missing,
              std::optional<Vector<const uint32_t>> ids, std::optional<Vector<const int64_t>> copies,
              const std::string& simd, int n_threads, int64_t chunk_rows, bool blocked_copy) {
    const int64_t p = (int64_t)codes.shape(1);
    require((int64_t)n_clusters.shape(0) == p && (int64_t)missing.shape(0) == p,
            "n_clusters and missing must have one entry per partition");
    View view{};
    view.codes = codes.data();
    view.ids = ids ? ids->data() : nullptr;
    view.n = (int64_t)(ids ? ids->shape(0) : codes.shape(0));
    view.p = p;
    view.width = code_width(codes);
    view.copies = copies ? copies->data() : nullptr;
    require(!copies || (int64_t)copies->shape(0) == view.n, "copies must have one entry per row");
    const Kernels* kernels = kernels_named(simd);
    require(kernels, "there are no kernels for this simd level");
    new (self) Rows(view, shape_of(n_clusters, missing.data()), kernels, n_threads, chunk_rows, blocked_copy);
}

void check_fit(const Rows& rows, const Labelling& labelling) {
    require(labelling.n_ == rows.view_.n, "the labelling does not fit the rows");
}

void check_labelled(const Rows& rows, const Labelling& labelling) {
    check_fit(rows, labelling);
    require(labelling.labelled_, "the rows must be labelled first");
}

int64_t assign(Rows& rows, Labelling& labelling, Matrix<const int32_t> table, int bits) {
    check_fit(rows, labelling);
    require((int64_t)table.shape(0) == rows.shape_.d && (int64_t)table.shape(1) == labelling.k_,
            "the table's shape does not fit the rows and the labelling");
    return released([&] { return rows.assign(labelling, table.data(), bits); });
}

void counts(Rows& rows, Labelling& labelling, Matrix<int64_t> alpha, Vector<int64_t> sizes) {
    const int64_t k = labelling.k_;
    const Shape& shape = rows.shape_;
    check_labelled(rows, labelling);
    require((int64_t)alpha.shape(0) == shape.d && (int64_t)alpha.shape(1) == k && (int64_t)sizes.shape(0) == k,
            "the arrays for counts do not fit the labelling");
    released([&] {
        const Rows::Opened opened = rows.open(false);
        rows.count(opened.view, labelling);
    });
    for (int64_t j = 0; j < shape.p; ++j)
        std::copy_n(labelling.alpha_.data() + shape.first[j] * k, shape.n_clusters[j] * k,
                    alpha.data() + (shape.first[j] - j) * k);
    const std::vector<int64_t> found = cluster_sizes(shape, labelling.alpha_.data(), k);
    std::copy(found.begin(), found.end(), sizes.data());
}

void own_scores(Rows& rows, Labelling& labelling, Matrix<const int32_t> cost, int64_t start, int64_t stop,
                Vector<int64_t> scores) {
    check_labelled(rows, labelling);
    require((int64_t)cost.shape(0) == rows.shape_.d && (int64_t)cost.shape(1) == labelling.k_ && start >= 0 &&
                stop <= rows.view_.n && (int64_t)scores.shape(0) == stop - start,
            "the arrays for scores do not fit the rows");
    released([&] { rows.own_scores(labelling, cost.data(), start, stop, scores.data()); });
}

// Rows of each cluster: their positions, or their ids in the codes.
nb::list split(Rows& rows, Labelling& labelling, bool ids) {
    check_labelled(rows, labelling);
    std::vector<std::vector<uint32_t>> parts = released([&] { return rows.split(labelling, ids); });
    nb::list out;
    for (auto& part : parts) out.append(as_array(std::move(part)));
    return out;
}

void scatter_parts(const std::vector<Vector<const uint32_t>>& parts, Vector<int32_t> labels, int n_threads) {
    std::vector<const uint32_t*> ids;
    std::vector<int64_t> sizes;
    for (const auto& part : parts) ids.push_back(part.data()), sizes.push_back((int64_t)part.shape(0));
    released([&] { scatter(ids, sizes, (int64_t)labels.shape(0), labels.data(), n_threads); });
}

int table_of(const Labelling& labelling, Matrix<int32_t> values) {
    require(labelling.table_.size() == values.size(), "there is no table of this shape");
    std::copy(labelling.table_.begin(), labelling.table_.end(), values.data());
    return labelling.bits_;
}

void check_codes(const Rows& rows, const AnyMatrix& codes) {
    require((int64_t)codes.shape(1) == rows.view_.p && codes.dtype().bits == rows.view_.width * 8,
            "rows of codes of the loaded type are needed");
}

// Each start is (rows, labelling, rng.integers); gives (number of seeds, losses, stop) for each.
nb::list kmeans_starts(nb::list given, Vector<const int64_t> seeding_weights, Vector<const double> weights,
                       int64_t n_candidates, int64_t max_iter) {
    std::vector<KMeansStart> starts;
    for (nb::handle one : given) {
        Rows& rows = nb::cast<Rows&>(one[0]);
        Labelling& labelling = nb::cast<Labelling&>(one[1]);
        require(labelling.n_ == rows.view_.n && (int64_t)weights.shape(0) == rows.shape_.p &&
                    (int64_t)seeding_weights.shape(0) == rows.shape_.p && n_candidates >= 1,
                "the weights, the labelling or the number of candidates do not fit the rows");
        const nb::handle integers = one[2];  // a start keeps it alive
        starts.push_back({&rows, &labelling, [integers](int64_t total, int64_t m, int64_t* targets) {
                              nb::gil_scoped_acquire acquire;
                              const auto drawn = nb::cast<Vector<const int64_t>>(integers(total, "size"_a = m));
                              std::copy_n(drawn.data(), m, targets);
                          }, 0, {}, kMaxIter});
    }
    released([&] { run_starts(starts, seeding_weights.data(), weights.data(), n_candidates, max_iter); });
    nb::list out;
    for (const KMeansStart& start : starts)
        out.append(nb::make_tuple(start.n_seeds, start.losses, (int)start.stop));
    return out;
}

// (index of the first of each different row, how many are equal to it, number of each row); None: more than `limit`.
nb::object distinct_rows(AnyMatrix codes, int64_t limit, int n_threads) {
    const int64_t n = (int64_t)codes.shape(0), bytes = (int64_t)codes.shape(1) * code_width(codes);
    require(n < (int64_t)UINT32_MAX, "equal rows are looked for among fewer than 2**32 - 1");
    Distinct found;
    std::vector<uint32_t> number((size_t)n);
    const bool few = released([&] {
        return find_distinct((const char*)codes.data(), n, bytes, limit, n_threads, found, number.data());
    });
    if (!few) return nb::none();
    return nb::make_tuple(as_array(std::move(found.first)), as_array(std::move(found.counts)),
                          as_array(std::move(number)));
}

// -- exchange ----------------------------------------------------------------------------------------------

using Held = std::vector<nb::ndarray<nb::ro>>;

// Sets pointers to the arrays that are attributes of these names, null for None, and keeps them in `held`; const ones
// may be converted copies.
template <class T>
void read(nb::handle owner, Held& held, std::initializer_list<std::pair<const char*, T**>> fields) {
    for (const auto& [name, to] : fields) {
        const nb::object value = nb::getattr(owner, name, nb::none());
        if (value.is_none()) continue;
        using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
        const auto array = nb::cast<Array>(value, std::is_const_v<T>);
        held.emplace_back(array.handle());
        *to = array.data();
    }
}

nb::tuple propose(Rows& rows, Labelling& labelling, nb::handle table, int64_t start, int64_t limit,
                  int64_t task_rows) {
    check_labelled(rows, labelling);
    Held held;
    FrozenTables t{};
    t.density = nb::cast<std::string>(table.attr("kind")) == "density";
    t.k = labelling.k_;
    t.rules = {nb::cast<double>(table.attr("threshold")), nb::cast<int64_t>(table.attr("least"))};
    t.unit = nb::cast<double>(table.attr("unit"));
    t.bits = nb::cast<int32_t>(table.attr("bits"));
    read<const int64_t>(table, held, {{"alpha", &t.alpha}, {"cells", &t.cells}, {"sizes", &t.sizes},
                                      {"steps", &t.steps}, {"enter", &t.enter}, {"leave", &t.leave},
                                      {"enter_cells", &t.enter_cells}, {"leave_cells", &t.leave_cells},
                                      {"shared", &t.shared}, {"entropy", &t.entropy}});
    read<const double>(table, held, {{"values", &t.values}, {"together", &t.together}, {"observed", &t.observed},
                                     {"double", &t.twice}});
    std::vector<int32_t> narrow;
    const int64_t cells = rows.shape_.d * t.k;
    if (t.density && *std::max_element(t.alpha, t.alpha + cells) < (int64_t(1) << 31) / rows.shape_.p) {
        narrow.assign(t.alpha, t.alpha + cells);
        t.narrow = narrow.data();
    }
    Proposals found = released([&] {
        return propose_moves(*rows.kernels_, rows.view_, labelling.labels_, t, start, limit, rows.n_threads_,
                             task_rows);
    });
    return nb::make_tuple(as_array(std::move(found.rows)), as_array(std::move(found.targets)), found.stop);
}

// Applies moves to the live counts of `state`; which ones were.
nb::object settle_moves(nb::handle state, nb::handle given, Vector<double> values, double threshold) {
    Held held;
    const auto codes = nb::cast<AnyMatrix>(given.attr("codes"));
    const Shape shape = shape_of(nb::cast<Vector<const int64_t>>(state.attr("layout").attr("n_clusters")), nullptr);
    const int64_t m = (int64_t)codes.shape(0);
    require((int64_t)codes.shape(1) == shape.p, "n_clusters must fit the columns of codes");
    View view{};
    view.codes = codes.data();
    view.p = shape.p;
    view.width = code_width(codes);
    view.n_clusters = shape.n_clusters.data();
    view.first = shape.first.data();
    ProposedMoves moves{nullptr, nullptr, nullptr, m};
    read<const int32_t>(given, held, {{"sources", &moves.sources}, {"targets", &moves.targets}});
    read<const int64_t>(given, held, {{"copies", &moves.copies}});
    LiveCounts live{};
    live.density = nb::cast<std::string>(state.attr("kind")) == "density";
    live.k = (int32_t)nb::len(nb::object(state.attr("sizes")));
    live.values = values.data();
    read<const double>(state, held, {{"v", &live.v}});
    read<int64_t>(state, held, {{"alpha", &live.alpha}, {"cells", &live.cells}, {"sizes", &live.sizes},
                                {"squares", &live.squares}, {"shared", &live.shared}, {"entropy", &live.entropy}});
    live.bits = live.density ? 0 : nb::cast<int32_t>(state.attr("bits"));
    const MoveRules rules{threshold, nb::cast<int64_t>(state.attr("least"))};
    std::vector<uint8_t> accepted((size_t)m);
    released([&] { settle(view, moves, rules, live, accepted.data()); });
    return nb::cast(as_array(std::move(accepted)));
}

// -- linkage -----------------------------------------------------------------------------------------------

void bind_linkage(nb::module_& m) {
    m.def("agglomerate", [](Vector<double> triangle, Vector<const double> weights, int kind) {
        const int64_t n = (int64_t)weights.shape(0);
        require(n >= 1 && (int64_t)triangle.shape(0) == n * (n - 1) / 2,
                "the triangle must hold n(n-1)/2 values for n weights");
        require(kind >= 0 && kind <= 2, "no such linkage");
        Agglomeration state(triangle.data(), weights.data(), n, (Agglomeration::Kind)kind);
        released([&] { state.run(); });
        return nb::make_tuple(as_array(std::move(state.first)), as_array(std::move(state.second)),
                              as_array(std::move(state.similarity)), state.n_ties);
    }, "triangle"_a.noconvert(), "weights"_a.noconvert(), "kind"_a);
    m.def("co_occurrences", [](AnyMatrix columns, Vector<double> triangle) {
        const int64_t p = (int64_t)columns.shape(0), n = (int64_t)columns.shape(1);
        require((int64_t)triangle.shape(0) == n * (n - 1) / 2,
                "the triangle must hold n(n-1)/2 values for n columns of codes");
        const int width = code_width(columns);
        released([&] { co_occurrences(columns.data(), width, n, p, triangle.data()); });
    }, "columns"_a.noconvert(), "triangle"_a.noconvert());
}

// -- rows --------------------------------------------------------------------------------------------------

void bind_rows(nb::module_& m) {
    nb::class_<Labelling>(m, "Labelling")
        .def("__init__", [](Labelling* self, Vector<int32_t> labels, int32_t k, bool labelled) {
            new (self) Labelling(labels.data(), (int64_t)labels.shape(0), k, labelled);
        }, "labels"_a.noconvert(), "k"_a, "labelled"_a, nb::keep_alive<1, 2>())
        .def("relabelled", &Labelling::relabelled)
        .def("table", &table_of)
        .def_ro("evaluated", &Labelling::evaluated_);

    nb::class_<Rows>(m, "Rows")
        .def("__init__", &new_rows, "codes"_a.noconvert(), "n_clusters"_a, "missing"_a, "ids"_a.noconvert().none(),
             "copies"_a.noconvert().none(), "simd"_a, "n_threads"_a, "chunk_rows"_a, "blocked_copy"_a,
             nb::keep_alive<1, 2>(), nb::keep_alive<1, 5>(), nb::keep_alive<1, 6>())
        .def("assign", &assign)
        .def("counts", &counts)
        .def("own_scores", &own_scores)
        .def("split", &split)
        .def("propose_moves", &propose)
        .def("pair_counts", [](const Rows& rows, Matrix<const int64_t> pairs, Vector<int32_t> together,
                               Vector<int32_t> observed) {
            const int64_t m = (int64_t)pairs.shape(0);
            require(pairs.shape(1) == 2 && (int64_t)together.shape(0) == m && (int64_t)observed.shape(0) == m,
                    "the arrays for counts do not fit the pairs");
            for (int64_t i = 0; i < 2 * m; ++i)
                require((uint64_t)pairs.data()[i] < (uint64_t)rows.view_.n, "pairs must be numbers of rows");
            released([&] { rows.pair_counts(pairs.data(), m, together.data(), observed.data()); });
        })
        .def("overlap", [](Rows& rows, std::optional<Vector<const int64_t>> units, int bits, int64_t most,
                           Matrix<int64_t> out) {
            require(!units || (int64_t)units->shape(0) == rows.shape_.padded(), "units must be a padded table");
            released([&] { rows.overlap(units ? units->data() : nullptr, bits, most, out.data()); });
        }, "units"_a.none(), "bits"_a, "most"_a, "out"_a)
        // sizes of the base clusters among all rows, copies counted, and the number of rows, for counts of two clusters
        .def("set_sizes", [](Rows& rows, Vector<const int64_t> sizes, int64_t total) {
            const Shape& shape = rows.shape_;
            require((int64_t)sizes.shape(0) == shape.d, "sizes must have one entry per code");
            rows.whole_.assign((size_t)shape.padded(), 0);
            for (int64_t j = 0; j < shape.p; ++j) {
                const int64_t* own = sizes.data() + shape.first[j] - j;
                int64_t* to = rows.whole_.data() + shape.first[j];
                to[shape.n_clusters[j]] = total;  // less those with a label: missing ones
                for (int64_t f = 0; f < shape.n_clusters[j]; ++f) to[f] = own[f], to[shape.n_clusters[j]] -= own[f];
            }
        })
        // number: for each original row, the row that stands for it
        .def("map_duplicates", [](Rows& rows, Vector<const uint32_t> number) {
            rows.duplicates_ = released([&] {
                return std::make_shared<const DuplicateMap>(number.data(), (int64_t)number.shape(0),
                                                            rows.view_.copies, rows.view_.n, rows.n_threads_);
            });
        }, nb::keep_alive<1, 2>())
        .def("free_blocked", [](Rows& rows) { released([&] { rows.free_blocked(); }); })
        .def_prop_ro("has_blocked", &Rows::has_blocked);

    m.def("scatter", &scatter_parts);
    m.def("kmeans_starts", &kmeans_starts);
    m.def("distinct_rows", &distinct_rows, "codes"_a.noconvert(), "limit"_a, "n_threads"_a);
    m.def("spread_labels", [](Vector<const int32_t> labels, Vector<const uint32_t> number, Vector<int32_t> out,
                              int n_threads) {
        require(out.shape(0) == number.shape(0), "out must have one entry per original row");
        released([&] {
            spread_labels(labels.data(), (int64_t)labels.shape(0), number.data(), (int64_t)number.shape(0), out.data(),
                          n_threads);
        });
    }, "labels"_a, "number"_a, "out"_a.noconvert(), "n_threads"_a);
}

void bind_seeding(nb::module_& m) {
    nb::class_<Seeding>(m, "Seeding")
        .def("__init__", [](Seeding* self, Rows& rows, Vector<const int64_t> weights) {
            require((int64_t)weights.shape(0) == rows.shape_.p, "weights must have one entry per partition");
            released([&] { rows.open(true); });  // may be interrupted, so nothing is made before it
            new (self) Seeding(rows, weights.data());
        }, nb::keep_alive<1, 2>())
        .def_prop_ro("total", &Seeding::total)
        .def("locate", [](Seeding& seeding, Vector<const int64_t> targets, Vector<int64_t> found) {
            require(found.shape(0) == targets.shape(0), "found must have one entry per target");
            released([&] { seeding.locate(targets.data(), (int64_t)targets.shape(0), found.data()); });
        })
        .def("potentials", [](Seeding& seeding, AnyMatrix candidates, Vector<int64_t> totals) {
            check_codes(seeding.rows(), candidates);
            require(totals.shape(0) == candidates.shape(0), "totals must have one entry per candidate");
            released([&] {
                seeding.potentials((const char*)candidates.data(), (int64_t)candidates.shape(0), totals.data());
            });
        })
        .def("add", [](Seeding& seeding, AnyMatrix row) {
            check_codes(seeding.rows(), row);
            released([&] { seeding.add((const char*)row.data()); });
        });
}

}  // namespace
}  // namespace coassoc

NB_MODULE(_kernels, m) {
    using namespace coassoc;
    nb::set_leak_warnings(false);
    interrupt_requested = signal_pending;

    // raised in a thread that another one has stopped; where a signal handler has raised, its exception stays
    const std::string name = nb::cast<std::string>(m.attr("__name__")) + ".Stopped";
    static nb::handle stopped = nb::handle(PyErr_NewException(name.c_str(), PyExc_RuntimeError, nullptr));
    m.attr("Stopped") = stopped;
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Interrupted& error) {
            if (!PyErr_Occurred()) PyErr_SetString(stopped.ptr(), error.what());
        }
    });

    nb::class_<StopFlag>(m, "StopFlag").def(nb::init<>()).def("stop", [](StopFlag& flag) { flag.raised = true; });
    m.def("use_stop_flag", [](const StopFlag* flag) { current_stop_flag = flag; }, "flag"_a.none());

    m.def("levels", [] {
        nb::list out;
        for (int i = 0; i < kLevels; ++i)
            out.append(nb::make_tuple(levels()[i].name, levels()[i].kernels != nullptr, levels()[i].runs_here));
        return out;
    });

    bind_rows(m);
    bind_seeding(m);
    m.def("settle", &settle_moves);
    bind_linkage(m);
}

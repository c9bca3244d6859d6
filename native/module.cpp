// The nanobind door: what Python can call.
#include "arithmetic.h"
#include "dispatch.h"
#include "distinct.h"
#include "exchange_door.h"
#include "linkage.h"
#include "rows.h"
#include "seeding.h"
#include "starts.h"

using namespace nanobind::literals;

namespace coassoc {
namespace {

void check_rows(const Vector<const int64_t>& n_clusters, int64_t rows) {
    int64_t sum = 0;
    for (size_t j = 0; j < n_clusters.shape(0); ++j) sum += n_clusters(j);
    if (sum != rows) throw std::invalid_argument("the table must have one row per base cluster");
}

}  // namespace
}  // namespace coassoc

NB_MODULE(_kernels, m) {
    using namespace coassoc;
    nb::set_leak_warnings(false);
    nb::exception<Stopped>(m, "Stopped", PyExc_RuntimeError);

    nb::class_<Token>(m, "Token").def(nb::init<>()).def("cancel", [](Token& t) { t.cancelled = true; });
    m.def("use_token", [](const Token* token) { current_token = token; }, "token"_a.none());

    // bytes on large pages, where there are such
    m.def("memory", [](int64_t bytes) {
        if (bytes < 0) throw std::invalid_argument("bytes must not be negative");
        Buffer* buffer = new Buffer(bytes);
        nb::capsule owner(buffer, [](void* it) noexcept { delete (Buffer*)it; });
        return nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(buffer->data(), {(size_t)bytes}, owner);
    });

    m.def("levels", [] {
        nb::list out;
        for (int i = 0; i < kLevels; ++i)
            out.append(nb::make_tuple(levels()[i].name, levels()[i].kernels != nullptr, levels()[i].runs_here));
        return out;
    });

    nb::class_<Labelling>(m, "Labelling")
        .def(nb::init<Vector<int32_t>, int32_t, bool>(), "labels"_a.noconvert(), "k"_a, "labelled"_a)
        .def("relabelled", [](Labelling& l) { l.counted_ = l.bounded_ = l.summed_ = false; })
        .def("table", [](Labelling& l, Matrix<int32_t> values) {
            if (l.table_.size() != values.size()) throw std::invalid_argument("there is no table of this shape");
            std::copy(l.table_.begin(), l.table_.end(), values.data());
            return l.bits_;
        })
        .def_ro("evaluated", &Labelling::evaluated_)
        .def_ro("redone", &Labelling::redone_);

    nb::class_<Rows>(m, "Rows")
        .def(nb::init<AnyMatrix, Vector<const int64_t>, Vector<const uint8_t>, nb::object, nb::object,
                      const std::string&, int, int64_t, bool>(),
             "codes"_a.noconvert(), "n_clusters"_a, "missing"_a, "ids"_a.none(), "copies"_a.none(), "simd"_a,
             "n_threads"_a, "chunk_rows"_a, "blocked_copy"_a)
        .def("assign", &Rows::assign)
        .def("counts", &Rows::counts)
        .def("own_scores", &Rows::own_scores)
        .def("split_sizes", &Rows::split_sizes)
        .def("split", &Rows::split)
        .def("scatter", &Rows::scatter)
        .def("descend", &Rows::descend)
        .def("whole", &Rows::whole)
        .def("set_whole", &Rows::set_whole)
        .def("overlap", &Rows::overlap)
        .def("weighted_overlap", &Rows::weighted_overlap)
        .def("stood", [](Rows& rows, Vector<const uint32_t> places) {
            rows.occurrences_ = Occurrences::of(places, rows.view_.copies, rows.view_.n, rows.n_threads_);
        })
        .def("free_blocked", &Rows::free_blocked)
        .def("free_spare", &Rows::free_spare)
        .def_prop_ro("has_blocked", &Rows::has_blocked);

    nb::class_<Seeding>(m, "Seeding")
        .def("__init__",
             [](Seeding* self, Rows& rows, Vector<const int64_t> weights) {
                 if ((int64_t)weights.shape(0) != rows.shape_.p)
                     throw std::invalid_argument("weights must have one entry per partition");
                 std::shared_ptr<Buffer> hold;
                 rows.view(hold, true);  // may be interrupted, so nothing is made before it
                 new (self) Seeding(rows, weights.data());
             },
             nb::keep_alive<1, 2>())
        .def_prop_ro("total", &Seeding::total)
        .def("locate", [](Seeding& s, Vector<const int64_t> targets, Vector<int64_t> found) {
            if (found.shape(0) != targets.shape(0)) throw std::invalid_argument("found must have one entry per target");
            s.locate(targets.data(), (int64_t)targets.shape(0), found.data());
        })
        .def("potentials", [](Seeding& s, AnyMatrix candidates, Vector<int64_t> totals) {
            s.check(candidates);
            if (totals.shape(0) != candidates.shape(0))
                throw std::invalid_argument("totals must have one entry per candidate");
            released([&] {
                return s.measure_all((const char*)candidates.data(), (int64_t)candidates.shape(0), totals.data());
            });
        })
        .def("choose", [](Seeding& s, Vector<const int64_t> targets, AnyMatrixOut row) {
            s.check(row);
            released([&] { return s.choose(targets.data(), (int64_t)targets.shape(0), (char*)row.data()); });
        })
        .def("choose_all", [](Seeding& s, nb::capsule source, AnyMatrixOut rows, int64_t m) {
            s.check(rows);
            int64_t found = 0;
            BitGenerator& random = *(BitGenerator*)source.data("BitGenerator");
            released([&] { return s.choose_all(random, (int64_t)rows.shape(0), m, (char*)rows.data(), found); });
            return found;
        })
        .def("add", [](Seeding& s, AnyMatrix row) {
            s.check(row);
            released([&] { return s.add((const char*)row.data()); });
        });

    m.def("kmeans_starts", &kmeans_starts);
    m.def("spread", &spread, "labels"_a, "places"_a, "out"_a.noconvert(), "n_threads"_a);
    m.def("split_places", &split_places, "places"_a, "number"_a, "first"_a.noconvert(), "second"_a.noconvert(),
          "n_threads"_a);
    m.def("distinct_rows", &distinct_rows, "codes"_a.noconvert(), "limit"_a, "n_threads"_a);

    m.def("draws", [](nb::capsule source, uint64_t end, Vector<uint64_t> out) {
        if (end == 0) throw std::invalid_argument("nothing lies below 0");
        BitGenerator& random = *(BitGenerator*)source.data("BitGenerator");
        for (size_t i = 0; i < out.shape(0); ++i) out(i) = draw_below(random, end);
    });

    m.def("partition_sums", [](Matrix<const int64_t> alpha, Vector<const int64_t> n_clusters, Matrix<int64_t> cells,
                               Matrix<int64_t> squares) {
        check_rows(n_clusters, (int64_t)alpha.shape(0));
        partition_sums(best_kernels(), alpha.data(), n_clusters.data(), (int64_t)n_clusters.shape(0),
                       (int64_t)alpha.shape(1), cells.data(), squares.data());
    });
    m.def("mean_scores", [](Matrix<const int64_t> alpha, Vector<const int64_t> n_clusters, Matrix<const int64_t> cells,
                            Matrix<const int64_t> squares, Vector<const double> weights, Matrix<double> scores) {
        check_rows(n_clusters, (int64_t)alpha.shape(0));
        if (weights.shape(0) != n_clusters.shape(0)) throw std::invalid_argument("one weight per partition is needed");
        mean_scores(best_kernels(), alpha.data(), n_clusters.data(), (int64_t)n_clusters.shape(0),
                    (int64_t)alpha.shape(1), cells.data(), squares.data(), weights.data(), scores.data());
    });
    m.def("largest_scores", [](Matrix<const double> scores, Vector<const int64_t> n_clusters, Vector<double> largest) {
        check_rows(n_clusters, (int64_t)scores.shape(0));
        largest_scores(scores.data(), n_clusters.data(), (int64_t)n_clusters.shape(0), (int64_t)scores.shape(1),
                       largest.data());
    });
    m.def("rounded_scores", [](Matrix<const double> scores, double scale, Matrix<int32_t> values) {
        best_kernels().round_scores(scores.data(), (int64_t)(scores.shape(0) * scores.shape(1)), scale, values.data());
    });

    bind_exchange(m);
    bind_linkage(m);
}

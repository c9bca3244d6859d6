// Rows and labellings as Python sees them: they check what comes in, own the memory and map the kernels over chunks
// with the GIL released. What a verb means is said in coassoc/engines/_verbs.py.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"
#include "pool.h"
#include "tables.h"

namespace coassoc {

namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// stops the jobs of the thread that carries it
inline thread_local const Token* current_token = nullptr;

struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("stopped by another thread") {}
};

// Calls body(task, slot) over the pool without the GIL; raises what a signal handler raised.
template <class Body>
void without_gil(int n_threads, int64_t n_tasks, Body&& body) {
    bool finished;
    {
        nb::gil_scoped_release release;
        Run run;
        run.n_threads = n_threads;
        run.token = current_token;
        run.interrupted = [] {
            nb::gil_scoped_acquire acquire;
            return PyErr_CheckSignals() != 0;
        };
        finished = run_tasks(run, n_tasks, body);
    }
    if (finished) return;
    if (PyErr_Occurred()) throw nb::python_error();
    throw Stopped();
}

class Labelling;

class Rows {
  public:
    Rows(AnyMatrix codes, Vector<const int64_t> n_clusters, Vector<const uint8_t> missing, nb::object ids,
         nb::object copies, const std::string& simd, int n_threads, int64_t chunk_rows, bool blocked_copy);

    int64_t blocks() const { return (view_.n + kLanes - 1) / kLanes; }

    // Rows of one task, a multiple of `unit`, and how many threads are worth waking for `work` basic steps.
    struct Cut {
        int64_t blocks, tasks;
        int threads;
    };
    Cut cut(double steps_per_row, int64_t unit) const;

    // The view with its column-wise copy, built on first need when copies are allowed.
    View view(std::shared_ptr<Buffer>& hold, bool build);

    // The GIL is never held while waiting for the mutex, so the two cannot block each other.
    std::unique_lock<std::mutex> locked() {
        nb::gil_scoped_release release;
        return std::unique_lock<std::mutex>(mutex_);
    }

    void free_blocked() {
        const auto lock = locked();
        blocked_.reset();
    }

    bool has_blocked() const { return (bool)blocked_; }

    int64_t assign(Labelling& labelling, Matrix<const int32_t> table, int bits);
    void counts(Labelling& labelling, Matrix<int64_t> alpha, Vector<int64_t> sizes);
    void own_scores(Labelling& labelling, Matrix<const int32_t> cost, int64_t start, int64_t stop,
                    Vector<int64_t> scores);
    std::vector<int64_t> split_sizes(Labelling& labelling);
    void split(Labelling& labelling, const std::vector<Vector<uint32_t>>& parts);
    void overlap(Matrix<int64_t> out);
    void weighted_overlap(Vector<const double> weights, Matrix<double> out);

    std::vector<Buffer> scratches(int threads) const {
        std::vector<Buffer> out;
        for (int i = 0; i < threads; ++i) out.emplace_back(scratch_bytes(view_));
        return out;
    }

    View view_{};
    Shape shape_;
    NarrowPlan plan_;
    nb::object keep_codes_, keep_ids_, keep_copies_;
    const Kernels* kernels_;
    int n_threads_;
    int64_t chunk_rows_;
    bool blocked_copy_;
    std::mutex mutex_;
    std::shared_ptr<Buffer> blocked_;
};

// Labels (an array of Python's), bounds of their gaps, and their counts.
class Labelling {
  public:
    Labelling(Vector<int32_t> labels, int32_t k, bool labelled)
        : keep_(nb::cast(labels)), labels_(labels.data()), n_((int64_t)labels.shape(0)), k_(k), labelled_(labelled) {}

    // Gives back all that can be found again from the labels.
    void rest() {
        counted_ = bounded_ = false;
        alpha_ = {};
        before_ = {};
        bounds_ = Buffer();
        wide_ = Buffer();
        narrow_ = Buffer();
    }

    nb::object keep_;
    int32_t* labels_;
    int64_t n_;
    int32_t k_;
    bool labelled_;         // whether every row has a label
    bool counted_ = false;  // whether alpha_ is what the labels say
    bool bounded_ = false;  // whether bounds_ hold for the table `before_`
    std::vector<int64_t> alpha_;  // padded (d + p, k)
    Buffer bounds_;
    std::vector<int32_t> before_;
    int before_bits_ = 0, unit_ = 0;  // a bound's unit is 2**unit_, in scores
    Buffer wide_, narrow_;
    int64_t evaluated_ = 0, redone_ = 0;
};

}  // namespace coassoc

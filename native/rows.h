// Rows and labellings as Python sees them: they check what comes in, own the memory and map the kernels over chunks
// with the GIL released. What a verb means is said in coassoc/engines/_verbs.py.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
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
using AnyMatrixOut = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// stops the jobs of the thread that carries it
inline thread_local const Token* current_token = nullptr;

struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("stopped by another thread") {}
};

// Calls body(task, slot) over the pool, the GIL not being held; false when it was stopped early.
template <class Body>
bool run_free(int n_threads, int64_t n_tasks, Body&& body) {
    Run run;
    run.n_threads = n_threads;
    run.token = current_token;
    run.interrupted = [] {
        nb::gil_scoped_acquire acquire;
        return PyErr_CheckSignals() != 0;
    };
    return run_tasks(run, n_tasks, body);
}

// Raises what a signal handler raised, or Stopped, unless the work was finished.
inline void check_finished(bool finished) {
    if (finished) return;
    if (PyErr_Occurred()) throw nb::python_error();
    throw Stopped();
}

// Calls `work`, which says whether it finished, without the GIL; called with it.
template <class Work>
void released(Work&& work) {
    bool finished;
    {
        nb::gil_scoped_release release;
        finished = work();
    }
    check_finished(finished);
}

template <class Body>
void without_gil(int n_threads, int64_t n_tasks, Body&& body) {
    released([&] { return run_free(n_threads, n_tasks, body); });
}

// Rows [start, stop) in the second of two clusters.
template <class Label>
int64_t count_ones(const Label* labels, int64_t start, int64_t stop) {
    int64_t ones = 0;
    for (int64_t i = start, step = 1 << 16; i < stop; i += step)  // sums of int are added in whole vectors
        ones += std::accumulate(labels + i, labels + std::min(stop, i + step), 0);
    return ones;
}

class Labelling;
class Occurrences;

// Copies of rows that are done with, for the next of their kin: fresh memory costs more than filling it. From small to
// large, the largest few.
struct Spare {
    std::mutex mutex;
    std::vector<std::shared_ptr<Buffer>> buffers;
};

// Passes of k-means: the loss of each, and why they ended. kUnfinished: a cluster is empty and must be refilled.
enum Stop { kFixedPoint, kNoGain, kMaxIter, kUnfinished };
struct Passes {
    std::vector<double> losses;
    Stop stop = kMaxIter;
};

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
    double steps_of_pass(const Labelling& labelling, bool bounded) const;

    // The view with its column-wise copy, built on first need when copies are allowed; called with the GIL.
    View view(std::shared_ptr<Buffer>& hold, bool build) {
        View out;
        released([&] { return open(out, hold, build); });
        return out;
    }

    // The GIL is never held while waiting for the mutex, so the two cannot block each other.
    std::unique_lock<std::mutex> locked() {
        nb::gil_scoped_release release;
        return std::unique_lock<std::mutex>(mutex_);
    }

    void free_blocked();
    void free_spare();

    // These rows are one cluster of a split of `parent`: its counts are theirs, and so is the memory it is done with.
    void descend(const Rows& parent, const Labelling& labelling, int64_t cluster);

    // Counts of all rows, where they are known beforehand: of each base cluster, and of each partition's missing labels.
    void set_whole(Vector<const int64_t> sizes, Vector<const int64_t> absent);

    // Those counts and how many rows there are, if they are known.
    bool whole(Matrix<int64_t> alpha, Vector<int64_t> size);

    bool has_blocked() const { return (bool)blocked_; }

    int64_t assign(Labelling& labelling, Matrix<const int32_t> table, int bits);
    // Also gives cells and squares (p, k), if they are known (true).
    bool counts(Labelling& labelling, Matrix<int64_t> alpha, Vector<int64_t> sizes, Matrix<int64_t> cells,
                Matrix<int64_t> squares);
    void own_scores(Labelling& labelling, Matrix<const int32_t> cost, int64_t start, int64_t stop,
                    Vector<int64_t> scores);
    std::vector<int64_t> split_sizes(Labelling& labelling);
    // rows of each cluster in their present order: positions, or their ids in the codes
    void split(Labelling& labelling, const std::vector<Vector<uint32_t>>& parts, bool ids);
    // labels[id] = number of the part that lists it
    void scatter(const std::vector<Vector<const uint32_t>>& parts, Vector<int32_t> labels);
    void overlap(Matrix<int64_t> out);
    // rows count copies * min(2**bits / (sum of their labels' units), most)
    void weighted_overlap(Vector<const int64_t> units, int bits, int64_t most, Matrix<int64_t> out);
    void add_overlap(const int64_t* units, int bits, int64_t most, Matrix<int64_t>& out);

    bool sums_of(const Labelling& labelling, int64_t* sizes, int64_t* cells, int64_t* squares) const;
    void count_now(Labelling& labelling);
    char* room_for_bounds(Labelling& labelling) const;

    // what follows runs without the GIL and says whether it finished
    bool open(View& out, std::shared_ptr<Buffer>& hold, bool build);
    // Passes from centers that are rows of codes: `limit` at most. `placed`: the labels that the first pass would give
    // are stored where the bounds will be, a byte per row.
    bool passes(Labelling& labelling, const double* weights, const void* seeds, int64_t limit, Passes& out,
                bool placed);
    // Undoes the latest pass, which did not lower the loss, unless it changed no count; `undone` says which.
    bool take_back(const View& rows, Labelling& labelling, bool& undone);
    bool take_labels(Labelling& labelling, int bits);
    bool assign_next(const View& rows, Labelling& labelling, int bits, int64_t& moved);
    bool count(const View& rows, Labelling& labelling);
    bool count_smaller(const View& rows, Labelling& labelling, const std::vector<int64_t>& whole);

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
    std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
    std::shared_ptr<const Occurrences> occurrences_;     // where rows that stand for several stood; else null
    std::shared_ptr<const std::vector<int64_t>> whole_;  // padded (d + p,): counts of all rows; null while unknown
};

// Labels (an array of Python's), bounds of their gaps, and their counts.
class Labelling {
  public:
    Labelling(Vector<int32_t> labels, int32_t k, bool labelled)
        : keep_(nb::cast(labels)), labels_(labels.data()), n_((int64_t)labels.shape(0)), k_(k), labelled_(labelled) {}

    // Frees what only speeds up further passes.
    void release() {
        bounded_ = false;
        std::vector<int32_t>().swap(earlier_);
        std::vector<int32_t>().swap(next_);
        std::vector<Move>().swap(moves_);
        bounds_ = Buffer();
        wide_ = Buffer();
        narrow_ = Buffer();
    }

    // The next table is now that of the labels.
    void passed(int bits) {
        earlier_.swap(table_);
        table_.swap(next_);
        earlier_bits_ = bits_;
        bits_ = bits;
        labelled_ = true;
    }

    nb::object keep_;
    int32_t* labels_;
    int64_t n_;
    int32_t k_;
    bool labelled_;         // whether every row has a label
    bool counted_ = false;  // whether alpha_ is what the labels say
    bool summed_ = false;   // whether cells_ and squares_ are what alpha_ says
    bool bounded_ = false;  // whether bounds_ hold for the table `table_`
    std::vector<int64_t> alpha_;  // padded (d + p, k)
    std::vector<int64_t> cells_, squares_;  // (p, k)
    Buffer bounds_;
    std::vector<int32_t> table_, earlier_, next_;  // (d, k) the labels' table, the one before it, the one to come
    int bits_ = 0, earlier_bits_ = 0;
    int64_t common_ = 0;  // divides all differences of scores in a partition of next_; 0: not known
    int unit_ = 0;  // a bound's unit is 2**unit_, in scores
    std::vector<Move> moves_;  // room for the rows that move in a pass
    Buffer wide_, narrow_;
    int64_t evaluated_ = 0, redone_ = 0, moved_ = 0;  // rows of the last pass; those that moved where they were counted
};

}  // namespace coassoc

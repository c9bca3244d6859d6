// The nanobind door: checks what comes from Python, owns the memory, maps the kernels over chunks with the GIL
// released. What a verb means is said in coassoc/engines/_verbs.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "arithmetic.h"
#include "dispatch.h"
#include "exchange_door.h"
#include "linkage.h"
#include "pool.h"
#include "tables.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace coassoc {
namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

thread_local const Token* current_token = nullptr;

struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("stopped by another thread") {}
};

const Kernels* kernels_named(const std::string& name) {
    for (int i = 0; i < kLevels; ++i)
        if (name == levels()[i].name && levels()[i].kernels && levels()[i].runs_here) return levels()[i].kernels;
    throw std::invalid_argument("no kernels for simd level " + name);
}

void check_rows(const Vector<const int64_t>& n_clusters, int64_t rows) {
    int64_t sum = 0;
    for (size_t j = 0; j < n_clusters.shape(0); ++j) sum += n_clusters(j);
    if (sum != rows) throw std::invalid_argument("the table must have one row per base cluster");
}

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
class Seeding;

class Rows {
  public:
    Rows(AnyMatrix codes, Vector<const int64_t> n_clusters, Vector<const uint8_t> missing, nb::object ids,
         nb::object copies, const std::string& simd, int n_threads, int64_t chunk_rows, bool blocked_copy)
        : keep_codes_(nb::cast(codes)), keep_ids_(ids), keep_copies_(copies), kernels_(kernels_named(simd)),
          n_threads_(n_threads), chunk_rows_(chunk_rows), blocked_copy_(blocked_copy) {
        const auto type = codes.dtype();
        if (type.code != (uint8_t)nb::dlpack::dtype_code::UInt || (type.bits != 8 && type.bits != 16 && type.bits != 32))
            throw nb::type_error("codes must be uint8, uint16 or uint32");
        const int64_t p = (int64_t)codes.shape(1);
        if ((int64_t)n_clusters.shape(0) != p || (int64_t)missing.shape(0) != p)
            throw std::invalid_argument("n_clusters and missing must have one entry per partition");
        shape_.p = p;
        int64_t offset = 0;
        for (int64_t j = 0; j < p; ++j) {
            shape_.n_clusters.push_back(n_clusters(j));
            shape_.first.push_back(offset + j);
            shape_.missing.push_back(missing(j));
            offset += n_clusters(j);
        }
        shape_.d = offset;
        view_.codes = codes.data();
        view_.n = (int64_t)codes.shape(0);
        if (!ids.is_none()) {
            auto list = nb::cast<Vector<const uint32_t>>(ids);
            view_.ids = list.data();
            view_.n = (int64_t)list.shape(0);
        }
        if (!copies.is_none()) {
            auto list = nb::cast<Vector<const int64_t>>(copies);
            if ((int64_t)list.shape(0) != view_.n) throw std::invalid_argument("copies must have one entry per row");
            view_.copies = list.data();
        }
        view_.p = p;
        view_.width = type.bits / 8;
        view_.n_clusters = shape_.n_clusters.data();
        view_.first = shape_.first.data();
        plan_ = plan_narrow(shape_, view_.width);
    }

    int64_t blocks() const { return (view_.n + kLanes - 1) / kLanes; }

    // Rows of one task, a multiple of `unit`, and how many threads are worth waking for `work` basic steps.
    struct Cut {
        int64_t blocks, tasks;
        int threads;
    };
    Cut cut(double steps_per_row, int64_t unit) const {
        int64_t rows = chunk_rows_;
        int threads = n_threads_;
        if (rows <= 0) {
            rows = (int64_t)std::min(1e6, std::max(64.0, 8e6 / steps_per_row));
            rows = std::min(rows, std::max<int64_t>(64, view_.n / (4 * threads) + 1));
            if (steps_per_row * (double)view_.n < 4e6) threads = 1;
        }
        rows = (rows + unit - 1) / unit * unit;
        const int64_t tasks = std::max<int64_t>(1, (view_.n + rows - 1) / rows);
        return {rows / kLanes, tasks, (int)std::min<int64_t>(threads, tasks)};
    }

    // The view with its column-wise copy, built on first need when copies are allowed.
    View view(std::shared_ptr<Buffer>& hold, bool build) {
        View out = view_;
        if (blocked_copy_) {
            const auto lock = locked();
            if (!blocked_ && build) {
                auto fresh = std::make_shared<Buffer>(blocks() * kLanes * view_.p * view_.width);
                const Cut part = cut((double)view_.p * 20, kLanes);
                without_gil(part.threads, part.tasks, [&](int64_t t, int) {
                    kernels_->block_codes(view_, t * part.blocks, std::min(blocks(), (t + 1) * part.blocks),
                                          fresh->data());
                });
                blocked_ = fresh;
            }
            hold = blocked_;
        }
        out.blocked = hold ? hold->data() : nullptr;
        return out;
    }

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

constexpr int64_t kDeltaBytes = int64_t(1) << 28;  // private counts of all threads together stay below this

int64_t Rows::assign(Labelling& labelling, Matrix<const int32_t> table, int bits) {
    const int32_t k = labelling.k_;
    if ((int64_t)table.shape(0) != shape_.d || (int64_t)table.shape(1) != k || labelling.n_ != view_.n)
        throw std::invalid_argument("the table's shape does not fit the rows and the labelling");
    const int64_t size = shape_.d * k;
    const bool again = labelling.bounded_;
    std::shared_ptr<Buffer> hold;
    const View rows = view(hold, again && kernels_->permutes && plan_.possible);

    AssignJob job{};
    std::vector<uint32_t> drop((size_t)k);
    int shift = labelling.unit_ + bits;
    if (!labelling.bounds_.data()) labelling.bounds_ = Buffer(view_.n * 2);
    if (again && shift >= 0 && shift <= 31 && std::abs(bits - labelling.before_bits_) < 20) {
        measure_drop(*kernels_, shape_, labelling.before_.data(), labelling.before_bits_, table.data(), bits, k, shift,
                     drop.data());
        job.drop = drop.data();
    } else {
        shift = 14;
        labelling.unit_ = shift - bits;
    }
    job.wide = widen(shape_, table.data(), k, labelling.wide_);
    // 7 bits pay when they told most rows apart last time and there are enough rows to make up for the table
    const bool sharp = labelling.redone_ * 2 <= labelling.evaluated_;
    const bool enough = (job.drop ? labelling.evaluated_ : view_.n) > 2000 || chunk_rows_ > 0;
    if (kernels_->permutes && sharp && enough) job.narrow = narrow(*kernels_, shape_, plan_, table.data(), k, shift, labelling.narrow_);
    job.labels = labelling.labels_;
    job.bounds = (uint16_t*)labelling.bounds_.data();
    job.shift = shift;

    const Cut part = cut((double)view_.p * (double)std::max(k, 4), kLanes);
    std::vector<Buffer> scratch = scratches(part.threads);
    const int64_t cells = shape_.padded() * k;
    const bool incremental = labelling.counted_ && labelling.labelled_ && cells * 8 * part.threads <= kDeltaBytes;
    std::vector<std::vector<int64_t>> delta((size_t)part.threads);
    if (incremental)
        for (int i = 1; i < part.threads; ++i) delta[i].assign((size_t)cells, 0);
    std::vector<AssignResult> results((size_t)part.threads);

    // until the pass is over nothing derived from the labels can be trusted
    labelling.counted_ = labelling.bounded_ = false;
    without_gil(part.threads, part.tasks, [&](int64_t t, int slot) {
        AssignJob mine = job;
        if (incremental) mine.delta = slot ? delta[slot].data() : labelling.alpha_.data();
        AssignResult result;
        kernels_->assign_chunk(rows, mine, t * part.blocks, std::min(blocks(), (t + 1) * part.blocks),
                               scratch[slot].data(), result);
        results[slot].moved += result.moved;
        results[slot].evaluated += result.evaluated;
        results[slot].redone += result.redone;
    });
    if (incremental)
        for (int i = 1; i < part.threads; ++i)
            for (int64_t c = 0; c < cells; ++c) labelling.alpha_[c] += delta[i][c];
    int64_t moved = 0;
    labelling.evaluated_ = labelling.redone_ = 0;
    for (const AssignResult& result : results) {
        moved += result.moved;
        labelling.evaluated_ += result.evaluated;
        labelling.redone_ += result.redone;
    }
    labelling.before_.assign(table.data(), table.data() + size);
    labelling.before_bits_ = bits;
    labelling.counted_ = incremental;
    labelling.bounded_ = labelling.labelled_ = true;
    return moved;
}

void Rows::counts(Labelling& labelling, Matrix<int64_t> alpha, Vector<int64_t> sizes) {
    const int64_t k = labelling.k_, cells = shape_.padded() * k;
    if ((int64_t)alpha.shape(0) != shape_.d || (int64_t)alpha.shape(1) != k || (int64_t)sizes.shape(0) != k ||
        !labelling.labelled_)
        throw std::invalid_argument("counts need a labelled labelling and arrays of its shape");
    if (!labelling.counted_) {
        std::shared_ptr<Buffer> hold;
        const View rows = view(hold, false);
        labelling.alpha_.assign((size_t)cells, 0);
        int64_t* shared = labelling.alpha_.data();
        const Cut part = cut((double)view_.p * 10, kLanes);
        std::vector<Buffer> scratch = scratches(part.threads);
        if (cells * 8 * part.threads <= kDeltaBytes) {
            std::vector<std::vector<int64_t>> own((size_t)part.threads);
            for (int i = 1; i < part.threads; ++i) own[i].assign((size_t)cells, 0);
            without_gil(part.threads, part.tasks, [&](int64_t t, int slot) {
                kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, t * part.blocks,
                                      std::min(blocks(), (t + 1) * part.blocks), 0, view_.p,
                                      slot ? own[slot].data() : shared, scratch[slot].data());
            });
            for (int i = 1; i < part.threads; ++i)
                for (int64_t c = 0; c < cells; ++c) shared[c] += own[i][c];
        } else {  // a large table is shared: each task owns one partition's rows of it
            without_gil(part.threads, view_.p, [&](int64_t j, int slot) {
                kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, 0, blocks(), j, j + 1, shared,
                                      scratch[slot].data());
            });
        }
        labelling.counted_ = true;
    }
    for (int64_t j = 0; j < shape_.p; ++j)
        std::memcpy(alpha.data() + (shape_.first[j] - j) * k, labelling.alpha_.data() + shape_.first[j] * k,
                    8 * (size_t)(shape_.n_clusters[j] * k));
    // every row has one code of partition 0, missing included
    std::fill(sizes.data(), sizes.data() + k, 0);
    for (int64_t f = 0; f <= shape_.n_clusters[0]; ++f)
        for (int64_t c = 0; c < k; ++c) sizes.data()[c] += labelling.alpha_[f * k + c];
}

void Rows::own_scores(Labelling& labelling, Matrix<const int32_t> cost, int64_t start, int64_t stop,
                      Vector<int64_t> scores) {
    const int32_t k = labelling.k_;
    if ((int64_t)cost.shape(0) != shape_.d || (int64_t)cost.shape(1) != k || start < 0 || stop > view_.n ||
        (int64_t)scores.shape(0) != stop - start || !labelling.labelled_)
        throw std::invalid_argument("own_scores: the arrays do not fit the rows");
    std::vector<int32_t> padded((size_t)(shape_.padded() * k));
    pad_rows(shape_, cost.data(), k, padded.data());
    const int64_t step = 8192, tasks = (stop - start + step - 1) / step;
    without_gil((int)std::min<int64_t>(n_threads_, tasks), tasks, [&](int64_t t, int) {
        const int64_t a = start + t * step, b = std::min(stop, a + step);
        kernels_->own_scores_chunk(view_, padded.data(), k, labelling.labels_, a, b, scores.data() + (a - start));
    });
}

std::vector<int64_t> Rows::split_sizes(Labelling& labelling) {
    std::vector<int64_t> sizes((size_t)labelling.k_, 0);
    for (int64_t i = 0; i < view_.n; ++i) ++sizes[(size_t)labelling.labels_[i]];
    return sizes;
}

void Rows::split(Labelling& labelling, const std::vector<Vector<uint32_t>>& parts) {
    std::vector<uint32_t*> to;
    for (const auto& part : parts) to.push_back(part.data());
    nb::gil_scoped_release release;
    for (int64_t i = 0; i < view_.n; ++i) *to[(size_t)labelling.labels_[i]]++ = (uint32_t)i;
}

void Rows::overlap(Matrix<int64_t> out) {
    const int64_t size = shape_.padded();
    std::shared_ptr<Buffer> hold;
    const View rows = view(hold, true);
    std::vector<Buffer> scratch = scratches(n_threads_);
    Buffer space(size * size * 8);
    int64_t* total = (int64_t*)space.data();
    std::fill(total, total + size * size, 0);
    const int64_t p = shape_.p;
    without_gil((int)std::min<int64_t>(n_threads_, p), p, [&](int64_t j, int slot) {
        kernels_->overlap_chunk(rows, j, 0, blocks(), total + shape_.first[j] * size, size, scratch[slot].data());
    });
    for (int64_t j = 0; j < p; ++j)
        for (int64_t g = j; g < p; ++g)
            for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
                for (int64_t c = 0; c < shape_.n_clusters[g]; ++c) {
                    const int64_t value = total[(shape_.first[j] + a) * size + shape_.first[g] + c];
                    const int64_t x = shape_.first[j] - j + a, y = shape_.first[g] - g + c;
                    out(x, y) = out(y, x) = value;
                }
}

void Rows::weighted_overlap(Vector<const double> weights, Matrix<double> out) {
    const int64_t size = shape_.padded(), p = shape_.p;
    if ((int64_t)weights.shape(0) != shape_.d) throw std::invalid_argument("weights must have one entry per code");
    std::shared_ptr<Buffer> hold;
    const View rows = view(hold, true);
    std::vector<double> padded((size_t)size, 0.0);
    for (int64_t j = 0; j < p; ++j)
        for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
            padded[(size_t)(shape_.first[j] + a)] = weights(shape_.first[j] - j + a);
    std::vector<Buffer> scratch = scratches(n_threads_);
    int64_t most = 0;
    for (int64_t n : shape_.n_clusters) most = std::max(most, n + 1);
    std::vector<std::vector<double>> own((size_t)n_threads_);
    std::vector<double> factor((size_t)kOverlapRows), total((size_t)(size * size), 0.0);
    for (int64_t start = 0; start < view_.n; start += kOverlapRows) {
        const int64_t stop = std::min(view_.n, start + kOverlapRows);
        const auto code = [&](int64_t row, int64_t j) -> int64_t {
            const int64_t at = (view_.ids ? (int64_t)view_.ids[row] : row) * p + j;
            if (view_.width == 1) return ((const uint8_t*)view_.codes)[at];
            if (view_.width == 2) return ((const uint16_t*)view_.codes)[at];
            return ((const uint32_t*)view_.codes)[at];
        };
        const int64_t step = 4096, tasks = (stop - start + step - 1) / step;
        without_gil((int)std::min<int64_t>(n_threads_, tasks), tasks, [&](int64_t t, int) {
            for (int64_t row = start + t * step; row < std::min(stop, start + (t + 1) * step); ++row) {
                double spread = 0.0;
                for (int64_t j = 0; j < p; ++j) spread += padded[(size_t)(shape_.first[j] + code(row, j))];
                const double share = spread > 0 ? 1.0 / spread : 0.0;
                factor[(size_t)(row - start)] = view_.copies ? (double)view_.copies[row] * share : share;
            }
        });
        without_gil((int)std::min<int64_t>(n_threads_, p), p, [&](int64_t j, int slot) {
            const int64_t cells = (shape_.n_clusters[j] + 1) * size;
            own[slot].assign((size_t)(most * size), 0.0);
            kernels_->weighted_overlap_chunk(rows, j, start / kLanes, (stop + kLanes - 1) / kLanes, factor.data(),
                                             own[slot].data(), size, scratch[slot].data());
            double* to = total.data() + shape_.first[j] * size;
            for (int64_t c = 0; c < cells; ++c) to[c] += own[slot][(size_t)c];
        });
    }
    for (int64_t j = 0; j < p; ++j)
        for (int64_t g = j; g < p; ++g)
            for (int64_t a = 0; a < shape_.n_clusters[j]; ++a)
                for (int64_t c = 0; c < shape_.n_clusters[g]; ++c) {
                    const double value = total[(size_t)((shape_.first[j] + a) * size + shape_.first[g] + c)];
                    const int64_t x = shape_.first[j] - j + a, y = shape_.first[g] - g + c;
                    out(x, y) = out(y, x) = value;
                }
}

// k-means++ distances. The distances after each candidate are kept from `potentials`, so that `add` only swaps.
class Seeding {
  public:
    Seeding(Rows& rows, Vector<const int64_t> weights) : rows_(rows) {
        if ((int64_t)weights.shape(0) != rows.shape_.p)
            throw std::invalid_argument("weights must have one entry per partition");
        uint64_t all = 0;
        plain_ = true;
        for (int64_t j = 0; j < rows.shape_.p; ++j) {
            if (weights(j) < 0) throw std::invalid_argument("weights must not be negative");
            weights_.push_back((uint64_t)weights(j));
            all += (uint64_t)weights(j);
            plain_ = plain_ && weights(j) == 1 && !rows.shape_.missing[j];
        }
        width_ = all <= 255 ? 1 : all <= 65535 ? 2 : all <= 0xFFFFFFFFull ? 4 : 8;
        n_super_ = (rows.view_.n + kSuperRows - 1) / kSuperRows;
        sums_.assign((size_t)n_super_, 0);
        const int64_t* copies = rows.view_.copies;
        for (int64_t s = 0; s < n_super_; ++s) {
            const int64_t start = s * kSuperRows, stop = std::min(rows.view_.n, start + kSuperRows);
            if (!copies) sums_[s] = stop - start;
            else
                for (int64_t i = start; i < stop; ++i) sums_[s] += copies[i];
            total_ += sums_[s];
        }
        std::shared_ptr<Buffer> hold;
        rows.view(hold, true);
    }

    int64_t total() const { return total_; }

    void locate(Vector<const int64_t> targets, Vector<int64_t> found) {
        for (size_t i = 0; i < targets.shape(0); ++i) {
            int64_t left = targets(i), s = 0;
            if (left < 0 || left >= total_) throw std::invalid_argument("targets must lie below the total");
            while (left >= sums_[s]) left -= sums_[s++];
            int64_t row = s * kSuperRows;
            for (;; ++row) {
                const int64_t term = distance(row) * (rows_.view_.copies ? rows_.view_.copies[row] : 1);
                if (left < term) break;
                left -= term;
            }
            found(i) = row;
        }
    }

    void potentials(AnyMatrix candidates, Vector<int64_t> totals) {
        check(candidates);
        const int64_t m = (int64_t)candidates.shape(0);
        if ((int64_t)totals.shape(0) != m) throw std::invalid_argument("totals must have one entry per candidate");
        const bool keep = m <= kMaxCandidates && m * width_ <= 8;
        tried_.clear();
        for (int64_t from = 0; from < m; from += kMaxCandidates) {
            const int count = (int)std::min<int64_t>(kMaxCandidates, m - from);
            measure((const char*)candidates.data() + from * row_bytes(), count, keep);
            for (int c = 0; c < count; ++c) totals((size_t)(from + c)) = sum_of(c);
        }
        if (keep) tried_.assign((const char*)candidates.data(), (const char*)candidates.data() + m * row_bytes());
    }

    void add(AnyMatrix row) {
        check(row);
        int64_t at = 0;
        const int64_t bytes = row_bytes(), n_tried = (int64_t)tried_.size() / bytes;
        while (at < n_tried && std::memcmp(tried_.data() + at * bytes, row.data(), (size_t)bytes)) ++at;
        if (at == n_tried) {
            measure((const char*)row.data(), 1, true);
            at = 0;
        }
        std::swap(now_, next_[(size_t)at]);
        std::copy(trial_.begin() + at * n_super_, trial_.begin() + (at + 1) * n_super_, sums_.begin());
        total_ = sum_of((int)at);
        tried_.clear();
    }

  private:
    int64_t row_bytes() const { return rows_.view_.p * rows_.view_.width; }

    void check(const AnyMatrix& codes) const {
        if ((int64_t)codes.shape(1) != rows_.view_.p || codes.dtype().bits != rows_.view_.width * 8)
            throw std::invalid_argument("candidates must be rows of codes of the loaded type");
    }

    int64_t distance(int64_t row) const {
        const char* now = now_.data();
        if (!now) return 1;
        switch (width_) {
            case 1: return ((const uint8_t*)now)[row];
            case 2: return ((const uint16_t*)now)[row];
            case 4: return ((const uint32_t*)now)[row];
            default: return ((const int64_t*)now)[row];
        }
    }

    int64_t sum_of(int c) const {
        int64_t sum = 0;
        for (int64_t s = 0; s < n_super_; ++s) sum += trial_[(size_t)(c * n_super_ + s)];
        return sum;
    }

    void measure(const char* candidates, int m, bool keep) {
        std::shared_ptr<Buffer> hold;
        const View view = rows_.view(hold, false);
        const int64_t blocks = rows_.blocks();
        trial_.assign((size_t)(m * n_super_), 0);
        void* next[kMaxCandidates] = {};
        if (keep) {
            while ((int)next_.size() < m) next_.emplace_back();
            for (int c = 0; c < m; ++c) {
                if (!next_[c].data()) next_[c] = Buffer(blocks * kLanes * width_);
                next[c] = next_[c].data();
            }
        }
        SeedJob job{candidates, m, weights_.data(), plain_, width_, now_.data(), keep ? next : nullptr,
                    trial_.data(), n_super_};
        const auto part = rows_.cut((double)(view.p * (m + 2)) * 0.5, kSuperRows);
        std::vector<Buffer> scratch = rows_.scratches(part.threads);
        without_gil(part.threads, part.tasks, [&](int64_t t, int slot) {
            rows_.kernels_->distance_chunk(view, job, t * part.blocks, std::min(blocks, (t + 1) * part.blocks),
                                           scratch[slot].data());
        });
    }

    Rows& rows_;
    std::vector<uint64_t> weights_;
    bool plain_;
    int width_;
    int64_t n_super_, total_ = 0;
    std::vector<int64_t> sums_, trial_;
    Buffer now_;
    std::vector<Buffer> next_;
    std::vector<char> tried_;  // candidates whose distances are in next_
};

}  // namespace
}  // namespace coassoc

NB_MODULE(_kernels, m) {
    using namespace coassoc;
    nb::set_leak_warnings(false);
    nb::exception<Stopped>(m, "Stopped", PyExc_RuntimeError);

    nb::class_<Token>(m, "Token").def(nb::init<>()).def("cancel", [](Token& t) { t.cancelled = true; });
    m.def("use_token", [](const Token* token) { current_token = token; }, "token"_a.none());

    m.def("levels", [] {
        nb::list out;
        for (int i = 0; i < kLevels; ++i)
            out.append(nb::make_tuple(levels()[i].name, levels()[i].kernels != nullptr, levels()[i].runs_here));
        return out;
    });

    nb::class_<Labelling>(m, "Labelling")
        .def(nb::init<Vector<int32_t>, int32_t, bool>(), "labels"_a.noconvert(), "k"_a, "labelled"_a)
        .def("relabelled", [](Labelling& l) { l.counted_ = l.bounded_ = false; })
        .def("rest", &Labelling::rest)
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
        .def("overlap", &Rows::overlap)
        .def("weighted_overlap", &Rows::weighted_overlap)
        .def("free_blocked", &Rows::free_blocked)
        .def_prop_ro("has_blocked", &Rows::has_blocked);

    nb::class_<Seeding>(m, "Seeding")
        .def(nb::init<Rows&, Vector<const int64_t>>(), nb::keep_alive<1, 2>())
        .def_prop_ro("total", &Seeding::total)
        .def("locate", &Seeding::locate)
        .def("potentials", &Seeding::potentials)
        .def("add", &Seeding::add);

    m.def("partition_sums", [](Matrix<const int64_t> alpha, Vector<const int64_t> n_clusters, Matrix<int64_t> cells,
                               Matrix<int64_t> squares) {
        check_rows(n_clusters, (int64_t)alpha.shape(0));
        partition_sums(alpha.data(), n_clusters.data(), (int64_t)n_clusters.shape(0), (int64_t)alpha.shape(1),
                       cells.data(), squares.data());
    });
    m.def("mean_scores", [](Matrix<const int64_t> alpha, Vector<const int64_t> n_clusters, Matrix<const int64_t> cells,
                            Matrix<const int64_t> squares, Vector<const double> weights, Matrix<double> scores) {
        check_rows(n_clusters, (int64_t)alpha.shape(0));
        if (weights.shape(0) != n_clusters.shape(0)) throw std::invalid_argument("one weight per partition is needed");
        mean_scores(alpha.data(), n_clusters.data(), (int64_t)n_clusters.shape(0), (int64_t)alpha.shape(1),
                    cells.data(), squares.data(), weights.data(), scores.data());
    });
    m.def("largest_scores", [](Matrix<const double> scores, Vector<const int64_t> n_clusters, Vector<double> largest) {
        check_rows(n_clusters, (int64_t)scores.shape(0));
        largest_scores(scores.data(), n_clusters.data(), (int64_t)n_clusters.shape(0), (int64_t)scores.shape(1),
                       largest.data());
    });
    m.def("rounded_scores", [](Matrix<const double> scores, double scale, Matrix<int32_t> values) {
        rounded_scores(scores.data(), (int64_t)(scores.shape(0) * scores.shape(1)), scale, values.data());
    });

    bind_exchange(m);
    bind_linkage(m);
}

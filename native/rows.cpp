#include "rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "descent.h"
#include "dispatch.h"

namespace coassoc {
namespace {

const Kernels* kernels_named(const std::string& name) {
    for (int i = 0; i < kLevels; ++i)
        if (name == levels()[i].name && levels()[i].kernels && levels()[i].runs_here) return levels()[i].kernels;
    throw std::invalid_argument("no kernels for simd level " + name);
}

constexpr int64_t kDeltaBytes = int64_t(1) << 28;  // private counts of all threads together stay below this

}  // namespace

Rows::Rows(AnyMatrix codes, Vector<const int64_t> n_clusters, Vector<const uint8_t> missing, nb::object ids,
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

Rows::Cut Rows::cut(double steps_per_row, int64_t unit) const {
    int64_t rows = chunk_rows_;
    int threads = n_threads_;
    if (rows <= 0) {
        rows = (int64_t)std::min(1e6, std::max(64.0, 8e6 / steps_per_row));
        rows = std::min(rows, std::max<int64_t>(64, view_.n / (4 * threads) + 1));
        if (steps_per_row * (double)view_.n < 1e7) threads = 1;  // a quarter of a millisecond: not worth a wake-up
    }
    rows = (rows + unit - 1) / unit * unit;
    const int64_t tasks = std::max<int64_t>(1, (view_.n + rows - 1) / rows);
    return {rows / kLanes, tasks, (int)std::min<int64_t>(threads, tasks)};
}

bool Rows::open(View& out, std::shared_ptr<Buffer>& hold, bool build) {
    out = view_;
    if (!blocked_copy_) return true;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!blocked_ && build) {
        const int64_t bytes = blocks() * kLanes * view_.p * view_.width;
        std::shared_ptr<Buffer> fresh;
        {
            const std::lock_guard<std::mutex> taking(spare_->mutex);
            auto& spares = spare_->buffers;  // from small to large; a much larger one is kept for larger rows
            const auto large = [&](auto& it) { return it->bytes() >= bytes; };
            const auto fits = std::find_if(spares.begin(), spares.end(), large);
            if (fits != spares.end() && (*fits)->bytes() / 4 <= bytes) {
                fresh = *fits;
                spares.erase(fits);
            }
        }
        if (fresh)
            fresh->trim(bytes);
        else
            fresh = std::make_shared<Buffer>(bytes);
        const Cut part = cut((double)view_.p * 20, kLanes);
        if (!run_free(part.threads, part.tasks, [&](int64_t t, int) {
                kernels_->block_codes(view_, t * part.blocks, std::min(blocks(), (t + 1) * part.blocks), fresh->data());
            }))
            return false;
        blocked_ = fresh;
    }
    hold = blocked_;
    out.blocked = hold ? hold->data() : nullptr;
    return true;
}

int64_t Rows::assign(Labelling& labelling, Matrix<const int32_t> table, int bits) {
    if ((int64_t)table.shape(0) != shape_.d || (int64_t)table.shape(1) != labelling.k_ || labelling.n_ != view_.n)
        throw std::invalid_argument("the table's shape does not fit the rows and the labelling");
    int64_t moved = 0;
    released([&] {
        std::shared_ptr<Buffer> hold;
        View rows;
        labelling.next_.assign(table.data(), table.data() + shape_.d * labelling.k_);
        return open(rows, hold, labelling.bounded_ && kernels_->permutes && plan_.possible) &&
               assign_next(rows, labelling, bits, moved);
    });
    return moved;
}

// Steps per row that a pass will take, going by the last one: rows that are scored here and there wait for memory, and
// those that move are counted one by one.
double Rows::steps_of_pass(const Labelling& labelling, bool bounded) const {
    const double scored = (double)view_.p * (double)std::max(labelling.k_, 4);
    if (!bounded) return 4.0 + scored;
    const double n = (double)std::max<int64_t>(view_.n, 1);
    const double few = std::min((double)labelling.evaluated_, n / 16);
    const double counted = (double)labelling.moved_ * 80.0 * (double)view_.p;
    return 4.0 + ((double)labelling.evaluated_ * scored + few * 600.0 + counted) / n;
}

bool Rows::assign_next(const View& rows, Labelling& labelling, int bits, int64_t& moved) {
    const int32_t k = labelling.k_;
    const int32_t* table = labelling.next_.data();
    AssignJob job{};
    int shift = labelling.unit_ + bits;
    job.bounds = (uint16_t*)room_for_bounds(labelling);
    const bool bounded = labelling.bounded_ && shift >= 0 && shift <= 31 && std::abs(bits - labelling.bits_) < 20;
    if (!bounded) {
        shift = 14;
        labelling.unit_ = shift - bits;
    }
    const Comparison ranges = compare(*kernels_, shape_, bounded ? labelling.table_.data() : nullptr, labelling.bits_,
                                      table, bits, k, shift);
    if (bounded) job.drop = ranges.drop.data();
    job.wide = widen(*kernels_, shape_, ranges, table, k, labelling.wide_);
    // 7 bits pay when they told most rows apart last time and there are enough rows to make up for the table
    const bool sharp = labelling.redone_ * 2 <= labelling.evaluated_;
    const bool enough = (job.drop ? labelling.evaluated_ : view_.n) > 2000 || chunk_rows_ > 0;
    if (kernels_->permutes && sharp && enough)
        job.narrow = narrow(*kernels_, shape_, plan_, ranges, table, k, shift, labelling.common_,
                            labelling.narrow_);
    labelling.common_ = 0;
    job.labels = labelling.labels_;
    job.shift = shift;

    const Cut part = cut(steps_of_pass(labelling, job.drop != nullptr), kLanes);
    std::vector<Buffer> scratch = scratches(part.threads);
    const int64_t cells = shape_.padded() * k;
    // threads count what moved in tables of their own, or list it (a megabyte at most) where rows are few beside cells
    const bool listed = part.threads > 1 && view_.n <= std::min<int64_t>(2 * cells, 1 << 16);
    const bool incremental =
        labelling.counted_ && labelling.labelled_ && (listed || cells * 8 * part.threads <= kDeltaBytes);
    std::vector<std::vector<int64_t>> delta((size_t)part.threads);
    if (incremental && listed)
        labelling.moves_.resize((size_t)view_.n);
    else if (incremental)
        for (int i = 1; i < part.threads; ++i) delta[i].assign((size_t)cells, 0);
    std::vector<AssignResult> results((size_t)part.tasks);

    const bool labelled = labelling.labelled_;
    // until the pass is over nothing derived from the labels can be trusted
    labelling.counted_ = labelling.bounded_ = labelling.summed_ = false;
    const bool finished = run_free(part.threads, part.tasks, [&](int64_t t, int slot) {
        AssignJob mine = job;
        const int64_t b0 = t * part.blocks, b1 = std::min(blocks(), (t + 1) * part.blocks);
        if (!labelled) std::fill(job.labels + b0 * kLanes, job.labels + std::min(view_.n, b1 * kLanes), -1);
        if (incremental && listed) mine.moves = labelling.moves_.data() + b0 * kLanes;
        else if (incremental) mine.delta = slot ? delta[slot].data() : labelling.alpha_.data();
        kernels_->assign_chunk(rows, mine, b0, b1, scratch[slot].data(), results[t]);
    });
    if (!finished) return false;
    if (incremental && listed)
        for (int64_t t = 0; t < part.tasks; ++t)
            kernels_->move_chunk(rows, labelling.moves_.data() + t * part.blocks * kLanes, results[t].moved, k, 0, view_.p,
                                 labelling.alpha_.data());
    else if (incremental)
        for (int i = 1; i < part.threads; ++i)
            for (int64_t c = 0; c < cells; ++c) labelling.alpha_[c] += delta[i][c];
    moved = 0;
    labelling.evaluated_ = labelling.redone_ = 0;
    for (const AssignResult& result : results) {
        moved += result.moved;
        labelling.evaluated_ += result.evaluated;
        labelling.redone_ += result.redone;
    }
    labelling.moved_ = incremental ? moved : 0;
    labelling.passed(bits);
    labelling.counted_ = incremental;
    labelling.bounded_ = true;
    return true;
}

char* Rows::room_for_bounds(Labelling& labelling) const {
    if (!labelling.bounds_.data()) labelling.bounds_ = Buffer(blocks() * kLanes * 2);
    return labelling.bounds_.data();
}

// A pass whose outcome is known.
bool Rows::take_labels(Labelling& labelling, int bits) {
    const uint8_t* labels = (const uint8_t*)labelling.bounds_.data();
    const Cut part = cut(10.0, kLanes);
    const int64_t step = part.blocks * kLanes;
    labelling.counted_ = labelling.bounded_ = labelling.summed_ = false;
    if (!run_free(part.threads, part.tasks, [&](int64_t t, int) {
            std::copy(labels + t * step, labels + std::min(view_.n, (t + 1) * step), labelling.labels_ + t * step);
        }))
        return false;
    labelling.evaluated_ = view_.n;
    labelling.redone_ = labelling.moved_ = labelling.common_ = 0;
    labelling.passed(bits);
    return true;
}

void Rows::set_whole(Vector<const int64_t> sizes, Vector<const int64_t> absent) {
    if ((int64_t)sizes.shape(0) != shape_.d || (int64_t)absent.shape(0) != shape_.p)
        throw std::invalid_argument("a size per base cluster and a count per partition are needed");
    auto whole = std::make_shared<std::vector<int64_t>>((size_t)shape_.padded());
    for (int64_t j = 0; j < shape_.p; ++j) {
        std::copy_n(sizes.data() + shape_.first[j] - j, shape_.n_clusters[j], whole->data() + shape_.first[j]);
        (*whole)[shape_.first[j] + shape_.n_clusters[j]] = absent(j);
    }
    const auto lock = locked();
    whole_ = whole;
}

bool Rows::whole(Matrix<int64_t> alpha, Vector<int64_t> size) {
    if ((int64_t)alpha.shape(0) != shape_.d || alpha.shape(1) != 1 || size.shape(0) != 1)
        throw std::invalid_argument("whole needs arrays of one column");
    const auto lock = locked();
    if (!whole_) return false;
    for (int64_t j = 0; j < shape_.p; ++j)
        std::copy_n(whole_->data() + shape_.first[j], shape_.n_clusters[j], alpha.data() + shape_.first[j] - j);
    size(0) = cluster_sizes(shape_, whole_->data(), 1)[0];
    return true;
}

// Of two clusters only the smaller is counted; the other is the rest.
bool Rows::count_smaller(const View& rows, Labelling& labelling, const std::vector<int64_t>& whole) {
    const int32_t side = 2 * count_ones(labelling.labels_, 0, view_.n) <= view_.n;
    const Cut part = cut((double)view_.p * 10, kLanes);
    std::vector<std::vector<int64_t>> own((size_t)part.threads, std::vector<int64_t>(whole.size(), 0));
    const bool finished = run_free(part.threads, part.tasks, [&](int64_t t, int slot) {
        kernels_->count_side_chunk(rows, labelling.labels_, side, t * part.blocks,
                                   std::min(blocks(), (t + 1) * part.blocks), own[slot].data());
    });
    for (int i = 1; i < part.threads; ++i)
        for (size_t f = 0; f < whole.size(); ++f) own[0][f] += own[i][f];
    for (size_t f = 0; f < whole.size(); ++f) {
        labelling.alpha_[2 * f + side] = own[0][f];
        labelling.alpha_[2 * f + !side] = whole[f] - own[0][f];
    }
    labelling.counted_ = finished;
    return finished;
}

bool Rows::count(const View& rows, Labelling& labelling) {
    const int64_t k = labelling.k_, cells = shape_.padded() * k;
    labelling.alpha_.assign((size_t)cells, 0);
    labelling.summed_ = false;
    std::shared_ptr<const std::vector<int64_t>> whole;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        whole = whole_;
    }
    if (k == 2 && whole) return count_smaller(rows, labelling, *whole);
    int64_t* shared = labelling.alpha_.data();
    const Cut part = cut((double)view_.p * 40, kLanes);
    std::vector<Buffer> scratch = scratches(part.threads);
    bool finished;
    if (cells * 8 * part.threads <= kDeltaBytes) {
        std::vector<std::vector<int64_t>> own((size_t)part.threads);
        for (int i = 1; i < part.threads; ++i) own[i].assign((size_t)cells, 0);
        finished = run_free(part.threads, part.tasks, [&](int64_t t, int slot) {
            kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, t * part.blocks,
                                  std::min(blocks(), (t + 1) * part.blocks), 0, view_.p,
                                  slot ? own[slot].data() : shared, scratch[slot].data());
        });
        for (int i = 1; i < part.threads; ++i)
            for (int64_t c = 0; c < cells; ++c) shared[c] += own[i][c];
    } else {  // a large table is shared: each task owns one partition's rows of it
        finished = run_free(part.threads, view_.p, [&](int64_t j, int slot) {
            kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, 0, blocks(), j, j + 1, shared,
                                  scratch[slot].data());
        });
    }
    labelling.counted_ = finished;
    if (finished && k == 1) {
        const std::lock_guard<std::mutex> lock(mutex_);
        whole_ = std::make_shared<const std::vector<int64_t>>(labelling.alpha_);
    }
    return finished;
}

bool Rows::passes(Labelling& labelling, const double* weights, const void* seeds, int64_t limit, Passes& out,
                  bool placed) {
    std::shared_ptr<Buffer> hold;
    View rows;
    if (!open(rows, hold, kernels_->permutes && plan_.possible)) return false;
    int bits = table_of_rows(shape_, labelling, seeds, view_.width, weights);
    while ((int64_t)out.losses.size() < limit) {
        int64_t moved = view_.n;
        const bool first = out.losses.empty(), summed = labelling.summed_;
        if (!(placed && first ? take_labels(labelling, bits) : assign_next(rows, labelling, bits, moved))) return false;
        if (!labelling.counted_ && !count(rows, labelling)) return false;
        if (moved == 0 && !first) {
            labelling.summed_ = summed;  // nothing has changed
            out.stop = kFixedPoint;
            return true;
        }
        // the counts are read once, for the loss and for the table of a pass that may not come
        bits = next_table(*kernels_, shape_, labelling, nullptr, weights);
        const double loss = kmeans_loss(*kernels_, shape_, labelling, weights);
        if (!first && !(loss < out.losses.back())) {
            bool undone = false;
            if (!take_back(rows, labelling, undone)) return false;
            out.stop = undone ? kNoGain : kFixedPoint;
            return true;
        }
        out.losses.push_back(loss);
        if (count_empty(shape_, labelling) && (int64_t)out.losses.size() < limit) {
            out.stop = kUnfinished;
            return true;
        }
    }
    return true;
}

bool Rows::take_back(const View& rows, Labelling& labelling, bool& undone) {
    const std::vector<int64_t> after = labelling.alpha_;
    const std::vector<int32_t> table = labelling.table_;
    const int bits = labelling.bits_;
    int64_t moved;
    labelling.next_ = labelling.earlier_;
    if (!assign_next(rows, labelling, labelling.earlier_bits_, moved)) return false;
    if (!labelling.counted_ && !count(rows, labelling)) return false;
    const int64_t k = labelling.k_;
    undone = false;
    for (int64_t j = 0; j < shape_.p; ++j) {  // missing labels are no counts
        const int64_t from = shape_.first[j] * k, to = from + shape_.n_clusters[j] * k;
        undone = undone || !std::equal(after.begin() + from, after.begin() + to, labelling.alpha_.begin() + from);
    }
    if (undone) return true;
    labelling.next_ = table;
    return assign_next(rows, labelling, bits, moved);
}

void Rows::count_now(Labelling& labelling) {
    if (labelling.counted_) return;
    released([&] {
        std::shared_ptr<Buffer> hold;
        View rows;
        return open(rows, hold, false) && count(rows, labelling);
    });
}

// Sizes, and where they are known cells and squares (true).
bool Rows::sums_of(const Labelling& labelling, int64_t* sizes, int64_t* cells, int64_t* squares) const {
    const std::vector<int64_t> found = cluster_sizes(shape_, labelling.alpha_.data(), labelling.k_);
    std::copy(found.begin(), found.end(), sizes);
    if (!labelling.summed_) return false;
    std::copy(labelling.cells_.begin(), labelling.cells_.end(), cells);
    std::copy(labelling.squares_.begin(), labelling.squares_.end(), squares);
    return true;
}

bool Rows::counts(Labelling& labelling, Matrix<int64_t> alpha, Vector<int64_t> sizes, Matrix<int64_t> cells,
                  Matrix<int64_t> squares) {
    const int64_t k = labelling.k_;
    if ((int64_t)alpha.shape(0) != shape_.d || (int64_t)alpha.shape(1) != k || (int64_t)sizes.shape(0) != k ||
        cells.size() != (size_t)(shape_.p * k) || squares.size() != cells.size() || !labelling.labelled_)
        throw std::invalid_argument("counts need a labelled labelling and arrays of its shape");
    count_now(labelling);
    for (int64_t j = 0; j < shape_.p; ++j)
        std::memcpy(alpha.data() + (shape_.first[j] - j) * k, labelling.alpha_.data() + shape_.first[j] * k,
                    8 * (size_t)(shape_.n_clusters[j] * k));
    return sums_of(labelling, sizes.data(), cells.data(), squares.data());
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

}  // namespace coassoc

#include "rows.h"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace coassoc {
namespace {

constexpr int64_t kDeltaBytes = int64_t(1) << 28;  // private counts of all threads together stay below this

}  // namespace

Rows::Rows(const View& view, Shape shape, const Kernels* kernels, int n_threads, int64_t chunk_rows, bool blocked_copy)
    : view_(view), shape_(std::move(shape)), plan_(plan_narrow(shape_, view.width)), kernels_(kernels),
      n_threads_(n_threads), chunk_rows_(chunk_rows), blocked_copy_(blocked_copy) {
    view_.n_clusters = shape_.n_clusters.data();
    view_.first = shape_.first.data();
}

Rows::Chunks Rows::chunks(double steps_per_row, int64_t unit) const {
    int64_t rows = chunk_rows_;
    int threads = n_threads_;
    if (rows <= 0) {
        // a task takes about 0.2 ms on one core of a Zen 4; less than 0.25 ms in all is not worth waking a thread
        rows = (int64_t)std::min(1e6, std::max(64.0, 8e6 / steps_per_row));
        rows = std::min(rows, std::max<int64_t>(64, view_.n / (4 * threads) + 1));
        if (steps_per_row * (double)view_.n < 1e7) threads = 1;
    }
    rows = (rows + unit - 1) / unit * unit;
    const int64_t tasks = std::max<int64_t>(1, (view_.n + rows - 1) / rows);
    return {rows / kLanes, tasks, (int)std::min<int64_t>(threads, tasks)};
}

Rows::Opened Rows::open(bool build) {
    Opened out{view_, nullptr};
    if (!blocked_copy_) return out;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!blocked_ && build) {
        auto fresh = std::make_shared<Buffer>(n_blocks() * kLanes * view_.p * view_.width);
        for_blocks(chunks((double)view_.p * 20), [&](int64_t b0, int64_t b1, int) {
            kernels_->block_codes(view_, b0, b1, fresh->data());
        });
        blocked_ = fresh;
    }
    out.hold = blocked_;
    out.view.blocked = blocked_ ? blocked_->data() : nullptr;
    return out;
}

void Rows::free_blocked() {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocked_.reset();
}

int64_t Rows::assign(Labelling& labelling, const int32_t* table, int bits) {
    labelling.next_.assign(table, table + shape_.d * labelling.k_);
    const Opened rows = open(labelling.bounded_ && can_permute());
    return assign_next(rows.view, labelling, bits);
}

// Steps per row that a pass will take, judged by the last one: rows that are scored here and there wait for memory,
// and those that move are counted one by one. The weights were tuned on two Zen 4 cores at 10 000 to a million items.
double Rows::steps_of_pass(const Labelling& labelling, bool bounded) const {
    const double scored = (double)view_.p * (double)std::max(labelling.k_, 4);
    if (!bounded) return 4.0 + scored;
    const double n = (double)std::max<int64_t>(view_.n, 1);
    const double few = std::min((double)labelling.evaluated_, n / 16);
    const double counted = (double)labelling.moved_ * 80.0 * (double)view_.p;
    return 4.0 + ((double)labelling.evaluated_ * scored + few * 600.0 + counted) / n;
}

int64_t Rows::assign_next(const View& rows, Labelling& labelling, int bits) {
    const int32_t k = labelling.k_;
    const int32_t* table = labelling.next_.data();
    if (!labelling.bounds_.data()) labelling.bounds_ = Buffer(n_blocks() * kLanes * 2);
    AssignJob job{};
    int shift = labelling.unit_ + bits;
    const bool bounded = labelling.bounded_ && shift >= 0 && shift <= 31 && std::abs(bits - labelling.bits_) < 20;
    if (!bounded) {
        shift = 14;
        labelling.unit_ = shift - bits;
    }
    const Comparison ranges = compare(*kernels_, shape_, bounded ? labelling.table_.data() : nullptr, labelling.bits_,
                                      table, bits, k, shift);
    if (bounded) job.drop = ranges.drop.data();
    job.wide = widen(shape_, table, k, labelling.wide_);
    // 7 bits pay when they separated most rows last time and there are enough rows to make up for making the table
    const bool sharp = labelling.redone_ * 2 <= labelling.evaluated_;
    const bool enough = (job.drop ? labelling.evaluated_ : view_.n) > 2000 || chunk_rows_ > 0;
    if (can_permute() && sharp && enough)
        job.narrow = narrow(*kernels_, shape_, plan_, ranges, table, k, shift, labelling.narrow_);
    job.labels = labelling.labels_;
    job.bounds = (uint16_t*)labelling.bounds_.data();
    job.shift = shift;

    const Chunks part = chunks(steps_of_pass(labelling, bounded));
    std::vector<Buffer> scratch = scratches(part.threads);
    const int64_t cells = shape_.padded() * k;
    // each thread counts what moved in a table of its own
    const bool incremental =
        labelling.counted_ && labelling.labelled_ && cells * 8 * part.threads <= kDeltaBytes;
    std::vector<std::vector<int64_t>> delta((size_t)part.threads);
    for (int i = 1; incremental && i < part.threads; ++i) delta[i].assign((size_t)cells, 0);
    std::vector<AssignResult> results((size_t)part.threads);

    const bool labelled = labelling.labelled_;
    labelling.counted_ = labelling.bounded_ = false;  // until the pass is over
    for_blocks(part, [&](int64_t b0, int64_t b1, int slot) {
        AssignJob mine = job;
        if (!labelled) std::fill(job.labels + b0 * kLanes, job.labels + std::min(view_.n, b1 * kLanes), -1);
        if (incremental) mine.delta = slot ? delta[slot].data() : labelling.alpha_.data();
        kernels_->assign_chunk(rows, mine, b0, b1, scratch[slot].data(), results[slot]);
    });
    for (int i = 1; incremental && i < part.threads; ++i)
        for (int64_t c = 0; c < cells; ++c) labelling.alpha_[c] += delta[i][c];
    AssignResult all;
    for (const AssignResult& result : results) {
        all.moved += result.moved;
        all.evaluated += result.evaluated;
        all.redone += result.redone;
    }
    labelling.evaluated_ = all.evaluated;
    labelling.redone_ = all.redone;
    labelling.moved_ = incremental ? all.moved : 0;
    labelling.passed(bits);
    labelling.counted_ = incremental;
    labelling.bounded_ = true;
    return all.moved;
}

// Of two clusters only the smaller is counted; the counts of all rows give the other.
void Rows::count_smaller(const View& rows, Labelling& labelling) {
    const int32_t side = 2 * std::count(labelling.labels_, labelling.labels_ + view_.n, 1) <= view_.n;
    const Chunks part = chunks((double)view_.p * 10);
    std::vector<Buffer> scratch = scratches(part.threads);
    std::vector<std::vector<int64_t>> own((size_t)part.threads, std::vector<int64_t>(whole_.size(), 0));
    for_blocks(part, [&](int64_t b0, int64_t b1, int slot) {
        kernels_->count_side_chunk(rows, labelling.labels_, side, b0, b1, own[slot].data(), scratch[slot].data());
    });
    for (size_t f = 0; f < whole_.size(); ++f) {
        for (int i = 1; i < part.threads; ++i) own[0][f] += own[i][f];
        labelling.alpha_[2 * f + side] = own[0][f];
        labelling.alpha_[2 * f + !side] = whole_[f] - own[0][f];
    }
    labelling.counted_ = true;
}

void Rows::count(const View& rows, Labelling& labelling) {
    if (labelling.counted_) return;
    const int64_t k = labelling.k_, cells = shape_.padded() * k;
    labelling.alpha_.assign((size_t)cells, 0);
    if (k == 2 && !whole_.empty()) return count_smaller(rows, labelling);
    int64_t* shared = labelling.alpha_.data();
    const Chunks part = chunks((double)view_.p * 40);
    std::vector<Buffer> scratch = scratches(part.threads);
    if (cells * 8 * part.threads <= kDeltaBytes) {
        std::vector<std::vector<int64_t>> own((size_t)part.threads);
        for (int i = 1; i < part.threads; ++i) own[i].assign((size_t)cells, 0);
        for_blocks(part, [&](int64_t b0, int64_t b1, int slot) {
            kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, b0, b1, 0, view_.p,
                                  slot ? own[slot].data() : shared, scratch[slot].data());
        });
        for (int i = 1; i < part.threads; ++i)
            for (int64_t c = 0; c < cells; ++c) shared[c] += own[i][c];
    } else {  // a large table is shared: each task owns one partition's rows of it
        run_tasks(part.threads, view_.p, [&](int64_t j, int slot) {
            kernels_->count_chunk(rows, labelling.labels_, (int32_t)k, 0, n_blocks(), j, j + 1, shared,
                                  scratch[slot].data());
        });
    }
    labelling.counted_ = true;
}

void Rows::own_scores(const Labelling& labelling, const int32_t* cost, int64_t start, int64_t stop, int64_t* scores) {
    const int32_t k = labelling.k_;
    std::vector<int32_t> padded((size_t)(shape_.padded() * k));
    pad_rows(shape_, cost, k, padded.data());
    const int64_t step = 8192, tasks = (stop - start + step - 1) / step;
    run_tasks(n_threads_, tasks, [&](int64_t t, int) {
        const int64_t a = start + t * step, b = std::min(stop, a + step);
        kernels_->own_scores_chunk(view_, padded.data(), k, labelling.labels_, a, b, scores + (a - start));
    });
}

std::vector<std::vector<uint32_t>> Rows::split(const Labelling& labelling, bool ids) const {
    const size_t k = (size_t)labelling.k_;
    const uint32_t* names = ids ? view_.ids : nullptr;
    const int32_t* labels = labelling.labels_;
    // rows of each cluster ahead of each task; many clusters are sorted by one thread
    const Chunks part = k > 64 || n_threads_ == 1 ? Chunks{n_blocks(), 1, 1} : chunks(60.0);
    std::vector<std::vector<int64_t>> ahead((size_t)part.tasks, std::vector<int64_t>(k, 0));
    for_blocks(part, [&](int64_t b0, int64_t b1, int) {
        std::vector<int64_t>& own = ahead[(size_t)(b0 ? b0 / part.blocks : 0)];
        for (int64_t i = b0 * kLanes; i < std::min(view_.n, b1 * kLanes); ++i) ++own[(size_t)labels[i]];
    });
    std::vector<int64_t> sum(k, 0);
    for (std::vector<int64_t>& own : ahead)
        for (size_t c = 0; c < k; ++c) sum[c] += std::exchange(own[c], sum[c]);
    std::vector<std::vector<uint32_t>> parts;
    for (const int64_t size : sum) parts.emplace_back((size_t)size);
    for_blocks(part, [&](int64_t b0, int64_t b1, int) {
        std::vector<int64_t> at = ahead[(size_t)(b0 ? b0 / part.blocks : 0)];
        for (int64_t i = b0 * kLanes; i < std::min(view_.n, b1 * kLanes); ++i) {
            const size_t c = (size_t)labels[i];
            parts[c][(size_t)at[c]++] = names ? names[i] : (uint32_t)i;
        }
    });
    return parts;
}

void scatter(const std::vector<const uint32_t*>& parts, const std::vector<int64_t>& sizes, int64_t n, int32_t* labels,
             int n_threads) {
    std::atomic<bool> outside{false};
    const int threads = n < 1 << 16 ? 1 : n_threads;
    for (size_t part = 0; part < parts.size(); ++part) {
        const int64_t step = 1 << 15;
        run_tasks(threads, (sizes[part] + step - 1) / step, [&](int64_t t, int) {
            for (int64_t i = t * step; i < std::min(sizes[part], (t + 1) * step); ++i) {
                const int64_t id = parts[part][i];
                if (id < n) labels[id] = (int32_t)part;
                else outside = true;
            }
        });
    }
    if (outside) throw std::invalid_argument("a part names a row that is not there");
}

}  // namespace coassoc

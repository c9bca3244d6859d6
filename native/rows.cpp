#include "rows.h"

#include <algorithm>
#include <cstring>

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
        if (steps_per_row * (double)view_.n < 4e6) threads = 1;
    }
    rows = (rows + unit - 1) / unit * unit;
    const int64_t tasks = std::max<int64_t>(1, (view_.n + rows - 1) / rows);
    return {rows / kLanes, tasks, (int)std::min<int64_t>(threads, tasks)};
}

View Rows::view(std::shared_ptr<Buffer>& hold, bool build) {
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

}  // namespace coassoc

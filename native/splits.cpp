// Rows that are split, and what passes from rows to their halves.
#include <algorithm>
#include <atomic>

#include "rows.h"

namespace coassoc {

void Rows::free_blocked() {
    const auto lock = locked();
    if (blocked_.use_count() == 1) {  // nobody is reading it
        const std::lock_guard<std::mutex> taking(spare_->mutex);
        auto& spares = spare_->buffers;
        const auto larger = [&](auto& it) { return it->bytes() >= blocked_->bytes(); };
        spares.insert(std::find_if(spares.begin(), spares.end(), larger), blocked_);
        if ((int64_t)spares.size() > n_threads_) spares.erase(spares.begin());
    }
    blocked_.reset();
}

void Rows::free_spare() {
    const std::lock_guard<std::mutex> taking(spare_->mutex);
    spare_->buffers.clear();
}

void Rows::descend(const Rows& parent, const Labelling& labelling, int64_t cluster) {
    spare_ = parent.spare_;
    if (!labelling.counted_ || cluster < 0 || cluster >= labelling.k_) return;
    auto whole = std::make_shared<std::vector<int64_t>>((size_t)shape_.padded());
    for (size_t f = 0; f < whole->size(); ++f) (*whole)[f] = labelling.alpha_[f * labelling.k_ + cluster];
    const auto lock = locked();
    whole_ = whole;
}

std::vector<int64_t> Rows::split_sizes(Labelling& labelling) {
    if (!labelling.labelled_ || labelling.n_ != view_.n)
        throw std::invalid_argument("a split needs a label for every row");
    if (labelling.counted_ && !view_.copies) return cluster_sizes(shape_, labelling.alpha_.data(), labelling.k_);
    std::vector<int64_t> sizes((size_t)labelling.k_, 0);
    for (int64_t i = 0; i < view_.n; ++i) ++sizes[(size_t)labelling.labels_[i]];
    return sizes;
}

namespace {

// Names of the rows [start, stop) of each cluster, in their present order; `ids` null: rows are named by position.
void sort_rows(const int32_t* labels, const uint32_t* ids, int64_t start, int64_t stop, std::vector<uint32_t*> to,
               const std::vector<int64_t>& sizes) {
    int64_t i = start;
    const auto name = [ids](int64_t row) { return ids ? ids[row] : (uint32_t)row; };
    if (to.size() == 2 && sizes[0] && sizes[1]) {  // both are written, one is kept: no branch to guess
        uint32_t *zero = to[0], *one = to[1];
        const uint32_t *zero_end = zero + sizes[0], *one_end = one + sizes[1];
        for (; i < stop && zero != zero_end && one != one_end; ++i) {
            *zero = *one = name(i);
            one += labels[i];
            zero += 1 - labels[i];
        }
        to[0] = zero, to[1] = one;
    }
    for (; i < stop; ++i) *to[(size_t)labels[i]]++ = name(i);
}

bool sort_rows(const Rows& rows, const int32_t* labels, const uint32_t* ids, std::vector<uint32_t*> to,
               const std::vector<int64_t>& sizes) {
    const int64_t n = rows.view_.n;
    if (to.size() != 2) return sort_rows(labels, ids, 0, n, to, sizes), true;
    const Rows::Cut part = rows.cut(60.0, kLanes);
    const int64_t step = part.blocks * kLanes;
    std::vector<int64_t> ones((size_t)part.tasks);
    const auto end = [&](int64_t t) { return std::min(n, (t + 1) * step); };
    if (!run_free(part.threads, part.tasks, [&](int64_t t, int) { ones[t] = count_ones(labels, t * step, end(t)); }))
        return false;
    std::vector<int64_t> before((size_t)part.tasks, 0);  // rows of the second cluster ahead of each task
    for (int64_t t = 1; t < part.tasks; ++t) before[t] = before[t - 1] + ones[t - 1];
    return run_free(part.threads, part.tasks, [&](int64_t t, int) {
        const int64_t start = t * step;
        sort_rows(labels, ids, start, end(t), {to[0] + (start - before[t]), to[1] + before[t]},
                  {end(t) - start - ones[t], ones[t]});
    });
}

}  // namespace

void Rows::split(Labelling& labelling, const std::vector<Vector<uint32_t>>& parts, bool ids) {
    if (!labelling.labelled_ || labelling.n_ != view_.n || (int64_t)parts.size() != labelling.k_)
        throw std::invalid_argument("a split needs a label for every row and a part for every cluster");
    std::vector<uint32_t*> to;
    std::vector<int64_t> sizes;
    for (const auto& part : parts) to.push_back(part.data()), sizes.push_back((int64_t)part.shape(0));
    const uint32_t* names = ids ? view_.ids : nullptr;
    released([&] { return sort_rows(*this, labelling.labels_, names, to, sizes); });
}

void Rows::scatter(const std::vector<Vector<const uint32_t>>& parts, Vector<int32_t> labels) {
    const int64_t step = 1 << 15;
    std::vector<std::pair<int32_t, int64_t>> tasks;  // part, first of its rows
    for (size_t part = 0; part < parts.size(); ++part)
        for (int64_t from = 0; from < (int64_t)parts[part].shape(0); from += step) tasks.push_back({(int32_t)part, from});
    const int64_t n = (int64_t)labels.shape(0);
    const int threads = n < 1 << 16 ? 1 : (int)std::min<int64_t>(n_threads_, (int64_t)tasks.size());
    std::atomic<bool> outside{false};
    without_gil(threads, (int64_t)tasks.size(), [&](int64_t t, int) {
        const auto [part, from] = tasks[(size_t)t];
        const uint32_t* ids = parts[(size_t)part].data();
        for (int64_t i = from; i < std::min((int64_t)parts[(size_t)part].shape(0), from + step); ++i) {
            if ((int64_t)ids[i] < n) labels.data()[ids[i]] = part;
            else outside = true;
        }
    });
    if (outside) throw std::invalid_argument("a part names a row that is not there");
}

}  // namespace coassoc

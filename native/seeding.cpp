#include "seeding.h"

#include <cstring>
#include <numeric>
#include <stdexcept>

namespace coassoc {
namespace {

// How many rows come before the one in which the running sum of copies * distance exceeds `left`; null: all 1.
template <class A>
int64_t find(const A* now, const int64_t* copies, int64_t left) {
    if (!now && !copies) return left;
    for (int64_t at = 0;; ++at) {
        const int64_t term = (now ? (int64_t)now[at] : 1) * (copies ? copies[at] : 1);
        if (left < term) return at;
        left -= term;
    }
}

}  // namespace

Seeding::Seeding(Rows& rows, const int64_t* weights) : rows_(rows) {
    uint64_t all = 0;
    for (int64_t j = 0; j < rows.shape_.p; ++j) {
        if (weights[j] < 0) throw std::invalid_argument("weights must not be negative");
        weights_.push_back((uint64_t)weights[j]);
        all += (uint64_t)weights[j];
        plain_ = plain_ && weights[j] == 1 && !rows.shape_.missing[j];
    }
    width_ = all <= 255 ? 1 : all <= 65535 ? 2 : all <= 0xFFFFFFFFull ? 4 : 8;
    n_super_ = (rows.view_.n + kSuperRows - 1) / kSuperRows;
    sums_.assign((size_t)n_super_, 0);
    const int64_t* copies = rows.view_.copies;
    for (int64_t s = 0; s < n_super_; ++s) {
        const int64_t start = s * kSuperRows, stop = std::min(rows.view_.n, start + kSuperRows);
        sums_[(size_t)s] = copies ? std::accumulate(copies + start, copies + stop, int64_t(0)) : stop - start;
        total_ += sums_[(size_t)s];
    }
}

void Seeding::follow(uint8_t* labels) {
    labels_ = labels;
    std::memset(labels, 0, (size_t)(rows_.n_blocks() * kLanes));
}

void Seeding::locate(const int64_t* targets, int64_t m, int64_t* found) const {
    for (int64_t i = 0; i < m; ++i)
        if (targets[i] < 0 || targets[i] >= total_) throw std::invalid_argument("targets must lie below the total");
    const auto find_all = [&](auto type) {
        using A = decltype(type);
        const A* now = (const A*)now_.data();
        if (rows_.duplicates_) return rows_.duplicates_->locate(now, targets, m, found);
        for (int64_t i = 0; i < m; ++i) {
            int64_t left = targets[i], s = 0;
            while (left >= sums_[(size_t)s]) left -= sums_[(size_t)s++];
            const int64_t row = s * kSuperRows, *copies = rows_.view_.copies;
            found[i] = row + find(now ? now + row : nullptr, copies ? copies + row : nullptr, left);
        }
    };
    if (width_ == 8) return find_all(uint64_t{});
    with_codes(width_, find_all);
}

void Seeding::potentials(const char* candidates, int64_t m, int64_t* totals) {
    const bool keep = m <= kMaxCandidates && m * width_ <= 8;  // at most 8 bytes per row
    tried_.clear();
    for (int64_t from = 0; from < m; from += kMaxCandidates) {
        const int count = (int)std::min<int64_t>(kMaxCandidates, m - from);
        measure(candidates + from * row_bytes(), count, keep);
        for (int c = 0; c < count; ++c) totals[from + c] = sum_of(c);
    }
    if (keep) tried_.assign(candidates, candidates + m * row_bytes());
}

void Seeding::add(const char* row) {
    const int64_t bytes = row_bytes(), n_tried = (int64_t)tried_.size() / bytes;
    int64_t at = 0;
    while (at < n_tried && std::memcmp(tried_.data() + at * bytes, row, (size_t)bytes)) ++at;
    if (at == n_tried) {
        measure(row, 1, true);
        at = 0;
    }
    tried_.clear();
    Buffer& next = next_[(size_t)at];
    if (labels_ && n_added_ > 0)
        rows_.for_blocks(rows_.chunks(6.0), [&](int64_t b0, int64_t b1, int) {
            const int64_t from = b0 * kLanes;
            rows_.kernels_->mark_nearer((const uint8_t*)now_.data() + from, (const uint8_t*)next.data() + from,
                                        (b1 - b0) * kLanes, (uint8_t)n_added_, labels_ + from);
        });
    ++n_added_;
    std::swap(now_, next);
    std::copy_n(trial_.begin() + at * n_super_, n_super_, sums_.begin());
    total_ = sum_of(at);
}

int64_t Seeding::choose_all(const Draw& draw, int64_t k, int64_t m, char* chosen) {
    const int64_t bytes = row_bytes();
    std::vector<int64_t> targets((size_t)m), found((size_t)m), totals((size_t)m);
    std::vector<char> candidates((size_t)(m * bytes));
    for (int64_t n = 0; n < k; ++n) {
        if (total_ == 0) return n;
        const int64_t count = n ? m : 1;
        draw(total_, count, targets.data());
        locate(targets.data(), count, found.data());
        for (int64_t i = 0; i < count; ++i)
            std::memcpy(candidates.data() + i * bytes, rows_.codes_of(found[(size_t)i]), (size_t)bytes);
        int64_t best = 0;
        if (count > 1) {
            potentials(candidates.data(), count, totals.data());
            best = std::min_element(totals.begin(), totals.begin() + count) - totals.begin();
        }
        std::memcpy(chosen + n * bytes, candidates.data() + best * bytes, (size_t)bytes);
        add(candidates.data() + best * bytes);
    }
    return k;
}

int64_t Seeding::sum_of(int64_t c) const {
    int64_t sum = 0;
    for (int64_t s = 0; s < n_super_; ++s) sum += trial_[(size_t)(c * n_super_ + s)];
    return sum;
}

// Distances to m candidates; `keep`: in next_.
void Seeding::measure(const char* candidates, int m, bool keep) {
    const Rows::Opened opened = rows_.open(true);
    trial_.assign((size_t)(m * n_super_), 0);
    void* next[kMaxCandidates] = {};
    if (keep && (int)next_.size() < m) next_.resize((size_t)m);
    for (int c = 0; keep && c < m; ++c) {
        next_[(size_t)c].reserve(rows_.n_blocks() * kLanes * width_);
        next[c] = next_[(size_t)c].data();
    }
    const SeedJob job{candidates, m, weights_.data(), plain_, width_, now_.data(), keep ? next : nullptr,
                      trial_.data(), n_super_};
    const Rows::Chunks part = rows_.chunks((double)(opened.view.p * (m + 2)) * 0.5, kSuperRows);
    std::vector<Buffer> scratch = rows_.scratches(part.threads);
    rows_.for_blocks(part, [&](int64_t b0, int64_t b1, int slot) {
        rows_.kernels_->distance_chunk(opened.view, job, b0, b1, scratch[(size_t)slot].data());
    });
}

}  // namespace coassoc

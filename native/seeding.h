#pragma once

#include <algorithm>
#include <cstring>

#include "distinct.h"
#include "draws.h"

namespace coassoc {

// k-means++ distances. The distances after each candidate are kept from `measure_all`, so that `add` only swaps.
// Nothing here needs the GIL; what returns a bool says whether it finished.
class Seeding {
  public:
    Seeding(const Seeding&) = delete;

    // weights: one per partition
    Seeding(Rows& rows, const int64_t* weights) : rows_(rows) {
        uint64_t all = 0;
        plain_ = true;
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
            if (!copies) sums_[s] = stop - start;
            else
                for (int64_t i = start; i < stop; ++i) sums_[s] += copies[i];
            total_ += sums_[s];
        }
    }

    int64_t total() const { return total_; }

    // Whether the distances say which seed a row scores best with: every partition counts the same for every row.
    bool ranks() const { return plain_ && width_ == 1; }

    // From now on `label` (a byte per row of every block) holds the first of the nearest rows that were added.
    void follow(uint8_t* label) {
        label_ = label;
        std::memset(label, 0, (size_t)(rows_.blocks() * kLanes));
    }

    // Rows where the running sum of copies * distance first exceeds each target.
    void locate(const int64_t* targets, int64_t m, int64_t* found) const {
        for (int64_t i = 0; i < m; ++i)
            if (targets[i] < 0 || targets[i] >= total_) throw std::invalid_argument("targets must lie below the total");
        if (const Occurrences* all = rows_.occurrences_.get()) {
            switch (now_ ? width_ : 1) {
                case 1: return all->locate((const uint8_t*)now_, targets, m, found);
                case 2: return all->locate((const uint16_t*)now_, targets, m, found);
                case 4: return all->locate((const uint32_t*)now_, targets, m, found);
                default: return all->locate((const uint64_t*)now_, targets, m, found);
            }
        }
        for (int64_t i = 0; i < m; ++i) {
            int64_t left = targets[i], s = 0;
            while (left >= sums_[s]) left -= sums_[s++];
            const int64_t row = s * kSuperRows;
            switch (now_ ? width_ : 0) {
                case 0: found[i] = row + find<uint8_t>(nullptr, row, left); break;
                case 1: found[i] = row + find((const uint8_t*)now_ + row, row, left); break;
                case 2: found[i] = row + find((const uint16_t*)now_ + row, row, left); break;
                case 4: found[i] = row + find((const uint32_t*)now_ + row, row, left); break;
                default: found[i] = row + find((const uint64_t*)now_ + row, row, left);
            }
        }
    }

    // What the total would be with each of m rows of codes.
    bool measure_all(const char* candidates, int64_t m, int64_t* totals) {
        const bool keep = m <= kMaxCandidates && m * width_ <= 8;
        tried_.clear();
        for (int64_t from = 0; from < m; from += kMaxCandidates) {
            const int count = (int)std::min<int64_t>(kMaxCandidates, m - from);
            if (!measure(candidates + from * row_bytes(), count, keep)) return false;
            for (int c = 0; c < count; ++c) totals[from + c] = sum_of(c);
        }
        if (keep) tried_.assign(candidates, candidates + m * row_bytes());
        return true;
    }

    bool add(const char* row) {
        int64_t at = 0;
        const int64_t bytes = row_bytes(), n_tried = (int64_t)tried_.size() / bytes;
        while (at < n_tried && std::memcmp(tried_.data() + at * bytes, row, (size_t)bytes)) ++at;
        if (at == n_tried) {
            if (!measure(row, 1, true)) return false;
            at = 0;
        }
        if (label_ && n_added_ > 0 && !mark_nearer((const uint8_t*)next_[(size_t)at])) return false;
        ++n_added_;
        std::swap(now_, next_[(size_t)at]);
        std::copy(trial_.begin() + at * n_super_, trial_.begin() + (at + 1) * n_super_, sums_.begin());
        total_ = sum_of((int)at);
        tried_.clear();
        return true;
    }

    // Locates, measures, adds the first of the best and gives its codes: a round of k-means++.
    bool choose(const int64_t* targets, int64_t m, char* row) {
        const int64_t bytes = row_bytes();
        std::vector<int64_t> found((size_t)m), totals((size_t)m);
        locate(targets, m, found.data());
        std::vector<char> candidates((size_t)(m * bytes));
        for (int64_t i = 0; i < m; ++i) {
            const int64_t at = rows_.view_.ids ? (int64_t)rows_.view_.ids[found[i]] : found[i];
            std::memcpy(candidates.data() + i * bytes, (const char*)rows_.view_.codes + at * bytes, (size_t)bytes);
        }
        int64_t best = 0;
        if (m > 1) {
            if (!measure_all(candidates.data(), m, totals.data())) return false;
            best = std::min_element(totals.begin(), totals.end()) - totals.begin();
        }
        std::memcpy(row, candidates.data() + best * bytes, (size_t)bytes);
        return add(candidates.data() + best * bytes);
    }

    // Greedy k-means++: `rows` (k, p) is filled, with the best of m drawn rows each after the first. `found` is how
    // many there were before none was left to draw.
    bool choose_all(BitGenerator& random, int64_t k, int64_t m, char* rows, int64_t& found) {
        if (k > 1 && m <= kMaxCandidates && m * width_ <= 8) expected_ = (int)m + 1;
        std::vector<int64_t> targets;
        for (found = 0; found < k && total_ > 0; ++found) {
            targets.resize((size_t)(found ? m : 1));
            for (int64_t& target : targets) target = (int64_t)draw_below(random, (uint64_t)total_);
            if (!choose(targets.data(), (int64_t)targets.size(), rows + found * row_bytes())) return false;
        }
        return true;
    }

    // Throws unless this is a matrix of rows of codes.
    template <class Array>
    void check(const Array& codes) const {
        if ((int64_t)codes.shape(1) != rows_.view_.p || codes.dtype().bits != rows_.view_.width * 8)
            throw std::invalid_argument("rows of codes of the loaded type are needed");
    }

  private:
    int64_t row_bytes() const { return rows_.view_.p * rows_.view_.width; }

    // How many rows from `row` on lie before the one in which a running sum of copies * distance exceeds `left`.
    template <class A>
    int64_t find(const A* now, int64_t row, int64_t left) const {
        const int64_t* copies = rows_.view_.copies ? rows_.view_.copies + row : nullptr;
        int64_t at = 0;
        if (!now && !copies) return left;
        if (now && !copies)
            for (;; at += kLanes) {  // a block at a time; those past the last row hold zeros
                int64_t sum = 0;
                for (int lane = 0; lane < kLanes; ++lane) sum += (int64_t)now[at + lane];
                if (left < sum) break;
                left -= sum;
            }
        for (;; ++at) {
            const int64_t term = (now ? (int64_t)now[at] : 1) * (copies ? copies[at] : 1);
            if (left < term) return at;
            left -= term;
        }
    }

    int64_t sum_of(int c) const {
        int64_t sum = 0;
        for (int64_t s = 0; s < n_super_; ++s) sum += trial_[(size_t)(c * n_super_ + s)];
        return sum;
    }

    // One piece of memory for several: each piece may waste most of a large page.
    void take_space(int count) {
        const int64_t bytes = rows_.blocks() * kLanes * width_;
        if ((int)unused_.size() >= count) return;
        spaces_.emplace_back(count * bytes);
        for (int i = 0; i < count; ++i) unused_.push_back(spaces_.back().data() + i * bytes);
        expected_ = 1;
    }

    bool mark_nearer(const uint8_t* next) {
        const auto part = rows_.cut(6.0, kLanes);
        return run_free(part.threads, part.tasks, [&](int64_t t, int) {
            const int64_t from = t * part.blocks * kLanes;
            const int64_t to = std::min(rows_.blocks(), (t + 1) * part.blocks) * kLanes;
            rows_.kernels_->mark_nearer((const uint8_t*)now_ + from, next + from, to - from, (uint8_t)n_added_,
                                        label_ + from);
        });
    }

    bool measure(const char* candidates, int m, bool keep) {
        std::shared_ptr<Buffer> hold;
        View view;
        if (!rows_.open(view, hold, true)) return false;
        const int64_t blocks = rows_.blocks();
        trial_.assign((size_t)(m * n_super_), 0);
        void* next[kMaxCandidates] = {};
        if (keep) {
            if ((int)next_.size() < m) next_.resize((size_t)m, nullptr);
            const int missing = (int)std::count(next_.begin(), next_.begin() + m, nullptr);
            if (missing) take_space(std::max(missing, expected_));
            for (int c = 0; c < m; ++c) {
                if (!next_[c]) next_[c] = unused_.back(), unused_.pop_back();
                next[c] = next_[c];
            }
        }
        SeedJob job{candidates, m, weights_.data(), plain_, width_, now_, keep ? next : nullptr,
                    trial_.data(), n_super_};
        const auto part = rows_.cut((double)(view.p * (m + 2)) * 0.5, kSuperRows);
        std::vector<Buffer> scratch = rows_.scratches(part.threads);
        return run_free(part.threads, part.tasks, [&](int64_t t, int slot) {
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
    std::vector<Buffer> spaces_;  // of all that follow
    char* now_ = nullptr;
    uint8_t* label_ = nullptr;
    int64_t n_added_ = 0;
    std::vector<char*> next_, unused_;
    int expected_ = 1;  // distances that are taken space for at once
    std::vector<char> tried_;  // candidates whose distances are in next_
};

}  // namespace coassoc

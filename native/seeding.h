#pragma once

#include <algorithm>
#include <cstring>

#include "draws.h"
#include "rows.h"

namespace coassoc {

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
        if (found.shape(0) != targets.shape(0)) throw std::invalid_argument("found must have one entry per target");
        locate_all(targets.data(), (int64_t)targets.shape(0), found.data());
    }

    void locate_all(const int64_t* targets, int64_t m, int64_t* found) const {
        for (int64_t i = 0; i < m; ++i) {
            int64_t left = targets[i], s = 0;
            if (left < 0 || left >= total_) throw std::invalid_argument("targets must lie below the total");
            while (left >= sums_[s]) left -= sums_[s++];
            const int64_t row = s * kSuperRows;
            switch (now_.data() ? width_ : 0) {
                case 0: found[i] = row + find<uint8_t>(nullptr, row, left); break;
                case 1: found[i] = row + find((const uint8_t*)now_.data() + row, row, left); break;
                case 2: found[i] = row + find((const uint16_t*)now_.data() + row, row, left); break;
                case 4: found[i] = row + find((const uint32_t*)now_.data() + row, row, left); break;
                default: found[i] = row + find((const uint64_t*)now_.data() + row, row, left);
            }
        }
    }

    void potentials(AnyMatrix candidates, Vector<int64_t> totals) {
        check(candidates);
        if (totals.shape(0) != candidates.shape(0))
            throw std::invalid_argument("totals must have one entry per candidate");
        measure_all((const char*)candidates.data(), (int64_t)candidates.shape(0), totals.data());
    }

    // Greedy k-means++ in one call: `rows` (k, p) is filled, with the best of m drawn rows each after the first.
    // Returns how many rows there were before none was left to draw.
    int64_t choose_all(nb::capsule source, AnyMatrixOut rows, int64_t m) {
        if ((int64_t)rows.shape(1) != rows_.view_.p || rows.dtype().bits != rows_.view_.width * 8)
            throw std::invalid_argument("rows must have room for rows of codes of the loaded type");
        BitGenerator& random = *(BitGenerator*)source.data("BitGenerator");
        std::vector<int64_t> targets;
        for (int64_t c = 0; c < (int64_t)rows.shape(0); ++c) {
            if (total_ == 0) return c;
            targets.resize((size_t)(c ? m : 1));
            for (int64_t& target : targets) target = (int64_t)draw_below(random, (uint64_t)total_);
            choose_row(targets.data(), (int64_t)targets.size(), (char*)rows.data() + c * row_bytes());
        }
        return (int64_t)rows.shape(0);
    }

    // Locates, measures, adds the first of the best and gives its codes: a round of k-means++ in one call.
    void choose(Vector<const int64_t> targets, AnyRow row) {
        if ((int64_t)row.shape(0) != rows_.view_.p || row.dtype().bits != rows_.view_.width * 8)
            throw std::invalid_argument("row must have room for a row of codes of the loaded type");
        choose_row(targets.data(), (int64_t)targets.shape(0), (char*)row.data());
    }

    void add(AnyMatrix row) {
        check(row);
        add_row((const char*)row.data());
    }

  private:
    void choose_row(const int64_t* targets, int64_t m, char* row) {
        const int64_t bytes = row_bytes();
        std::vector<int64_t> found((size_t)m), totals((size_t)m);
        locate_all(targets, m, found.data());
        std::vector<char> candidates((size_t)(m * bytes));
        for (int64_t i = 0; i < m; ++i) {
            const int64_t at = rows_.view_.ids ? (int64_t)rows_.view_.ids[found[i]] : found[i];
            std::memcpy(candidates.data() + i * bytes, (const char*)rows_.view_.codes + at * bytes, (size_t)bytes);
        }
        int64_t best = 0;
        if (m > 1) {
            measure_all(candidates.data(), m, totals.data());
            best = std::min_element(totals.begin(), totals.end()) - totals.begin();
        }
        std::memcpy(row, candidates.data() + best * bytes, (size_t)bytes);
        add_row(candidates.data() + best * bytes);
    }

    void measure_all(const char* candidates, int64_t m, int64_t* totals) {
        const bool keep = m <= kMaxCandidates && m * width_ <= 8;
        tried_.clear();
        for (int64_t from = 0; from < m; from += kMaxCandidates) {
            const int count = (int)std::min<int64_t>(kMaxCandidates, m - from);
            measure(candidates + from * row_bytes(), count, keep);
            for (int c = 0; c < count; ++c) totals[from + c] = sum_of(c);
        }
        if (keep) tried_.assign(candidates, candidates + m * row_bytes());
    }

    void add_row(const char* row) {
        int64_t at = 0;
        const int64_t bytes = row_bytes(), n_tried = (int64_t)tried_.size() / bytes;
        while (at < n_tried && std::memcmp(tried_.data() + at * bytes, row, (size_t)bytes)) ++at;
        if (at == n_tried) {
            measure(row, 1, true);
            at = 0;
        }
        std::swap(now_, next_[(size_t)at]);
        std::copy(trial_.begin() + at * n_super_, trial_.begin() + (at + 1) * n_super_, sums_.begin());
        total_ = sum_of((int)at);
        tried_.clear();
    }

    int64_t row_bytes() const { return rows_.view_.p * rows_.view_.width; }

    void check(const AnyMatrix& codes) const {
        if ((int64_t)codes.shape(1) != rows_.view_.p || codes.dtype().bits != rows_.view_.width * 8)
            throw std::invalid_argument("candidates must be rows of codes of the loaded type");
    }

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

}  // namespace coassoc

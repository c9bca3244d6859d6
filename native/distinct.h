// Equal rows: which they are, and where they stood.
#pragma once

#include <cstring>
#include <memory>

#include "rows.h"

namespace coassoc {

// The different rows among `codes` in the order in which they first appear: (index of each, how many are equal to it,
// for each row the number of its like). None when there are more than `limit`, or when that is likely by some rows.
nb::object distinct_rows(AnyMatrix codes, int64_t limit, int n_threads);

// out[i] = labels[places[i]]
void spread(Vector<const int32_t> labels, Vector<const uint32_t> places, Vector<int32_t> out, int n_threads);

// The places of rows that are divided in two, in their order: row u becomes number[u] of the first part or, with the
// highest bit set, of the second.
void split_places(Vector<const uint32_t> places, Vector<const uint32_t> number, Vector<uint32_t> first,
                  Vector<uint32_t> second, int n_threads);

// Where rows that stand for several once stood: so that a draw among all of them finds the row it would have found.
class Occurrences {
  public:
    // row: for each place, the number of the row that stood there, one of n_rows with so many copies (null: one each).
    static std::unique_ptr<Occurrences> of(Vector<const uint32_t> row, const int64_t* copies, int64_t n_rows,
                                           int n_threads);

    // The row at each target, in the running sum over all places of what `now` holds for their rows (1 when null).
    template <class A>
    void locate(const A* now, const int64_t* targets, int64_t m, int64_t* found) const {
        if (!now) {
            for (int64_t i = 0; i < m; ++i) found[i] = (int64_t)row_[targets[i]];
            return;
        }
        std::vector<int64_t> sums((size_t)groups_);
        for (int64_t g = 0; g < groups_; ++g) {
            const uint32_t* count = counts_.data() + g * n_rows_;
            for (int64_t u = 0; u < n_rows_; ++u) sums[(size_t)g] += (int64_t)count[u] * (int64_t)now[u];
        }
        for (int64_t i = 0; i < m; ++i) {
            int64_t left = targets[i], g = 0;
            while (left >= sums[(size_t)g]) left -= sums[(size_t)g++];
            const uint32_t* at = row_ + g * step_;
            for (int64_t end = std::min(step_, n_ - g * step_); end >= kStride; end -= kStride, at += kStride) {
                int64_t sum = 0;
                for (int j = 0; j < kStride; ++j) sum += (int64_t)now[at[j]];
                if (left < sum) break;
                left -= sum;
            }
            while (left >= (int64_t)now[*at]) left -= (int64_t)now[*at++];
            found[i] = (int64_t)*at;
        }
    }

  private:
    static constexpr int kStride = 16;

    nb::object keep_;
    const uint32_t* row_;
    int64_t n_, n_rows_, groups_, step_;  // places are counted in groups of `step_`
    std::vector<uint32_t> counts_;        // (groups, n_rows): how often each row stands in each
};

}  // namespace coassoc

// Equal rows: finding them, and drawing among all rows when only the different ones are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace coassoc {

// The different rows in the order in which they first appear.
struct Distinct {
    std::vector<int64_t> first, counts;  // index of the first of each, and how many are equal to it
};

// Numbers the different rows among `n` rows of `bytes` bytes; number[i] is that of row i. False, with the results
// unfinished, when there are more than `limit`, or when a sample of the rows makes that likely.
bool find_distinct(const char* codes, int64_t n, int64_t bytes, int64_t limit, int n_threads, Distinct& out,
                   uint32_t* number);

// out[i] = labels[number[i]] for n rows; numbers are below n_distinct.
void spread_labels(const int32_t* labels, int64_t n_distinct, const uint32_t* number, int64_t n, int32_t* out,
                   int n_threads);

// For each original row, in its order, the number of the different row that stands for it. A draw among the original
// rows then finds the row it would have found among them.
class DuplicateMap {
  public:
    // number: (n,), kept by the caller; copies: how many original rows each of n_distinct stands for, null: one.
    DuplicateMap(const uint32_t* number, int64_t n, const int64_t* copies, int64_t n_distinct, int n_threads);

    // The different row at each target in the running sum, over all original rows, of `now` (null: 1).
    template <class A>
    void locate(const A* now, const int64_t* targets, int64_t m, int64_t* found) const {
        if (!now) {
            for (int64_t i = 0; i < m; ++i) found[i] = (int64_t)number_[targets[i]];
            return;
        }
        std::vector<int64_t> sums((size_t)n_groups_, 0);
        for (int64_t g = 0; g < n_groups_; ++g) {
            const uint32_t* count = counts_.data() + g * n_distinct_;
            for (int64_t u = 0; u < n_distinct_; ++u) sums[(size_t)g] += (int64_t)count[u] * (int64_t)now[u];
        }
        for (int64_t i = 0; i < m; ++i) {
            int64_t left = targets[i], g = 0;
            while (left >= sums[(size_t)g]) left -= sums[(size_t)g++];
            const uint32_t* at = number_ + g * group_rows_;
            while (left >= (int64_t)now[*at]) left -= (int64_t)now[*at++];
            found[i] = (int64_t)*at;
        }
    }

  private:
    const uint32_t* number_;
    int64_t n_, n_distinct_, n_groups_, group_rows_;  // original rows are counted in groups
    std::vector<uint32_t> counts_;                    // (n_groups, n_distinct): how often each occurs in each group
};

}  // namespace coassoc

// k-means++ with integer distances: the distance of every row to the nearest of the rows that were added.
#pragma once

#include <functional>

#include "rows.h"

namespace coassoc {

// Fills `targets` with m random numbers below `total`.
using Draw = std::function<void(int64_t total, int64_t m, int64_t* targets)>;

class Seeding {
  public:
    Seeding(const Seeding&) = delete;
    Seeding(Rows& rows, const int64_t* weights);  // one weight per partition

    const Rows& rows() const { return rows_; }
    int64_t total() const { return total_; }

    // Whether the distances say which of the added rows a row scores best with: every partition counts the same for
    // every row.
    bool ranks() const { return plain_ && width_ == 1; }

    // From now on `labels` (a byte per row of every block) holds the first of the nearest rows that were added.
    void follow(uint8_t* labels);

    // Rows where the running sum of copies * distance first exceeds each target.
    void locate(const int64_t* targets, int64_t m, int64_t* found) const;
    // What the total would be with each of m rows of codes. The distances are kept for `add`.
    void potentials(const char* candidates, int64_t m, int64_t* totals);
    void add(const char* row);
    // Greedy k-means++: fills `chosen` (k, p), with the best of m drawn rows each after the first; how many rows there
    // were before none was left to draw.
    int64_t choose_all(const Draw& draw, int64_t k, int64_t m, char* chosen);

  private:
    int64_t row_bytes() const { return rows_.view_.p * rows_.view_.width; }
    int64_t sum_of(int64_t c) const;
    void measure(const char* candidates, int m, bool keep);

    Rows& rows_;
    std::vector<uint64_t> weights_;
    bool plain_ = true;  // unit weights, no missing label
    int width_;          // bytes of a distance
    int64_t n_super_, total_ = 0, n_added_ = 0;
    std::vector<int64_t> sums_, trial_;  // of kSuperRows rows each: now, and after each candidate
    Buffer now_;                         // distances
    std::vector<Buffer> next_;           // distances after each candidate
    std::vector<char> tried_;            // candidates whose distances are in next_
    uint8_t* labels_ = nullptr;
};

}  // namespace coassoc

// Linkage over a condensed triangle of similarities, and the co-occurrence counts that fill it.
#pragma once

#include <cstdint>
#include <vector>

namespace coassoc {

// Twin of the class in coassoc/consensus/linkage.py: the same merges, similarities and number of ties.
// Assumes: `triangle` holds the n(n-1)/2 similarities (sums over pairs for average linkage) in SciPy's condensed
// order and may be overwritten; `weights` are positive; no value is NaN.
class Agglomeration {
  public:
    enum Kind { kSingle = 0, kAverage = 1, kComplete = 2 };

    Agglomeration(double* triangle, const double* weights, int64_t n, Kind kind);

    // Merges until all is one cluster.
    void run();

    std::vector<int64_t> first, second;
    std::vector<double> similarity;
    int64_t n_ties = 0;

  private:
    int64_t start(int64_t i) const { return i * n_ - i * (i + 1) / 2 - i - 1; }
    double value(double sum, int64_t i, int64_t j) const {
        return kind_ == kAverage ? sum / (weights_[i] * weights_[j]) : sum;
    }
    int64_t position_after(int64_t i) const;
    void find_nearest(int64_t i);
    int64_t top();
    bool tied(int64_t a);
    void merge(int64_t a, int64_t b);

    double* triangle_;
    int64_t n_;
    Kind kind_;
    std::vector<double> weights_, best_;
    std::vector<int64_t> alive_, nearest_;
    std::vector<char> stale_;
};

// Fills `triangle` with the number of columns in which two of n rows of codes agree; `columns` is the (n, p) table
// transposed, with codes of 1, 2 or 4 bytes.
void co_occurrences(const void* columns, int width, int64_t n, int64_t p, double* triangle);

}  // namespace coassoc

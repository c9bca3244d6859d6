#include "kmeans.h"

#include <cmath>

namespace coassoc {
namespace {

// The sum of finite numbers, exactly rounded, so that their order does not matter: math.fsum of Python.
double exact_sum(const std::vector<double>& values) {
    std::vector<double> parts;  // partial sums that do not overlap, smallest first (Shewchuk, 1997)
    for (double x : values) {
        size_t kept = 0;
        for (double y : parts) {
            if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
            const double high = x + y, low = y - (high - x);
            if (low != 0.0) parts[kept++] = low;
            x = high;
        }
        parts.resize(kept);
        parts.push_back(x);
    }
    if (parts.empty()) return 0.0;
    double sum = parts.back(), low = 0.0;
    size_t at = parts.size() - 1;
    while (at > 0 && low == 0.0) {
        const double x = sum, y = parts[--at];
        sum = x + y;
        low = y - (sum - x);
    }
    // half way between two numbers: the parts below decide
    if (at > 0 && ((low < 0.0 && parts[at - 1] < 0.0) || (low > 0.0 && parts[at - 1] > 0.0))) {
        const double twice = 2.0 * low, beyond = sum + twice;
        if (twice == beyond - sum) sum = beyond;
    }
    return sum;
}

// The largest power of two by which scores with these largest magnitudes can be multiplied without overflow of a sum.
int bits_for(const std::vector<double>& largest) {
    const double total = exact_sum(largest), p = (double)largest.size();
    if (!(total > 0)) return 0;
    int bits = 31 - std::ilogb(total);
    while (std::ldexp(total, bits) + p >= 2147483648.0) --bits;
    while (std::ldexp(total, bits + 1) + p < 2147483648.0) ++bits;
    return bits;
}

class Passes {
  public:
    Passes(KMeansStart& start, const double* weights)
        : start_(start), rows_(*start.rows), labelling_(*start.labelling), shape_(rows_.shape_), k_(labelling_.k_),
          weights_(weights), cells_((size_t)(shape_.p * k_)), squares_(cells_.size()) {}

    // From centers that are rows of codes. `placed`: the labels of the first pass are stored at the start of the
    // labelling's bounds, a byte per row.
    void run(const char* seeds, bool placed, int64_t max_iter) {
        const Rows::Opened opened = rows_.open(rows_.can_permute());
        const View& view = opened.view;
        std::vector<int64_t> alpha((size_t)(shape_.padded() * k_), 0);
        for (int64_t c = 0; c < k_; ++c)
            for (int64_t j = 0; j < shape_.p; ++j)
                ++alpha[(size_t)((shape_.first[j] + code_at(seeds, c * shape_.p + j)) * k_ + c)];
        int bits = make_table(alpha.data());
        std::vector<double>& losses = start_.losses;
        while ((int64_t)losses.size() < max_iter) {
            const bool first = losses.empty();
            const int64_t moved = placed && first ? take_labels(bits) : rows_.assign_next(view, labelling_, bits);
            rows_.count(view, labelling_);
            if (moved == 0 && !first) {
                start_.stop = kFixedPoint;
                return;
            }
            bits = make_table(labelling_.alpha_.data());  // also the sums that the loss needs
            const double value = loss();
            if (!first && !(value < losses.back())) {
                start_.stop = undo(view) ? kNoGain : kFixedPoint;
                return;
            }
            losses.push_back(value);
            const std::vector<int64_t> sizes = cluster_sizes(shape_, labelling_.alpha_.data(), k_);
            if ((int64_t)losses.size() < max_iter && std::count(sizes.begin(), sizes.end(), 0)) {
                start_.stop = kUnfinished;
                return;
            }
        }
    }

  private:
    int64_t code_at(const char* codes, int64_t at) const {
        int64_t code = 0;
        with_codes(rows_.view_.width, [&](auto type) { code = ((const decltype(type)*)codes)[at]; });
        return code;
    }

    // Sets labelling.next_ to the fixed-point table of these counts (padded d + p, k), and their sums; its bits.
    int make_table(const int64_t* alpha) {
        const Kernels& kernels = *rows_.kernels_;
        labelling_.next_.resize((size_t)(shape_.d * k_));
        for (int64_t j = 0; j < shape_.p; ++j)
            kernels.sum_rows(alpha + shape_.first[j] * k_, shape_.n_clusters[j], k_, &cells_[(size_t)(j * k_)],
                             &squares_[(size_t)(j * k_)]);
        std::vector<double> size((size_t)k_), penalty(size.size()), column(size.size()), largest((size_t)shape_.p);
        // tables seldom change their bits: those of the last one are tried first
        for (int bits = labelling_.bits_, found;; bits = found) {
            for (int64_t j = 0; j < shape_.p; ++j) {
                for (int64_t c = 0; c < k_; ++c) {
                    size[c] = (double)std::max<int64_t>(cells_[(size_t)(j * k_ + c)], 1);
                    penalty[c] = (double)squares_[(size_t)(j * k_ + c)] / size[c] / size[c];
                }
                kernels.score_rows(alpha + shape_.first[j] * k_, shape_.n_clusters[j], k_,
                                   {size.data(), penalty.data(), weights_[j]}, std::ldexp(1.0, bits), column.data(),
                                   labelling_.next_.data() + (shape_.first[j] - j) * k_);
                largest[(size_t)j] = *std::max_element(column.begin(), column.end());
            }
            found = bits_for(largest);
            if (found == bits) return bits;
        }
    }

    double loss() const {
        std::vector<double> terms;
        terms.reserve(2 * cells_.size());
        for (size_t i = 0; i < cells_.size(); ++i) {
            const double weight = weights_[i / (size_t)k_];
            terms.push_back(weight * (double)cells_[i]);
            terms.push_back(weight * -((double)squares_[i] / (double)std::max<int64_t>(cells_[i], 1)));
        }
        return exact_sum(terms);
    }

    // The first pass, whose labels seeding has found already.
    int64_t take_labels(int bits) {
        const uint8_t* labels = (const uint8_t*)labelling_.bounds_.data();
        labelling_.relabelled();
        rows_.for_blocks(rows_.chunks(10.0), [&](int64_t b0, int64_t b1, int) {
            const int64_t from = b0 * kLanes, to = std::min(rows_.view_.n, b1 * kLanes);
            std::copy(labels + from, labels + to, labelling_.labels_ + from);
        });
        labelling_.evaluated_ = rows_.view_.n;
        labelling_.redone_ = labelling_.moved_ = 0;
        labelling_.passed(bits);
        return rows_.view_.n;
    }

    // Undoes the latest pass, which did not lower the loss; false, with nothing done, if it changed no count.
    bool undo(const View& view) {
        const std::vector<int64_t> after = labelling_.alpha_;
        const std::vector<int32_t> table = labelling_.table_;
        const int bits = labelling_.bits_;
        labelling_.next_ = labelling_.earlier_;
        rows_.assign_next(view, labelling_, labelling_.earlier_bits_);
        rows_.count(view, labelling_);
        for (int64_t j = 0; j < shape_.p; ++j) {  // missing labels are no counts
            const int64_t from = shape_.first[j] * k_, to = from + shape_.n_clusters[j] * k_;
            if (!std::equal(after.begin() + from, after.begin() + to, labelling_.alpha_.begin() + from)) return true;
        }
        labelling_.next_ = table;
        rows_.assign_next(view, labelling_, bits);
        return false;
    }

    KMeansStart& start_;
    Rows& rows_;
    Labelling& labelling_;
    const Shape& shape_;
    const int64_t k_;
    const double* weights_;
    std::vector<int64_t> cells_, squares_;  // (p, k) sums of counts and of their squares
};

void run_start(KMeansStart& start, const int64_t* seeding_weights, const double* weights, int64_t n_candidates,
               int64_t max_iter) {
    Rows& rows = *start.rows;
    Labelling& labelling = *start.labelling;
    const int64_t k = labelling.k_, p = rows.shape_.p;
    std::vector<char> seeds((size_t)(k * p * rows.view_.width));
    bool placed;
    {
        Seeding seeding(rows, seeding_weights);  // its memory is freed before the passes need theirs
        const bool even = std::all_of(weights, weights + p, [&](double weight) { return weight == weights[0]; });
        // with equal weights the seeding distances give the labels of the first pass
        placed = seeding.ranks() && even && weights[0] > 0 && k <= 256;
        if (placed) {
            labelling.bounded_ = false;
            labelling.bounds_.reserve(rows.n_blocks() * kLanes * 2);
            seeding.follow((uint8_t*)labelling.bounds_.data());
        }
        start.n_seeds = seeding.choose_all(start.draw, k, n_candidates, seeds.data());
    }
    if (start.n_seeds < k) return;
    Passes(start, weights).run(seeds.data(), placed, max_iter);
    labelling.release();
}

}  // namespace

void run_starts(std::vector<KMeansStart>& starts, const int64_t* seeding_weights, const double* weights,
                int64_t n_candidates, int64_t max_iter) {
    // the largest come first: their passes take in the threads that run out of others
    std::vector<KMeansStart*> order;
    int threads = 1;
    for (KMeansStart& start : starts) {
        order.push_back(&start);
        threads = std::max(threads, start.rows->n_threads_);
    }
    std::stable_sort(order.begin(), order.end(), [](const KMeansStart* a, const KMeansStart* b) {
        return a->rows->view_.n > b->rows->view_.n;
    });
    run_tasks(threads, (int64_t)order.size(), [&](int64_t t, int) {
        run_start(*order[(size_t)t], seeding_weights, weights, n_candidates, max_iter);
    });
}

}  // namespace coassoc

// Rows and labellings: they own the memory of a fit and map the kernels over chunks of rows and threads. What each
// verb means is written in coassoc/engines/contract.py.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "duplicates.h"
#include "kernels.h"
#include "pool.h"
#include "tables.h"

namespace coassoc {

// Labels of the rows, with bounds that let later passes skip rows, and the counts of the labels.
class Labelling {
  public:
    Labelling(int32_t* labels, int64_t n, int32_t k, bool labelled)
        : labels_(labels), n_(n), k_(k), labelled_(labelled) {}

    // Frees what only speeds up further passes.
    void release() {
        bounded_ = false;
        std::vector<int32_t>().swap(earlier_);
        std::vector<int32_t>().swap(next_);
        bounds_ = Buffer();
        wide_ = Buffer();
        narrow_ = Buffer();
    }

    // The labels were changed from outside.
    void relabelled() { counted_ = bounded_ = false; }

    // The next table is now that of the labels.
    void passed(int bits) {
        earlier_.swap(table_);
        table_.swap(next_);
        earlier_bits_ = bits_;
        bits_ = bits;
        labelled_ = true;
    }

    int32_t* labels_;  // not owned
    int64_t n_;
    int32_t k_;
    bool labelled_;               // whether every row has a label
    bool counted_ = false;        // whether alpha_ holds the counts of the labels
    bool bounded_ = false;        // whether bounds_ hold for the table `table_`
    std::vector<int64_t> alpha_;  // padded (d + p, k)
    Buffer bounds_;
    std::vector<int32_t> table_, earlier_, next_;  // (d, k) the labels' table, the one before it, the one to come
    int bits_ = 0, earlier_bits_ = 0;
    int unit_ = 0;  // bounds are in units of 2**unit_, in scores
    Buffer wide_, narrow_;
    int64_t evaluated_ = 0, redone_ = 0, moved_ = 0;  // rows of the last pass; those that moved where they were counted
};

class Rows {
  public:
    // view.n_clusters and view.first are set here.
    Rows(const View& view, Shape shape, const Kernels* kernels, int n_threads, int64_t chunk_rows, bool blocked_copy);

    int64_t n_blocks() const { return (view_.n + kLanes - 1) / kLanes; }
    const void* codes_of(int64_t row) const {
        const int64_t at = view_.ids ? (int64_t)view_.ids[row] : row;
        return (const char*)view_.codes + at * view_.p * view_.width;
    }

    // Blocks of one task, tasks, and how many threads are worth waking for so many basic steps per row.
    struct Chunks {
        int64_t blocks, tasks;
        int threads;
    };
    Chunks chunks(double steps_per_row, int64_t unit = kLanes) const;

    // Calls body(first block, end block, slot) for every chunk.
    template <class Body>
    void for_blocks(const Chunks& chunks, Body&& body) const {
        // codes without a copy may be in a file: every other sweep begins with the pages that the last one read
        const bool backwards = !blocked_copy_ && (backwards_ = !backwards_);
        run_tasks(chunks.threads, chunks.tasks, [&](int64_t at, int slot) {
            const int64_t t = backwards ? chunks.tasks - 1 - at : at;
            body(t * chunks.blocks, std::min(n_blocks(), (t + 1) * chunks.blocks), slot);
        });
    }

    // The view with its column-wise copy, and what keeps the copy alive.
    struct Opened {
        View view;
        std::shared_ptr<Buffer> hold;
    };
    Opened open(bool build);  // builds the copy, if copies are allowed
    void free_blocked();
    bool has_blocked() const { return (bool)blocked_; }
    bool can_permute() const { return kernels_->narrow_rows && plan_.possible; }

    // Labels by the table (d, k); how many rows changed.
    int64_t assign(Labelling& labelling, const int32_t* table, int bits);
    int64_t assign_next(const View& rows, Labelling& labelling, int bits);  // by labelling.next_
    void count(const View& rows, Labelling& labelling);  // unless its counts are known
    void count_smaller(const View& rows, Labelling& labelling);
    // Sums of the cost (d, k) over the labels of rows [start, stop), each under its own cluster.
    void own_scores(const Labelling& labelling, const int32_t* cost, int64_t start, int64_t stop, int64_t* scores);
    // Rows of each cluster in their present order: positions, or their ids in the codes.
    std::vector<std::vector<uint32_t>> split(const Labelling& labelling, bool ids) const;
    // For each of m pairs of rows, the partitions in which both have one label, and those that label both.
    void pair_counts(const int64_t* pairs, int64_t m, int32_t* together, int32_t* observed) const;
    // With padded (d + p,) units of base clusters, a row counts copies * min(2**bits / (sum of its labels' units),
    // most); with null, it counts its copies.
    void overlap(const int64_t* units, int bits, int64_t most, int64_t* total);

    std::vector<Buffer> scratches(int threads) const {
        std::vector<Buffer> out;
        for (int i = 0; i < threads; ++i) out.emplace_back(scratch_bytes(view_));
        return out;
    }

    View view_;
    Shape shape_;
    NarrowPlan plan_;
    const Kernels* kernels_;
    int n_threads_;
    int64_t chunk_rows_;
    bool blocked_copy_;
    mutable std::atomic<bool> backwards_{false};
    std::vector<int64_t> whole_;  // padded (d + p,) counts of all rows, where they are known; else empty
    std::shared_ptr<const DuplicateMap> duplicates_;  // of rows that stand for several equal ones; else null

  private:
    double steps_of_pass(const Labelling& labelling, bool bounded) const;

    std::mutex mutex_;
    std::shared_ptr<Buffer> blocked_;
};

// labels[id] = number of the part that lists the id; ids are below n.
void scatter(const std::vector<const uint32_t*>& parts, const std::vector<int64_t>& sizes, int64_t n, int32_t* labels,
             int n_threads);

}  // namespace coassoc

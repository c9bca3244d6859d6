// Whole k-means starts: k-means++ seeds, then passes until the labels or the loss stop changing. Operation for operation
// what coassoc/consensus/lloyd.py and coassoc/core/objectives.py do in NumPy, so that the numbers are the same to the last
// bit.
#pragma once

#include "seeding.h"

namespace coassoc {

// Why the passes ended. kUnfinished: a cluster is empty and must be refilled.
enum Stop { kFixedPoint, kNoGain, kMaxIter, kUnfinished };

struct KMeansStart {
    Rows* rows;
    Labelling* labelling;  // holds labels, table and counts afterwards
    Draw draw;
    int64_t n_seeds = 0;  // fewer than k: the rows do not differ enough, and no pass was made
    std::vector<double> losses;
    Stop stop = kMaxIter;
};

// Runs the starts side by side; each seed but the first is the best of n_candidates drawn rows. The weights are (p,):
// whole numbers for seeding, those of the loss for the passes.
void run_starts(std::vector<KMeansStart>& starts, const int64_t* seeding_weights, const double* weights,
                int64_t n_candidates, int64_t max_iter);

}  // namespace coassoc

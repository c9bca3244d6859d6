// Starts of k-means on several sets of rows side by side: seeds, then passes, without a word of Python in between.
#pragma once

#include "rows.h"

namespace coassoc {

// Each task is (rows, labelling, capsule of a NumPy bit generator, seeds): k-means++ fills `seeds` (k, p) with rows of
// codes, the best of m drawn each after the first, then at most `limit` passes label the rows from there. Gives for
// each (how many seeds there were, losses, Stop); too few seeds: no pass is made.
// Large tasks share the threads that small ones leave idle.
nb::list kmeans_starts(nb::list tasks, Vector<const int64_t> seeding_weights, Vector<const double> weights, int64_t m,
                       int64_t limit);

}  // namespace coassoc

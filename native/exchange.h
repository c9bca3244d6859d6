// Single-row exchange: proposals against frozen tables, and the serial application that checks them again on live
// counts. The twin of coassoc/core/moves.py: same order of operations, same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace coassoc {

// When a row may move.
struct MoveRules {
    double threshold;  // gain that a move must exceed
    int64_t least;     // copies a cluster must be left with, or begin with
};

// Frozen tables; see MoveTable. Arrays of the other kind are null.
struct FrozenTables {
    bool density;
    int32_t k;
    MoveRules rules;
    const int64_t* alpha;   // (d, k)
    const int32_t* narrow;  // the same, when no sum over partitions can exceed 31 bits; else null
    const int64_t* cells;   // (p, k)
    const int64_t* sizes;   // (k,)
    const double* values;   // (k,) density, (p,) agreement
    const int64_t* steps;   // (p,)
    double unit;
    const double* together;  // (k,)
    const double* observed;  // (k,)
    const int64_t* enter;    // (d, k)
    const int64_t* leave;
    const int64_t* enter_cells;  // (p, k)
    const int64_t* leave_cells;
    const int64_t* shared;   // (p,)
    const int64_t* entropy;  // (p,)
    const double* twice;     // (p,)
    int32_t bits;
};

// Rows that gain by moving, in their order, and their best clusters.
struct Proposals {
    std::vector<int64_t> rows;
    std::vector<int32_t> targets;
    int64_t stop;  // the first row not judged
};
Proposals propose_moves(const Kernels& kernels, const View& view, const int32_t* labels, const FrozenTables& tables,
                        int64_t start, int64_t limit, int n_threads, int64_t task_rows);

// Proposed moves with their codes, in row order.
struct ProposedMoves {
    const int32_t* sources;
    const int32_t* targets;
    const int64_t* copies;
    int64_t m;
};

// Live counts, which applied moves change. Arrays of the other objective are null.
struct LiveCounts {
    bool density;
    int32_t k;
    const double* v;
    double* values;
    int64_t *alpha, *cells, *sizes;
    int64_t* squares;           // (p, k)
    int64_t *shared, *entropy;  // (p,)
    int32_t bits;
};

// Applies the moves that still gain; accepted[t] says which. `rows` holds the codes of the moves.
void settle(const View& rows, const ProposedMoves& moves, const MoveRules& rules, const LiveCounts& counts,
            uint8_t* accepted);

}  // namespace coassoc

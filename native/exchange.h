// Single-item exchange: proposals against frozen tables, and the serial application that checks them again.
// The twin of engines/_exchange.py; same names, same order of operations, same bits (-ffp-contract=off).
#pragma once

#include <cstdint>
#include <vector>

namespace coassoc {

// Rows of codes: row i is codes[i * p ...], `width` bytes each; codes[i, j] == n_clusters[j] marks a missing label.
struct ExchangeRows {
    const void* codes;
    const uint32_t* ids;        // null: row i is row i
    int32_t width;              // 1, 2 or 4
    int64_t p;
    const int64_t* n_clusters;  // (p,)
    const int64_t* offsets;     // (p + 1,)
    const int64_t* copies;      // (n,) by row, or null: one each
};

// Frozen tables; see MoveTable. Arrays of the other kind are null.
struct FrozenTables {
    bool density;
    int32_t k;
    const int64_t* alpha;   // (d, k)
    const int32_t* narrow;  // the same, when no sum over partitions can exceed 31 bits; else null
    const int64_t* cells;   // (p, k)
    const int64_t* sizes;   // (k,)
    const double* values;   // (k,) density, (p,) agreement
    double threshold;
    int64_t least;  // copies a cluster must be left with, or begin with
    bool vanish;    // whether a cluster may lose its last row
    const int64_t* steps;   // (p,)
    double unit;
    const double* together; // (k,)
    const double* observed; // (k,)
    const int64_t* enter;   // (d, k)
    const int64_t* leave;
    const int64_t* enter_cells;  // (p, k)
    const int64_t* leave_cells;
    const int64_t* shared;  // (p,)
    const int64_t* entropy; // (p,)
    const double* twice;    // (p,)
    int32_t bits;
};

int64_t fixed_xlogx(int64_t x, int32_t bits);

// targets[i - start] of rows [start, stop): the best other cluster, or -1
void propose_chunk(const ExchangeRows& rows, const int32_t* labels, const FrozenTables& tables, int64_t start,
                   int64_t stop, int32_t* targets);

// Proposed moves with their codes, in row order.
struct ProposedMoves {
    const int32_t* sources;
    const int32_t* targets;
    const void* codes;  // (m, p)
    const int64_t* copies;
    int64_t m;
};

// Both change the counts in place and set accepted[t]; `rows` gives the layout and the width of the codes.
void settle_density(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha, int64_t* cells,
                    int64_t* squares, int64_t* sizes, double* values, const double* v, int64_t least, bool vanish, double threshold,
                    uint8_t* accepted);
void settle_agreement(const ExchangeRows& layout, const ProposedMoves& moves, int32_t k, int64_t* alpha,
                      int64_t* cells, int64_t* sizes, int64_t* shared, int64_t* entropy, double* values,
                      const double* v, int64_t least, bool vanish, double threshold, int32_t bits, uint8_t* accepted);

}  // namespace coassoc

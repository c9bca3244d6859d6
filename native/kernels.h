// The kernels: plain functions on pointers and sizes. They own no memory, know no Python and keep no state.
// One copy is compiled for each instruction set; see dispatch.h.
#pragma once

#include <cstdint>

namespace coassoc {

constexpr int kLanes = 64;         // rows in a block of the column-wise copy
constexpr int kSuperRows = 2048;   // rows under one partial sum of seeding distances; a multiple of kLanes
constexpr int kMaxCandidates = 8;  // candidate rows measured in one seeding pass
constexpr int kOneSided = 64;      // ONE_SIDED of coassoc/core/objectives.py

// Calls use(T{}) with the unsigned type of so many bytes: 1, 2 or 4.
template <class Use>
inline void with_codes(int width, Use&& use) {
    if (width == 1) use(uint8_t{});
    else if (width == 2) use(uint16_t{});
    else use(uint32_t{});
}

// Rows of codes. Row i is `codes[(ids ? ids[i] : i) * p ...]`; block b holds rows 64 b .. 64 b + 63 column by
// column, `blocked[(b * p + j) * 64 + lane]`, with copies of the last row to fill up. codes[i, j] <= n_clusters[j],
// which marks a missing label.
struct View {
    const void* codes;
    const uint32_t* ids;        // null: row i is row i
    const void* blocked;        // null: blocks are gathered when needed
    int64_t n;                  // rows
    int64_t p;                  // partitions
    int32_t width;              // bytes per code: 1, 2 or 4
    const int64_t* n_clusters;  // (p,)
    const int64_t* first;       // (p,) first row of each partition in padded tables: offsets[j] + j
    const int64_t* copies;      // (n,) or null: one each
};

// The int32 score table, in tiles of columns: tile t holds all its columns of every padded row.
// Columns past k score no more than any real column.
struct WideTable {
    const int32_t* values;
    int64_t rows;      // padded rows: d + p
    int32_t k;
    int32_t n_tiles;   // tiles of 64 columns; the last one is narrower
    int32_t last;      // columns of the last tile: 8, 16, 24, 32 or 64
};

// 7-bit table for byte permutes: for each cluster, `stride` bytes with the parts of the partitions one after another,
// n64 of 64 bytes, then n128 of 128 and n256 of 256; the partition of the q-th part starts at byte column[q] of a
// block. A sum of levels times the step differs from the int32 score, up to a constant of the row, by a bounded error.
struct NarrowTable {
    const uint8_t* values;  // null: not in use
    int64_t stride;
    const int64_t* column;
    int32_t n64, n128, n256;  // how many partitions have each part size
    uint32_t need;            // accept a row when its gap, in steps, is at least this
    uint32_t slack;           // steps to subtract from an accepted gap to get a bound
    uint32_t scale;           // bound units in one step, rounded down
};

// How scores become levels: whole steps above `base`, at most `top`.
struct NarrowStep {
    int32_t base;
    uint32_t size, top;
};

struct AssignJob {
    WideTable wide;
    NarrowTable narrow;
    int32_t* labels;        // (n,) in/out
    uint16_t* bounds;       // (n,) in/out: lower bounds of best - second score, in units of 2**shift
    const uint32_t* drop;   // (k,) units a bound can have lost, by own label; null: evaluate every row
    int32_t shift;
    int64_t* delta;         // padded (d + p, k) changes of counts, or null
};

struct AssignResult {
    int64_t moved = 0, evaluated = 0, redone = 0;
};

struct SeedJob {
    const void* candidates;   // (m, p) codes, of the view's width
    int32_t m;                // at most kMaxCandidates
    const uint64_t* weights;  // (p,)
    bool plain;               // unit weights, no missing label anywhere
    int32_t width;            // bytes of a distance: 1, 2, 4 or 8
    const void* now;          // (blocks * 64,) present distances, or null: none chosen yet
    void* const* next;        // m buffers for the distances after each candidate, or null: sums only
    int64_t* sums;            // (m, n_super) sums of copies * distance
    int64_t n_super;
};

// What the scores weight * (2 alpha / size - penalty) of one partition need of each cluster, (k,).
struct Centers {
    const double *size, *penalty;
    double weight;
};

// What the gain of entering each cluster depends on, (k,): sums over a row's labels of counts (x) and of cluster sizes
// by partition (y), and the clusters' pairs together and observed, sizes and values.
struct DensityTerms {
    const double *x, *y, *sizes, *together, *observed, *values;
    double unit;
};

struct Kernels {
    // blocks [b0, b1) of the column-wise copy
    void (*block_codes)(const View&, int64_t b0, int64_t b1, void* out);
    // labels, bounds and changed counts of blocks [b0, b1); scratch: scratch_bytes, 64-aligned
    void (*assign_chunk)(const View&, const AssignJob&, int64_t b0, int64_t b1, char* scratch, AssignResult&);
    // adds to alpha (padded d + p, k) the copies of partitions [j0, j1) in blocks [b0, b1)
    void (*count_chunk)(const View&, const int32_t* labels, int32_t k, int64_t b0, int64_t b1, int64_t j0,
                        int64_t j1, int64_t* alpha, char* scratch);
    // adds to cells (padded d + p) the copies of the rows in blocks [b0, b1) that are labelled `side`
    void (*count_side_chunk)(const View&, const int32_t* labels, int32_t side, int64_t b0, int64_t b1, int64_t* cells,
                             char* scratch);
    // scores of rows [start, stop) under their own labels; values: padded (d + p, k)
    void (*own_scores_chunk)(const View&, const int32_t* values, int32_t k, const int32_t* labels, int64_t start,
                             int64_t stop, int64_t* scores);
    // distances of blocks [b0, b1), which must start at a multiple of kSuperRows, to every candidate
    void (*distance_chunk)(const View&, const SeedJob&, int64_t b0, int64_t b1, char* scratch);
    // label = c where the distance falls from `now` to `next`
    void (*mark_nearer)(const uint8_t* now, const uint8_t* next, int64_t n, uint8_t c, uint8_t* label);
    // Tables: n rows, those of one partition, of k columns.
    // sums (k,) of counts and of their squares
    void (*sum_rows)(const int64_t* alpha, int64_t n, int64_t k, int64_t* cells, int64_t* squares);
    // scores times `scale`, rounded to even, at most 2**31 - 1 in magnitude; largest magnitude of a score by column
    void (*score_rows)(const int64_t* alpha, int64_t n, int64_t k, const Centers&, double scale, double* largest,
                       int32_t* values);
    // smallest and largest value of the table `after`; where there is one before it, also raises high and lowers low
    // (k,) to the changes (after >> after_shift) - (before >> before_shift)
    void (*compare_rows)(const int32_t* before, int before_shift, const int32_t* after, int after_shift, int64_t n,
                         int32_t k, int32_t* high, int32_t* low, int32_t* least, int32_t* most);
    // levels of rows, then of a row of zeros if `missing`: clusters `stride` bytes apart; the largest distance of a
    // level from the true height. Null where the instruction set has no byte permutes.
    uint32_t (*narrow_rows)(const int32_t* rows, int64_t n, bool missing, int32_t k, const NarrowStep&, uint8_t* out,
                            int64_t stride);
    // Exchange: see exchange_body.h.
    void (*sum_narrow)(const int32_t* alpha, const int64_t* named, int64_t m, int32_t k, int32_t* sum, double* x);
    void (*sum_exact)(const int64_t* alpha, const int64_t* named, int64_t m, int32_t k, int64_t* sum, double* x);
    // gain of entering each cluster with so many copies, for the density of a partition
    void (*density_gains)(const DensityTerms&, int32_t k, double copies, double more, double* gain);
    // adds to gain[c] what moving a single copy to c brings in one partition, for the agreement
    void (*add_agreement)(const int64_t* in, const int64_t* in_cells, int64_t shared, int64_t entropy, double twice,
                          double before, int32_t k, double* gain);
};

// bytes of scratch that any chunk function may need
inline int64_t scratch_bytes(const View& view) { return 20 * kLanes * view.p * view.width + (1 << 15); }

const Kernels* baseline_kernels();
const Kernels* avx2_kernels();    // only where COASSOC_HAS_AVX2
const Kernels* avx512_kernels();  // only where COASSOC_HAS_AVX512

}  // namespace coassoc

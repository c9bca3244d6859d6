// Counting labels by cluster, scores under own labels, and pairs of labels. Included by kernels_body.h.
#pragma once

namespace coassoc {
namespace {

constexpr int64_t kCells = 2048;  // cells of one partition that are counted in a small table first
constexpr int kColumns = 4;       // partitions counted together: a cell that comes up again need not wait for itself

// code * k + label of a whole block; kCells fits.
template <class T>
inline void cells_of(const T* codes, const uint16_t* labels, int32_t k, uint16_t* cell) {
    const uint16_t width = (uint16_t)k;
    for (int lane = 0; lane < kLanes; ++lane) cell[lane] = (uint16_t)((uint16_t)codes[lane] * width + labels[lane]);
}

// Counts of up to kColumns partitions from j on, without copies.
template <class T, int M>
void count_columns(const View& view, const int32_t* labels, int32_t k, int64_t b0, int64_t b1, int64_t j,
                   int64_t* alpha, char* scratch) {
    uint32_t* table[M + 1] = {(uint32_t*)scratch};  // one behind the other
    for (int m = 0; m < M; ++m) table[m + 1] = table[m] + (view.n_clusters[j + m] + 1) * k;
    memset(scratch, 0, (size_t)((char*)table[M] - scratch));
    alignas(64) uint16_t cell[M][kLanes], own[kLanes];
    for (int64_t b = b0; b < b1; ++b) {
        const T* codes = (const T*)view.blocked + (b * view.p + j) * kLanes;
        const int lanes = lanes_in(view, b);
        if (lanes < kLanes) memset(own, 0, sizeof own);
        for (int lane = 0; lane < lanes; ++lane) own[lane] = (uint16_t)labels[b * kLanes + lane];
        for (int m = 0; m < M; ++m) cells_of(codes + m * kLanes, own, k, cell[m]);
        for (int lane = 0; lane < lanes; ++lane)
            for (int m = 0; m < M; ++m) ++table[m][cell[m][lane]];
    }
    for (int m = 0; m < M; ++m) {
        int64_t* cells = alpha + view.first[j + m] * k;
        for (int64_t i = 0; i < table[m + 1] - table[m]; ++i) cells[i] += table[m][i];
    }
}

template <class T>
void count_chunk(const View& view, const int32_t* labels, int32_t k, int64_t b0, int64_t b1, int64_t j0,
                 int64_t j1, int64_t* alpha, char* scratch) {
    const auto small = [&](int64_t j) { return (view.n_clusters[j] + 1) * k <= kCells; };
    for (int64_t ja = j0, jb; ja < j1; ja = jb) {
        jb = view.blocked ? ja + 1 : j1;  // a gathered block is used for every column at once
        if (view.blocked && !view.copies && small(ja) && b1 - b0 < (1 << 24)) {
            while (jb < j1 && jb - ja < kColumns && small(jb)) ++jb;
            switch (jb - ja) {
                case 1: count_columns<T, 1>(view, labels, k, b0, b1, ja, alpha, scratch); break;
                case 2: count_columns<T, 2>(view, labels, k, b0, b1, ja, alpha, scratch); break;
                case 3: count_columns<T, 3>(view, labels, k, b0, b1, ja, alpha, scratch); break;
                default: count_columns<T, 4>(view, labels, k, b0, b1, ja, alpha, scratch);
            }
            continue;
        }
        for (int64_t b = b0; b < b1; ++b) {
            const T* block = block_of<T>(view, b, (T*)scratch);
            const int lanes = lanes_in(view, b);
            const int32_t* own = labels + b * kLanes;
            const int64_t* copies = view.copies ? view.copies + b * kLanes : nullptr;
            for (int64_t j = ja; j < jb; ++j) {
                int64_t* cells = alpha + view.first[j] * k;
                const T* codes = block + j * kLanes;
                if (copies)
                    for (int lane = 0; lane < lanes; ++lane)
                        cells[(int64_t)codes[lane] * k + own[lane]] += copies[lane];
                else
                    for (int lane = 0; lane < lanes; ++lane) ++cells[(int64_t)codes[lane] * k + own[lane]];
            }
        }
    }
}

// Adds to cells (padded d + p) the copies of the rows of blocks [b0, b1) that are labelled `side`.
template <class T>
void count_side(const View& view, const int32_t* labels, int32_t side, int64_t b0, int64_t b1, int64_t* cells,
                char* scratch) {
    int64_t times[kLanes];
    uint8_t lane[kLanes];
    for (int64_t b = b0; b < b1; ++b) {
        int n = 0;
        for (int i = 0; i < lanes_in(view, b); ++i) {
            lane[n] = (uint8_t)i;
            times[n] = view.copies ? view.copies[b * kLanes + i] : 1;
            n += labels[b * kLanes + i] == side;
        }
        if (!n) continue;
        const T* codes = block_of<T>(view, b, (T*)scratch);
        for (int64_t j = 0; j < view.p; ++j, codes += kLanes)
            for (int i = 0; i < n; ++i) cells[view.first[j] + (int64_t)codes[lane[i]]] += times[i];
    }
}

template <class T>
void own_scores(const View& view, const int32_t* values, int32_t k, const int32_t* labels, int64_t start,
                int64_t stop, int64_t* scores) {
    for (int64_t row = start; row < stop; ++row) {
        const T* codes = row_of<T>(view, row);
        int64_t sum = 0;
        for (int64_t j = 0; j < view.p; ++j) sum += values[(view.first[j] + (int64_t)codes[j]) * k + labels[row]];
        scores[row - start] = sum;
    }
}

}  // namespace
}  // namespace coassoc

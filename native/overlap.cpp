// HᵀH, plain and weighted: integers, so neither threads nor parts matter.
#include <algorithm>

#include "rows.h"

namespace coassoc {

namespace {

constexpr int64_t kPartRows = 65536;    // rows under one set of local counts; a multiple of kLanes
constexpr int64_t kLocalCells = 16384;  // pairs of labels that are counted in a buffer of their own, which a cache holds

// Rows in blocks, and what each counts (null: 1).
struct Part {
    const void* blocks;
    int64_t rows, p;
    const int64_t* shares;
};

// Calls add(a, c, row) with the labels of every row in partitions j and g.
template <class T, class Add>
void for_pairs(const Part& part, int64_t j, int64_t g, Add add) {
    for (int64_t start = 0; start < part.rows; start += kLanes) {
        const T* block = (const T*)part.blocks + start * part.p;
        const T *left = block + j * kLanes, *right = block + g * kLanes;
        if (part.rows - start >= kLanes)
            for (int64_t lane = 0; lane < kLanes; ++lane) add((int64_t)left[lane], (int64_t)right[lane], start + lane);
        else
            for (int64_t lane = 0; lane < part.rows - start; ++lane)
                add((int64_t)left[lane], (int64_t)right[lane], start + lane);
    }
}

// Buffers of one thread.
struct Local {
    int64_t sums[kLocalCells];
    uint16_t counts[2 * kLocalCells];  // of every other row of a part: at most 2**15
};

// Adds the pairs of labels of partitions j <= g, with kj and kg clusters, to `out` (rows `stride` apart).
template <class T>
void add_pair(const Part& part, int64_t j, int64_t g, int64_t kj, int64_t kg, Local& local, int64_t* out,
              int64_t stride) {
    const int64_t width = kg + 1, span = (kj + 1) * width;  // with the cells of missing labels
    if (span > kLocalCells) {
        for_pairs<T>(part, j, g, [&](int64_t a, int64_t c, int64_t row) {
            if (a < kj && c < kg) out[a * stride + c] += part.shares ? part.shares[row] : 1;
        });
        return;
    }
    int64_t* sums = local.sums;
    if (part.shares) {
        std::fill(sums, sums + span, 0);
        const int64_t* shares = part.shares;
        for_pairs<T>(part, j, g, [=](int64_t a, int64_t c, int64_t row) { sums[a * width + c] += shares[row]; });
    } else {  // two counters in turn: rows that follow each other are often alike, and would wait for each other
        uint16_t* counts = local.counts;
        std::fill(counts, counts + 2 * span, 0);
        for_pairs<T>(part, j, g, [=](int64_t a, int64_t c, int64_t row) { ++counts[2 * (a * width + c) + (row & 1)]; });
        for (int64_t i = 0; i < span; ++i) sums[i] = counts[2 * i] + counts[2 * i + 1];
    }
    for (int64_t a = 0; a < kj; ++a)
        for (int64_t c = 0; c < kg; ++c) out[a * stride + c] += sums[a * width + c];
}

// What each row of the part counts: copies * min(2**bits / (sum of its labels' units), most), 0 without a label.
template <class T>
void fill_shares(const Part& part, int64_t start, int64_t stop, const int64_t* units, const int64_t* first, int bits,
                 int64_t most, const int64_t* copies, int64_t* shares) {
    for (int64_t row = start; row < stop; ++row) {
        const T* codes = (const T*)part.blocks + row / kLanes * kLanes * part.p + row % kLanes;
        int64_t sum = 0;
        for (int64_t j = 0; j < part.p; ++j) sum += units[first[j] + (int64_t)codes[j * kLanes]];
        const int64_t share = sum > 0 ? std::min(((int64_t)1 << bits) / sum, most) : 0;
        shares[row] = copies ? copies[row] * share : share;
    }
}

}  // namespace

void Rows::overlap(const int64_t* units, int bits, int64_t most, int64_t* total) {
    const int64_t p = shape_.p, d = shape_.d;
    std::fill(total, total + d * d, 0);
    const Opened opened = open(true);
    const View& rows = opened.view;
    const int64_t part_rows = std::max<int64_t>(kLanes, std::min(kPartRows, ((int64_t)1 << 24) / p / kLanes * kLanes));
    Buffer gathered(rows.blocked ? 0 : part_rows * p * view_.width);
    std::vector<int64_t> shares(units ? (size_t)std::min(part_rows, view_.n) : 0);
    std::vector<Local> locals((size_t)n_threads_);
    const int width = view_.width;
    const auto add = width == 1 ? add_pair<uint8_t> : width == 2 ? add_pair<uint16_t> : add_pair<uint32_t>;
    for (int64_t start = 0; start < view_.n; start += part_rows) {
        View here = view_;
        here.n = std::min(part_rows, view_.n - start);
        const int64_t* copies = view_.copies ? view_.copies + start : nullptr;
        Part part{(const char*)rows.blocked + start * p * view_.width, here.n, p, copies};
        const int64_t n_blocks = (here.n + kLanes - 1) / kLanes, step = 64, tasks = (n_blocks + step - 1) / step;
        if (!rows.blocked) {
            if (here.ids)
                here.ids += start;
            else
                here.codes = (const char*)here.codes + start * p * view_.width;
            part.blocks = gathered.data();
            run_tasks((int)std::min<int64_t>(n_threads_, tasks), tasks, [&](int64_t t, int) {
                kernels_->block_codes(here, t * step, std::min(n_blocks, (t + 1) * step), gathered.data());
            });
        }
        if (units) {
            run_tasks((int)std::min<int64_t>(n_threads_, tasks), tasks, [&](int64_t t, int) {
                const int64_t a = t * step * kLanes, b = std::min(here.n, (t + 1) * step * kLanes);
                with_codes(view_.width, [&](auto code) {
                    fill_shares<decltype(code)>(part, a, b, units, shape_.first.data(), bits, most, copies,
                                                shares.data());
                });
            });
            part.shares = shares.data();
        }
        run_tasks((int)std::min<int64_t>(n_threads_, p), p, [&](int64_t j, int slot) {
            for (int64_t g = j; g < p; ++g) {
                int64_t* to = total + (shape_.first[j] - j) * d + shape_.first[g] - g;
                add(part, j, g, shape_.n_clusters[j], shape_.n_clusters[g], locals[(size_t)slot], to, d);
            }
        });
    }
    for (int64_t x = 0; x < d; ++x)
        for (int64_t y = 0; y < x; ++y) total[x * d + y] = total[y * d + x];
}

}  // namespace coassoc

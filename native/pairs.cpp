// Pairs of rows: in how many partitions they are together. Integers, one pair at a time, so no order matters.
#include "pairs.h"

#include <algorithm>

#include "pool.h"

namespace coassoc {
namespace {

constexpr int64_t kTaskPairs = 1 << 16;
constexpr int64_t kAhead = 16;  // pairs whose rows are fetched ahead: most of the time is waiting for memory
constexpr int64_t kRun = 255;   // partitions counted in a byte

// `absent`: the code of a missing label in each partition; `full`: 1 where no label is missing, and where `absent` may
// therefore be the code of a cluster, since a type of 256 values has none to spare for 256 clusters.
template <class T>
void count(const T* codes, int64_t p, const T* absent, const uint8_t* full, const int64_t* pairs, int64_t start,
           int64_t stop, int32_t* together, int32_t* observed) {
    for (int64_t i = start; i < stop; ++i) {
#if defined(__GNUC__)
        for (int64_t end = 2 * (i + kAhead); end < std::min(2 * (i + kAhead) + 2, 2 * stop); ++end) {
            __builtin_prefetch(codes + pairs[end] * p);
            __builtin_prefetch(codes + pairs[end] * p + p - 1);
        }
#endif
        const T *left = codes + pairs[2 * i] * p, *right = codes + pairs[2 * i + 1] * p;
        int32_t same = 0, seen = absent ? 0 : (int32_t)p;
        for (int64_t from = 0; from < p; from += kRun) {
            const int64_t to = std::min(p, from + kRun);
            uint8_t n_same = 0, n_seen = 0;
            if (absent)
                for (int64_t j = from; j < to; ++j) {
                    const uint8_t both = full[j] | (uint8_t)((left[j] != absent[j]) & (right[j] != absent[j]));
                    n_seen += both;
                    n_same += both & (uint8_t)(left[j] == right[j]);
                }
            else
                for (int64_t j = from; j < to; ++j) n_same += (uint8_t)(left[j] == right[j]);
            same += n_same, seen += n_seen;
        }
        together[i] = same, observed[i] = seen;
    }
}

template <class T>
void count_all(const void* codes, const Shape& shape, const int64_t* pairs, int64_t m, int32_t* together,
               int32_t* observed, int n_threads) {
    std::vector<T> absent;
    std::vector<uint8_t> full;
    bool complete = true;
    for (int64_t j = 0; j < shape.p; ++j) {
        absent.push_back((T)shape.n_clusters[j]);
        full.push_back(!shape.missing[j]);
        complete &= !shape.missing[j];
    }
    const int64_t tasks = (m + kTaskPairs - 1) / kTaskPairs;
    run_tasks((int)std::min<int64_t>(n_threads, tasks), tasks, [&](int64_t t, int) {
        count((const T*)codes, shape.p, complete ? nullptr : absent.data(), full.data(), pairs, t * kTaskPairs,
              std::min(m, (t + 1) * kTaskPairs), together, observed);
    });
}

}  // namespace

void pair_counts(const void* codes, int width, const Shape& shape, const int64_t* pairs, int64_t m, int32_t* together,
                 int32_t* observed, int n_threads) {
    const auto of_width = width == 1 ? count_all<uint8_t> : width == 2 ? count_all<uint16_t> : count_all<uint32_t>;
    of_width(codes, shape, pairs, m, together, observed, n_threads);
}

}  // namespace coassoc

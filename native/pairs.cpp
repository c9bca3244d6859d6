// Pairs of rows: in how many partitions they are together. Integers, one pair at a time, so no order matters.
#include <algorithm>

#include "rows.h"

namespace coassoc {
namespace {

constexpr int64_t kTaskPairs = 1 << 16;
constexpr int64_t kAhead = 16;  // pairs whose rows are fetched ahead: most of the time is waiting for memory
constexpr int64_t kRun = 255;   // partitions counted in a byte

// `absent`: the code of a missing label in each partition, null where no label at all is missing; `full`: 1 where a
// partition misses none, and its `absent` may be the code of a cluster: a byte has none to spare for 256 clusters.
template <class T>
void count_pairs(const Rows& rows, const T* absent, const uint8_t* full, const int64_t* pairs, int64_t start,
                 int64_t stop, int32_t* together, int32_t* observed) {
    const int64_t p = rows.shape_.p;
    for (int64_t i = start; i < stop; ++i) {
#if defined(__GNUC__)
        for (int64_t end = 2 * (i + kAhead); end < std::min(2 * (i + kAhead) + 2, 2 * stop); ++end) {
            const T* row = (const T*)rows.codes_of(pairs[end]);
            __builtin_prefetch(row);
            __builtin_prefetch(row + p - 1);
        }
#endif
        const T *left = (const T*)rows.codes_of(pairs[2 * i]), *right = (const T*)rows.codes_of(pairs[2 * i + 1]);
        int32_t same = 0, seen = absent ? 0 : (int32_t)p;
        for (int64_t from = 0; from < p; from += kRun) {
            const int64_t to = std::min(p, from + kRun);
            uint8_t n_same = 0, n_seen = 0;
            for (int64_t j = from; j < to && !absent; ++j) n_same += (uint8_t)(left[j] == right[j]);
            for (int64_t j = from; j < to && absent; ++j) {
                const uint8_t both = full[j] | (uint8_t)((left[j] != absent[j]) & (right[j] != absent[j]));
                n_seen += both;
                n_same += both & (uint8_t)(left[j] == right[j]);
            }
            same += n_same, seen += n_seen;
        }
        together[i] = same, observed[i] = seen;
    }
}

}  // namespace

void Rows::pair_counts(const int64_t* pairs, int64_t m, int32_t* together, int32_t* observed) const {
    std::vector<uint8_t> full;
    const bool complete = !std::count(shape_.missing.begin(), shape_.missing.end(), 1);
    for (const uint8_t missing : shape_.missing) full.push_back(!missing);
    const int64_t tasks = (m + kTaskPairs - 1) / kTaskPairs;
    with_codes(view_.width, [&](auto code) {
        std::vector<decltype(code)> absent;
        for (const int64_t n : shape_.n_clusters) absent.push_back((decltype(code))n);
        run_tasks(n_threads_, tasks, [&](int64_t t, int) {
            count_pairs(*this, complete ? nullptr : absent.data(), full.data(), pairs, t * kTaskPairs,
                        std::min(m, (t + 1) * kTaskPairs), together, observed);
        });
    });
}

}  // namespace coassoc

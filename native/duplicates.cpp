#include "duplicates.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "pool.h"

namespace coassoc {
namespace {

constexpr int64_t kStep = 1 << 17;       // rows hashed between two checks for Ctrl-C
constexpr int64_t kLeastRows = 1 << 16;  // that are worth a thread of their own
// A sample is taken in runs of rows; after so many runs, and after each four times as many, it may be given up.
constexpr int64_t kRun = 16, kFirstRuns = 32, kMostRuns = 1 << 13, kLeastSampled = 1 << 13;

template <class T>
inline uint64_t load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return (uint64_t)value;
}

// Fewer than 8 bytes as a number: two pieces that may overlap, since loads of a fixed size are fast.
inline uint64_t short_word(const char* row, int64_t bytes) {
    if (bytes >= 4) return load<uint32_t>(row) | load<uint32_t>(row + bytes - 4) << 32;
    if (bytes >= 2) return load<uint16_t>(row) | load<uint16_t>(row + bytes - 2) << 16;
    return load<uint8_t>(row);
}

// Calls use(word) for 8 bytes at a time, the last of which may overlap those before, until it returns false.
template <class Use>
inline void for_words(int64_t bytes, Use&& use) {
    int64_t at = 0;
    while (at < bytes - 8 && use(at)) at += 8;
    if (at >= bytes - 8) use(bytes - 8);
}

inline uint64_t hash_of(const char* row, int64_t bytes) {
    uint64_t hash = 0x9E3779B97F4A7C15ull;
    const auto mix = [&](uint64_t word) {
        hash = (hash ^ word) * 0xD6E8FEB86659FD93ull;
        hash ^= hash >> 32;
        return true;
    };
    if (bytes < 8) mix(short_word(row, bytes));
    else for_words(bytes, [&](int64_t at) { return mix(load<uint64_t>(row + at)); });
    mix(0);
    return hash;
}

inline bool same_row(const char* a, const char* b, int64_t bytes) {
    if (bytes < 8) return short_word(a, bytes) == short_word(b, bytes);
    bool same = true;
    for_words(bytes, [&](int64_t at) { return same = same && load<uint64_t>(a + at) == load<uint64_t>(b + at); });
    return same;
}

// A hash table of the different rows found so far, numbered in their order.
class RowTable : public Distinct {
  public:
    RowTable(const char* codes, int64_t bytes) : codes_(codes), bytes_(bytes), slots_(1024, 0) {}

    // Adds rows [start, stop); their numbers. Several hashes are computed ahead, so that their slots arrive in time.
    void add_all(int64_t start, int64_t stop, uint32_t* numbers) {
        constexpr int kAhead = 16;
        uint64_t hash[kAhead];
        for (int64_t i = start; i < stop; i += kAhead) {
            const int count = (int)std::min<int64_t>(kAhead, stop - i);
            for (int j = 0; j < count; ++j) {
                hash[j] = hash_of(codes_ + (i + j) * bytes_, bytes_);
#if defined(__GNUC__)
                __builtin_prefetch(&slots_[slot_of(hash[j])]);
#endif
            }
            for (int j = 0; j < count; ++j) *numbers++ = add(i + j, hash[j], 1);
        }
    }

    // Adds a row that occurs `times` times; its number.
    uint32_t add(int64_t row, int64_t times) { return add(row, hash_of(codes_ + row * bytes_, bytes_), times); }

  private:
    static constexpr uint64_t kTag = 0xFFFFFFFF00000000ull;

    uint32_t add(int64_t row, uint64_t hash, int64_t times) {
        for (size_t at = slot_of(hash);; at = (at + 1) & (slots_.size() - 1)) {
            const uint64_t slot = slots_[at];
            if (!slot) {
                slots_[at] = (hash & kTag) | (uint64_t)(first.size() + 1);
                first.push_back(row);
                counts.push_back(times);
                if (2 * first.size() > slots_.size()) grow();
                return (uint32_t)(first.size() - 1);
            }
            const uint32_t known = (uint32_t)(slot & ~kTag) - 1;
            if ((slot & kTag) == (hash & kTag) &&
                same_row(codes_ + row * bytes_, codes_ + first[known] * bytes_, bytes_)) {
                counts[known] += times;
                return known;
            }
        }
    }

    size_t slot_of(uint64_t hash) const { return (size_t)(hash >> 8) & (slots_.size() - 1); }

    void grow() {
        slots_.assign(2 * slots_.size(), 0);
        for (uint32_t number = 0; number < first.size(); ++number) {
            const uint64_t hash = hash_of(codes_ + first[number] * bytes_, bytes_);
            size_t at = slot_of(hash);
            while (slots_[at]) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = (hash & kTag) | (uint64_t)(number + 1);
        }
    }

    const char* codes_;
    int64_t bytes_;
    std::vector<uint64_t> slots_;  // 0, or half of a hash and a number + 1
};

// Whether there are likely more than `limit` different rows, by a sample. The number of different rows grows like a
// power of the rows seen; the power is taken from the last quarter of the sample.
bool likely_more(const char* codes, int64_t n, int64_t bytes, int64_t limit) {
    const int64_t runs = std::min(kMostRuns, std::max(kFirstRuns, n / (32 * kRun)));
    RowTable sample(codes, bytes);
    std::vector<double> found{0.0};  // different rows after each run
    uint32_t number[kRun];
    const auto estimate = [&](int64_t r) {
        const double power = (found[(size_t)r] - found[(size_t)(r * 3 / 4)]) * 4.0 / found[(size_t)r];
        return found[(size_t)r] * std::pow(std::max(1.0, (double)n / (double)(r * kRun)), power);
    };
    for (int64_t r = 0, check = kFirstRuns; r < runs; ++r) {
        const double where = (double)r * 0.6180339887498949;  // evenly over the rows, whatever their order
        const int64_t row = (int64_t)((where - std::floor(where)) * (double)(n - kRun));
        sample.add_all(row, row + kRun, number);
        found.push_back((double)sample.first.size());
        if (r + 1 == check) {
            if (estimate(r + 1) > 8.0 * (double)limit) return true;
            check *= 4;
        }
    }
    return estimate(runs) > (double)limit;
}

}  // namespace

bool find_distinct(const char* codes, int64_t n, int64_t bytes, int64_t limit, int n_threads, Distinct& out,
                   uint32_t* number) {
    if (limit < n && n >= kLeastSampled && likely_more(codes, n, bytes, limit)) return false;
    int64_t parts = std::max<int64_t>(1, std::min<int64_t>(n_threads, n / kLeastRows));
    if (parts > 1 && likely_more(codes, n, bytes, n / 4)) parts = 1;  // what each thread finds is merged by one
    const int64_t length = (n + parts - 1) / parts;
    std::vector<RowTable> tables((size_t)parts, RowTable(codes, bytes));
    std::atomic<bool> over{false};
    for (int64_t from = 0; from < length && !over; from += kStep)
        run_tasks((int)parts, parts, [&](int64_t t, int) {
            const int64_t stop = std::min({n, (t + 1) * length, t * length + from + kStep});
            tables[(size_t)t].add_all(t * length + from, stop, number + t * length + from);
            if ((int64_t)tables[(size_t)t].first.size() > limit) over = true;
        });
    for (int64_t t = 1; t < parts && !over; ++t) {  // in order, so that the first appearance of all counts
        const RowTable& more = tables[(size_t)t];
        std::vector<uint32_t> merged(more.first.size());
        for (size_t u = 0; u < merged.size(); ++u) merged[u] = tables[0].add(more.first[u], more.counts[u]);
        for (int64_t i = t * length; i < std::min(n, (t + 1) * length); ++i) number[i] = merged[number[i]];
    }
    out = std::move(tables[0]);
    return !over && (int64_t)out.first.size() <= limit;
}

void spread_labels(const int32_t* labels, int64_t n_distinct, const uint32_t* number, int64_t n, int32_t* out,
                   int n_threads) {
    std::atomic<bool> outside{false};
    run_tasks(n < kLeastRows ? 1 : n_threads, (n + kStep - 1) / kStep, [&](int64_t t, int) {
        bool past = false;
        for (int64_t i = t * kStep; i < std::min(n, (t + 1) * kStep); ++i) {
            past |= number[i] >= n_distinct;
            out[i] = number[i] < n_distinct ? labels[number[i]] : 0;
        }
        if (past) outside = true;
    });
    if (outside) throw std::invalid_argument("a row is mapped to a different row that is not there");
}

DuplicateMap::DuplicateMap(const uint32_t* number, int64_t n, const int64_t* copies, int64_t n_distinct, int n_threads)
    : number_(number), n_(n), n_distinct_(n_distinct) {
    // A round of draws adds up groups * n_distinct numbers and walks through half a group for each draw; the counts
    // take at most 2 bytes per original row.
    const double alike = (double)n / (double)std::max<int64_t>(1, n_distinct);
    const int64_t groups = (int64_t)std::max(1.0, std::min({256.0, std::sqrt(8.0 * alike), alike / 2}));
    group_rows_ = std::max<int64_t>(1, (n + groups - 1) / groups);
    n_groups_ = (n + group_rows_ - 1) / group_rows_;
    counts_.assign((size_t)(n_groups_ * n_distinct), 0);
    std::atomic<bool> wrong{false};
    run_tasks(n < kLeastRows ? 1 : n_threads, n_groups_, [&](int64_t g, int) {
        uint32_t* counts = counts_.data() + g * n_distinct;
        for (int64_t i = g * group_rows_; i < std::min(n, (g + 1) * group_rows_); ++i)
            if ((int64_t)number[i] < n_distinct) ++counts[number[i]];
            else wrong = true;
    });
    for (int64_t u = 0; u < n_distinct && !wrong; ++u) {
        int64_t times = 0;
        for (int64_t g = 0; g < n_groups_; ++g) times += counts_[(size_t)(g * n_distinct + u)];
        if (times != (copies ? copies[u] : 1)) wrong = true;
    }
    if (wrong) throw std::invalid_argument("the map must name each different row as often as it has copies");
}

}  // namespace coassoc

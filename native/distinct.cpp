#include "distinct.h"

#include <atomic>
#include <cmath>

namespace coassoc {
namespace {

constexpr int64_t kStep = 1 << 17;       // rows looked up between two looks for Ctrl-C
// rows looked at beforehand: in runs, few at first
constexpr int64_t kRun = 16, kFirstRuns = 32, kMostRuns = 1 << 13, kLeastSampled = 1 << 13;
constexpr int64_t kLeastRows = 1 << 16;  // for a thread of its own

template <class T>
inline uint64_t load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return (uint64_t)value;
}

// Fewer than 8 bytes as a number: two pieces that may overlap, since loads of a fixed size are the fast ones.
inline uint64_t short_word(const char* row, int64_t bytes) {
    if (bytes >= 4) return load<uint32_t>(row) | load<uint32_t>(row + bytes - 4) << 32;
    if (bytes >= 2) return load<uint16_t>(row) | load<uint16_t>(row + bytes - 2) << 16;
    return load<uint8_t>(row);
}

inline uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0xD6E8FEB86659FD93ull;
    return hash ^ (hash >> 32);
}

inline uint64_t hash_of(const char* row, int64_t bytes) {
    uint64_t hash = 0x9E3779B97F4A7C15ull;
    if (bytes < 8) return mixed(mixed(hash, short_word(row, bytes)), 0);
    const char* last = row + bytes - 8;
    for (; row < last; row += 8) hash = mixed(hash, load<uint64_t>(row));
    return mixed(mixed(hash, load<uint64_t>(last)), 0);
}

inline bool same_row(const char* a, const char* b, int64_t bytes) {
    if (bytes < 8) return short_word(a, bytes) == short_word(b, bytes);
    for (int64_t at = 0; at < bytes - 8; at += 8)
        if (load<uint64_t>(a + at) != load<uint64_t>(b + at)) return false;
    return load<uint64_t>(a + bytes - 8) == load<uint64_t>(b + bytes - 8);
}

inline void fetch_soon(const void* at) {
#if defined(__GNUC__)
    __builtin_prefetch(at);
#else
    (void)at;
#endif
}

// The different rows met so far, numbered as they came.
class Met {
  public:
    Met(const char* codes, int64_t bytes) : codes_(codes), bytes_(bytes), slots_(1024, 0) {}

    // The numbers of rows [start, stop).
    void look_up(int64_t start, int64_t stop, uint32_t* numbers) {
        uint64_t hash[kAhead];
        for (int64_t i = start; i < stop; i += kAhead) {
            const int count = (int)std::min<int64_t>(kAhead, stop - i);
            for (int j = 0; j < count; ++j) {
                hash[j] = hash_of(codes_ + (i + j) * bytes_, bytes_);
                fetch_soon(&slots_[place_of(hash[j])]);
            }
            for (int j = 0; j < count; ++j) *numbers++ = number(i + j, hash[j], 1);
        }
    }

    // The number of a row that counts `times` times.
    uint32_t number(int64_t row, int64_t times) { return number(row, hash_of(codes_ + row * bytes_, bytes_), times); }

    std::vector<int64_t> first, times;  // where each was met first, and how often

  private:
    static constexpr uint64_t kTag = 0xFFFFFFFF00000000ull;
    static constexpr int kAhead = 16;
    static constexpr size_t kNear = 1 << 20;  // bytes

    uint32_t number(int64_t row, uint64_t hash, int64_t times) {
        const char* codes = codes_ + row * bytes_;
        for (size_t at = place_of(hash);; at = (at + 1) & (slots_.size() - 1)) {
            const uint64_t slot = slots_[at];
            if (!slot) {
                slots_[at] = (hash & kTag) | (uint64_t)(first.size() + 1);
                first.push_back(row);
                this->times.push_back(times);
                if (near_.size() + (size_t)bytes_ <= kNear) near_.insert(near_.end(), codes, codes + bytes_);
                if (2 * first.size() > slots_.size()) grow();
                return (uint32_t)(first.size() - 1);
            }
            const uint32_t known = (uint32_t)(slot & ~kTag) - 1;
            if ((slot & kTag) == (hash & kTag) && same_row(codes, codes_of(known), bytes_)) {
                this->times[known] += times;
                return known;
            }
        }
    }

    const char* codes_of(uint32_t number) const {
        const size_t at = (size_t)number * (size_t)bytes_;
        return at < near_.size() ? near_.data() + at : codes_ + first[number] * bytes_;
    }

    size_t place_of(uint64_t hash) const { return (size_t)(hash >> 8) & (slots_.size() - 1); }

    void grow() {
        slots_.assign(2 * slots_.size(), 0);  // what was there is found again from the rows
        for (uint32_t number = 0; number < first.size(); ++number) {
            const uint64_t hash = hash_of(codes_of(number), bytes_);
            size_t at = place_of(hash);
            while (slots_[at]) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = (hash & kTag) | (uint64_t)(number + 1);
        }
    }

    const char* codes_;
    int64_t bytes_;
    std::vector<uint64_t> slots_;  // 0, or half of a hash and a number + 1
    std::vector<char> near_;       // the first of the rows side by side: most are alike, and these the most
};

// Whether there are likely more than `limit` different rows, by some here and there.
bool likely_more(const char* codes, int64_t n, int64_t bytes, int64_t limit) {
    const int64_t runs = std::min(kMostRuns, std::max(kFirstRuns, n / (32 * kRun)));
    Met some(codes, bytes);
    std::vector<double> found{0.0};  // after each run of rows
    uint32_t number[kRun];
    // numbers of different things grow like a power of how many are seen, and the power rather falls
    const auto foreseen = [&](int64_t r) {
        const double power = (found[(size_t)r] - found[(size_t)(r * 3 / 4)]) * 4.0 / found[(size_t)r];
        return found[(size_t)r] * std::pow(std::max(1.0, (double)n / (double)(r * kRun)), power);
    };
    for (int64_t r = 0, look = kFirstRuns; r < runs; ++r) {
        const double where = (double)r * 0.6180339887498949;  // spread evenly, and in no order the rows may have
        const int64_t row = (int64_t)((where - std::floor(where)) * (double)(n - kRun));
        some.look_up(row, row + kRun, number);
        found.push_back((double)some.first.size());
        if (r + 1 == look) {
            if (foreseen(r + 1) > 8.0 * (double)limit) return true;
            look *= 4;
        }
    }
    return foreseen(runs) > (double)limit;
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> as_vector(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* it) noexcept { delete (std::vector<T>*)it; });
    return {kept->data(), {kept->size()}, owner};
}

}  // namespace

nb::object distinct_rows(AnyMatrix codes, int64_t limit, int n_threads) {
    const int64_t n = (int64_t)codes.shape(0), bytes = (int64_t)codes.shape(1) * codes.dtype().bits / 8;
    const char* data = (const char*)codes.data();
    if (n >= (int64_t)UINT32_MAX) throw std::invalid_argument("equal rows are looked for among fewer than 2**32 - 1");
    int64_t parts = std::max<int64_t>(1, std::min<int64_t>(n_threads, n / kLeastRows));
    if (limit < n && n >= kLeastSampled && likely_more(data, n, bytes, limit)) return nb::none();
    if (parts > 1 && likely_more(data, n, bytes, n / 4)) parts = 1;  // what threads find is looked up again
    const int64_t length = (n + parts - 1) / parts;
    Buffer* numbers = new Buffer(n * 4);
    nb::capsule owner(numbers, [](void* it) noexcept { delete (Buffer*)it; });
    uint32_t* number = (uint32_t*)numbers->data();
    std::vector<Met> met((size_t)parts, Met(data, bytes));
    std::atomic<bool> over{false};
    released([&] {
        for (int64_t from = 0; from < length && !over; from += kStep) {  // a part of the rows for each thread
            const bool finished = run_free((int)parts, parts, [&](int64_t t, int) {
                const int64_t stop = std::min({n, (t + 1) * length, t * length + from + kStep});
                met[(size_t)t].look_up(t * length + from, stop, number + t * length + from);
                if ((int64_t)met[(size_t)t].first.size() > limit) over = true;
            });
            if (!finished) return false;
        }
        for (int64_t t = 1; t < parts && !over; ++t) {  // in order, so that the first appearance of all counts
            const Met& more = met[(size_t)t];
            std::vector<uint32_t> now(more.first.size());
            for (size_t u = 0; u < now.size(); ++u)
                now[u] = met[0].number(more.first[u], more.times[u]);
            const int64_t stop = std::min(n, (t + 1) * length);
            for (int64_t i = t * length; i < stop; ++i) number[i] = now[number[i]];
        }
        return true;
    });
    if (over || (int64_t)met[0].first.size() > limit) return nb::none();
    return nb::make_tuple(as_vector(std::move(met[0].first)), as_vector(std::move(met[0].times)),
                          nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>(number, {(size_t)n}, owner));
}

void spread(Vector<const int32_t> labels, Vector<const uint32_t> places, Vector<int32_t> out, int n_threads) {
    const int64_t n = (int64_t)places.shape(0);
    const uint32_t end = (uint32_t)labels.shape(0);
    if ((int64_t)out.shape(0) != n) throw std::invalid_argument("out must have one entry per place");
    std::atomic<bool> wrong{false};
    without_gil(n < kLeastRows ? 1 : n_threads, (n + kStep - 1) / kStep, [&](int64_t t, int) {
        const uint32_t* place = places.data();
        bool past = false;
        for (int64_t i = t * kStep, stop = std::min(n, i + kStep); i < stop; ++i) {
            past |= place[i] >= end;
            out.data()[i] = labels.data()[place[i] < end ? place[i] : 0];
        }
        if (past) wrong = true;
    });
    if (wrong) throw std::invalid_argument("a place must name one of the rows");
}

void split_places(Vector<const uint32_t> places, Vector<const uint32_t> number, Vector<uint32_t> first,
                  Vector<uint32_t> second, int n_threads) {
    const int64_t n = (int64_t)places.shape(0), tasks = (n + kStep - 1) / kStep;
    const uint32_t end = (uint32_t)number.shape(0);
    if (n && !end) throw std::invalid_argument("a place must name one of the rows");
    const int threads = n < kLeastRows ? 1 : n_threads;
    std::vector<int64_t> ups((size_t)tasks + 1, 0);  // before each task
    std::atomic<bool> wrong{false};
    without_gil(threads, tasks, [&](int64_t t, int) {
        int64_t up = 0;
        bool past = false;
        for (int64_t i = t * kStep, stop = std::min(n, i + kStep); i < stop; ++i) {
            const uint32_t row = places.data()[i];
            past |= row >= end;
            up += number.data()[row < end ? row : 0] >> 31;
        }
        ups[(size_t)t + 1] = up;
        if (past) wrong = true;
    });
    for (int64_t t = 0; t < tasks; ++t) ups[(size_t)t + 1] += ups[(size_t)t];
    if (wrong || ups.back() != (int64_t)second.shape(0) || n - ups.back() != (int64_t)first.shape(0))
        throw std::invalid_argument("the parts must have room for what the numbers give them, and no more");
    without_gil(threads, tasks, [&](int64_t t, int) {
        uint32_t *high = second.data() + ups[(size_t)t], *low = first.data() + t * kStep - ups[(size_t)t];
        for (int64_t i = t * kStep, stop = std::min(n, i + kStep); i < stop; ++i) {
            const uint32_t next = number.data()[places.data()[i]];
            const uintptr_t up = next >> 31;
            // no branch: nobody could guess which way it goes
            uint32_t* to = (uint32_t*)((uintptr_t)low ^ (((uintptr_t)low ^ (uintptr_t)high) & (0 - up)));
            *to = next & 0x7FFFFFFF;
            high += up;
            low += 1 - up;
        }
    });
}

std::unique_ptr<Occurrences> Occurrences::of(Vector<const uint32_t> row, const int64_t* copies, int64_t n_rows,
                                             int n_threads) {
    std::unique_ptr<Occurrences> out(new Occurrences);
    out->keep_ = nb::cast(row);
    out->row_ = row.data();
    out->n_ = (int64_t)row.shape(0);
    out->n_rows_ = n_rows;
    // groups * n_rows numbers are added up for some draws, n / groups walked through for each; 2 bytes for each place
    const double alike = (double)out->n_ / (double)std::max<int64_t>(1, n_rows);
    const int64_t groups = std::max<int64_t>(1, std::min<int64_t>(256, (int64_t)std::min(std::sqrt(8.0 * alike), alike / 2)));
    out->step_ = (out->n_ + groups - 1) / std::max<int64_t>(1, groups);
    out->groups_ = out->step_ ? (out->n_ + out->step_ - 1) / out->step_ : 0;
    out->counts_.assign((size_t)(out->groups_ * n_rows), 0);
    std::atomic<bool> wrong{false};
    without_gil(out->n_ < kLeastRows ? 1 : n_threads, out->groups_, [&](int64_t g, int) {
        uint32_t* counts = out->counts_.data() + g * n_rows;
        const int64_t stop = std::min(out->n_, (g + 1) * out->step_);
        for (int64_t i = g * out->step_; i < stop; ++i)
            if ((int64_t)out->row_[i] < n_rows) ++counts[out->row_[i]];
            else wrong = true;
    });
    std::vector<int64_t> times((size_t)n_rows, 0);
    for (int64_t g = 0; g < out->groups_; ++g)
        for (int64_t u = 0; u < n_rows; ++u) times[(size_t)u] += out->counts_[(size_t)(g * n_rows + u)];
    for (int64_t u = 0; u < n_rows; ++u) wrong = wrong || times[(size_t)u] != (copies ? copies[u] : 1);
    if (wrong) throw std::invalid_argument("each copy of a row must have a place");
    return out;
}

}  // namespace coassoc

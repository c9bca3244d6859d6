#include "buffer.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace coassoc {

#if defined(__linux__)
// Larger buffers are mapped, so that what is freed goes back to the system at once, and those that can make use of it
// ask for large pages: touching a new page of 4 kB takes longer than filling it. A few freed ones are kept for the next.
constexpr int64_t kPage = int64_t(1) << 21, kMuch = kPage / 4, kMapped = int64_t(1) << 17;

namespace {

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

struct Mapping {
    void *base, *data;
    int64_t mapped, room;  // bytes of the mapping, and from `data` on
};

class Kept {
  public:
    // The smallest that fits, unless it is far too large; `base` null: none.
    Mapping take(int64_t bytes) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);  // a fork may leave it locked for ever
        if (!lock) return {};
        auto best = list_.end();
        for (auto at = list_.begin(); at != list_.end(); ++at)
            if (at->room >= bytes && (best == list_.end() || at->room < best->room)) best = at;
        if (best == list_.end() || best->room > std::max(4 * bytes, kPage)) return {};
        const Mapping found = *best;
        list_.erase(best);
        total_ -= found.room;
        return found;
    }

    bool keep(const Mapping& one) {
        const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        if (!lock || one.room > 2 * kPage || total_ + one.room > 4 * kPage) return false;
        list_.push_back(one);
        total_ += one.room;
        return true;
    }

  private:
    std::mutex mutex_;
    std::vector<Mapping> list_;
    int64_t total_ = 0;
};

Kept& kept() {
    static Kept* all = new Kept;  // never destroyed: buffers may outlive static destructors
    return *all;
}

Mapping map(int64_t bytes) {
    const int64_t rest = bytes % kPage, large = rest < kMuch ? bytes - rest : rounded_up(bytes, kPage);
    Mapping out{nullptr, nullptr, 0, large ? std::max(large, rounded_up(bytes, 4096)) : rounded_up(bytes, kMapped)};
    out.mapped = out.room + (large ? kPage : 0);
    out.base = mmap(nullptr, (size_t)out.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (out.base == MAP_FAILED) throw std::bad_alloc();
    out.data = large ? (void*)rounded_up((int64_t)(uintptr_t)out.base, kPage) : out.base;
    if (large) madvise(out.data, (size_t)large, MADV_HUGEPAGE);
    return out;
}

}  // namespace

Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
    if (bytes < kMapped) {
        data_ = std::aligned_alloc(64, (size_t)rounded_up(std::max<int64_t>(bytes, 1), 64));
        if (!data_) throw std::bad_alloc();
        return;
    }
    Mapping mine = kept().take(bytes);
    if (!mine.base) mine = map(bytes);
    base_ = mine.base, data_ = mine.data, mapped_ = mine.mapped, room_ = mine.room;
}

Buffer::~Buffer() {
    if (!base_)
        std::free(data_);
    else if (!kept().keep({base_, data_, mapped_, room_}))
        munmap(base_, (size_t)mapped_);
}
#elif defined(_MSC_VER)
Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
    data_ = _aligned_malloc((size_t)std::max<int64_t>(bytes, 1), 64);
    if (!data_) throw std::bad_alloc();
}

Buffer::~Buffer() { _aligned_free(data_); }
#else
Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
    data_ = std::aligned_alloc(64, (size_t)((std::max<int64_t>(bytes, 1) + 63) / 64 * 64));
    if (!data_) throw std::bad_alloc();
}

Buffer::~Buffer() { std::free(data_); }
#endif

void Buffer::trim(int64_t bytes) {
    if (bytes >= bytes_) return;
#if defined(__linux__)
    if (!base_) return;
    const int64_t used = rounded_up(bytes, kPage);
    if (used < room_) madvise((char*)data_ + used, (size_t)(room_ - used), MADV_DONTNEED);
    bytes_ = bytes;
#endif
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    std::swap(room_, other.room_);
    return *this;
}

}  // namespace coassoc

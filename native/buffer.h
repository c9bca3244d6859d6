// Memory on a cache-line boundary, not initialised.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace coassoc {

class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(int64_t bytes) : bytes_(bytes) {
        // Large buffers ask for large pages: touching a new page of 4 kB takes longer than filling it.
        const int64_t page = int64_t(1) << 21, unit = bytes >= 2 * page ? page : 64;
        const size_t rounded = (size_t)((bytes + unit - 1) / unit * unit + (bytes == 0 ? unit : 0));
#if defined(_MSC_VER)
        data_ = _aligned_malloc(rounded, (size_t)unit);
#else
        data_ = std::aligned_alloc((size_t)unit, rounded);
#endif
        if (!data_) throw std::bad_alloc();
#if defined(__linux__)
        if (unit == page) madvise(data_, rounded, MADV_HUGEPAGE);
#endif
    }
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Buffer() {
#if defined(_MSC_VER)
        _aligned_free(data_);
#else
        std::free(data_);
#endif
    }

    char* data() const { return (char*)data_; }
    int64_t bytes() const { return bytes_; }

    // Provides at least `bytes`; what was stored is lost when that needs new memory.
    void reserve(int64_t bytes) {
        if (bytes_ < bytes) *this = Buffer(bytes);
    }

  private:
    void* data_ = nullptr;
    int64_t bytes_ = 0;
};

}  // namespace coassoc

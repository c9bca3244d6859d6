// Memory of the kernels.
#pragma once

#include <cstdint>

namespace coassoc {

// Memory on a cache-line boundary, not initialised; large pages where the system gives them.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(int64_t bytes);
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    char* data() const { return (char*)data_; }
    int64_t bytes() const { return bytes_; }
    void trim(int64_t bytes);  // gives back what lies behind, where the system takes it

  private:
    void *data_ = nullptr, *base_ = nullptr;  // base_: of the mapping, where there is one
    int64_t bytes_ = 0, mapped_ = 0, room_ = 0;
};

}  // namespace coassoc

#pragma once
// Aligned memory for tiles, and budgets that are promises: an allocation beyond the budget throws before it is made.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/units.hpp"
#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// A hard limit on bytes, shared by all buffers made with it. Thread-safe.
class MemoryBudget {
  public:
    static constexpr std::int64_t kUnlimited = INT64_MAX;
    explicit MemoryBudget(std::int64_t limit = kUnlimited) : limit_(limit) {}
    /// Throws BudgetError (naming what, limit, and the bytes that would do) instead of going past the limit.
    void take(std::int64_t bytes, const std::string& what);
    void give(std::int64_t bytes) noexcept;
    std::int64_t limit() const { return limit_; }
    std::int64_t used() const { return used_.load(); }
    std::int64_t peak() const { return peak_.load(); }

  private:
    std::int64_t limit_;
    std::atomic<std::int64_t> used_{0}, peak_{0};
};

/// One aligned, uninitialised block; large ones are of huge pages and reused (PagePool). Movable.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::int64_t bytes, MemoryBudget* budget = nullptr, const std::string& what = "buffer");
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;
    std::byte* data() { return data_; }
    const std::byte* data() const { return data_; }
    std::int64_t bytes() const { return bytes_; }
    /// The buffer outlives its budget: give its bytes back.
    void leave_budget() noexcept;

  private:
    std::byte* data_ = nullptr;
    std::int64_t bytes_ = 0;
    MemoryBudget* budget_ = nullptr;
};

/// Writes to every page, all threads together: fresh memory costs a fault a page on first touch. Contents are lost.
void touch_pages(std::span<std::byte> memory, int threads);

}  // namespace tessera

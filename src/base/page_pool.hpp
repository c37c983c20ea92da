#pragma once
// Large blocks of memory, kept when they are freed and handed out again: fresh pages cost a fault and zeroing each, and
// contractions in a loop free and ask for the same gigabytes again and again.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace tessera {

/// Blocks in use and blocks kept are together never more than the most that was in use at once. Thread-safe.
class PagePool {
  public:
    static constexpr std::int64_t kPage = 2 << 20;  // a huge page; blocks are multiples of it
    static PagePool& instance();

    /// Uninitialised; nullptr where the machine has no more.
    std::byte* take(std::int64_t bytes);
    void give(std::byte* block, std::int64_t bytes) noexcept;
    std::int64_t kept() const;
    /// Gives back to the system what is kept.
    void release() noexcept;

  private:
    using Kept = std::map<std::byte*, std::int64_t>;  // no two of them adjacent
    std::byte* take_kept(std::int64_t bytes);
    void shrink_to(std::int64_t bytes) noexcept;

    mutable std::mutex mutex_;
    Kept kept_;
    std::int64_t kept_bytes_ = 0, used_ = 0, peak_ = 0;
};

// Under a sanitizer nothing is kept: that would hide the use of freed memory.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kKeepsPages = false;
#elif defined(__has_feature)
inline constexpr bool kKeepsPages = !__has_feature(address_sanitizer);
#else
inline constexpr bool kKeepsPages = true;
#endif

}  // namespace tessera

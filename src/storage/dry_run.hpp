#pragma once
// How much memory a piece of code would hold, counted by running it without data.

#include <array>
#include <cstdint>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// While one lives, the buffers that this thread makes are counted and hold nothing, and tensors do no arithmetic: the
/// same code says what it holds at its worst moment. What is made under one must be gone before it is. A tensor's norms
/// are those of the shape it was made with; sums are zero. Contractions, arrays and files are their callers' affair.
class DryRun {
  public:
    DryRun();
    ~DryRun();
    DryRun(const DryRun&) = delete;
    DryRun& operator=(const DryRun&) = delete;
    /// Of this thread; null where things are real.
    static DryRun* current();

    /// Who would give the memory. The pool of pages and the heap keep what is freed for those who ask next: the most
    /// that was ever in use of them counts. Large arrays are mapped, and go back at once.
    enum class From { pool, heap, mapped };
    void take(From from, std::int64_t bytes);
    void give(From from, std::int64_t bytes) noexcept;
    /// What release_memory() does: the pool keeps nothing.
    void release();

    /// Bytes at the worst moment so far.
    std::int64_t peak() const { return peak_; }

  private:
    struct Account {
        std::int64_t used = 0, high = 0;
    };
    Account& of(From from) { return accounts_[static_cast<std::size_t>(from)]; }
    std::array<Account, 3> accounts_;
    std::int64_t peak_ = 0;
    DryRun* before_;
};

/// An array of that many bytes for as long as this lives, in the dry run of this thread; nothing where there is none.
class DryArray {
  public:
    explicit DryArray(std::int64_t bytes);
    ~DryArray();
    DryArray(const DryArray&) = delete;
    DryArray& operator=(const DryArray&) = delete;

  private:
    DryRun* run_ = DryRun::current();
    std::int64_t bytes_;
    DryRun::From from_;
};

}  // namespace tessera

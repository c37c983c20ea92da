#include "storage/buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/page_pool.hpp"
#include "base/parallel.hpp"
#include "storage/dry_run.hpp"

namespace tessera {

namespace {

bool large(std::int64_t bytes) { return bytes >= PagePool::kPage; }
bool pooled(std::int64_t bytes) { return kKeepsPages && large(bytes); }

/// Aligned here, not by the C library: some heaps ask for more inside than they leave behind, so that a freed block is
/// too small for the next one of its size, and tensors made in a loop grow the heap. The block's address stands before.
std::byte* from_heap(std::int64_t bytes) {
    static_assert(kTileAlignment >= 2 * static_cast<std::int64_t>(alignof(std::max_align_t)));
    void* raw = std::malloc(static_cast<std::size_t>(bytes + kTileAlignment));
    if (!raw) return nullptr;
    constexpr auto kStep = static_cast<std::uintptr_t>(kTileAlignment);
    std::byte* data = static_cast<std::byte*>(raw) + (kStep - reinterpret_cast<std::uintptr_t>(raw) % kStep);
    std::memcpy(data - sizeof raw, &raw, sizeof raw);
    return data;
}

void to_heap(std::byte* data) noexcept {
    if (!data) return;
    void* raw = nullptr;
    std::memcpy(&raw, data - sizeof raw, sizeof raw);
    std::free(raw);
}

struct DryBytes {
    DryRun::From from;
    std::int64_t bytes;
};

/// Where the bytes of a buffer come from, and how many that are; a sanitizer changes no estimate.
DryBytes dry_bytes(std::int64_t bytes) {
    if (large(bytes)) return {DryRun::From::pool, align_up(bytes, PagePool::kPage)};
    return {DryRun::From::heap, bytes + kTileAlignment};
}

}  // namespace

void MemoryBudget::take(std::int64_t bytes, const std::string& what) {
    std::int64_t now = used_.load();
    do {
        if (bytes > limit_ - now)
            throw BudgetError(
                fmt::format("{}: {} on top of {} is more than the memory budget of {}; {} would do", what,
                            format_bytes(bytes), format_bytes(now), format_bytes(limit_), format_bytes(now + bytes)),
                limit_, now + bytes);
    } while (!used_.compare_exchange_weak(now, now + bytes));
    now += bytes;
    std::int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
}

void MemoryBudget::give(std::int64_t bytes) noexcept { used_ -= bytes; }

Buffer::Buffer(std::int64_t bytes, MemoryBudget* budget, const std::string& what) : bytes_(align_up(bytes)) {
    if (bytes_ == 0) return;
    if (budget) budget->take(bytes_, what);
    if (DryRun* const run = DryRun::current()) {
        const auto [from, all] = dry_bytes(bytes_);
        run->take(from, all);
        budget_ = budget;
        return;
    }
    data_ = pooled(bytes_) ? PagePool::instance().take(bytes_) : from_heap(bytes_);
    if (!data_) {
        if (budget) budget->give(bytes_);
        throw MachineError(fmt::format("{}: the machine has no {} left", what, format_bytes(bytes_)));
    }
    budget_ = budget;
}

void touch_pages(std::span<std::byte> memory, int threads) {
    constexpr std::size_t piece = 2 << 20;
    parallel_for(static_cast<std::int64_t>((memory.size() + piece - 1) / piece), threads, 1, [&](std::int64_t i) {
        const auto begin = static_cast<std::size_t>(i) * piece;
        for (auto at = begin; at < std::min(memory.size(), begin + piece); at += 4096) memory[at] = std::byte{0};
    });
}

Buffer::~Buffer() {
    if (!data_ && bytes_ > 0) {  // of a dry run, which ends after it
        const auto [from, all] = dry_bytes(bytes_);
        if (DryRun* const run = DryRun::current()) run->give(from, all);
    } else if (data_ && pooled(bytes_)) {
        PagePool::instance().give(data_, bytes_);
    } else {
        to_heap(data_);
    }
    if (budget_) budget_->give(bytes_);
}

void Buffer::leave_budget() noexcept {
    if (budget_) budget_->give(bytes_);
    budget_ = nullptr;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      budget_(std::exchange(other.budget_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(budget_, other.budget_);
    return *this;
}

}  // namespace tessera

#include "storage/dry_run.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMapped = 32 << 20;  // glibc maps arrays of this many bytes at the latest

thread_local DryRun* this_thread = nullptr;

}  // namespace

DryRun::DryRun() : before_(this_thread) { this_thread = this; }

DryRun::~DryRun() { this_thread = before_; }

DryRun* DryRun::current() { return this_thread; }

void DryRun::take(From from, std::int64_t bytes) {
    auto& [used, high] = of(from);
    used = checked_add(used, bytes, "dry run: bytes");
    high = std::max(high, used);
    peak_ = std::max(peak_, of(From::pool).high + of(From::heap).high + of(From::mapped).used);
}

void DryRun::give(From from, std::int64_t bytes) noexcept { of(from).used -= bytes; }

void DryRun::release() { of(From::pool).high = of(From::pool).used; }

DryArray::DryArray(std::int64_t bytes)
    : bytes_(bytes), from_(bytes >= kMapped ? DryRun::From::mapped : DryRun::From::heap) {
    if (run_) run_->take(from_, bytes_);
}

DryArray::~DryArray() {
    if (run_) run_->give(from_, bytes_);
}

}  // namespace tessera

#include "base/page_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "base/units.hpp"
#include "tessera/base/kept_vector.hpp"

namespace tessera {

namespace {

std::byte* map_fresh(std::int64_t bytes) {
    // A page more than asked for, and what is not on the grid of huge pages goes back at once.
    const auto all = static_cast<std::size_t>(bytes + PagePool::kPage);
    void* raw = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::byte*>(raw);
    const auto at = reinterpret_cast<std::uintptr_t>(begin);
    const auto page = static_cast<std::uintptr_t>(PagePool::kPage);
    const std::size_t head = (page - at % page) % page;
    std::byte* block = begin + head;
    if (head > 0) munmap(begin, head);
    const std::size_t tail = all - head - static_cast<std::size_t>(bytes);
    if (tail > 0) munmap(block + bytes, tail);
    (void)madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // a wish: without it things are only slower
    return block;
}

void unmap(std::byte* block, std::int64_t bytes) noexcept { munmap(block, static_cast<std::size_t>(bytes)); }

}  // namespace

PagePool& PagePool::instance() {
    static auto* pool = new PagePool;  // never destroyed: tensors of static storage may outlive it
    return *pool;
}

std::byte* PagePool::take_kept(std::int64_t bytes) {
    auto best = kept_.end();
    for (auto i = kept_.begin(); i != kept_.end(); ++i)
        if (i->second >= bytes && (best == kept_.end() || i->second < best->second)) best = i;
    if (best == kept_.end()) return nullptr;
    const auto [block, length] = *best;
    kept_.erase(best);
    if (length > bytes) kept_.emplace(block + bytes, length - bytes);
    kept_bytes_ -= bytes;
    return block;
}

/// The smallest go first: they are the least likely to be of use.
void PagePool::shrink_to(std::int64_t bytes) noexcept {
    while (kept_bytes_ > bytes) {
        const auto least = std::min_element(kept_.begin(), kept_.end(),
                                            [](const auto& x, const auto& y) { return x.second < y.second; });
        const auto cut = std::min(least->second, align_up(kept_bytes_ - bytes, kPage));
        unmap(least->first + (least->second - cut), cut);
        kept_bytes_ -= cut;
        least->second -= cut;
        if (least->second == 0) kept_.erase(least);
    }
}

std::byte* PagePool::take(std::int64_t bytes) {
    bytes = align_up(bytes, kPage);
    const std::lock_guard lock(mutex_);
    std::byte* block = take_kept(bytes);
    if (!block) {
        shrink_to(std::max<std::int64_t>(0, peak_ - used_ - bytes));
        block = map_fresh(bytes);
        if (!block && kept_bytes_ > 0) {
            shrink_to(0);
            block = map_fresh(bytes);
        }
        if (!block) return nullptr;
    }
    used_ += bytes;
    peak_ = std::max(peak_, used_);
    return block;
}

void PagePool::give(std::byte* block, std::int64_t bytes) noexcept {
    bytes = align_up(bytes, kPage);
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    try {
        auto at = kept_.emplace(block, bytes).first;
        kept_bytes_ += bytes;
        const auto next = std::next(at);
        if (next != kept_.end() && block + bytes == next->first) {
            at->second += next->second;
            kept_.erase(next);
        }
        if (at == kept_.begin()) return;
        const auto before = std::prev(at);
        if (before->first + before->second != block) return;
        before->second += at->second;
        kept_.erase(at);
    } catch (...) {
        unmap(block, bytes);  // no memory to remember it by
    }
}

std::int64_t PagePool::kept() const {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
}

void PagePool::release() noexcept {
    const std::lock_guard lock(mutex_);
    shrink_to(0);
    peak_ = used_;
}

std::byte* take_large_array(std::size_t bytes) {
    auto* data = kKeepsPages ? PagePool::instance().take(static_cast<std::int64_t>(bytes))
                             : static_cast<std::byte*>(::operator new(bytes));
    if (!data) throw std::bad_alloc();
    return data;
}

void give_large_array(std::byte* data, std::size_t bytes) noexcept {
    if (kKeepsPages)
        PagePool::instance().give(data, static_cast<std::int64_t>(bytes));
    else
        ::operator delete(data);
}

}  // namespace tessera

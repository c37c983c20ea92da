#pragma once
// Large arrays in memory that is kept for the next one: fresh pages take longer than what is written there.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// From this many bytes on an array comes from the pages of tiles (tessera/storage/memory.hpp), smaller ones from the
/// heap.
inline constexpr std::size_t kLargeArray = std::size_t{2} << 20;
/// Throws std::bad_alloc where the machine has no more.
std::byte* take_large_array(std::size_t bytes);
void give_large_array(std::byte* data, std::size_t bytes) noexcept;

/// What resize() adds is not set to zero.
template <class T>
struct KeptAllocator {
    using value_type = T;
    KeptAllocator() = default;
    template <class U>
    KeptAllocator(const KeptAllocator<U>&) noexcept {}

    T* allocate(std::size_t count) {
        if (count < kLargeArray / sizeof(T)) return std::allocator<T>().allocate(count);
        if (count > PTRDIFF_MAX / sizeof(T)) throw std::bad_array_new_length();
        return reinterpret_cast<T*>(take_large_array(count * sizeof(T)));
    }
    void deallocate(T* data, std::size_t count) noexcept {
        if (count < kLargeArray / sizeof(T))
            std::allocator<T>().deallocate(data, count);
        else
            give_large_array(reinterpret_cast<std::byte*>(data), count * sizeof(T));
    }
    template <class U>
    void construct(U* at) noexcept {
        ::new (static_cast<void*>(at)) U;
    }
    template <class U, class... Arguments>
    void construct(U* at, Arguments&&... arguments) {
        ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
    }
    template <class U>
    bool operator==(const KeptAllocator<U>&) const noexcept {
        return true;
    }
};
template <class T>
using KeptVector = std::vector<T, KeptAllocator<T>>;

}  // namespace tessera

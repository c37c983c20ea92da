#pragma once
// Dense arrays: those that the caller holds, as NumPy, PySCF and Fortran codes have them, and one that owns its memory.

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/index/index_vector.hpp"

namespace TESSERA_API tessera {

/// A pointer, extents and strides. Making a view reads no element. The elements are the caller's and must outlive it;
/// they count in no budget. Strides are in elements: 0 repeats an element and negative ones walk backwards, in an
/// operand; the elements of a result lie apart.
template <class T>
struct ArrayView {
    T* data = nullptr;
    IndexVector extents, strides;

    ArrayView() = default;
    ArrayView(T* first, const IndexVector& sizes, const IndexVector& steps)
        : data(first), extents(sizes), strides(steps) {}
    /// Row-major, last index fastest.
    ArrayView(T* first, const IndexVector& sizes) : ArrayView(first, sizes, row_major_strides(sizes)) {}
    /// What can be written can be read.
    operator ArrayView<const T>() const requires(!std::is_const_v<T>) { return {data, extents, strides}; }

    int rank() const { return extents.size(); }
    std::int64_t elements() const { return extents.product(); }
};

/// A row-major array that owns its elements. Its memory is used again for the next one of its size: release_memory().
template <Scalar T>
class Array {
  public:
    Array();
    /// Uninitialised.
    explicit Array(const IndexVector& extents);
    Array(Array&&) noexcept;
    Array& operator=(Array&&) noexcept;
    ~Array();
    const IndexVector& extents() const { return extents_; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    std::span<T> elements() { return {data_, static_cast<std::size_t>(extents_.product())}; }
    std::span<const T> elements() const { return {data_, static_cast<std::size_t>(extents_.product())}; }
    ArrayView<T> view() { return {data_, extents_}; }
    ArrayView<const T> view() const { return {data_, extents_}; }

  private:
    struct Memory;
    std::unique_ptr<Memory> memory_;
    T* data_ = nullptr;
    IndexVector extents_;
};

}  // namespace tessera

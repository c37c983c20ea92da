#pragma once
// A short list of numbers, one per tensor index: tile coordinates, extents, strides. No allocation.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// The highest rank a tensor may have.
inline constexpr int kMaxRank = 16;

class IndexVector {
  public:
    IndexVector() = default;
    IndexVector(std::initializer_list<std::int64_t> values);
    explicit IndexVector(std::span<const std::int64_t> values);
    static IndexVector filled(int size, std::int64_t value);

    int size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::int64_t& operator[](int i) { return values_[i]; }
    std::int64_t operator[](int i) const { return values_[i]; }
    const std::int64_t* begin() const { return values_.data(); }
    const std::int64_t* end() const { return values_.data() + size_; }
    std::int64_t* begin() { return values_.data(); }
    std::int64_t* end() { return values_.data() + size_; }
    operator std::span<const std::int64_t>() const { return {values_.data(), static_cast<std::size_t>(size_)}; }
    void push_back(std::int64_t value);

    /// Product of all values (1 when empty); the caller knows it fits.
    std::int64_t product() const;
    bool operator==(const IndexVector& other) const;

  private:
    int size_ = 0;
    std::array<std::int64_t, kMaxRank> values_{};
};

/// "(3, 4, 5)"
std::string to_string(const IndexVector& v);
/// Strides in elements of a row-major block: last index fastest.
IndexVector row_major_strides(const IndexVector& extents);

}  // namespace tessera

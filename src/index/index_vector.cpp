#include "tessera/index/index_vector.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

IndexVector::IndexVector(std::initializer_list<std::int64_t> values)
    : IndexVector(std::span<const std::int64_t>(values.begin(), values.size())) {}

IndexVector::IndexVector(std::span<const std::int64_t> values) {
    require(values.size() <= kMaxRank, "rank {} is above the highest supported, {}", values.size(), kMaxRank);
    size_ = static_cast<int>(values.size());
    std::copy(values.begin(), values.end(), values_.begin());
}

IndexVector IndexVector::filled(int size, std::int64_t value) {
    require(size >= 0 && size <= kMaxRank, "rank {} is outside 0..{}", size, kMaxRank);
    IndexVector v;
    v.size_ = size;
    std::fill_n(v.values_.begin(), size, value);
    return v;
}

void IndexVector::push_back(std::int64_t value) {
    require(size_ < kMaxRank, "rank {} is above the highest supported, {}", size_ + 1, kMaxRank);
    values_[size_++] = value;
}

std::int64_t IndexVector::product() const {
    std::int64_t p = 1;
    for (auto v : *this) p *= v;
    return p;
}

bool IndexVector::operator==(const IndexVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const IndexVector& v) { return fmt::format("({})", fmt::join(v.begin(), v.end(), ", ")); }

IndexVector row_major_strides(const IndexVector& extents) {
    IndexVector strides = extents;
    std::int64_t stride = 1;
    for (int d = extents.size() - 1; d >= 0; --d) {
        strides[d] = stride;
        stride *= extents[d];
    }
    return strides;
}

}  // namespace tessera

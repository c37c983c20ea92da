#include "tessera/index/permutation.hpp"

#include "base/check.hpp"

namespace tessera {

Permutation::Permutation(std::initializer_list<int> map) : Permutation(std::span<const int>(map.begin(), map.size())) {}

Permutation::Permutation(std::span<const int> map) : map_(map.begin(), map.end()) {
    std::vector<bool> seen(map_.size());
    for (int p : map_) {
        require(p >= 0 && p < rank(), "permutation {}: {} is outside 0..{}", to_string(*this), p, rank() - 1);
        require(!seen[p], "permutation {}: {} stands twice", to_string(*this), p);
        seen[p] = true;
    }
}

Permutation Permutation::identity(int rank) {
    Permutation p;
    for (int d = 0; d < rank; ++d) p.map_.push_back(d);
    return p;
}

Permutation Permutation::inverse() const {
    Permutation p = *this;
    for (int d = 0; d < rank(); ++d) p.map_[map_[d]] = d;
    return p;
}

Permutation Permutation::after(const Permutation& first) const {
    require(first.rank() == rank(), "permutations of rank {} and {} do not compose", first.rank(), rank());
    Permutation p = *this;
    for (int d = 0; d < rank(); ++d) p.map_[d] = first.map_[map_[d]];
    return p;
}

bool Permutation::is_identity() const { return *this == identity(rank()); }

IndexVector Permutation::apply(const IndexVector& v) const {
    if (v.size() != rank())
        user_error("permutation {} of rank {} applied to {} numbers", to_string(*this), rank(), v.size());
    IndexVector out = v;
    for (int d = 0; d < rank(); ++d) out[d] = v[map_[d]];
    return out;
}

std::string to_string(const Permutation& p) { return fmt::format("({})", fmt::join(p.map(), ", ")); }

}  // namespace tessera

#pragma once
// A reordering of tensor indices, as in NumPy's transpose: index d of the result is index p[d] of the input.

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/index_vector.hpp"

namespace TESSERA_API tessera {

class Permutation {
  public:
    Permutation() = default;
    /// Each of 0 .. n-1 exactly once.
    Permutation(std::initializer_list<int> map);
    explicit Permutation(std::span<const int> map);
    static Permutation identity(int rank);

    int rank() const { return static_cast<int>(map_.size()); }
    int operator[](int d) const { return map_[d]; }
    std::span<const int> map() const { return map_; }
    Permutation inverse() const;
    /// The permutation that applies `first`, then this one.
    Permutation after(const Permutation& first) const;
    bool is_identity() const;
    IndexVector apply(const IndexVector& v) const;
    bool operator==(const Permutation&) const = default;

  private:
    std::vector<int> map_;
};

/// "(2, 0, 1)"
std::string to_string(const Permutation& p);

}  // namespace tessera

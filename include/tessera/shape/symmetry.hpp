#pragma once
// Which elements of a tensor are equal, up to sign and conjugation, by exchanging indices. Of the tiles that follow
// from each other one is stored.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

/// One way in which a tensor is equal to itself: t[x] is sign times t[y], conjugated or not, where y[d] is
/// x[order[d]].
struct SymmetryElement {
    Permutation order;
    int sign = 1;
    bool conjugate = false;
    bool operator==(const SymmetryElement&) const = default;
};

/// A group of such elements, from relations as one writes them: "ij=ji" (symmetric), "ij=-ji" (antisymmetric), "ij=ji*"
/// (hermitian), "ijab=jiba" (pairs), or several: "ijab=-jiab, ijab=-ijba". Relations that contradict each other, such
/// as "ij=ji, ij=-ji", are a UserError.
class Symmetry {
  public:
    /// None.
    Symmetry() = default;
    Symmetry(std::string_view relations);
    Symmetry(const char* relations) : Symmetry(std::string_view(relations)) {}
    Symmetry(const std::string& relations) : Symmetry(std::string_view(relations)) {}

    bool none() const { return !group_; }
    /// Of the tensors that have it; 0 where there is none.
    int rank() const { return none() ? 0 : elements()[0].order.rank(); }
    /// All of them, the identity first; nothing where there is none.
    std::span<const SymmetryElement> elements() const;
    /// As it was given, without spaces: "ijab=-jiab,ijab=-ijba".
    const std::string& text() const;
    /// UserError where indices that change places have different tiles.
    void require_fits(const TileGrid& grid) const;
    /// Equal where the elements are, whatever relations they came from.
    bool operator==(const Symmetry& other) const;

    /// The tile that is stored for this one: of all that follow from each other the first. `by`: the number of the
    /// element that leads there, the first that does.
    TileOrdinal stand_in(const TileGrid& grid, TileOrdinal tile, int* by = nullptr) const;
    /// How many tiles it stands for.
    std::int64_t orbit(const TileGrid& grid, TileOrdinal tile) const;
    /// Which, ascending, and the elements that lead from them to the one that is stored.
    struct Image {
        TileOrdinal tile;
        int by = 0;
    };
    std::vector<Image> images(const TileGrid& grid, TileOrdinal tile) const;

  private:
    struct Group {
        std::string text;
        std::vector<SymmetryElement> elements;
    };
    std::shared_ptr<const Group> group_;
};

}  // namespace tessera

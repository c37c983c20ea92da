#pragma once
// An einsum of any number of operands as NumPy reads it: the result may be left away ("ij,jk": the labels that stand
// once, sorted), and "..." stands for the indices that have no label.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/index/tile_grid.hpp"

namespace tessera {

inline constexpr char kEllipsis = '.';  // "..." among the labels

/// Labels by commas, an arrow, the result.
std::string spec_text(const std::vector<std::string>& operands, const std::string& result);

struct EinsumSpec {
    std::vector<std::string> operands;
    std::string result;

    /// UserError saying what is wrong and where. A result that is left away is written out; an ellipsis is still there.
    explicit EinsumSpec(std::string_view text);
    /// For operands with these extents, nothing but letters: an ellipsis becomes letters that are not in use, aligned
    /// at its right end. An index of extent 1 that meets a longer one becomes a label of its own, which is summed.
    EinsumSpec(std::string_view text, std::span<const IndexVector> extents);

    int count() const { return static_cast<int>(operands.size()); }
    bool has_ellipsis() const;
    /// Canonical text, without white space.
    std::string text() const { return spec_text(operands, result); }
    bool operator==(const EinsumSpec&) const = default;
};

/// The text, or where there is an ellipsis in it, what it means for these operands.
std::string without_ellipsis(std::string_view text, std::initializer_list<IndexVector> extents);

/// "A" and "B" of two, "operand 3" of more.
std::string operand_name(int operand, int count);

/// Checks ranks, and that each label has one tiling everywhere; returns the result's grid.
TileGrid result_grid(const std::vector<std::string>& operands, const std::string& result,
                     std::span<const TileGrid* const> grids);

}  // namespace tessera

#pragma once
// "ijcd,cdab->ijab": which index of which operand is which, as in NumPy's einsum.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

/// What a label of a two-operand spec does.
enum class LabelRole {
    batch,       // in A, B and C
    free_a,      // in A and C
    free_b,      // in B and C
    contracted,  // in A and B
    summed_a,    // in A alone: summed before the product
    summed_b,    // in B alone
};

/// One or two operands and a result. Labels are letters; spaces and tabs are ignored. A label may be repeated within an
/// operand (the diagonal), never within the result; every label of the result stands in an operand. Without an arrow
/// the result has the labels that stand once, sorted.
class ContractionSpec {
  public:
    /// Throws UserError saying what is wrong and where.
    explicit ContractionSpec(std::string_view text);

    int operand_count() const { return static_cast<int>(operands_.size()); }
    const std::string& labels(int operand) const { return operands_[operand]; }
    const std::string& a() const { return operands_[0]; }
    const std::string& b() const { return operands_[1]; }
    const std::string& c() const { return result_; }
    LabelRole role(char label) const;
    /// Labels with this role: batch and free ones in C's order, contracted and summed_a in A's, summed_b in B's.
    std::string labels_with(LabelRole role) const;
    /// True where an operand repeats a label or has one that is summed in it alone.
    bool needs_reduction(int operand) const { return reduces_[operand]; }
    /// The labels that operand keeps after diagonals and its own sums, each once, in its order.
    std::string reduced_labels(int operand) const;

    /// Checks ranks, and that each label has one tiling everywhere; returns the result's grid.
    TileGrid result_grid(const TileGrid& a) const;
    TileGrid result_grid(const TileGrid& a, const TileGrid& b) const;

    /// Canonical text, without white space.
    std::string text() const;
    bool operator==(const ContractionSpec&) const = default;

  private:
    std::vector<std::string> operands_;
    std::string result_;
    std::array<std::int8_t, 128> roles_{};  // of each letter, from 1 on; 0: it is no label
    std::array<bool, 2> reduces_{};
};

}  // namespace tessera

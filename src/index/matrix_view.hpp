#pragma once
// A spec of two operands as products of matrices, one for each point of the batch: C (m x n) is A (m x k) times B
// (k x n). The one place that knows which index of which tensor belongs to the rows, the columns or the batch.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/index/contraction_spec.hpp"
#include "tessera/index/operand.hpp"

namespace tessera {

enum class MatrixPart : std::uint8_t { batch, row, column };

struct MatrixView {
    explicit MatrixView(const ContractionSpec& spec);

    /// Labels of each group: k in A's order, the others in C's. So k is walked alike in A and B.
    std::string m, n, k, batch;
    PerOperand<std::string> labels;

    /// Labels summed in one operand alone, which a reduced spec has not, count as rows.
    MatrixPart part(Operand o, int index) const { return parts[o][static_cast<std::size_t>(index)]; }
    /// Whether this index of A or B is one of k.
    bool contracted(Operand o, int index) const {
        return part(o, index) == (o == Operand::a ? MatrixPart::column : MatrixPart::row);
    }

    /// Of a tile with these extents, its matrices one below the other.
    struct Sides {
        std::int64_t rows = 1, cols = 1;
    };
    Sides sides(Operand o, const IndexVector& extents) const;

    /// How a stored tile with these extents reads as the operand's matrices: as it is, as their transposes (one point
    /// of the batch), or not at all. Extents of 1 do not count.
    enum class TileOrder : std::uint8_t { plain, transposed, other };
    TileOrder order(Operand o, const IndexVector& extents) const;

    /// Where a tile of C stands: the parts of its ordinal that the rows (and the batch) and the columns make. Tiles of
    /// one row share the first, tiles of one column the second.
    struct Place {
        std::int64_t row = 0, col = 0;
    };
    Place place(const TileGrid& c, TileOrdinal tile) const;

    PerOperand<std::vector<MatrixPart>> parts;  // by index
};

}  // namespace tessera

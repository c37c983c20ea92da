#include "index/matrix_view.hpp"

namespace tessera {

MatrixView::MatrixView(const ContractionSpec& spec)
    : m(spec.labels_with(LabelRole::free_a)),
      n(spec.labels_with(LabelRole::free_b)),
      k(spec.labels_with(LabelRole::contracted)),
      batch(spec.labels_with(LabelRole::batch)),
      labels{spec.a(), spec.operand_count() == 2 ? spec.b() : "", spec.c()} {
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        const auto columns = o == Operand::a ? LabelRole::contracted : LabelRole::free_b;
        for (const char l : labels[o]) {
            const auto role = spec.role(l);
            parts[o].push_back(role == LabelRole::batch ? MatrixPart::batch
                               : role == columns        ? MatrixPart::column
                                                        : MatrixPart::row);
        }
    }
}

MatrixView::Sides MatrixView::sides(Operand o, const IndexVector& extents) const {
    Sides out;
    for (int d = 0; d < extents.size(); ++d) (part(o, d) == MatrixPart::column ? out.cols : out.rows) *= extents[d];
    return out;
}

MatrixView::TileOrder MatrixView::order(Operand o, const IndexVector& extents) const {
    const auto counted = [&](const std::string& all) {
        std::string out;
        for (const char l : all)
            if (extents[static_cast<int>(labels[o].find(l))] != 1) out += l;
        return out;
    };
    const auto points = counted(batch), stored = counted(labels[o]);
    const auto rows = counted(o == Operand::b ? k : m), cols = counted(o == Operand::a ? k : n);
    if (stored == points + rows + cols) return TileOrder::plain;
    return points.empty() && stored == cols + rows ? TileOrder::transposed : TileOrder::other;
}

MatrixView::Place MatrixView::place(const TileGrid& c, TileOrdinal tile) const {
    Place out;
    const auto at = c.coordinates(tile);
    for (int d = 0; d < c.rank(); ++d)
        (part(Operand::c, d) == MatrixPart::column ? out.col : out.row) += at[d] * c.ordinal_strides()[d];
    return out;
}

}  // namespace tessera

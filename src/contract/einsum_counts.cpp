#include "contract/einsum_counts.hpp"

#include <cmath>

#include "base/check.hpp"
#include "contract/reduce.hpp"
#include "shape/product_shape.hpp"
#include "shape/tile_keys.hpp"

namespace tessera {

namespace {

// Nanoseconds that the search takes, roughly, of a core: for each tile that is sorted, and each product of tiles.
constexpr double kPerTile = 100, kPerProduct = 20, kPerDenseCount = 200;

}  // namespace

Labels::Labels(const EinsumSpec& spec, std::span<const IndexVector> extents) : result_(spec.result) {
    for (int o = 0; o < spec.count(); ++o) own_.push_back(own_labels(spec, o));
    all_ = spec.count() == 64 ? ~Set{0} : bit(spec.count()) - 1;
    for (int o = 0; o < spec.count(); ++o) {
        const auto& own = spec.operands[static_cast<std::size_t>(o)];
        for (std::size_t d = 0; d < own.size(); ++d) {
            auto at = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.label == own[d]; });
            if (at == known_.end())
                at =
                    known_.insert(at, {own[d], 0, result_.find(own[d]) != std::string::npos,
                                       static_cast<double>(extents[static_cast<std::size_t>(o)][static_cast<int>(d)])});
            at->where |= bit(o);
        }
    }
}

Count DenseCounter::count(Set p, Set q) {
    spent += kPerDenseCount;
    if (labels_.too_many(p | q)) return {};
    return {2 * labels_.products(p, q), 1, elements(p | q)};
}

ShapeCounter::ShapeCounter(const EinsumSpec& spec, const Labels& labels, std::span<const Shape* const> shapes,
                           double filter, double alpha_magnitude)
    : labels_(labels), filter_(filter), alpha_(alpha_magnitude) {
    for (int o = 0; o < spec.count(); ++o) {
        const auto own = own_labels(spec, o);
        const auto& given = spec.operands[static_cast<std::size_t>(o)];
        const auto& shape = *shapes[static_cast<std::size_t>(o)];
        parts_.emplace(bit(o), own == given ? shape : reduced_shape(shape, given, own));
        norms_.push_back(parts_.at(bit(o)).norm());
    }
}

double ShapeCounter::threshold(Set part) const {
    if (filter_ == 0 || part == labels_.all()) return filter_;
    double to_come = alpha_ * static_cast<double>(norms_.size() - 1);
    for (std::size_t o = 0; o < norms_.size(); ++o)
        if (!(part & bit(static_cast<int>(o)))) to_come *= norms_[o];
    const double share = filter_ / to_come;  // infinite where the result is zero anyway
    return std::isfinite(share) ? share : 0;
}

Count ShapeCounter::count(Set p, Set q) {
    const auto [at, is_new] = counts_.try_emplace({p, q});
    if (is_new) at->second = counted(p, q);
    return at->second;
}

double ShapeCounter::price(const Count& c) { return kPerProduct * c.products; }

bool ShapeCounter::make(Set p, Set q) {
    if (count(p, q).flops == kNever) return false;
    if (parts_.contains(p | q)) return true;
    try {
        product(p, q);
        return true;
    } catch (const UserError&) {  // more tiles than can be numbered
        counts_[{p, q}] = {};
        return false;
    }
}

Count ShapeCounter::counted(Set p, Set q) {
    if (labels_.too_many(p | q)) return {};
    const Shape &a = shape(p), &b = shape(q);
    spent += kPerTile * static_cast<double>(a.tile_count() + b.tile_count());
    try {
        if (filter_ > 0) return product(p, q);
        // Without a filter each product counts: those of one row of B have the same inner extents.
        const ContractionSpec s(spec(p, q));
        const TileGrid c = s.result_grid(a.grid(), b.grid());
        const MatrixView view(s);
        const auto tiles_b = tiles_of_b(view, b, a.grid(), c);
        const auto tiles_a = tiles_of_a(view, a, c, tiles_b);
        std::vector<double> row(tiles_b.rows.size(), 0);
        for (std::size_t r = 0; r < row.size(); ++r)
            for (auto j = tiles_b.rows[r].begin; j < tiles_b.rows[r].end; ++j) row[r] += tiles_b.free_elements[j];
        Count out{0, 0, 0};
        for (std::size_t i = 0; i < tiles_a.entries.size(); ++i) {
            const auto r = tiles_a.row_of_b[i];
            if (r < 0) continue;
            const auto& of_b = tiles_b.rows[static_cast<std::size_t>(r)];
            const auto sides = view.sides(Operand::a, a.grid().tile_extents(a.tile(tiles_a.entries[i].slot)));
            const double rows = static_cast<double>(sides.rows) * row[static_cast<std::size_t>(r)];
            out.flops += 2.0 * static_cast<double>(sides.cols) * rows;
            out.elements += rows;
            out.products += static_cast<double>(of_b.end - of_b.begin);
        }
        out.elements = std::min(out.elements, labels_.elements(p | q));
        return out;
    } catch (const UserError&) {  // more elements or tiles than can be numbered
        return {};
    }
}

Count ShapeCounter::product(Set p, Set q) {
    ScreeningOptions screening;
    screening.filter = threshold(p | q);
    if ((p | q) == labels_.all()) screening.alpha_magnitude = alpha_;
    auto found = product_shape(ContractionSpec(spec(p, q)), shape(p), shape(q), screening);
    const Count out{found.flops, static_cast<double>(found.products.size()), static_cast<double>(found.c.elements())};
    spent += kPerProduct * out.products;
    parts_.try_emplace(p | q, std::move(found.c));
    return out;
}

}  // namespace tessera

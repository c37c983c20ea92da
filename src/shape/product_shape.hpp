#pragma once
// Which tile products a contraction of two shapes consists of, and the result's shape.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/kept_vector.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/shape/tile_views.hpp"

namespace tessera {

struct ScreeningOptions {
    double filter = 0;  // result tiles whose norm stays below it are dropped, products that cannot matter skipped
    double alpha_magnitude = 1;    // |alpha|
    const Shape* given = nullptr;  // compute these tiles only, all of them
    const Shape* added = nullptr;  // what is there already: a tile may be kept for its sum with that
    double beta_magnitude = 0;     // |beta|, its factor
    Symmetry symmetry = {};  // of the result: of tiles that follow from each other one is computed; as are `given`
                             // and `added`
    const TileViews* views_a = nullptr;  // of a folded A, to count what it saves
};

/// The result's tiles with bounds on their norms; for each the products that survive, ascending in k.
struct ProductShape {
    Shape c;
    KeptVector<std::int64_t> first;  // per result slot + 1, into products
    KeptVector<TileProduct> products;
    std::vector<std::int32_t> k_of_b;   // per slot of B: its place along (batch, k)
    std::vector<std::int32_t> segment;  // per place along k, where there is more than one segment
    int segments = 1;
    KeptVector<std::int64_t> row, col;  // per result slot: equal where tiles share A's free indices, B's free indices
    std::vector<float> skipped;         // per result slot, with a filter: norm bound of its skipped products
    double left_out_bound = 0;          // Frobenius norm bound of all that is skipped or dropped here
    KeptVector<double> tile_flops;      // per result slot
    /// Of a product, its place along (batch, k): ascending in a chain.
    std::int32_t k(std::int64_t product) const { return k_of_b[products[product].b]; }
    double whole_flops = 0;  // as below, if no tile of the result stood for others
    double flops = 0;        // all: of real arithmetic with 2 per multiply-add; complex types need 4 times that
};

/// MachineError where a plan of so many tile products would not fit so many bytes (0: no limit).
void require_products_fit(std::string_view spec, double products, std::int64_t memory);

/// spec without diagonals and one-operand sums (those are taken before). memory: as in require_products_fit. What is
/// found does not depend on threads.
ProductShape product_shape(const ContractionSpec& spec, const Shape& a, const Shape& b, const ScreeningOptions& options,
                           std::int64_t memory = 0, int threads = 1);

}  // namespace tessera

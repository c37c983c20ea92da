#include "inspect/inspection.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.hpp"
#include "base/units.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

/// The tiles of an accumulated C that no product reaches are result tiles too, with no products.
ProductShape with_tiles_of(ProductShape product, const Shape& old, const MatrixView& view, bool filtered) {
    const auto& grid = product.c.grid();
    ProductShape out;
    out.segments = product.segments;
    out.segment = std::move(product.segment);
    out.flops = product.flops;
    out.whole_flops = product.whole_flops;
    out.left_out_bound = product.left_out_bound;
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    out.first.push_back(0);
    std::int64_t i = 0, j = 0;
    while (i < product.c.tile_count() || j < old.tile_count()) {
        const auto x = i < product.c.tile_count() ? product.c.ordinals()[i] : INT64_MAX;
        const auto y = j < old.tile_count() ? old.ordinals()[j] : INT64_MAX;
        const auto tile = std::min(x, y);
        ordinals.push_back(tile);
        if (x == tile) {
            norms.push_back(product.c.norm_of(i));
            out.row.push_back(product.row[i]);
            out.col.push_back(product.col[i]);
            out.tile_flops.push_back(product.tile_flops[i]);
            if (filtered) out.skipped.push_back(product.skipped[i]);
            out.first.push_back(product.first[i + 1]);
            ++i;
        } else {
            const auto [row, col] = view.place(grid, TileOrdinal{tile});
            norms.push_back(0);
            out.row.push_back(row);
            out.col.push_back(col);
            out.tile_flops.push_back(0);
            if (filtered) out.skipped.push_back(0);
            out.first.push_back(out.first.back());
        }
        if (y == tile) ++j;
    }
    out.products = std::move(product.products);
    out.k_of_b = std::move(product.k_of_b);
    out.c = Shape::from_sorted(grid, std::move(ordinals), std::move(norms), product.c.symmetry());
    return out;
}

/// Dense numbers for the distinct values, in ascending order.
std::int32_t number(std::span<const std::int64_t> values, std::vector<std::int32_t>& out) {
    if (values.empty()) return 0;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (*high - *low < 4 * static_cast<std::int64_t>(values.size()) + 1024) {  // a table beats sorting
        const auto first = *low;
        std::vector<std::int32_t> table(static_cast<std::size_t>(*high - first) + 1, -1);
        for (const auto v : values) table[v - first] = 0;
        std::int32_t next = 0;
        for (auto& t : table)
            if (t == 0) t = next++;
        out.resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) out[i] = table[values[i] - first];
        return next;
    }
    std::vector<std::int64_t> distinct(values.begin(), values.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    out.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        out[i] =
            static_cast<std::int32_t>(std::lower_bound(distinct.begin(), distinct.end(), values[i]) - distinct.begin());
    return static_cast<std::int32_t>(distinct.size());
}

/// Bytes of each tile as a padded matrix.
std::vector<std::int64_t> device_bytes_of(const Shape& shape, const MatrixView& view, Operand o, std::int64_t element) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto [rows, cols] = view.sides(o, shape.grid().tile_extents(shape.tile(s)));
        out[s] = device_tile_bytes(1, rows, cols, element);
    }
    return out;
}

}  // namespace

Inspection::Inspection(const PlanRequest& r, const MachineModel& m) : request(r), machine(m), view(*r.spec) {
    if (r.accumulate && r.screening.given)
        user_error("'{}': with a given result shape no tiles of C are added to it", r.spec->text());
    auto screening = r.screening;
    screening.added = r.accumulate;
    screening.views_a = r.views_a;
    product = product_shape(*r.spec, *r.a, *r.b, screening, r.planning_memory, r.planning_threads);
    if (r.accumulate) product = with_tiles_of(std::move(product), *r.accumulate, view, r.screening.filter > 0);
    flop_factor = flops_per_multiply_add(r.scalar) / 2;

    // Flops of a product, where the sums of a tile share its products.
    std::vector<double> columns_b;
    if (product.segments > 1) {
        columns_b.assign(static_cast<std::size_t>(r.b->tile_count()), 2 * flop_factor);
        for (std::int64_t t = 0; t < r.b->tile_count(); ++t)
            columns_b[t] *= static_cast<double>(view.sides(Operand::b, r.b->grid().tile_extents(r.b->tile(t))).cols);
    }
    const auto flops_of = [&](std::int64_t c, std::int64_t begin, std::int64_t end) {
        if (columns_b.empty()) return product.tile_flops[static_cast<std::size_t>(c)] * flop_factor;
        double flops = 0;
        for (auto p = begin; p < end; ++p)
            flops += static_cast<double>(r.a->grid().tile_elements(r.a->tile(product.products[p].a))) *
                     columns_b[product.products[p].b];
        return flops;
    };

    const auto tiles = product.c.tile_count();
    sums.reserve(static_cast<std::size_t>(tiles));
    first_sum.reserve(static_cast<std::size_t>(tiles) + 1);
    first_sum.push_back(0);
    for (std::int64_t c = 0; c < tiles; ++c) {
        const auto begin = product.first[c], end = product.first[c + 1];
        std::int32_t index = 0;
        for (auto at = begin;; ++index) {
            auto last = end;
            if (product.segments > 1 && at < end) {
                const auto segment = product.segment[product.k(at)];
                for (last = at + 1; last < end && product.segment[product.k(last)] == segment;) ++last;
            }
            sums.push_back({static_cast<std::int32_t>(c), index, at, last, flops_of(c, at, last)});
            if (last == end) break;
            at = last;
        }
        first_sum.push_back(static_cast<std::int32_t>(sums.size()));
    }
    rows = number(product.row, row);
    cols = number(product.col, col);
    if (m.devices_per_rank > 0) find_coordinates();

    const auto element = bytes_of(r.scalar);
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        const auto& s = shape(o);
        auto& host = host_bytes[o];
        host.resize(static_cast<std::size_t>(s.tile_count()));
        for (std::int64_t t = 0; t < s.tile_count(); ++t)
            host[t] = align_up(s.grid().tile_elements(s.tile(t)) * element);
        if (m.devices_per_rank > 0) device_bytes[o] = device_bytes_of(s, view, o, element);
    }
    find_homes();
}

// A tile whose rows start anywhere, or that is stored transposed, is copied into the device more slowly than one that
// is laid out for it: worth laying anew where each element is used so often.
constexpr double kFlopsWorthLaying = 256;

void Inspection::find_homes() {
    const auto devices = machine.devices_per_rank;
    if (devices == 0 || machine.ranks > 1) return;
    if (request.homes_a) homes.a = *request.homes_a;
    if (request.homes_b) homes.b = *request.homes_b;
    if (request.result_stays > 0 && (product.segments == 1 || segments_fit())) {
        // The first ones stay, so that the others leave while the last are worked on.
        homes.c.assign(host_bytes.c.size(), -1);
        std::int64_t room = request.result_stays;
        for (std::size_t t = 0; t < homes.c.size() && host_bytes.c[t] <= room; ++t) {
            room -= host_bytes.c[t];
            homes.c[t] = 0;
        }
    }
    const auto element = bytes_of(request.scalar);
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        if (homes[o].empty()) continue;
        const auto& s = shape(o);
        as_stored[o].assign(homes[o].size(), 0);
        const bool much = product.flops * flop_factor >= kFlopsWorthLaying * static_cast<double>(s.elements());
        for (std::int64_t t = 0; t < s.tile_count(); ++t) {
            if (homes[o][t] < 0) continue;
            const auto extents = s.grid().tile_extents(s.tile(t));
            const auto order = view.order(o, extents);
            const bool plain = order == MatrixView::TileOrder::plain;
            if (o == Operand::c) {
                as_stored[o][t] = plain;
            } else if (order != MatrixView::TileOrder::other) {
                as_stored[o][t] = !much || (plain && view.sides(o, extents).cols * element % 16 == 0);
            }
            // (Of a result in segments one sum is the tile; the others need room.)
            if (as_stored[o][t] && devices == 1 && (o != Operand::c || product.segments == 1)) device_bytes[o][t] = 0;
        }
    }
}

/// Whether one device has ample room for all sums of a result in segments at once, so that they meet there.
bool Inspection::segments_fit() const {
    if (machine.devices_per_rank > 1) return false;
    std::int64_t bytes = 0;
    for (const auto& s : sums) bytes += device_bytes.c[static_cast<std::size_t>(s.c)];
    const auto budget = request.device_memory > 0 ? request.device_memory : machine.device.memory;
    return bytes <= (budget - device_reserve_bytes(budget) - kept_bytes(0)) / 4;
}

std::int64_t Inspection::kept_bytes(int device) const {
    std::int64_t bytes = request.device_other_bytes, result = 0;
    for (const auto o : {Operand::a, Operand::b})
        for (std::size_t t = 0; t < homes[o].size(); ++t)
            if (homes[o][t] == device) bytes += host_bytes[o][t];
    for (std::size_t t = 0; t < homes.c.size(); ++t)
        if (homes.c[t] >= 0) result += host_bytes.c[t];
    const std::int64_t devices = machine.devices_per_rank;
    return bytes + (result + devices - 1) / devices;
}

void Inspection::find_coordinates() {
    row_at.resize(static_cast<std::size_t>(rows));
    col_at.resize(static_cast<std::size_t>(cols));
    const auto& grid = product.c.grid();
    for (std::int64_t c = 0; c < product.c.tile_count(); ++c) {
        auto &ra = row_at[row[c]], &ca = col_at[col[c]];
        if (!ra.empty() && !ca.empty()) continue;
        const auto at = grid.coordinates(product.c.tile(c));
        IndexVector new_row, new_col;
        for (int d = 0; d < grid.rank(); ++d)
            (view.part(Operand::c, d) == MatrixPart::column ? new_col : new_row).push_back(at[d]);
        ra = new_row;
        ca = new_col;
    }
}

char widest_label(const Inspection& in, Operand o, MatrixPart part) {
    const auto& grid = in.shape(o).grid();
    char best = 0;
    std::int64_t tiles = 0;
    for (int d = 0; d < grid.rank(); ++d) {
        if (in.view.part(o, d) != part || grid.tiling(d).tile_count() <= tiles) continue;
        best = in.view.labels[o][static_cast<std::size_t>(d)];
        tiles = grid.tiling(d).tile_count();
    }
    return best;
}

Distribution deal(const Inspection& in, Operand o, std::vector<std::pair<char, Distribution::Axis>> wanted) {
    const auto& labels = in.view.labels[o];
    std::vector<Distribution::Axis> axes(labels.size());
    for (const auto& [label, axis] : wanted)
        if (const auto d = labels.find(label); label != 0 && d != std::string::npos) axes[d] = axis;
    return Distribution(in.machine.ranks, std::move(axes));
}

std::pair<int, int> near_square(int ranks) {
    int p = static_cast<int>(std::sqrt(static_cast<double>(ranks)));
    while (p > 1 && ranks % p != 0) --p;
    return {std::max(p, 1), ranks / std::max(p, 1)};
}

}  // namespace tessera

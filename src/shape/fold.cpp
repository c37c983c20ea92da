#include "shape/fold.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "index/matrix_view.hpp"

namespace tessera {

namespace {

/// Which label's value each label of the sum takes; none where another label would change, or the value is conjugated.
std::optional<std::map<char, char>> exchange(const SymmetryElement& e, const std::string& labels,
                                             const std::string& summed) {
    std::map<char, char> out;
    for (std::size_t d = 0; d < labels.size(); ++d) {
        const char from = labels[static_cast<std::size_t>(e.order[static_cast<int>(d)])];
        if (summed.find(labels[d]) == std::string::npos && from != labels[d]) return std::nullopt;
        if (summed.find(labels[d]) != std::string::npos) out.emplace(labels[d], from);
    }
    return e.conjugate ? std::nullopt : std::optional(std::move(out));
}

/// The elements of A's group that change nothing but the order of the sum.
std::vector<SymmetryElement> common(const ContractionSpec& spec, const Symmetry& a, const Symmetry& b) {
    const MatrixView view(spec);
    std::vector<SymmetryElement> out;
    for (const auto& x : a.elements()) {
        const auto wanted = exchange(x, spec.a(), view.k);
        if (!wanted) continue;
        for (const auto& y : b.elements())
            if (x.sign == y.sign && exchange(y, spec.b(), view.k) == wanted) {
                out.push_back(x);
                break;
            }
    }
    if (out.empty() || std::has_single_bit(out.size())) return out;
    const auto pair = std::find_if(out.begin() + 1, out.end(),
                                   [](const SymmetryElement& e) { return e.order.after(e.order).is_identity(); });
    return pair == out.end() ? std::vector{out[0]} : std::vector{out[0], *pair};
}

}  // namespace

WholeShape folded(const ContractionSpec& spec, WholeShape a, const Symmetry& b) {
    const auto group = common(spec, a.views.symmetry, b);
    if (group.size() < 2) return a;
    const auto& grid = a.shape.grid();
    WholeShape out;
    out.views.symmetry = a.views.symmetry;
    out.views.folded = true;
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    std::vector<std::int32_t> new_slot(static_cast<std::size_t>(a.shape.tile_count()), -1);
    std::map<std::pair<std::uint16_t, std::size_t>, std::uint16_t> views;
    for (std::int64_t s = 0; s < a.shape.tile_count(); ++s) {
        const auto at = grid.coordinates(a.shape.tile(s));
        std::vector<std::int64_t> images;
        for (const auto& e : group) images.push_back(grid.ordinal(e.order.apply(at)).value);
        std::ranges::sort(images);
        images.erase(std::ranges::unique(images).begin(), images.end());
        if (images[0] != a.shape.tile(s).value) continue;
        new_slot[s] = static_cast<std::int32_t>(ordinals.size());
        ordinals.push_back(images[0]);
        norms.push_back(a.shape.norm_of(s) * static_cast<double>(images.size()));
        const auto seen = a.views.view[s];
        const auto [it, fresh] =
            views.try_emplace({seen, images.size()}, static_cast<std::uint16_t>(out.views.views.size()));
        if (fresh) {
            out.views.views.push_back(a.views.views[seen]);
            out.views.views.back().factor *= static_cast<double>(images.size());
        }
        out.views.view.push_back(it->second);
        // The first of all that follow from each other is the first of those that the sum exchanges: it is there.
        out.views.stand_in.push_back(new_slot[a.views.stand_in[s]]);
    }
    out.shape = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
    return out;
}

}  // namespace tessera

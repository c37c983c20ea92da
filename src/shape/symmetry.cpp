#include "tessera/shape/symmetry.hpp"

#include <algorithm>
#include <cctype>

#include "base/check.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostElements = 5040;

SymmetryElement parse_relation(const std::string& text) {
    const auto wrong = [&](const char* why) {
        user_error("symmetry '{}': {}; a relation reads ij=ji, ij=-ji, ij=ji* or ijab=jiba", text, why);
    };
    const auto equals = text.find('=');
    if (equals == std::string::npos) wrong("has no '='");
    const auto left = text.substr(0, equals);
    auto right = text.substr(equals + 1);
    SymmetryElement out;
    if (right.starts_with('-')) {
        out.sign = -1;
        right.erase(0, 1);
    }
    if (right.ends_with('*')) {
        out.conjugate = true;
        right.pop_back();
    }
    if (left.empty()) wrong("names no index on the left");
    if (left.size() > static_cast<std::size_t>(kMaxRank)) wrong("has more indices than a tensor may have");
    for (std::size_t i = 0; i < left.size(); ++i) {
        if (!std::isalpha(static_cast<unsigned char>(left[i]))) wrong("an index is a letter");
        if (left.find(left[i], i + 1) != std::string::npos) wrong("an index stands twice on the left");
    }
    if (right.size() != left.size() || !std::is_permutation(left.begin(), left.end(), right.begin()))
        wrong("the right side does not have the indices of the left");
    std::vector<int> order;
    for (const char label : right) order.push_back(static_cast<int>(left.find(label)));
    out.order = Permutation(order);
    return out;
}

/// First `x`, then `y` of what that leads to.
SymmetryElement product(const SymmetryElement& x, const SymmetryElement& y) {
    return {y.order.after(x.order), x.sign * y.sign, x.conjugate != y.conjugate};
}

TileOrdinal image(const SymmetryElement& e, const TileGrid& grid, const IndexVector& at) {
    std::int64_t ordinal = 0;
    for (int d = 0; d < at.size(); ++d) ordinal += at[e.order[d]] * grid.ordinal_strides()[d];
    return TileOrdinal{ordinal};
}

}  // namespace

Symmetry::Symmetry(std::string_view relations) {
    auto group = std::make_shared<Group>();
    for (const char c : relations)
        if (!std::isspace(static_cast<unsigned char>(c))) group->text += c;
    if (group->text.empty()) return;
    std::vector<SymmetryElement> generators;
    for (std::size_t at = 0; at <= group->text.size();) {
        const auto end = std::min(group->text.find(',', at), group->text.size());
        generators.push_back(parse_relation(group->text.substr(at, end - at)));
        if (generators.back().order.rank() != generators[0].order.rank())
            user_error("symmetry '{}': its relations have {} and {} indices", group->text, generators[0].order.rank(),
                       generators.back().order.rank());
        at = end + 1;
    }
    auto& all = group->elements;
    all.push_back({Permutation::identity(generators[0].order.rank()), 1, false});
    for (std::size_t i = 0; i < all.size(); ++i)
        for (const auto& g : generators) {
            auto next = product(all[i], g);
            const auto known = std::ranges::find(all, next.order, &SymmetryElement::order);
            if (known == all.end()) {
                require(all.size() < kMostElements, "symmetry '{}': has more than {} elements", group->text,
                        kMostElements);
                all.push_back(std::move(next));
            } else if (!(*known == next)) {
                user_error("symmetry '{}': its relations contradict each other: an element would be {} itself",
                           group->text, known->sign != next.sign ? "minus" : "the conjugate of");
            }
        }
    std::sort(all.begin() + 1, all.end(), [](const SymmetryElement& x, const SymmetryElement& y) {
        return std::ranges::lexicographical_compare(x.order.map(), y.order.map());
    });
    if (all.size() > 1) group_ = std::move(group);
}

std::span<const SymmetryElement> Symmetry::elements() const {
    return none() ? std::span<const SymmetryElement>() : group_->elements;
}

const std::string& Symmetry::text() const {
    static const std::string empty;
    return none() ? empty : group_->text;
}

void Symmetry::require_fits(const TileGrid& grid) const {
    if (none()) return;
    require(grid.rank() == rank(), "symmetry '{}': has {} indices, the tensor {}", text(), rank(), grid.rank());
    for (const auto& e : elements())
        for (int d = 0; d < rank(); ++d)
            if (!(grid.tiling(d) == grid.tiling(e.order[d])))
                user_error("symmetry '{}': indices {} and {} change places, but their tiles differ: {}", text(), d,
                           e.order[d], first_difference(grid.tiling(d), grid.tiling(e.order[d])));
}

bool Symmetry::operator==(const Symmetry& other) const {
    return group_ == other.group_ || std::ranges::equal(elements(), other.elements());
}

TileOrdinal Symmetry::stand_in(const TileGrid& grid, TileOrdinal tile, int* by) const {
    TileOrdinal first = tile;
    int element = 0;
    if (!none()) {
        const auto at = grid.coordinates(tile);
        for (std::size_t i = 1; i < elements().size(); ++i)
            if (const auto other = image(elements()[i], grid, at); other < first) {
                first = other;
                element = static_cast<int>(i);
            }
    }
    if (by) *by = element;
    return first;
}

std::vector<Symmetry::Image> Symmetry::images(const TileGrid& grid, TileOrdinal tile) const {
    std::vector<Image> out;
    if (none()) return {{tile, 0}};
    const auto at = grid.coordinates(tile);
    for (const auto& e : elements()) {  // all that lead here
        std::int64_t from = 0;
        for (int d = 0; d < at.size(); ++d) from += at[d] * grid.ordinal_strides()[e.order[d]];
        out.push_back({TileOrdinal{from}});
    }
    std::ranges::sort(out, {}, &Image::tile);
    // Without ranges: clang 14, which the fuzzers need, does not take the subrange that unique gives.
    out.erase(std::unique(out.begin(), out.end(), [](const Image& x, const Image& y) { return x.tile == y.tile; }),
              out.end());
    for (auto& image : out) (void)stand_in(grid, image.tile, &image.by);
    return out;
}

std::int64_t Symmetry::orbit(const TileGrid& grid, TileOrdinal tile) const {
    if (none()) return 1;
    const auto at = grid.coordinates(tile);
    std::int64_t fixed = 0;
    for (const auto& e : elements()) fixed += image(e, grid, at) == tile;
    return static_cast<std::int64_t>(elements().size()) / fixed;
}

}  // namespace tessera

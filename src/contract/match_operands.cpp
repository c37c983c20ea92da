// Whether operands and options are those that a contraction is for.

#include <algorithm>

#include "contract/planned_impl.hpp"

namespace tessera {

namespace {

std::string tile_text(const Shape& shape, std::int64_t ordinal) {
    return to_string(shape.grid().coordinates(TileOrdinal{ordinal}));
}

[[noreturn]] void say_difference(const char* operand, const Shape& planned, const Shape& now) {
    const TileGrid &was = planned.grid(), &is = now.grid();
    require(was.rank() == is.rank(), "{} has rank {}, but the plan is for rank {}", operand, is.rank(), was.rank());
    for (int d = 0; d < was.rank(); ++d)
        require(was.tiling(d) == is.tiling(d), "{}: index {} is {}, but the plan is for {}: {}", operand, d,
                to_string(is.tiling(d)), to_string(was.tiling(d)), first_difference(is.tiling(d), was.tiling(d)));
    const auto before = planned.ordinals(), after = now.ordinals();
    const auto [p, n] = std::ranges::mismatch(before, after);
    const bool missing = n == after.end() || (p != before.end() && *p < *n);
    user_error("{} {} tile {}, which is {}among the {} tiles that the plan is for", operand, missing ? "has no" : "has",
               tile_text(now, missing ? *p : *n), missing ? "" : "not ", before.size());
}

}  // namespace

bool ContractOptions::conjugates(int operand) const {
    return (operand == 0 && conjugate_a) || (operand == 1 && conjugate_b) ||
           std::find(conjugate.begin(), conjugate.end(), operand) != conjugate.end();
}

void require_conjugate(const ContractOptions& options, int operands, std::string_view spec) {
    for (const int o : options.conjugate)
        require(o >= 0 && o < operands, "spec '{}': operand {} is to be conjugated, but there {} {}", spec, o + 1,
                operands == 1 ? "is" : "are", operands);
}

void require_planned_symmetry(const char* operand, const Symmetry& planned, const Symmetry& now) {
    const auto text = [](const Symmetry& s) {
        return s.none() ? std::string("no symmetry") : "the symmetry '" + s.text() + "'";
    };
    require(planned == now, "{} has {}, but the plan is for {}", operand, text(now), text(planned));
}

void require_planned_shape(const char* operand, const Shape& planned, const Shape& now, bool norms) {
    if (planned.grid() == now.grid()) require_planned_symmetry(operand, planned.symmetry(), now.symmetry());
    if (!planned.same_tiles(now)) say_difference(operand, planned, now);
    if (!norms) return;
    for (std::int64_t s = 0; s < now.tile_count(); ++s)
        if (planned.norm_of(s) != now.norm_of(s))
            user_error("{}: tile {} has norm {}, but the plan, which has a filter, is for norm {}", operand,
                       tile_text(now, now.tile(s).value), now.norm_of(s), planned.norm_of(s));
}

void require_like_result(const std::string& spec, const std::string& labels, const TileGrid& c,
                         const TileGrid& result) {
    require(c.rank() == result.rank(), "spec '{}': C has rank {}, but the result's labels '{}' have {}", spec, c.rank(),
            labels, result.rank());
    for (int d = 0; d < result.rank(); ++d) {
        const Tiling &is = c.tiling(d), &wanted = result.tiling(d);
        if (is == wanted) continue;
        const auto one = to_string(is), two = to_string(wanted);
        user_error("spec '{}': label '{}' is {} at index {} of C, but {} in the result{}", spec, labels[d], one, d, two,
                   one == two ? ": " + first_difference(is, wanted) : "");
    }
}

}  // namespace tessera

// Any text is either a spec whose properties hold, or a UserError of one line.
#include <cstdlib>
#include <string>

#include "index/einsum_spec.hpp"
#include "tessera/base/error.hpp"
#include "tessera/index/contraction_spec.hpp"

using namespace tessera;

namespace {

void need(bool ok) {
    if (!ok) std::abort();
}

/// A grid in which equal labels have equal tilings.
TileGrid grid_of(const std::string& labels) {
    std::vector<Tiling> tilings;
    for (char c : labels) tilings.push_back(Tiling::uniform(1 + c % 7, 1 + c % 3));
    return TileGrid(std::move(tilings));
}

void check(const ContractionSpec& spec) {
    need(ContractionSpec(spec.text()) == spec);
    need(spec.operand_count() == 1 || spec.operand_count() == 2);
    for (int o = 0; o < spec.operand_count(); ++o) {
        const auto kept = spec.reduced_labels(o);
        need(kept.size() <= spec.labels(o).size());
        need(spec.needs_reduction(o) == (kept.size() < spec.labels(o).size()));
    }
    if (spec.operand_count() == 2) {
        std::size_t with_role = 0;
        for (auto role : {LabelRole::batch, LabelRole::free_a, LabelRole::free_b})
            with_role += spec.labels_with(role).size();
        need(with_role == spec.c().size());
        for (char c : spec.a() + spec.b()) (void)spec.role(c);
        need(spec.result_grid(grid_of(spec.a()), grid_of(spec.b())) == grid_of(spec.c()));
    } else {
        need(spec.result_grid(grid_of(spec.a())) == grid_of(spec.c()));
    }
}

/// For operands of some extents: an ellipsis stands for none to two indices, of one or two elements.
void check(const std::string& text, const EinsumSpec& spec) {
    need(EinsumSpec(spec.text()) == spec);
    std::vector<IndexVector> extents;
    for (const auto& labels : spec.operands) {
        std::vector<std::int64_t> of;
        for (const char c : labels) {
            if (c != kEllipsis) of.push_back(1 + c % 3);
            for (std::size_t i = 0; c == kEllipsis && i < (text.size() + extents.size()) % 3; ++i)
                of.push_back(1 + static_cast<std::int64_t>((text.size() / 3 + i + extents.size() / 2) % 2));
        }
        if (of.size() > kMaxRank) return;
        extents.push_back(IndexVector(std::span<const std::int64_t>(of)));
    }
    const EinsumSpec written(text, extents);
    need(!written.has_ellipsis());
    need(EinsumSpec(written.text()) == written);
    for (std::size_t o = 0; o < extents.size(); ++o)
        need(static_cast<int>(written.operands[o].size()) == extents[o].size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto refused_in_one_line = [](const auto& act) {
        try {
            act();
        } catch (const UserError& e) {
            need(std::string(e.what()).find('\n') == std::string::npos);
        }
    };
    refused_in_one_line([&] { check(text, EinsumSpec(text)); });
    refused_in_one_line([&] { check(ContractionSpec(text)); });
    return 0;
}

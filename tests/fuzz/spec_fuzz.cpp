// Any text is either a spec whose properties hold, or a UserError of one line.
#include <cstdlib>
#include <string>

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const ContractionSpec spec(text);
        check(spec);
    } catch (const UserError& e) {
        need(std::string(e.what()).find('\n') == std::string::npos);
    }
    return 0;
}

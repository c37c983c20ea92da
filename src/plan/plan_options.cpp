#include "tessera/plan/plan_options.hpp"

#include <span>

#include "base/check.hpp"

namespace tessera {

namespace {

constexpr const char* kAlgorithms[] = {"auto", "stationary_b", "outer_product", "split_k", "replicate_b", "split_grid"};
constexpr const char* kBlocks[] = {"auto", "columns", "patches", "worst_fit", "stay", "strips"};
constexpr const char* kDeals[] = {"auto", "mirrored", "place"};
constexpr int kBlocksToAskFor = 4;

template <class Value>
Value parse(std::string_view text, const char* what, std::span<const char* const> names) {
    std::string list;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (text == names[i]) return static_cast<Value>(i);
        list += (i > 0 ? ", " : "") + std::string(names[i]);
    }
    user_error("{} '{}': one of {}", what, text, list);
}

}  // namespace

const char* name(Algorithm algorithm) { return kAlgorithms[static_cast<std::size_t>(algorithm)]; }
const char* name(Blocks blocks) { return kBlocks[static_cast<std::size_t>(blocks)]; }
const char* name(Deal deal) { return kDeals[static_cast<std::size_t>(deal)]; }

std::string names(const std::vector<Blocks>& blocks) {
    std::string out;
    for (const auto b : blocks) out += (out.empty() ? "" : ", ") + std::string(name(b));
    return out;
}

Algorithm parse_algorithm(std::string_view text) { return parse<Algorithm>(text, "algorithm", kAlgorithms); }
Deal parse_deal(std::string_view text) { return parse<Deal>(text, "deal", kDeals); }
Blocks parse_blocks(std::string_view text) {
    return parse<Blocks>(text, "blocks", std::span(kBlocks).first(kBlocksToAskFor));
}

}  // namespace tessera

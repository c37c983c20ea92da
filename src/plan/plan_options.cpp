#include "tessera/plan/plan_options.hpp"

#include <iterator>

#include "base/check.hpp"

namespace tessera {

namespace {

constexpr const char* kAlgorithms[] = {"auto", "stationary_b", "outer_product", "split_k", "replicate_b"};
constexpr const char* kBlocks[] = {"auto", "columns", "patches", "worst_fit", "stay", "strips"};
constexpr int kBlocksToAskFor = 4;

template <class Value, std::size_t n>
Value parse(std::string_view text, const char* what, const char* const (&names)[n], std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) {
        if (text == names[i]) return static_cast<Value>(i);
        list += (i > 0 ? ", " : "") + std::string(names[i]);
    }
    user_error("{} '{}': one of {}", what, text, list);
}

}  // namespace

const char* name(Algorithm algorithm) { return kAlgorithms[static_cast<std::size_t>(algorithm)]; }
const char* name(Blocks blocks) { return kBlocks[static_cast<std::size_t>(blocks)]; }

std::string names(const std::vector<Blocks>& blocks) {
    std::string out;
    for (const auto b : blocks) out += (out.empty() ? "" : ", ") + std::string(name(b));
    return out;
}

Algorithm parse_algorithm(std::string_view text) {
    return parse<Algorithm>(text, "algorithm", kAlgorithms, std::size(kAlgorithms));
}
Blocks parse_blocks(std::string_view text) { return parse<Blocks>(text, "blocks", kBlocks, kBlocksToAskFor); }

}  // namespace tessera

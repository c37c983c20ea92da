#include "tessera/index/contraction_spec.hpp"

#include "base/check.hpp"
#include "index/einsum_spec.hpp"

namespace tessera {

namespace {

bool has(const std::string& labels, char l) { return labels.find(l) != std::string::npos; }

}  // namespace

ContractionSpec::ContractionSpec(std::string_view text) {
    EinsumSpec spec(text);
    if (spec.has_ellipsis())
        user_error("spec '{}': what '...' stands for is known only with the operands", spec.text());
    if (spec.count() > 2)
        user_error("spec '{}': {} operands; a contraction has one or two, an einsum any number", spec.text(),
                   spec.count());
    operands_ = std::move(spec.operands);
    result_ = std::move(spec.result);

    for (int n = 0; n < operand_count(); ++n)
        for (const char l : operands_[n]) {
            const bool a = has(operands_[0], l), both = a && operand_count() == 2 && has(operands_[1], l);
            const bool c = has(result_, l);
            const auto role = both ? (c ? LabelRole::batch : LabelRole::contracted)
                              : a  ? (c ? LabelRole::free_a : LabelRole::summed_a)
                                   : (c ? LabelRole::free_b : LabelRole::summed_b);
            roles_[static_cast<std::size_t>(l)] = static_cast<std::int8_t>(static_cast<int>(role) + 1);
        }
    for (int n = 0; n < operand_count(); ++n) reduces_[n] = reduced_labels(n) != operands_[n];
}

LabelRole ContractionSpec::role(char label) const {
    const auto known = label > 0 ? roles_[static_cast<std::size_t>(label)] : 0;
    if (known == 0) user_error("spec '{}': there is no label '{}'", text(), label);
    return static_cast<LabelRole>(known - 1);
}

std::string ContractionSpec::labels_with(LabelRole wanted) const {
    const std::string* order = &result_;
    if (wanted == LabelRole::contracted || wanted == LabelRole::summed_a) order = &operands_[0];
    if (wanted == LabelRole::summed_b) {
        if (operand_count() < 2) return {};
        order = &operands_[1];
    }
    std::string out;
    for (char l : *order)
        if (!has(out, l) && role(l) == wanted) out += l;
    return out;
}

std::string ContractionSpec::reduced_labels(int operand) const {
    std::string out;
    for (char l : operands_[operand]) {
        const auto r = role(l);
        if (!has(out, l) && r != LabelRole::summed_a && r != LabelRole::summed_b) out += l;
    }
    return out;
}

TileGrid ContractionSpec::result_grid(const TileGrid& a) const {
    if (operand_count() != 1) user_error("spec '{}': has two operands, but one was given", text());
    const TileGrid* grids[] = {&a};
    return tessera::result_grid(operands_, result_, grids);
}

TileGrid ContractionSpec::result_grid(const TileGrid& a, const TileGrid& b) const {
    if (operand_count() != 2) user_error("spec '{}': has one operand, but two were given", text());
    const TileGrid* grids[] = {&a, &b};
    return tessera::result_grid(operands_, result_, grids);
}

std::string ContractionSpec::text() const { return spec_text(operands_, result_); }

}  // namespace tessera

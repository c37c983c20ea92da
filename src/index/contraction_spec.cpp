#include "tessera/index/contraction_spec.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool has(const std::string& labels, char l) { return labels.find(l) != std::string::npos; }

/// Text for an error message: printable, and not longer than a line.
std::string shown(std::string_view text) {
    std::string s;
    for (char c : text.substr(0, 60)) s += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > 60 ? s + "..." : s;
}

}  // namespace

ContractionSpec::ContractionSpec(std::string_view text) {
    const auto arrow = text.find("->");
    // Parsed for every contraction, however small: texts of messages are made only where they are needed.
    if (arrow == std::string_view::npos)
        user_error("spec '{}': no '->'; write the result, as in 'ik,kj->ij'", shown(text));
    if (text.find("->", arrow + 2) != std::string_view::npos) user_error("spec '{}': more than one '->'", shown(text));

    const auto take = [&](std::string_view part, std::size_t at, const char* allowed_too) {
        std::string labels;
        for (std::size_t i = 0; i < part.size(); ++i) {
            const char c = part[i];
            if (c == ' ' || c == '\t') continue;
            if (!is_letter(c) && std::string_view(allowed_too).find(c) == std::string_view::npos)
                user_error("spec '{}': '{}' at position {} is not a letter", shown(text), shown(part.substr(i, 1)),
                           at + i + 1);
            labels += c;
        }
        return labels;
    };
    const std::string left = take(text.substr(0, arrow), 0, ",");
    result_ = take(text.substr(arrow + 2), arrow + 2, "");

    std::size_t begin = 0;
    for (std::size_t comma = 0; comma != std::string::npos; begin = comma + 1) {
        comma = left.find(',', begin);
        operands_.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    }
    if (operands_.size() > 2)
        user_error("spec '{}': {} operands; one or two are possible", shown(text), operands_.size());
    for (std::size_t i = 0; i < operands_.size(); ++i)
        if (operands_[i].size() > kMaxRank)
            user_error("spec '{}': operand {} has rank {}, the highest supported is {}", shown(text),
                       i == 0 ? "A" : "B", operands_[i].size(), kMaxRank);
    if (result_.size() > kMaxRank)
        user_error("spec '{}': the result has rank {}, the highest supported is {}", shown(text), result_.size(),
                   kMaxRank);
    for (std::size_t i = 0; i < result_.size(); ++i) {
        const char l = result_[i];
        if (result_.find(l, i + 1) != std::string::npos)
            user_error("spec '{}': label '{}' stands twice in the result", shown(text), l);
        if (!has(operands_[0], l) && !(operand_count() == 2 && has(operands_[1], l)))
            user_error("spec '{}': label '{}' of the result stands in no operand", shown(text), l);
    }

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

namespace {

TileGrid grid_of(const ContractionSpec& spec, std::initializer_list<const TileGrid*> grids) {
    struct Known {
        const Tiling* tiling = nullptr;
        int operand = 0, index = 0;
    };
    std::array<Known, 128> known{};
    static constexpr const char* names[] = {"A", "B"};
    int operand = 0;
    for (const TileGrid* grid : grids) {
        const auto& labels = spec.labels(operand);
        if (grid->rank() != static_cast<int>(labels.size()))
            user_error("spec '{}': operand {} has rank {}, but its labels '{}' have {}", spec.text(), names[operand],
                       grid->rank(), labels, labels.size());
        for (int d = 0; d < grid->rank(); ++d) {
            auto& k = known[static_cast<unsigned char>(labels[d])];
            const Tiling& t = grid->tiling(d);
            if (!k.tiling) k = {&t, operand, d};
            if (*k.tiling == t) continue;
            const auto one = to_string(*k.tiling), two = to_string(t);
            user_error("spec '{}': label '{}' is {} at index {} of {}, but {} at index {} of {}{}", spec.text(),
                       labels[d], one, k.index, names[k.operand], two, d, names[operand],
                       one == two ? ": " + first_difference(*k.tiling, t) : "");
        }
        ++operand;
    }
    std::vector<Tiling> result;
    for (char l : spec.c()) result.push_back(*known[static_cast<unsigned char>(l)].tiling);
    try {
        return TileGrid(std::move(result));
    } catch (const UserError& e) {
        user_error("spec '{}': the result: {}", spec.text(), e.what());
    }
}

}  // namespace

TileGrid ContractionSpec::result_grid(const TileGrid& a) const {
    if (operand_count() != 1) user_error("spec '{}': has two operands, but one was given", text());
    return grid_of(*this, {&a});
}

TileGrid ContractionSpec::result_grid(const TileGrid& a, const TileGrid& b) const {
    if (operand_count() != 2) user_error("spec '{}': has one operand, but two were given", text());
    return grid_of(*this, {&a, &b});
}

std::string ContractionSpec::text() const {
    return operands_[0] + (operand_count() == 2 ? "," + operands_[1] : "") + "->" + result_;
}

}  // namespace tessera

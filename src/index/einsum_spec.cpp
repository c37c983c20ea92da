#include "index/einsum_spec.hpp"

#include <algorithm>
#include <array>

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

/// Labels of one part of a spec, which begins at `at`; commas stay.
std::string labels_of(std::string_view text, std::string_view part, std::size_t at, bool commas) {
    std::string labels;
    for (std::size_t i = 0; i < part.size(); ++i) {
        const char c = part[i];
        if (c == ' ' || c == '\t') continue;
        if (part.substr(i, 3) == "...") {
            labels += kEllipsis;
            i += 2;
            continue;
        }
        if (!is_letter(c) && !(commas && c == ','))
            user_error("spec '{}': '{}' at position {} is not a letter", shown(text), shown(part.substr(i, 1)),
                       at + i + 1);
        labels += c;
    }
    return labels;
}

std::size_t named(const std::string& labels) { return labels.size() - (has(labels, kEllipsis) ? 1 : 0); }

/// NumPy's rule for a result that is left away: the ellipsis, then the labels that stand once, sorted.
std::string implied_result(const std::vector<std::string>& operands) {
    std::array<int, 128> times{};
    for (const auto& labels : operands)
        for (const char l : labels) ++times[static_cast<unsigned char>(l)];
    std::string result;
    for (char l = 'A'; l <= 'z'; ++l)
        if (is_letter(l) && times[static_cast<unsigned char>(l)] == 1) result += l;
    return times[kEllipsis] > 0 ? kEllipsis + result : result;
}

/// "operand A", "operand 3"
std::string called(int operand, int count) {
    const auto name = operand_name(operand, count);
    return count > 2 ? name : "operand " + name;
}

}  // namespace

std::string operand_name(int operand, int count) {
    if (count <= 2) return operand == 0 ? "A" : "B";
    return fmt::format("operand {}", operand + 1);
}

EinsumSpec::EinsumSpec(std::string_view text) {
    const auto arrow = text.find("->");
    const bool implied = arrow == std::string_view::npos;
    if (!implied && text.find("->", arrow + 2) != std::string_view::npos)
        user_error("spec '{}': more than one '->'", shown(text));
    const std::string left = labels_of(text, text.substr(0, arrow), 0, true);
    std::size_t begin = 0;
    for (std::size_t comma = 0; comma != std::string::npos; begin = comma + 1) {
        comma = left.find(',', begin);
        operands.push_back(left.substr(begin, comma == std::string::npos ? comma : comma - begin));
    }
    if (operands.size() > 64)
        user_error("spec '{}': {} operands, at most 64 are possible", shown(text), operands.size());
    if (implied && left.empty()) user_error("spec '{}': there is neither a label nor '->'", shown(text));
    result = implied ? implied_result(operands) : labels_of(text, text.substr(arrow + 2), arrow + 2, false);

    const auto check = [&](const std::string& labels, const auto& who) {
        if (std::count(labels.begin(), labels.end(), kEllipsis) > 1)
            user_error("spec '{}': {} has more than one '...'", shown(text), who());
        if (named(labels) > kMaxRank)
            user_error("spec '{}': {} has rank {}, the highest supported is {}", shown(text), who(), named(labels),
                       kMaxRank);
    };
    for (int o = 0; o < count(); ++o) check(operands[static_cast<std::size_t>(o)], [&] { return called(o, count()); });
    check(result, [] { return std::string("the result"); });
    for (std::size_t i = 0; i < result.size(); ++i) {
        const char l = result[i];
        if (l == kEllipsis) continue;
        if (result.find(l, i + 1) != std::string::npos)
            user_error("spec '{}': label '{}' stands twice in the result", shown(text), l);
        if (!has(left, l)) user_error("spec '{}': label '{}' of the result stands in no operand", shown(text), l);
    }
}

namespace {

/// What an ellipsis stands for: its indices, aligned at the right end, each with the first operand that is not of
/// extent 1 there.
struct Meant {
    std::int64_t extent = 1;
    int operand = -1, index = 0;
    char label = 0;
};

class Letters {
  public:
    explicit Letters(const EinsumSpec& spec, std::string_view text) : text_(text) {
        for (const auto& labels : spec.operands) used_ += labels;
    }
    char next() {
        for (char l = 'A'; l <= 'z'; ++l)
            if (is_letter(l) && !has(used_, l)) {
                used_ += l;
                return l;
            }
        user_error("spec '{}': more than 52 labels with those that '...' stands for; there are 52 letters",
                   shown(text_));
    }

  private:
    std::string_view text_;
    std::string used_;
};

}  // namespace

EinsumSpec::EinsumSpec(std::string_view text, std::span<const IndexVector> extents) : EinsumSpec(text) {
    require(static_cast<int>(extents.size()) == count(), "spec '{}': has {} operand{}, but {} {} given", shown(text),
            count(), count() == 1 ? "" : "s", extents.size(), extents.size() == 1 ? "was" : "were");
    std::vector<Meant> meant;  // the last index first
    for (int o = 0; o < count(); ++o) {
        const auto& labels = operands[static_cast<std::size_t>(o)];
        const auto& sizes = extents[static_cast<std::size_t>(o)];
        const int unnamed = sizes.size() - static_cast<int>(named(labels));
        const auto at = labels.find(kEllipsis);
        require(at == std::string::npos ? unnamed == 0 : unnamed >= 0,
                "spec '{}': {} has rank {}, but its labels '{}' have {}", shown(text), called(o, count()), sizes.size(),
                labels.substr(0, at) + (at == std::string::npos ? "" : "..." + labels.substr(at + 1)), named(labels));
        if (at == std::string::npos) continue;
        for (int i = 0; i < unnamed; ++i) {
            if (static_cast<int>(meant.size()) == i) meant.emplace_back();
            auto& m = meant[static_cast<std::size_t>(i)];
            const int index = static_cast<int>(at) + unnamed - 1 - i;
            if (sizes[index] == 1 || sizes[index] == m.extent) continue;
            require(m.operand < 0,
                    "spec '{}': '...' does not broadcast: index {} of {} has {} elements, index {} of {} has {}",
                    shown(text), m.index, operand_name(m.operand, count()), m.extent, index, operand_name(o, count()),
                    sizes[index]);
            m = {sizes[index], o, index};
        }
    }
    require(meant.empty() || has(result, kEllipsis), "spec '{}': '...' stands for {} {}, but the result has no '...'",
            shown(text), meant.size(), meant.size() == 1 ? "index" : "indices");
    Letters letters(*this, text);
    for (auto m = meant.rbegin(); m != meant.rend(); ++m) m->label = letters.next();
    for (int o = 0; o < count(); ++o) {
        auto& labels = operands[static_cast<std::size_t>(o)];
        const auto& sizes = extents[static_cast<std::size_t>(o)];
        const auto at = labels.find(kEllipsis);
        if (at == std::string::npos) continue;
        const int unnamed = sizes.size() - static_cast<int>(named(labels));
        std::string spelled;
        for (int i = unnamed - 1; i >= 0; --i) {
            const auto& m = meant[static_cast<std::size_t>(i)];
            const bool stretched = sizes[static_cast<int>(at) + unnamed - 1 - i] == 1 && m.extent != 1;
            spelled += stretched ? letters.next() : m.label;
        }
        labels.replace(at, 1, spelled);
    }
    if (const auto at = result.find(kEllipsis); at != std::string::npos) {
        std::string spelled;
        for (auto m = meant.rbegin(); m != meant.rend(); ++m) spelled += m->label;
        result.replace(at, 1, spelled);
    }
    require(result.size() <= kMaxRank, "spec '{}': the result has rank {}, the highest supported is {}", shown(text),
            result.size(), kMaxRank);
}

bool EinsumSpec::has_ellipsis() const {
    return has(result, kEllipsis) ||
           std::any_of(operands.begin(), operands.end(), [](const auto& labels) { return has(labels, kEllipsis); });
}

std::string spec_text(const std::vector<std::string>& operands, const std::string& result) {
    std::string out;
    const auto spell = [&](const std::string& labels) {
        for (const char l : labels) out += l == kEllipsis ? "..." : std::string(1, l);
    };
    for (const auto& labels : operands) {
        if (&labels != operands.data()) out += ',';
        spell(labels);
    }
    out += "->";
    spell(result);
    return out;
}

std::string without_ellipsis(std::string_view text, std::initializer_list<IndexVector> extents) {
    if (text.find("...") == std::string_view::npos) return std::string(text);
    return EinsumSpec(text, {extents.begin(), extents.size()}).text();
}

TileGrid result_grid(const std::vector<std::string>& operands, const std::string& result,
                     std::span<const TileGrid* const> grids) {
    const auto count = static_cast<int>(operands.size());
    const auto text = [&] { return spec_text(operands, result); };
    if (static_cast<int>(grids.size()) != count)
        user_error("spec '{}': has {} operand{}, but {} {} given", text(), count, count == 1 ? "" : "s", grids.size(),
                   grids.size() == 1 ? "was" : "were");
    struct Known {
        const Tiling* tiling = nullptr;
        int operand = 0, index = 0;
    };
    std::array<Known, 128> known{};
    for (int o = 0; o < count; ++o) {
        const auto& labels = operands[static_cast<std::size_t>(o)];
        const TileGrid& grid = *grids[static_cast<std::size_t>(o)];
        if (grid.rank() != static_cast<int>(labels.size()))
            user_error("spec '{}': {} has rank {}, but its labels '{}' have {}", text(), called(o, count), grid.rank(),
                       labels, labels.size());
        for (int d = 0; d < grid.rank(); ++d) {
            const char label = labels[static_cast<std::size_t>(d)];
            auto& k = known[static_cast<unsigned char>(label)];
            const Tiling& t = grid.tiling(d);
            if (!k.tiling) k = {&t, o, d};
            if (*k.tiling == t) continue;
            const auto one = to_string(*k.tiling), two = to_string(t);
            user_error("spec '{}': label '{}' is {} at index {} of {}, but {} at index {} of {}{}", text(), label, one,
                       k.index, operand_name(k.operand, count), two, d, operand_name(o, count),
                       one == two ? ": " + first_difference(*k.tiling, t) : "");
        }
    }
    std::vector<Tiling> tilings;
    for (const char l : result) tilings.push_back(*known[static_cast<unsigned char>(l)].tiling);
    try {
        return TileGrid(std::move(tilings));
    } catch (const UserError& e) {
        user_error("spec '{}': the result: {}", text(), e.what());
    }
}

}  // namespace tessera

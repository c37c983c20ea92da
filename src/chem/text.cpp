#include "chem/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/check.hpp"
#include "io/file.hpp"

namespace tessera::chem {

std::string read_text(const std::string& path, std::int64_t most) {
    const InputFile file(path);
    require(file.bytes() <= most, "{}: {} bytes are too many for a text of this kind", path, file.bytes());
    std::string text(static_cast<std::size_t>(file.bytes()), '\0');
    file.read_at(0, text.data(), file.bytes());
    return text;
}

bool Lines::next(std::string_view& line) {
    if (rest_.empty()) return false;
    const auto end = rest_.find('\n');
    line = rest_.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++number_;
    return true;
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    for (std::size_t i = 0; i < line.size();) {
        const auto blank = [&](std::size_t k) { return std::isspace(static_cast<unsigned char>(line[k])) != 0; };
        while (i < line.size() && blank(i)) ++i;
        const auto begin = i;
        while (i < line.size() && !blank(i)) ++i;
        if (i > begin) out.push_back(line.substr(begin, i - begin));
    }
    return out;
}

bool parse_number(std::string_view word, std::int64_t& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size();
}

bool parse_number(std::string_view word, double& value) {
    std::string text(word);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == 'D' || c == 'd'; }, 'e');
    // from_chars knows no plus sign; after one there must be none of the other kind.
    const char* begin = text.data() + (text.starts_with('+') && !text.starts_with("+-") ? 1 : 0);
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

std::string shown(std::string_view text) {
    std::string out(text.substr(0, 40));
    std::replace_if(
        out.begin(), out.end(), [](char c) { return !std::isprint(static_cast<unsigned char>(c)); }, '?');
    return text.size() > 40 ? out + "..." : out;
}

std::string counted(std::int64_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

}  // namespace tessera::chem

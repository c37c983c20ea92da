#include "chem/fcidump.hpp"

#include <cmath>
#include <optional>

#include "base/check.hpp"
#include "chem/hamiltonian_builder.hpp"
#include "chem/text.hpp"
#include "io/file.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::chem {

namespace {

/// What the namelist says: NAME=value,value, ... up to &END or /.
struct Header {
    std::int64_t norb = -1, nelec = -1, ms2 = 0;
};

/// Reads the namelist, and leaves the lines behind it.
class HeaderReader {
  public:
    HeaderReader(Lines& lines, const std::string& name) : lines_(lines), name_(name) {}

    Header read() {
        std::string_view line;
        require(lines_.next(line), "{}: an empty file is no FCIDUMP", name_);
        const auto first = line.find_first_not_of(" \t");
        require(first != std::string_view::npos && line.size() - first >= 4 &&
                    equal_ignoring_case(line.substr(first, 4), "&FCI"),
                "{}:1: '{}' is not '&FCI', with which an FCIDUMP begins", name_, shown(line));
        line.remove_prefix(first + 4);
        while (!take(line)) require(lines_.next(line), "{}: the list after &FCI has no end ('&END' or '/')", name_);
        finish();
        require(out_.norb >= 0, "{}: there is no NORB", name_);
        require(out_.nelec >= 0, "{}: there is no NELEC", name_);
        return out_;
    }

  private:
    /// True where the list ends.
    bool take(std::string_view line) {
        std::string text(line.substr(0, line.find('!')));
        for (auto& c : text)
            if (c == ',') c = ' ';
        for (std::size_t at = 0; (at = text.find('=', at)) != std::string::npos; at += 3) text.replace(at, 1, " = ");
        for (const auto word : words(text)) {
            if (word == "/" || equal_ignoring_case(word, "&END") || equal_ignoring_case(word, "$END")) return true;
            if (word == "=") {
                require(!values_.empty(), "{}:{}: '=' stands after no name", name_, lines_.number());
                const std::string key = values_.back();
                values_.pop_back();
                finish();
                key_ = key;
            } else if (word.size() > 1 && word.back() == '/') {
                values_.emplace_back(word.substr(0, word.size() - 1));
                return true;
            } else {
                values_.emplace_back(word);
            }
        }
        return false;
    }

    /// All values of a name are there.
    void finish() {
        const auto whole = [&](std::int64_t most) {
            std::int64_t value = 0;
            require(values_.size() == 1 && parse_number(values_[0], value) && value >= 0 && value <= most,
                    "{}: {} is '{}': a whole number up to {} is needed", name_, key_,
                    values_.empty() ? "" : shown(values_[0]), most);
            return value;
        };
        const auto is = [&](const char* key) { return equal_ignoring_case(key_, key); };
        if (is("NORB")) out_.norb = whole(kMostOrbitals);
        if (is("NELEC")) out_.nelec = whole(2 * kMostOrbitals);
        if (is("MS2")) out_.ms2 = whole(2 * kMostOrbitals);
        const bool unrestricted = is("IUHF") || is("UHF"), complex = is("ICMPLX");
        if ((unrestricted || complex) && !values_.empty()) {
            const auto& v = values_[0];
            const bool no = v == "0" || equal_ignoring_case(v, ".FALSE.") || equal_ignoring_case(v, "F") ||
                            equal_ignoring_case(v, "FALSE");
            require(no, "{}: {}={}: only {} orbitals are read", name_, key_, shown(v), complex ? "real" : "restricted");
        }
        values_.clear();
        key_.clear();
    }

    Lines& lines_;
    const std::string& name_;
    Header out_;
    std::string key_;
    std::vector<std::string> values_;
};

}  // namespace

Hamiltonian parse_fcidump(std::string_view text, const std::string& name, std::int64_t memory) {
    Lines lines(text);
    const Header header = HeaderReader(lines, name).read();
    const auto n = header.norb;
    require(n >= 1, "{}: NORB={}: there are no orbitals", name, n);
    require(header.ms2 == 0, "{}: MS2={}: only closed shells are computed", name, header.ms2);
    HamiltonianBuilder out(name, n, header.nelec, "NELEC=", memory);
    for (std::string_view line; lines.next(line);) {
        const auto parts = words(line);
        if (parts.empty()) continue;
        double value = 0;
        std::int64_t at[4] = {};
        require(parts.size() == 5, "{}:{}: '{}': a number and four orbitals are needed", name, lines.number(),
                shown(line));
        require(parts[0].front() != '(', "{}:{}: '{}': only real integrals are read", name, lines.number(),
                shown(parts[0]));
        require(parse_number(parts[0], value) && std::isfinite(value), "{}:{}: '{}' is no number", name, lines.number(),
                shown(parts[0]));
        for (int d = 0; d < 4; ++d)
            require(parse_number(parts[d + 1], at[d]) && at[d] >= 0 && at[d] <= n,
                    "{}:{}: '{}' is no orbital from 0 to {}", name, lines.number(), shown(parts[d + 1]), n);
        const auto [i, j, k, l] = at;
        std::optional<double> before;
        if (i > 0 && j > 0 && k > 0 && l > 0) {
            before = out.two(i - 1, j - 1, k - 1, l - 1, value);
        } else if (i > 0 && j > 0 && k == 0 && l == 0) {
            before = out.one(i - 1, j - 1, value);
        } else if (i == 0 && j == 0 && k == 0 && l == 0) {
            before = out.constant(value);
        } else {
            // An orbital energy stands as i 0 0 0; the Hamiltonian does not need it.
            require(i > 0 && j == 0 && k == 0 && l == 0, "{}:{}: no integral is numbered {} {} {} {}", name,
                    lines.number(), i, j, k, l);
        }
        require(!before, "{}:{}: {} for the integral {} {} {} {}, which was {} before", name, lines.number(), value, i,
                j, k, l, before.value_or(0));
    }
    return out.take();
}

Hamiltonian read_fcidump(const std::string& path, std::int64_t memory) {
    const auto most = memory > 0 ? memory : memory_bytes();
    if (const auto bytes = InputFile(path).bytes(); bytes > most)
        throw BudgetError(
            fmt::format("{}: a file of {} does not fit in {} of memory", path, format_bytes(bytes), format_bytes(most)),
            most, bytes);
    return parse_fcidump(read_text(path, most), path, most);
}

}  // namespace tessera::chem

#include "chem/basis.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "base/shared_data.hpp"
#include "chem/text.hpp"

namespace tessera::chem {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEnding = ".g94";
constexpr std::string_view kMomenta = "SPDFGHI";

bool is_separator(std::string_view line) { return line.starts_with("****"); }

/// "ECP" or "Au-ECP 3 60": the potential in place of an atom's core, of which Hartree-Fock here knows nothing.
void refuse_potential(std::string_view line, const std::string& name, int number) {
    constexpr std::string_view kPotential = "ECP";
    const auto w = words(line);
    if (w.empty() || w[0].size() < kPotential.size()) return;
    const auto end = w[0].size() - kPotential.size();
    require(!equal_ignoring_case(w[0].substr(end), kPotential) || (end > 0 && w[0][end - 1] != '-'),
            "{} line {}: '{}': effective core potentials (ECPs) are not supported", name, number, shown(line));
}

/// The norm of the function that normalised primitives with these coefficients add up to, squared.
double self_overlap(const Shell& shell) {
    double sum = 0;
    for (std::size_t i = 0; i < shell.exponents.size(); ++i)
        for (std::size_t j = 0; j < shell.exponents.size(); ++j) {
            const double a = shell.exponents[i], b = shell.exponents[j];
            sum += shell.coefficients[i] * shell.coefficients[j] *
                   std::pow(2 * std::sqrt(a) * std::sqrt(b) / (a + b), shell.l + 1.5);
        }
    return sum;
}

/// Functions are normalised, which needs something to normalise and numbers whose powers are numbers.
bool can_be_normalised(const Shell& shell) {
    constexpr double kSteepest = 1e20, kMostDiffuse = 1e-20, kSmallestNorm = 1e-20, kLeftOfSum = 1e-12;
    double squares = 0;
    for (const double c : shell.coefficients) squares += c * c;
    for (const double e : shell.exponents)
        if (!(e > kMostDiffuse && e < kSteepest)) return false;
    const double norm = self_overlap(shell);
    return norm > kLeftOfSum * squares && norm > kSmallestNorm && norm < 1 / kSmallestNorm;
}

/// The primitives of one "SP 3 1.00" block: for each letter a shell.
void read_block(Lines& lines, const std::vector<std::string_view>& head, const std::string& name,
                std::vector<Shell>& out) {
    std::int64_t primitives = 0;
    double scale = 1;
    require(head.size() >= 2 && parse_number(head[1], primitives) && primitives >= 1 && primitives < 1000 &&
                (head.size() < 3 || (parse_number(head[2], scale) && scale > 0)),
            "{} line {}: 'letter primitives scale' is expected", name, lines.number());
    std::vector<Shell> shells;
    for (char c : head[0]) {
        const auto l = kMomenta.find(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
        require(l != std::string_view::npos, "{} line {}: unknown shell '{}'", name, lines.number(), shown(head[0]));
        require(static_cast<int>(l) <= kHighestMomentum, "{} line {}: {} shells are beyond the integrals ({} at most)",
                name, lines.number(), kMomenta[l], kMomenta[kHighestMomentum]);
        shells.push_back({static_cast<int>(l), {}, {}});
    }
    std::string_view line;
    for (std::int64_t p = 0; p < primitives; ++p) {
        require(lines.next(line), "{}: ends within a shell", name);
        const auto w = words(line);
        require(w.size() >= 1 + shells.size(), "{} line {}: an exponent and {} are expected, not '{}'", name,
                lines.number(), counted(static_cast<std::int64_t>(shells.size()), "coefficient"), shown(line));
        for (std::size_t s = 0; s < shells.size(); ++s) {
            double exponent = 0, coefficient = 0;
            require(parse_number(w[0], exponent) && std::isfinite(exponent) && exponent > 0,
                    "{} line {}: '{}' is not an exponent", name, lines.number(), shown(w[0]));
            require(parse_number(w[1 + s], coefficient) && std::isfinite(coefficient),
                    "{} line {}: '{}' is not a coefficient", name, lines.number(), shown(w[1 + s]));
            // A primitive with coefficient zero would only cost time.
            if (coefficient == 0) continue;
            shells[s].exponents.push_back(exponent * scale * scale);
            shells[s].coefficients.push_back(coefficient);
        }
    }
    for (auto& s : shells) {
        require(!s.exponents.empty(), "{} line {}: a shell whose coefficients are all zero", name, lines.number());
        require(
            can_be_normalised(s),
            "{} line {}: the {} shell that ends here cannot be normalised (norm {:.2g}, exponents {:.2g} to {:.2g})",
            name, lines.number(), kMomenta[static_cast<std::size_t>(s.l)], std::sqrt(std::max(0.0, self_overlap(s))),
            *std::min_element(s.exponents.begin(), s.exponents.end()),
            *std::max_element(s.exponents.begin(), s.exponents.end()));
        out.push_back(std::move(s));
    }
}

/// "! Reference [H He]: who, where"
void note_reference(std::string_view line, BasisSet& set) {
    constexpr std::string_view kBegin = "! Reference [";
    const auto end = line.find("]: ");
    if (!line.starts_with(kBegin) || end == std::string_view::npos) return;
    set.references.emplace_back(fmt::format(" {} ", line.substr(kBegin.size(), end - kBegin.size())),
                                line.substr(end + 3));
}

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none))
        if (entry.path().extension() == kEnding) names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

BasisSet parse_g94(std::string_view text, const std::string& name) {
    BasisSet set;
    set.name = name;
    Lines lines(text);
    std::string_view line;
    std::vector<Shell>* element = nullptr;
    while (lines.next(line)) {
        const auto w = words(line);
        note_reference(line, set);
        if (w.empty() || w[0].front() == '!' || w[0].front() == '#') continue;
        if (!set.elements.empty()) refuse_potential(line, name, lines.number());
        if (is_separator(w[0])) {
            element = nullptr;
        } else if (!element) {
            const auto symbol = w[0].front() == '-' ? w[0].substr(1) : w[0];
            int z = element_number(symbol);
            if (z == 0) {  // an element beyond those with names here, or the words of a header
                const bool looks_right = w.size() == 2 && w[1] == "0" && symbol.size() <= 2;
                require(set.elements.empty() || looks_right, "{} line {}: an element is expected, not '{}'", name,
                        lines.number(), shown(line));
                if (!looks_right) continue;
                z = -1 - static_cast<int>(set.elements.size());
            }
            if (set.elements.contains(z)) {
                const auto number = lines.number();
                if (lines.next(line)) refuse_potential(line, name, lines.number());  // these come after all functions
                user_error("{} line {}: {} a second time", name, number, symbol);
            }
            element = &set.elements[z];
        } else {
            require(w.size() >= 2, "{} line {}: '{}' is not a shell", name, lines.number(), shown(line));
            read_block(lines, w, name, *element);
        }
    }
    std::erase_if(set.elements, [](const auto& e) { return e.first < 0; });
    require(std::any_of(set.elements.begin(), set.elements.end(), [](const auto& e) { return !e.second.empty(); }),
            "{}: no basis functions in Gaussian-94 format", name);
    return set;
}

BasisSet find_basis(const std::string& name, const std::string& folder) {
    const auto names = folder.empty() ? list_shared_data("basis", kEnding) : names_in(folder);
    for (const auto& n : names)
        if (equal_ignoring_case(n, name)) {
            const auto file = n + std::string(kEnding);
            return parse_g94(
                read_text(folder.empty() ? find_shared_data("basis/" + file) : (fs::path(folder) / file).string()), n);
        }
    std::error_code none;
    if (fs::is_regular_file(name, none)) return parse_g94(read_text(name), name);
    if (names.empty())
        user_error(
            "basis '{}': no such file, and no basis sets are in {}: set the basis folder", name,
            folder.empty() ? fmt::format("{}", fmt::join(shared_data_folders(), "/basis, ")) + "/basis" : folder);
    user_error("unknown basis '{}': there are {}, or give the path of a .g94 file", shown(name),
               fmt::join(names, ", "));
}

std::vector<std::string> BasisSet::references_of(const Molecule& molecule) const {
    std::vector<std::string> out;
    for (const auto& [symbols, text] : references)
        if (std::any_of(molecule.atoms.begin(), molecule.atoms.end(), [&](const Atom& a) {
                return symbols.find(fmt::format(" {} ", element_symbol(a.number))) != std::string::npos;
            }))
            out.push_back(text);
    return out;
}

AuxiliarySets auxiliary_sets(const std::string& basis) {
    constexpr std::array<std::array<const char*, 3>, 6> kSets{{{"sto-3g", "def2-universal-jkfit", "def2-svp-rifit"},
                                                               {"def2-svp", "def2-universal-jkfit", "def2-svp-rifit"},
                                                               {"def2-tzvp", "def2-universal-jkfit", "def2-tzvp-rifit"},
                                                               {"cc-pvdz", "cc-pvtz-jkfit", "cc-pvdz-rifit"},
                                                               {"cc-pvtz", "cc-pvtz-jkfit", "cc-pvtz-rifit"},
                                                               {"aug-cc-pvdz", "cc-pvtz-jkfit", "aug-cc-pvdz-rifit"}}};
    for (const auto& [name, jkfit, rifit] : kSets)
        if (equal_ignoring_case(basis, name)) return {jkfit, rifit};
    return {};
}

std::int64_t Basis::functions_of(std::int64_t atom) const {
    std::int64_t n = 0;
    for (auto s = first_shell[atom]; s < first_shell[atom + 1]; ++s) n += shells[s].shell.functions();
    return n;
}

Basis place(const BasisSet& set, const Molecule& molecule) {
    Basis basis;
    basis.name = set.name;
    for (std::size_t a = 0; a < molecule.atoms.size(); ++a) {
        const auto& atom = molecule.atoms[a];
        const auto shells = set.elements.find(atom.number);
        if (shells == set.elements.end() || shells->second.empty()) {
            std::vector<std::string_view> known;
            for (const auto& [z, its] : set.elements)
                if (!its.empty()) known.push_back(element_symbol(z));
            user_error("basis {} has no functions for {} (atom {}); it has {}", set.name, element_symbol(atom.number),
                       a + 1, fmt::join(known, " "));
        }
        basis.first_shell.push_back(static_cast<std::int64_t>(basis.shells.size()));
        for (const auto& s : shells->second) {
            basis.shells.push_back({s, static_cast<std::int64_t>(a), basis.functions, atom.at});
            basis.functions += s.functions();
        }
    }
    basis.first_shell.push_back(static_cast<std::int64_t>(basis.shells.size()));
    return basis;
}

}  // namespace tessera::chem

#include "chem/molecule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "chem/text.hpp"

namespace tessera::chem {

namespace {

constexpr std::string_view kSymbols[] = {"",   "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg",
                                         "Al", "Si", "P",  "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn",
                                         "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr"};
constexpr double kClosest = 0.1;  // Angstrom: nearer than any bond, and the integrals would be near singular
constexpr std::int64_t kMostAtoms = 20000;
constexpr double kFarthest = 1e6;  // Angstrom

bool is_coordinate(std::string_view word, double& value) {
    return parse_number(word, value) && std::isfinite(value) && std::abs(value) < kFarthest;
}

/// "symbol x y z", and perhaps more.
bool is_atom(const std::vector<std::string_view>& w) {
    double x = 0;
    return w.size() >= 4 && element_number(w[0]) > 0 && is_coordinate(w[1], x) && is_coordinate(w[2], x) &&
           is_coordinate(w[3], x);
}

ClosestAtoms closest_atoms(const Molecule& m) {
    ClosestAtoms out;
    for (std::size_t i = 0; i < m.atoms.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const double d = distance(m.atoms[i].at, m.atoms[j].at) * kBohrInAngstrom;
            if (d < out.angstrom) out = {j, i, d};
        }
    return out;
}

}  // namespace

double distance(const Point& a, const Point& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

int Molecule::electrons() const {
    int n = -charge;
    for (const Atom& a : atoms) n += a.number;
    return n;
}

double Molecule::nuclear_repulsion() const {
    double e = 0;
    for (std::size_t i = 0; i < atoms.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) e += atoms[i].number * atoms[j].number / distance(atoms[i].at, atoms[j].at);
    return e;
}

std::string_view element_symbol(int number) {
    return number > 0 && number < static_cast<int>(std::size(kSymbols)) ? kSymbols[number] : "?";
}

int element_number(std::string_view symbol) {
    for (int z = 1; z < static_cast<int>(std::size(kSymbols)); ++z)
        if (equal_ignoring_case(symbol, kSymbols[z])) return z;
    int z = 0;
    const auto [end, error] = std::from_chars(symbol.data(), symbol.data() + symbol.size(), z);
    const bool number = error == std::errc() && end == symbol.data() + symbol.size();
    return number && z > 0 && z < static_cast<int>(std::size(kSymbols)) ? z : 0;
}

int core_orbitals(int number) {
    require(number <= 18, "frozen core: known for H to Ar, not for {}", element_symbol(number));
    return number <= 2 ? 0 : number <= 10 ? 1 : 5;
}

Molecule parse_xyz(std::string_view text, const std::string& name) {
    Molecule m;
    m.name = name;
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the mark some editors put first
    Lines lines(text);
    std::string_view line;
    do require(lines.next(line), "{}: empty, not an xyz file", name);
    while (line.starts_with('#'));  // remarks before the format begins
    std::int64_t count = 0;
    const auto head = words(line);
    require(head.size() == 1 && parse_number(head[0], count) && count >= 1,
            "{} line {}: the number of atoms is expected, not '{}'", name, lines.number(), shown(line));
    require(count <= kMostAtoms, "{} line {}: {} atoms are more than this program takes ({})", name, lines.number(),
            count, kMostAtoms);
    require(lines.next(line), "{}: ends after the number of atoms; a comment and {} {} expected", name,
            counted(count, "atom"), count == 1 ? "is" : "are");
    const auto comment_line = lines.number();
    const bool comment_is_atom = is_atom(words(line));
    while (static_cast<std::int64_t>(m.atoms.size()) < count) {
        require(lines.next(line), "{}: says {}, but has {}{}", name, counted(count, "atom"), m.atoms.size(),
                comment_is_atom ? fmt::format("; line {} is a comment, whatever it says", comment_line) : "");
        const auto w = words(line);
        if (!w.empty() && w[0].front() == '#') continue;
        require(w.size() >= 4, "{} line {}: 'symbol x y z' is expected, not '{}' ({} of {} read)", name, lines.number(),
                shown(line), m.atoms.size(), counted(count, "atom"));
        Atom a;
        a.number = element_number(w[0]);
        require(a.number > 0,
                "{} line {}: unknown element '{}'; symbols H to Kr and nuclear charges are read (the basis sets that "
                "come with Tessera have H to Ar)",
                name, lines.number(), shown(w[0]));
        for (int x = 0; x < 3; ++x) {
            require(is_coordinate(w[x + 1], a.at[x]), "{} line {}: '{}' is not a coordinate (Angstrom, below {:g})",
                    name, lines.number(), shown(w[x + 1]), kFarthest);
            a.at[x] /= kBohrInAngstrom;
        }
        m.atoms.push_back(a);
    }
    // Whatever else follows is passed over, but not an atom: then the count is wrong, and so would be the molecule.
    while (lines.next(line)) {
        const auto w = words(line);
        if (w.empty() || w[0].front() == '#') continue;
        require(!is_atom(w), "{} line {}: says {}, but another one follows: '{}'", name, lines.number(),
                counted(count, "atom"), shown(line));
        break;
    }
    return m;
}

Molecule read_xyz(const std::string& path) {
    require(!path.empty(), "'' is no name of an xyz file");
    return parse_xyz(read_text(path), path);
}

ClosestAtoms check_atoms(const Molecule& m) {
    require(!m.atoms.empty(), "{}: a molecule without atoms", m.name);
    const auto closest = closest_atoms(m);
    const auto [j, i, d] = closest;
    require(d > kClosest, "{}: atoms {} ({}) and {} ({}) are on top of each other, {:.3f} Angstrom apart", m.name,
            j + 1, element_symbol(m.atoms[j].number), i + 1, element_symbol(m.atoms[i].number), d);
    const int n = m.electrons();
    require(n > 0, "{}: charge {} leaves {}", m.name, m.charge, counted(n, "electron"));
    return closest;
}

ClosestAtoms check_closed_shell(const Molecule& m) {
    const auto closest = check_atoms(m);
    const int n = m.electrons();
    require(n % 2 == 0,
            "{}: {} with charge {}: only closed shells (an even number) have reference rhf; uhf and rohf "
            "treat others",
            m.name, counted(n, "electron"), m.charge);
    return closest;
}

std::array<std::int64_t, 2> electrons_of_spins(const Molecule& m, int multiplicity) {
    const std::int64_t n = m.electrons(), open = multiplicity == 0 ? n % 2 : multiplicity - 1;
    require(n > 0, "{}: charge {} leaves {}", m.name, m.charge, counted(n, "electron"));
    require(multiplicity >= 0, "multiplicity {}: 1 or more is needed", multiplicity);
    require(open <= n && (n - open) % 2 == 0, "{}: multiplicity {} is impossible with {}{}", m.name, multiplicity,
            counted(n, "electron"),
            open > n ? fmt::format(": they have {} at most", n + 1)
                     : fmt::format(", an {} number: it is {} then", n % 2 == 0 ? "even" : "odd",
                                   n % 2 == 0 ? "odd" : "even"));
    return {(n + open) / 2, (n - open) / 2};
}

}  // namespace tessera::chem

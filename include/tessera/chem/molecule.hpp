#pragma once
// Atoms, from xyz files.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {
namespace chem {

inline constexpr double kBohrInAngstrom = 0.52917721067;

using Point = std::array<double, 3>;
double distance(const Point& a, const Point& b);

struct Atom {
    int number = 0;  // nuclear charge
    Point at{};      // bohr
};

struct Molecule {
    std::string name;
    std::vector<Atom> atoms;
    int charge = 0;

    int electrons() const;
    double nuclear_repulsion() const;
};

/// "C" of 6, and 6 of "C", "c" or "6"; 0 where there is no such element.
std::string_view element_symbol(int number);
int element_number(std::string_view symbol);
/// Doubly occupied orbitals that --frozen-core leaves out: 0 for H and He, 1 for Li to Ne, 5 for Na to Ar.
int core_orbitals(int number);

/// The first molecule of the text: count, comment line, then "symbol x y z" in Angstrom. Further columns, lines that
/// start with '#' among the atoms, blank lines at the end and further frames are passed over; more atoms than the count
/// says are an error. UserErrors name the line.
Molecule parse_xyz(std::string_view text, const std::string& name);
Molecule read_xyz(const std::string& path);

}  // namespace chem
}  // namespace tessera

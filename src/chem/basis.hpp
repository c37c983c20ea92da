#pragma once
// Contracted Gaussian basis functions: read from Gaussian-94 text, placed on the atoms of a molecule.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chem/molecule.hpp"

namespace tessera::chem {

/// One contraction; spherical functions from d on.
struct Shell {
    int l = 0;
    std::vector<double> exponents, coefficients;  // of normalised primitives
    std::int64_t functions() const { return 2 * l + 1; }
};

/// The shells of each element, by nuclear charge.
struct BasisSet {
    std::string name;
    std::map<int, std::vector<Shell>> elements;
    /// From lines "! Reference [H He]: who, where": the elements, between spaces, and the rest.
    std::vector<std::pair<std::string, std::string>> references;
    /// Those of the molecule's elements.
    std::vector<std::string> references_of(const Molecule& molecule) const;
};

inline constexpr int kHighestMomentum = 5;  // of the integral library as Debian builds it

BasisSet parse_g94(std::string_view text, const std::string& name);
/// A name ("cc-pvdz", any case) looked up in the folder (none: basis/ of the shared files), or the path of a file.
/// UserError with what there is.
BasisSet find_basis(const std::string& name, const std::string& folder = {});

/// The auxiliary sets that go with a basis: for Fock matrices, and for correlation. Empty where none are known.
struct AuxiliarySets {
    std::string jkfit, rifit;
};
AuxiliarySets auxiliary_sets(const std::string& basis);

struct PlacedShell {
    Shell shell;
    std::int64_t atom = 0, first = 0;  // first: of its functions
    Point at{};
};

/// The basis of a molecule: shells in the order of the atoms.
struct Basis {
    std::string name;
    std::vector<PlacedShell> shells;
    std::int64_t functions = 0;
    std::vector<std::int64_t> first_shell;  // of each atom, and the end
    std::int64_t functions_of(std::int64_t atom) const;
};
/// UserError where the set lacks an element of the molecule.
Basis place(const BasisSet& set, const Molecule& molecule);

}  // namespace tessera::chem

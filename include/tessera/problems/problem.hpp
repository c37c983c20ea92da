#pragma once
// Named problems: shapes and tile generators for tests, demonstrations and benchmarks.

#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/storage/tile_source.hpp"

namespace TESSERA_API tessera {

/// Operands are given by shape and generator; nothing is made yet. Norms in the shapes are upper bounds of the tiles'.
struct Problem {
    std::string name;  // canonical text, as make_problem takes it
    std::string spec;
    Shape a, b;
    std::optional<Shape> c;  // the result's shape where the problem fixes it
    TileGenerator<double> make_a, make_b;
    HashRule hash_a, hash_b;   // the same tiles for devices
    bool b_on_demand = false;  // B is too large to store: its tiles are made when needed
};

/// dense:M,N,K,t  blocks:nb,bs,occ[,seed]  synthetic:M,N,K,density[,lo,hi[,seed]]  alkane:n:v1|v2|v3|O,A[:min]
/// Throws UserError for anything else, naming what is wrong and listing the forms.
Problem make_problem(std::string_view text);

}  // namespace tessera

#pragma once
#include <string_view>

#include "tessera/chem/hamiltonian.hpp"

namespace tessera::chem {

/// The text of such a file; `memory` bounds what is made of it.
Hamiltonian parse_fcidump(std::string_view text, const std::string& name, std::int64_t memory);

}  // namespace tessera::chem

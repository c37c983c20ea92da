#pragma once
// For operations that know no symmetry.

#include "base/check.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

inline void require_whole(const char* operation, const Shape& x) {
    require(x.symmetry().none(), "{}: the tensor has the symmetry '{}', desymmetrise it first", operation,
            x.symmetry().text());
}

}  // namespace tessera

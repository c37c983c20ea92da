// Alone in its file: only this is compiled anew when the commit changes (cmake/commit.cmake).
#include "commit.hpp"

namespace tessera::bench {

const char* build_commit() { return TESSERA_COMMIT; }

}  // namespace tessera::bench

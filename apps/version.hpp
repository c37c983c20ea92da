#pragma once

#include <string>

namespace tessera::app {

/// What `tessera --version` prints: the version, the commit, and what this program was built with.
std::string version_text();

}  // namespace tessera::app

#pragma once
// Files that come with the program: machine descriptions and the like.

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// Where shared files may be, first match first: $TESSERA_SHARE, beside the program (build tree), ../share/tessera of
/// it (installed, bundle), and where this build installs to.
std::vector<std::string> shared_data_folders();
/// The path of a shared file such as "machines/summit.json"; empty where there is none.
std::string find_shared_data(std::string_view relative);
/// Names without ending of the files in a shared folder, sorted.
std::vector<std::string> list_shared_data(std::string_view folder, std::string_view ending);

}  // namespace tessera

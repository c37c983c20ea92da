#pragma once
// A folder for the files of a test on ranks.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/comm/world.hpp"

namespace tessera::testing {

/// A folder that rank 0 made and removes, the same name on all ranks.
class RanksFolder {
  public:
    RanksFolder() {
        Communicator& ranks = mpi_world();
        std::vector<std::byte> name;
        if (ranks.rank() == 0) {
            char path[] = "/tmp/tessera-mpi-XXXXXX";
            const char* made = ::mkdtemp(path);
            const auto* bytes = reinterpret_cast<const std::byte*>(made);
            name.assign(bytes, bytes + std::char_traits<char>::length(made));
        }
        ranks.broadcast(name, 0);
        path_.assign(reinterpret_cast<const char*>(name.data()), name.size());
    }
    ~RanksFolder() {
        mpi_world().barrier();
        if (mpi_world().rank() == 0) std::filesystem::remove_all(path_);
    }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace tessera::testing

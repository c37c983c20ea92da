#pragma once
// A file that rank 0 has open, opened by the other ranks too, where they see it.

#include <sys/types.h>

#include <optional>
#include <string>

#include "io/file.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

/// What tells a file from others: rank 0's is passed on.
struct FileIdentity {
    ino_t inode = 0;
    off_t bytes = 0;
    bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity_of(int descriptor);

/// Collective. The file of rank 0's descriptor, by this path: on the other ranks a descriptor of their own. Empty on
/// all ranks where one of them does not see it; rank 0's is never used.
std::optional<FileDescriptor> open_on_all(Communicator& ranks, const std::string& path, int descriptor, int flags);

}  // namespace tessera

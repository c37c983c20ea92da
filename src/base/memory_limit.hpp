#pragma once
// What a container or a batch system leaves of the machine's memory.

#include <cstdint>
#include <string>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// The least limit of the control groups that a process is in, and of those around them; INT64_MAX where there is none.
/// `membership` is the text of /proc/self/cgroup (versions 1 and 2), `root` where the groups are mounted.
std::int64_t control_group_memory(const std::string& membership, const std::string& root = "/sys/fs/cgroup");

}  // namespace tessera

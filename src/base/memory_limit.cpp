#include "base/memory_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tessera {

namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

/// Of one group; "max" is none, and version 1 says none with a number near 2^63.
std::int64_t limit_in(const std::string& file) {
    std::ifstream in(file);
    std::int64_t bytes = 0;
    return in >> bytes && bytes > 0 && bytes < kNone / 2 ? bytes : kNone;
}

/// Of a group and all around it. A container often sees its own group as the root, whatever its path says.
std::int64_t limit_above(const std::string& mount, std::string path, const char* file) {
    std::int64_t least = kNone;
    for (;;) {
        while (!path.empty() && path.back() == '/') path.pop_back();
        least = std::min(least, limit_in(fmt::format("{}{}/{}", mount, path, file)));
        const auto slash = path.rfind('/');
        if (slash == std::string::npos) return least;
        path.resize(slash);
    }
}

}  // namespace

std::int64_t control_group_memory(const std::string& membership, const std::string& root) {
    std::int64_t least = kNone;
    std::istringstream lines(membership);
    for (std::string line; std::getline(lines, line);) {  // number:controllers:path
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const auto controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
        const auto path = line.substr(second + 1);
        if (controllers == ",,") {
            least = std::min({least, limit_above(root, path, "memory.max"),
                              limit_above(fmt::format("{}/unified", root), path, "memory.max")});
        } else if (controllers.find(",memory,") != std::string::npos) {
            least = std::min(least, limit_above(fmt::format("{}/memory", root), path, "memory.limit_in_bytes"));
        }
    }
    return least;
}

}  // namespace tessera

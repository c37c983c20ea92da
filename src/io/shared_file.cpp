#include "io/shared_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <vector>

namespace tessera {

FileIdentity identity_of(int descriptor) {
    struct stat about {};
    if (descriptor < 0 || ::fstat(descriptor, &about) != 0) return {};
    return {about.st_ino, about.st_size};
}

std::optional<FileDescriptor> open_on_all(Communicator& ranks, const std::string& path, int descriptor, int flags) {
    const bool first = ranks.rank() == 0;
    FileIdentity wanted = first ? identity_of(descriptor) : FileIdentity{};
    std::vector<std::byte> bytes(sizeof wanted + path.size());
    std::memcpy(bytes.data(), &wanted, sizeof wanted);
    if (!path.empty()) std::memcpy(bytes.data() + sizeof wanted, path.data(), path.size());
    ranks.broadcast(bytes, 0);
    std::memcpy(&wanted, bytes.data(), sizeof wanted);
    const std::string name(reinterpret_cast<const char*>(bytes.data()) + sizeof wanted, bytes.size() - sizeof wanted);
    FileDescriptor mine(first ? -1 : ::open(name.c_str(), flags | O_CLOEXEC));
    double missing[] = {!first && !(identity_of(mine.get()) == wanted) ? 1.0 : 0.0};
    ranks.max(missing);
    if (missing[0] > 0) return std::nullopt;
    return mine;
}

}  // namespace tessera

// Any bytes are either an array as large as the file says, or a UserError of one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/io/npy.hpp"

using namespace tessera;

namespace {

void need(bool ok) {
    if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const int fd = ::memfd_create("npy", 0);
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    need(::ftruncate(fd, 0) == 0 && ::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
    try {
        std::visit(
            [&]<class T>(const NpyArray<T>& array) {
                need(array.extents.size() <= kMaxRank);
                need(array.data.size() * sizeof(T) <= size);
                bool none = false;
                for (auto n : array.extents) none = none || n == 0;
                need(array.data.empty() == none);
                need(none || static_cast<std::int64_t>(array.data.size()) == array.extents.product());
            },
            read_npy(path));
    } catch (const UserError& e) {
        need(std::string(e.what()).find('\n') == std::string::npos);
    }
    return 0;
}

// Files of tensors, where the library is built with them.

#include "object.hpp"

#ifdef TESSERA_C_FILES
#include "tessera/io/hdf5.hpp"
#endif

using namespace tessera;
using namespace tessera::c;

int tessera_write(const char* path, tessera_tensor tensor) {
    return guarded([&] {
        given(path, "path");
#ifdef TESSERA_C_FILES
        std::visit([&](const auto& t) { write_tensor(path, t); }, any(tensor, "tensor"));
#else
        any(tensor, "tensor");
        throw BackendUnavailable(std::string(path) + ": this library was built without files (TESSERA_IO)");
#endif
    });
}

int tessera_read(const char* path, tessera_comm comm, tessera_tensor* tensor) {
    return guarded([&] {
        given(path, "path");
        given(tensor, "tensor");
#ifdef TESSERA_C_FILES
        auto read = read_any(path, 0, ranks_of(comm));
        std::visit([&](auto& t) { give(tensor, std::move(t)); }, read);
#else
        ranks_of(comm);
        throw BackendUnavailable(std::string(path) + ": this library was built without files (TESSERA_IO)");
#endif
    });
}

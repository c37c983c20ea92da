// Writing: HDF5 lays out the file and writes the small things; the tiles go straight from memory to their place.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "io/hdf5_file.hpp"
#include "io/shared_file.hpp"
#include "tensor/exchange.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

template <Scalar T>
std::int64_t write_layout(AtomicFile& out, const Tensor<T>& tensor, std::span<const std::int64_t> offsets,
                          std::uint64_t sum) {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    H5Writer writer(out);
    const auto& grid = tensor.grid();
    // Space for everything now: a full disk is found before gigabytes are written.
    std::int64_t bytes = offsets.back() * static_cast<std::int64_t>(sizeof(T)) + 24 * tensor.tile_count() + 16384;
    for (const auto& tiling : grid.tilings()) bytes += 8 * tiling.tile_count() + 512;
    out.reserve(bytes);

    const H5Handle about = writer.group("tessera");
    writer.attribute(about, "format", kTensorFileFormat);
    const auto& symmetry = tensor.shape().symmetry();
    writer.attribute(about, "version", std::int64_t{symmetry.none() ? 1 : kTensorFileVersion});
    if (!symmetry.none()) writer.attribute(about, "symmetry", symmetry.text());
    writer.attribute(about, "writer", "Tessera " TESSERA_VERSION);
    writer.attribute(about, "scalar", name(ScalarTraits<T>::kind));
    writer.attribute(about, "rank", std::int64_t{tensor.rank()});
    writer.attribute(about, "checksum", fmt::format("{:016x}", sum));
    const H5Handle tilings = writer.group("tilings");
    for (int d = 0; d < tensor.rank(); ++d) writer.integers(fmt::format("tilings/{}", d), grid.tiling(d).sizes());
    const H5Handle shape = writer.group("shape");
    writer.integers("shape/ordinals", tensor.shape().ordinals());
    writer.reals("shape/norms", {tensor.tile_count()}, tensor.shape().norms());
    const H5Handle tiles = writer.group("tiles");
    writer.integers("tiles/offsets", offsets);
    H5Handle data = writer.dataset("tiles/data", h5_element_type(ScalarTraits<T>::kind), {offsets.back()});
    const std::int64_t at = offsets.back() > 0 ? writer.place(data) : -1;
    data.close();
    writer.close();
    return at;
}

/// Tiles of this rank, at their places in the file: gathered by the system, not copied by us.
template <Scalar T>
void write_local_tiles(AtomicFile& out, std::int64_t at, const Tensor<T>& tensor,
                       std::span<const std::int64_t> offsets) {
    constexpr std::size_t kBatch = 4096;
    std::vector<iovec> pieces;
    std::int64_t begin = 0, end = 0;  // slots
    const auto write = [&] {
        if (!pieces.empty()) out.write_at(at + offsets[begin] * static_cast<std::int64_t>(sizeof(T)), pieces);
        pieces.clear();
    };
    for (std::int64_t s = 0; s < tensor.tile_count(); ++s) {
        const auto tile = tensor.tile(s);
        if (tile.empty()) continue;
        if (s != end || pieces.size() == kBatch) {
            write();
            begin = s;
        }
        pieces.push_back({const_cast<T*>(tile.data()), tile.size_bytes()});
        end = s + 1;
    }
    write();
}

/// Rank 0's unfinished file on the other ranks: through its process, on the same machine; else by a temporary name;
/// else, where ranks see other folders, not at all.
std::optional<FileDescriptor> open_unfinished(Communicator& ranks, std::optional<AtomicFile>& out, Outcome& outcome) {
    const bool mine = ranks.rank() == 0;
    const auto name = [&] {
        if (!mine) return std::string();
        return out->has_name() ? out->working_path() : fmt::format("/proc/{}/fd/{}", ::getpid(), out->descriptor());
    };
    auto opened = open_on_all(ranks, name(), mine ? out->descriptor() : -1, O_WRONLY);
    if (opened) return opened;
    if (mine) outcome.attempt([&] { out->give_name(); });
    outcome.share(ranks, 0);
    return open_on_all(ranks, mine ? out->name() : "", mine ? out->descriptor() : -1, O_WRONLY);
}

/// Each rank writes its own tiles into rank 0's file; where they do not see it, all tiles pass rank 0. A rank that
/// fails goes on with the others, so that all learn of it at the end.
template <Scalar T>
void write_shared(const std::string& path, const Tensor<T>& tensor, std::span<const std::int64_t> offsets,
                  std::uint64_t sum) {
    Communicator& ranks = tensor.communicator();
    const bool mine = ranks.rank() == 0;
    std::optional<AtomicFile> out;
    std::vector<std::byte> place(sizeof(std::int64_t));
    std::int64_t at = 0;
    Outcome outcome;
    if (mine)
        outcome.attempt([&] {
            out.emplace(path);
            at = write_layout(*out, tensor, offsets, sum);
            std::memcpy(place.data(), &at, sizeof at);
        });
    outcome.share(ranks, 0);
    auto opened = open_unfinished(ranks, out, outcome);
    if (opened) {
        ranks.broadcast(place, 0);
        std::memcpy(&at, place.data(), sizeof at);
        outcome.attempt([&] {
            if (mine) return write_local_tiles(*out, at, tensor, offsets);
            AtomicFile part(path, std::move(*opened));
            write_local_tiles(part, at, tensor, offsets);
            part.sync();
        });
    } else {
        stream_to_root<T>(tensor, 0, [&](std::int64_t first, std::int64_t, std::span<const T> elements) {
            if (mine)
                outcome.attempt([&] {
                    out->write_at(at + offsets[first] * static_cast<std::int64_t>(sizeof(T)), elements.data(),
                                  static_cast<std::int64_t>(elements.size_bytes()));
                });
        });
    }
    outcome.share_all(ranks);
    if (mine) outcome.attempt([&] { out->commit(); });
    outcome.share(ranks, 0);
}

}  // namespace

template <Scalar T>
void write_tensor(const std::string& path, const Tensor<T>& tensor) {
    if (tensor.on_devices()) return write_tensor(path, to_host(tensor));
    std::vector<std::int64_t> offsets(1, 0);
    offsets.reserve(static_cast<std::size_t>(tensor.tile_count()) + 1);
    for (std::int64_t s = 0; s < tensor.tile_count(); ++s)
        offsets.push_back(offsets.back() + tensor.grid().tile_elements(tensor.shape().tile(s)));

    const std::uint64_t sum = checksum(tensor);
    if (tensor.communicator().size() > 1) return write_shared(path, tensor, offsets, sum);
    AtomicFile out(path);
    const std::int64_t at = write_layout(out, tensor, offsets, sum);
    write_local_tiles(out, at, tensor, offsets);
    out.commit();
}

void write_tensor(const std::string& path, const AnyTensor& tensor) {
    std::visit([&](const auto& t) { write_tensor(path, t); }, tensor);
}

void hdf5_without_exit_handler() { H5dont_atexit(); }

template void write_tensor(const std::string&, const Tensor<float>&);
template void write_tensor(const std::string&, const Tensor<double>&);
template void write_tensor(const std::string&, const Tensor<std::complex<float>>&);
template void write_tensor(const std::string&, const Tensor<std::complex<double>>&);

}  // namespace tessera

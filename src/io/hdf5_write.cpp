// Writing: HDF5 lays out the file and writes the small things; the tiles go straight from memory to their place.
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "io/file.hpp"
#include "io/hdf5_layout.hpp"
#include "tensor/exchange.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

/// Creates groups, attributes and datasets in the unfinished file; any failure is the machine's.
class LayoutWriter {
  public:
    explicit LayoutWriter(AtomicFile& out) : out_(out) {
        H5Handle creation(H5Pcreate(H5P_FILE_CREATE)), access(H5Pcreate(H5P_FILE_ACCESS));
        // Times would make equal tensors unequal files; format 1.8 protects every header with a checksum.
        H5Pset_obj_track_times(creation, false);
        H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
        h5_plain_access(access);
        file_ = need(H5Fcreate(out.working_path().c_str(), H5F_ACC_TRUNC, creation, access));
        group_creation_ = H5Handle(H5Pcreate(H5P_GROUP_CREATE));
        H5Pset_obj_track_times(group_creation_, false);
        dataset_creation_ = H5Handle(H5Pcreate(H5P_DATASET_CREATE));
        H5Pset_obj_track_times(dataset_creation_, false);
        H5Pset_layout(dataset_creation_, H5D_CONTIGUOUS);
        H5Pset_alloc_time(dataset_creation_, H5D_ALLOC_TIME_EARLY);
        H5Pset_fill_time(dataset_creation_, H5D_FILL_TIME_NEVER);
    }

    H5Handle group(const char* name) {
        return need(H5Gcreate2(file_, name, H5P_DEFAULT, group_creation_, H5P_DEFAULT));
    }

    void attribute(hid_t group, const char* name, std::string_view text) {
        H5Handle type(H5Tcopy(H5T_C_S1));
        H5Tset_size(type, text.size());
        H5Tset_strpad(type, H5T_STR_NULLPAD);
        H5Tset_cset(type, H5T_CSET_UTF8);
        H5Handle space(H5Screate(H5S_SCALAR));
        H5Handle at = need(H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
        check(H5Awrite(at, type, text.data()) >= 0);
    }

    void attribute(hid_t group, const char* name, std::int64_t value) {
        H5Handle space(H5Screate(H5S_SCALAR));
        H5Handle at = need(H5Acreate2(group, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
        check(H5Awrite(at, H5T_NATIVE_INT64, &value) >= 0);
    }

    /// Without contents; returns where in the file they go (-1 for an empty one).
    std::int64_t dataset(const std::string& name, hid_t file_type, std::int64_t size, hid_t memory_type = -1,
                         const void* contents = nullptr) {
        const auto extent = static_cast<hsize_t>(size);
        H5Handle space(H5Screate_simple(1, &extent, nullptr));
        H5Handle set =
            need(H5Dcreate2(file_, name.c_str(), file_type, space, H5P_DEFAULT, dataset_creation_, H5P_DEFAULT));
        if (size == 0) return -1;
        if (contents) check(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, contents) >= 0);
        const haddr_t at = H5Dget_offset(set);
        check(at != HADDR_UNDEF);
        return static_cast<std::int64_t>(at);
    }

    void integers(const std::string& name, std::span<const std::int64_t> values) {
        dataset(name, H5T_STD_I64LE, static_cast<std::int64_t>(values.size()), H5T_NATIVE_INT64, values.data());
    }

    void close() { check(file_.close()); }

  private:
    void check(bool ok) {
        if (!ok) out_.fail("HDF5: " + h5_reason());
    }
    H5Handle need(hid_t id) {
        check(id >= 0);
        return H5Handle(id);
    }
    AtomicFile& out_;
    H5Handle file_, group_creation_, dataset_creation_;
};

template <Scalar T>
std::int64_t write_layout(AtomicFile& out, const Tensor<T>& tensor, std::span<const std::int64_t> offsets,
                          std::uint64_t sum) {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    LayoutWriter writer(out);
    const auto& grid = tensor.grid();
    // Space for everything now: a full disk is found before gigabytes are written.
    std::int64_t bytes = offsets.back() * static_cast<std::int64_t>(sizeof(T)) + 24 * tensor.tile_count() + 16384;
    for (const auto& tiling : grid.tilings()) bytes += 8 * tiling.tile_count() + 512;
    out.reserve(bytes);

    const H5Handle about = writer.group("tessera");
    writer.attribute(about, "format", kTensorFileFormat);
    writer.attribute(about, "version", std::int64_t{kTensorFileVersion});
    writer.attribute(about, "writer", "Tessera " TESSERA_VERSION);
    writer.attribute(about, "scalar", name(ScalarTraits<T>::kind));
    writer.attribute(about, "rank", std::int64_t{tensor.rank()});
    writer.attribute(about, "checksum", fmt::format("{:016x}", sum));
    const H5Handle tilings = writer.group("tilings");
    for (int d = 0; d < tensor.rank(); ++d) writer.integers(fmt::format("tilings/{}", d), grid.tiling(d).sizes());
    const H5Handle shape = writer.group("shape");
    writer.integers("shape/ordinals", tensor.shape().ordinals());
    writer.dataset("shape/norms", H5T_IEEE_F64LE, tensor.tile_count(), H5T_NATIVE_DOUBLE,
                   tensor.shape().norms().data());
    const H5Handle tiles = writer.group("tiles");
    writer.integers("tiles/offsets", offsets);
    const std::int64_t at = writer.dataset("tiles/data", h5_element_type(ScalarTraits<T>::kind), offsets.back());
    writer.close();
    return at;
}

/// Rank 0 writes what comes from all; where it fails, it goes on receiving, so that all ranks learn of it at the end.
template <Scalar T>
void write_shared(const std::string& path, const Tensor<T>& tensor, std::span<const std::int64_t> offsets,
                  std::uint64_t sum) {
    Communicator& ranks = tensor.communicator();
    const bool mine = ranks.rank() == 0;
    std::optional<AtomicFile> out;
    std::int64_t at = 0;
    Outcome outcome;
    if (mine)
        outcome.attempt([&] {
            out.emplace(path);
            at = write_layout(*out, tensor, offsets, sum);
        });
    outcome.share(ranks, 0);
    stream_to_root<T>(tensor, 0, [&](std::int64_t first, std::int64_t, std::span<const T> elements) {
        if (mine)
            outcome.attempt([&] {
                out->write_at(at + offsets[first] * static_cast<std::int64_t>(sizeof(T)), elements.data(),
                              static_cast<std::int64_t>(elements.size_bytes()));
            });
    });
    if (mine) outcome.attempt([&] { out->commit(); });
    outcome.share(ranks, 0);
}

}  // namespace

template <Scalar T>
void write_tensor(const std::string& path, const Tensor<T>& tensor) {
    std::vector<std::int64_t> offsets(1, 0);
    offsets.reserve(static_cast<std::size_t>(tensor.tile_count()) + 1);
    for (std::int64_t s = 0; s < tensor.tile_count(); ++s)
        offsets.push_back(offsets.back() + tensor.grid().tile_elements(tensor.shape().tile(s)));

    const std::uint64_t sum = checksum(tensor);
    if (tensor.communicator().size() > 1) return write_shared(path, tensor, offsets, sum);
    AtomicFile out(path);
    const std::int64_t at = write_layout(out, tensor, offsets, sum);
    // Tiles stand aligned in memory and back to back in the file: gathered by the system, not copied by us.
    constexpr std::int64_t kBatch = 4096;
    std::vector<iovec> pieces;
    for (std::int64_t first = 0; first < tensor.tile_count(); first += kBatch) {
        pieces.clear();
        const std::int64_t last = std::min(first + kBatch, tensor.tile_count());
        for (std::int64_t s = first; s < last; ++s) {
            const auto tile = tensor.tile(s);
            pieces.push_back({const_cast<T*>(tile.data()), tile.size_bytes()});
        }
        out.write_at(at + offsets[first] * static_cast<std::int64_t>(sizeof(T)), pieces);
    }
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

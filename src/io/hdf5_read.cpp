// Reading: nothing in the file is believed before it is checked, and nothing is allocated that the file cannot fill.
#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "base/units.hpp"
#include "comm/outcome.hpp"
#include "io/file.hpp"
#include "io/hdf5_file.hpp"
#include "io/shared_file.hpp"
#include "tensor/exchange.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera {
namespace {

/// How far a stored norm may be from the data's: other programs may have computed it in single precision.
constexpr double kNormTolerance = 1e-4;

/// A file's contents without tiles, and where those are.
struct Layout {
    TensorFileInfo info;
    std::vector<std::int64_t> offsets;  // of each slot in tiles/data, in elements
    std::int64_t data_at = 0;           // of tiles/data in the file, in bytes
};

ScalarKind scalar_kind(const std::string& text) {
    for (auto kind : {ScalarKind::f32, ScalarKind::f64, ScalarKind::c64, ScalarKind::c128})
        if (text == name(kind)) return kind;
    user_error("scalar type '{}' is not one of float32, float64, complex64, complex128", text);
}

std::optional<std::uint64_t> parse_checksum(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::uint64_t value = 0;
    bool good = text.size() == 16;
    for (char c : text) {
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        good = good && digit >= 0;
        value = value * 16 + static_cast<std::uint64_t>(digit);
    }
    require(good, "checksum '{}' is not 16 hexadecimal digits", text);
    return value;
}

Layout read_layout(const InputFile& in) {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    const H5Reader reader(in, "tensor");
    Layout layout;
    auto& info = layout.info;
    info.path = in.path();
    info.file_bytes = in.bytes();

    reader.require_group("tessera");
    const auto format = reader.text("format");
    require(format == kTensorFileFormat, "not a Tessera tensor: its format is '{}', not '{}'", format,
            kTensorFileFormat);
    const std::int64_t version = reader.integer("version");
    require(version <= kTensorFileVersion, "written in file format {}; this Tessera reads formats up to {}", version,
            kTensorFileVersion);
    require(version >= 1, "file format {} does not exist", version);
    info.version = static_cast<int>(version);
    info.writer = reader.text("writer", "");
    info.scalar = scalar_kind(reader.text("scalar"));
    info.checksum = parse_checksum(reader.text("checksum", ""));
    const std::int64_t rank = reader.integer("rank");
    require(rank >= 0 && rank <= kMaxRank, "rank {} is outside 0..{}", rank, kMaxRank);

    if (rank > 0) reader.require_group("tilings");
    std::vector<Tiling> tilings;
    for (int d = 0; d < rank; ++d) {
        const auto name = fmt::format("tilings/{}", d);
        const auto sizes = reader.integers(name);
        naming("dataset " + name, [&] { tilings.push_back(Tiling::from_sizes(sizes)); });
    }
    reader.require_group("shape");
    auto ordinals = reader.integers("shape/ordinals");
    auto norms = reader.reals("shape/norms");
    const auto symmetry = version >= 2 ? reader.text("symmetry") : std::string();
    info.shape = Shape::from_sorted(TileGrid(std::move(tilings)), std::move(ordinals), std::move(norms), symmetry);

    reader.require_group("tiles");
    layout.offsets = reader.integers("tiles/offsets");
    const auto [size, at] = reader.elements("tiles/data", info.scalar);
    const auto& shape = info.shape;
    const auto& offsets = layout.offsets;
    require(static_cast<std::int64_t>(offsets.size()) == shape.tile_count() + 1,
            "dataset tiles/offsets has {} numbers; {} tiles need {}", offsets.size(), shape.tile_count(),
            shape.tile_count() + 1);
    std::int64_t expected = 0;
    for (std::int64_t s = 0; s <= shape.tile_count(); ++s) {
        require(offsets[s] == expected, "dataset tiles/offsets: number {} is {}, the tilings make it {}", s, offsets[s],
                expected);
        if (s < shape.tile_count()) expected += shape.grid().tile_elements(shape.tile(s));
    }
    require(size == expected, "dataset tiles/data has {} elements, the nonzero tiles have {}", size, expected);
    layout.data_at = at;
    info.tile_bytes = size * bytes_of(info.scalar);
    return layout;
}

void require_memory(const std::string& path, std::int64_t bytes) {
    const std::int64_t memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
    if (bytes > memory)
        throw MachineError(fmt::format("{}: its tiles need {} of memory, this machine has {}", path,
                                       format_bytes(bytes), format_bytes(memory)));
}

/// What the file says of norms and checksum against what was read.
template <Scalar T>
void verify(const Tensor<T>& tensor, const Shape& stored, const std::optional<std::uint64_t>& expected) {
    for (std::int64_t s = 0; s < stored.tile_count(); ++s) {
        const double norm = stored.norm_of(s), actual = tensor.shape().norm_of(s);
        require(std::abs(norm - actual) <= kNormTolerance * std::max(norm, actual),
                "corrupted: tile {} has norm {} in shape/norms, {} by its elements",
                to_string(stored.grid().coordinates(stored.tile(s))), norm, actual);
    }
    if (expected) {
        const std::uint64_t found = checksum(tensor);
        require(found == *expected, "corrupted: its checksum is {:016x}, that of its contents {:016x}", *expected,
                found);
    }
}

template <Scalar T>
Tensor<T> read_tiles(const InputFile& in, const Layout& layout, int threads) {
    const Shape& shape = layout.info.shape;
    require_memory(in.path(), tile_storage_bytes(shape, sizeof(T)));
    auto tensor = Tensor<T>::generate(
        shape,
        [&](const TileInfo& info, std::span<T> tile) {
            const std::int64_t at = layout.offsets[*shape.find(info.tile)];
            in.read_at(layout.data_at + at * static_cast<std::int64_t>(sizeof(T)), tile.data(),
                       static_cast<std::int64_t>(tile.size_bytes()));
        },
        threads);
    verify(tensor, shape, layout.info.checksum);
    return tensor;
}

/// A file that rank 0 has open, and what the others need to know of it.
struct SharedFile {
    std::optional<InputFile> in;  // on rank 0
    Layout layout;                // on the others without offsets
    Outcome outcome;
};

/// Collective. `wanted`: the only scalar type that will do.
SharedFile open_shared(const std::string& path, Communicator& ranks, std::optional<ScalarKind> wanted) {
    SharedFile file;
    auto& info = file.layout.info;
    if (ranks.rank() == 0)
        file.outcome.attempt([&] {
            file.in.emplace(path);
            naming(path, [&] {
                file.layout = read_layout(*file.in);
                require(!wanted || info.scalar == *wanted, "holds {}, but {} was asked for", name(info.scalar),
                        name(wanted.value_or(info.scalar)));
            });
        });
    file.outcome.share(ranks, 0);
    info.shape = broadcast(ranks, info.shape, 0);
    std::vector<std::byte> about(2 + sizeof(std::uint64_t));
    about[0] = static_cast<std::byte>(info.scalar);
    about[1] = static_cast<std::byte>(info.checksum.has_value());
    const std::uint64_t sum = info.checksum.value_or(0);
    std::memcpy(about.data() + 2, &sum, sizeof sum);
    ranks.broadcast(about, 0);
    info.scalar = static_cast<ScalarKind>(about[0]);
    if (static_cast<bool>(about[1])) {
        info.checksum.emplace();
        std::memcpy(&*info.checksum, about.data() + 2, sizeof(std::uint64_t));
    }
    return file;
}

template <Scalar T>
Tensor<T> read_shared(const std::string& path, SharedFile& file, int threads, Communicator& ranks,
                      const ChooseDistribution& choose) {
    const auto& layout = file.layout;
    const Shape& shape = layout.info.shape;
    const Placement where(ranks, choose ? choose(shape) : Distribution::even(shape.grid(), ranks.size()));
    require_memory(path, tile_storage_bytes(shape, sizeof(T), where.distribution, ranks.rank()));
    Tensor<T> tensor(std::make_unique<typename Tensor<T>::Impl>(shape, where));
    const bool first = ranks.rank() == 0;
    if (auto opened = open_on_all(ranks, first ? path : "", first ? file.in->descriptor() : -1, O_RDONLY)) {
        // Each rank reads its own tiles, one after the other in the file.
        std::vector<std::byte> place(sizeof layout.data_at);
        std::memcpy(place.data(), &layout.data_at, sizeof layout.data_at);
        ranks.broadcast(place, 0);
        std::int64_t at = 0;
        std::memcpy(&at, place.data(), sizeof at);
        file.outcome.attempt([&] {
            const InputFile mine(path, std::move(*opened));
            const InputFile& in = first ? *file.in : mine;
            for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
                const auto bytes = shape.grid().tile_elements(shape.tile(s)) * static_cast<std::int64_t>(sizeof(T));
                if (tensor.is_local(s)) in.read_at(at, tensor.impl().tile(s), bytes);
                at += bytes;
            }
        });
    } else {
        stream_from_root<T>(tensor, 0, [&](std::int64_t from, std::int64_t, std::span<T> elements) {
            file.outcome.attempt([&] {
                file.in->read_at(layout.data_at + layout.offsets[from] * static_cast<std::int64_t>(sizeof(T)),
                                 elements.data(), static_cast<std::int64_t>(elements.size_bytes()));
            });
        });
    }
    file.outcome.share_all(ranks);
    return naming(path, [&] {
        tensor.update_tiles([](const TileInfo&, std::span<T>) {}, threads);
        verify(tensor, shape, layout.info.checksum);
        return std::move(tensor);
    });
}

template <class Read>
AnyTensor read_kind(ScalarKind kind, Read&& read) {
    switch (kind) {
        case ScalarKind::f32:
            return read(float());
        case ScalarKind::f64:
            return read(double());
        case ScalarKind::c64:
            return read(std::complex<float>());
        case ScalarKind::c128:
            return read(std::complex<double>());
    }
    throw InternalError("internal: scalar kind without a type");
}

}  // namespace

TensorFileInfo describe(const std::string& path) {
    const InputFile in(path);
    return naming(path, [&] { return read_layout(in).info; });
}

template <Scalar T>
Tensor<T> read_tensor(const std::string& path, int threads, Communicator& ranks, const ChooseDistribution& choose) {
    if (ranks.size() > 1) {
        auto file = open_shared(path, ranks, ScalarTraits<T>::kind);
        return read_shared<T>(path, file, threads, ranks, choose);
    }
    const InputFile in(path);
    return naming(path, [&] {
        const Layout layout = read_layout(in);
        require(layout.info.scalar == ScalarTraits<T>::kind, "holds {}, but {} was asked for", name(layout.info.scalar),
                name(ScalarTraits<T>::kind));
        return read_tiles<T>(in, layout, threads);
    });
}

AnyTensor read_any(const std::string& path, int threads, Communicator& ranks, const ChooseDistribution& choose) {
    if (ranks.size() > 1) {
        auto file = open_shared(path, ranks, std::nullopt);
        return read_kind(file.layout.info.scalar, [&](auto zero) -> AnyTensor {
            return read_shared<decltype(zero)>(path, file, threads, ranks, choose);
        });
    }
    const InputFile in(path);
    return naming(path, [&]() -> AnyTensor {
        const Layout layout = read_layout(in);
        return read_kind(layout.info.scalar,
                         [&](auto zero) -> AnyTensor { return read_tiles<decltype(zero)>(in, layout, threads); });
    });
}

#define TESSERA_INSTANTIATE(T) \
    template Tensor<T> read_tensor(const std::string&, int, Communicator&, const ChooseDistribution&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

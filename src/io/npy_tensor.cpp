// Dense .npy files to and from block-sparse tensors, a batch of tiles at a time.
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "io/npy_layout.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/dense_tiles.hpp"
#include "tensor/exchange.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {
namespace {

/// Tiles of a dense array in a file, row by row, or in memory.
template <Scalar T>
class DenseSource {
  public:
    DenseSource(const InputFile& in, const NpyLayout& layout) : in_(in), layout_(layout) {
        if (layout.fortran_order) dense_ = std::move(std::get<NpyArray<T>>(read_npy(in.path())).data);
    }
    void read(const TileInfo& info, T* tile) const {
        if (!dense_.empty()) return copy_from_dense(info, layout_.extents, dense_.data(), tile);
        constexpr std::int64_t element = sizeof(T);
        for_each_row(info, layout_.extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
            in_.read_at(layout_.at + at * element, tile + in_tile, run * element);
        });
    }

  private:
    const InputFile& in_;
    const NpyLayout& layout_;
    std::vector<T> dense_;
};

/// Which tiles are not zero: one pass over the file.
template <Scalar T>
Shape shape_of(const DenseSource<T>& source, const TileGrid& grid) {
    std::vector<ShapeEntry> entries;
    std::vector<T> tile;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        const auto info = tile_info(grid, TileOrdinal{o});
        tile.resize(static_cast<std::size_t>(info.extents.product()));
        source.read(info, tile.data());
        const double norm = tile_norm(tile.data(), static_cast<std::int64_t>(tile.size()));
        if (!std::isfinite(norm)) user_error("{}", why_not_finite(info, tile.data()));
        if (norm > 0) entries.push_back({TileOrdinal{o}, norm});
    }
    return Shape(grid, std::move(entries));
}

template <Scalar T>
Tensor<T> read_shared(const std::string& path, const InputFile* in, const NpyLayout& layout,
                      const ChooseTilings& tilings, Communicator& ranks, const ChooseDistribution& choose) {
    Outcome outcome;
    std::optional<DenseSource<T>> source;
    Shape shape;
    if (in)
        outcome.attempt([&] {
            try {
                const TileGrid grid = tilings(layout.extents);
                require(grid.extents() == layout.extents, "its array is {}, the tilings are for {}",
                        to_string(layout.extents), to_string(grid.extents()));
                source.emplace(*in, layout);
                shape = shape_of(*source, grid);
            } catch (const UserError& e) {
                throw UserError(path + ": " + e.what());
            }
        });
    outcome.share(ranks, 0);
    shape = broadcast(ranks, shape, 0);
    const Placement where(ranks, choose ? choose(shape) : Distribution::even(shape.grid(), ranks.size()));
    Tensor<T> tensor(std::make_unique<typename Tensor<T>::Impl>(shape, where));
    stream_from_root<T>(tensor, 0, [&](std::int64_t first, std::int64_t last, std::span<T> elements) {
        outcome.attempt([&] {
            T* at = elements.data();
            for (std::int64_t s = first; s < last; ++s) {
                const auto info = tile_info(shape.grid(), shape.tile(s));
                source->read(info, at);
                at += info.extents.product();
            }
        });
    });
    outcome.share(ranks, 0);
    tensor.impl().clear_padding();
    return tensor;
}

template <Scalar T>
Tensor<T> read_alone(const std::string& path, const NpyArray<T>& array, const ChooseTilings& tilings) {
    try {
        return Tensor<T>::from_dense(tilings(array.extents), array.data);
    } catch (const UserError& e) {
        throw UserError(path + ": " + e.what());
    }
}

}  // namespace

AnyTensor read_npy_tensor(const std::string& path, const ChooseTilings& tilings, Communicator& ranks,
                          const ChooseDistribution& choose) {
    if (ranks.size() == 1)
        return std::visit([&](const auto& array) -> AnyTensor { return read_alone(path, array, tilings); },
                          read_npy(path));
    std::optional<InputFile> in;
    NpyLayout layout;
    Outcome outcome;
    if (ranks.rank() == 0)
        outcome.attempt([&] {
            in.emplace(path);
            try {
                layout = read_npy_layout(*in);
            } catch (const UserError& e) {
                throw UserError(path + ": " + e.what());
            }
        });
    outcome.share(ranks, 0);
    std::vector<std::byte> kind(1, static_cast<std::byte>(layout.kind));
    ranks.broadcast(kind, 0);
    const InputFile* file = in ? &*in : nullptr;
    switch (static_cast<ScalarKind>(kind[0])) {
        case ScalarKind::f32:
            return read_shared<float>(path, file, layout, tilings, ranks, choose);
        case ScalarKind::f64:
            return read_shared<double>(path, file, layout, tilings, ranks, choose);
        case ScalarKind::c64:
            return read_shared<std::complex<float>>(path, file, layout, tilings, ranks, choose);
        case ScalarKind::c128:
            return read_shared<std::complex<double>>(path, file, layout, tilings, ranks, choose);
    }
    throw InternalError("internal: scalar kind without a type");
}

template <Scalar T>
void write_npy(const std::string& path, const Tensor<T>& tensor) {
    if (!tensor.shape().symmetry().none()) return write_npy(path, desymmetrise(tensor));
    const auto extents = tensor.grid().extents();
    Communicator& ranks = tensor.communicator();
    if (ranks.size() == 1) return write_npy<T>(path, extents, tensor.to_dense());
    const bool mine = ranks.rank() == 0;
    const std::string start = npy_start(ScalarTraits<T>::kind, extents);
    const auto begin = static_cast<std::int64_t>(start.size());
    constexpr std::int64_t element = sizeof(T);
    const std::int64_t bytes = checked_multiply(tensor.grid().element_total(), element, "bytes");
    std::optional<AtomicFile> out;
    Outcome outcome;
    if (mine)
        outcome.attempt([&] {
            out.emplace(path);
            out->reserve(begin + bytes);
            out->write_at(0, start.data(), begin);
            // What is not written reads as zero: the tiles that are not stored.
            const char zero = 0;
            if (bytes > 0) out->write_at(begin + bytes - 1, &zero, 1);
        });
    outcome.share(ranks, 0);
    stream_to_root<T>(tensor, 0, [&](std::int64_t first, std::int64_t last, std::span<const T> elements) {
        if (!mine) return;
        outcome.attempt([&] {
            const T* tile = elements.data();
            for (std::int64_t s = first; s < last; ++s) {
                const auto info = tile_info(tensor.grid(), tensor.shape().tile(s));
                for_each_row(info, extents, [&](std::int64_t at, std::int64_t in_tile, std::int64_t run) {
                    out->write_at(begin + at * element, tile + in_tile, run * element);
                });
                tile += info.extents.product();
            }
        });
    });
    if (mine) outcome.attempt([&] { out->commit(); });
    outcome.share(ranks, 0);
}

template void write_npy(const std::string&, const Tensor<float>&);
template void write_npy(const std::string&, const Tensor<double>&);
template void write_npy(const std::string&, const Tensor<std::complex<float>>&);
template void write_npy(const std::string&, const Tensor<std::complex<double>>&);

}  // namespace tessera

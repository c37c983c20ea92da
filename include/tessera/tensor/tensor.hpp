#pragma once
// A block-sparse tensor: tilings, the shape (which tiles are nonzero, with their norms), and the tiles.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/index/distribution.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/storage/tile_source.hpp"

namespace TESSERA_API tessera {

/// Where the tiles of a tensor are stored. The communicator must outlive the tensors on it.
struct Placement {
    /// All of them in this process.
    Placement() = default;
    Placement(Communicator& ranks, Distribution dealt) : communicator(&ranks), distribution(std::move(dealt)) {}
    /// In the memory of these devices of this process (docs/gpu.md, "Tensors that stay on a device").
    static Placement on_devices(std::vector<int> ids, std::int64_t memory = 0) {
        Placement where;
        where.devices = std::move(ids);
        where.device_memory = memory;
        return where;
    }
    Communicator* communicator = &self_communicator();
    Distribution distribution;
    /// A rank's tiles are dealt evenly over these devices of it, by number; none: they are on its host.
    std::vector<int> devices = {};
    /// Bytes of the tensor on each of them at most: tiles beyond stay on the host. 0: all of them.
    std::int64_t device_memory = 0;
    bool operator==(const Placement&) const = default;
};

/// Tiles are row-major and contiguous, in ascending ordinal (canonical tile order). The shape's norms are always those
/// of the data: whoever changes tiles through this class leaves the norms right.
///
/// With a placement over several ranks the shape, norms included, is the same on all of them, and each tile is stored
/// by its owner alone. Whatever makes, changes, compares or sums such tensors is collective: every rank calls it, in
/// the same order and with the same arguments, and gets the bits that one rank alone would get.
template <Scalar T>
class Tensor {
  public:
    using Real = RealOf<T>;

    /// Rank 0, zero.
    Tensor();
    /// Every tile of the shape stored, filled with zeros (norms become zero).
    explicit Tensor(Shape shape, Placement where = {});
    Tensor(const Tensor& other);
    Tensor(Tensor&& other) noexcept;
    Tensor& operator=(const Tensor& other);
    Tensor& operator=(Tensor&& other) noexcept;
    ~Tensor();

    /// The tiles of the shape, each made by the generator, in parallel. NaN or infinity is a UserError naming the tile.
    static Tensor generate(const Shape& shape, const TileGenerator<T>& generator, int threads = 0,
                           Placement where = {});
    /// The same tiles, made by devices where it is placed on some: by the rule of the hash generator, or by kernels of
    /// the caller's own. What no device makes is made by cores.
    static Tensor generate(const Shape& shape, const TileGenerator<T>& generator, const DeviceGenerator& on_device,
                           Placement where);
    /// Tiles of a dense row-major array (the same on all ranks); tiles whose Frobenius norm is <= drop are not stored.
    static Tensor from_dense(const TileGrid& grid, std::span<const T> dense, double drop = 0, Placement where = {});
    /// Uniform random numbers: the same for a seed on every machine; each tile's norm is at most the shape's. Tiles
    /// that the shape's symmetry exchanges with themselves have it too.
    static Tensor random(const Shape& shape, std::uint64_t seed, int threads = 0, Placement where = {});

    /// On every rank.
    std::vector<T> to_dense() const;
    const Placement& placement() const;
    Communicator& communicator() const { return *placement().communicator; }
    const Distribution& distribution() const { return placement().distribution; }
    const Shape& shape() const;
    /// The same without norms, where they are not known: a contraction on a device takes them when shape() is asked.
    const Shape& tiles() const;
    const TileGrid& grid() const { return tiles().grid(); }
    int rank() const { return grid().rank(); }
    std::int64_t tile_count() const { return tiles().tile_count(); }
    /// Whether the tile is stored by this rank, and by which one.
    bool is_local(std::int64_t slot) const;
    int owner(std::int64_t slot) const;
    /// The device that stores the tile, by number; -1: the host of its rank does.
    int device(std::int64_t slot) const;
    /// Whether any device of this rank stores some.
    bool on_devices() const { return !placement().devices.empty(); }
    /// A tile in its device's memory: row-major, without gaps; null where the host or another rank stores it. Read it
    /// on device_stream(), or after synchronize(). After a change, tiles_changed() takes the norms anew.
    void* device_tile(std::int64_t slot) const;
    void tiles_changed();
    /// Elements of a nonzero tile by slot, empty where another rank stores it; by coordinates, empty also where the
    /// tile is zero. UserError where a device stores it: to_host() brings it.
    std::span<const T> tile(std::int64_t slot) const;
    std::span<const T> tile(const IndexVector& coordinates) const;
    std::span<const T> tile(std::initializer_list<std::int64_t> coordinates) const {
        return tile(IndexVector(coordinates));  // {3} too is coordinates, not a slot
    }
    /// Calls visit(info, elements) for each nonzero tile of this rank: in canonical order, or on several threads (0:
    /// all of this process) in no order.
    void for_each_tile(const std::function<void(const TileInfo&, std::span<const T>)>& visit, int threads = 1) const;
    /// Calls change(info, elements) for each nonzero tile of this rank, in parallel, and takes the norms anew.
    /// Tiles that are not finite then are set to zero, and the first of them is named in a UserError.
    void update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& change, int threads = 0);
    /// Likewise each element of the nonzero tiles becomes change(where it is in the tensor, what it is).
    void update_tiles(const std::function<T(const IndexVector& element, T value)>& change, int threads = 0);

    /// Each nonzero tile becomes what these kernels make of it, on the device that stores it; tiles that the host
    /// stores are changed by `on_host`. The bits are those of the host where both do +, -, *, / , sqrt and fma alike.
    void update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& on_host, const DeviceLaunch& on_device);

    /// Bytes of this rank's tiles on its host (their alignment included), on its devices, and of everything else.
    std::int64_t tile_bytes() const;
    std::int64_t device_bytes() const;
    std::int64_t metadata_bytes() const;

    struct Impl;  // for the library's own executor and file readers
    Impl& impl() { return *impl_; }
    const Impl& impl() const { return *impl_; }
    explicit Tensor(std::unique_ptr<Impl> impl);

  private:
    std::unique_ptr<Impl> impl_;
};

/// The same tensor in the memory of devices of this process, or of its host.
template <Scalar T>
TESSERA_API Tensor<T> to_devices(const Tensor<T>& x, std::vector<int> devices, std::int64_t device_memory = 0);
template <Scalar T>
TESSERA_API Tensor<T> to_host(const Tensor<T>& x);
/// The stream that all work on tensors of this device follows (a cudaStream_t); and waiting for it.
TESSERA_API void* device_stream(int device);
TESSERA_API void synchronize(int device);
/// Bytes that tensors of this process, and what belongs to them, take on a device.
TESSERA_API std::int64_t device_memory_in_use(int device);

/// The same tensor with its tiles elsewhere among the ranks of its communicator: each tile travels at most once,
/// straight from its place to its place.
template <Scalar T>
TESSERA_API Tensor<T> redistribute(const Tensor<T>& x, const Distribution& distribution);
/// The whole tensor on the root, in its own process alone; on the other ranks a tensor of the same tilings without
/// tiles.
template <Scalar T>
TESSERA_API Tensor<T> gather(const Tensor<T>& x, int root = 0);
/// The opposite: what the root holds whole (the others' argument is not looked at), dealt to all ranks.
template <Scalar T>
TESSERA_API Tensor<T> scatter(const Tensor<T>& whole, Communicator& ranks, const Distribution& distribution,
                              int root = 0);

/// From the ranks of one communicator to those of another: collective over `all`, which has the ranks of both. `x` is
/// null on ranks that have no part in the tensor, `to` on those that get none of the copy; the copy is nothing there.
template <Scalar T>
TESSERA_API std::optional<Tensor<T>> copy_between(Communicator& all, const Tensor<T>* x, const Placement* to);

/// Same tilings, same nonzero tiles, same bits. Here and below: where two tensors are dealt differently, the second is
/// redistributed first (in axpy the first); both must have the same communicator.
template <Scalar T>
TESSERA_API bool operator==(const Tensor<T>& a, const Tensor<T>& b);

template <Scalar T>
TESSERA_API void scale(Tensor<T>& x, T factor);
/// alpha x + beta y; nonzero where either is.
template <Scalar T>
TESSERA_API Tensor<T> add(T alpha, const Tensor<T>& x, T beta, const Tensor<T>& y);
/// y += alpha x
template <Scalar T>
TESSERA_API void axpy(T alpha, const Tensor<T>& x, Tensor<T>& y);
/// Sum of conj(x) y: the same bits on any number of threads.
template <Scalar T>
TESSERA_API T dot(const Tensor<T>& x, const Tensor<T>& y);
/// Frobenius norm.
template <Scalar T>
TESSERA_API double norm(const Tensor<T>& x);
template <Scalar T>
TESSERA_API double max_abs(const Tensor<T>& x);
/// Without the tiles whose norm is below the threshold.
template <Scalar T>
TESSERA_API Tensor<T> filter(const Tensor<T>& x, double threshold);
/// Index d of the result is index p[d] of x.
template <Scalar T>
TESSERA_API Tensor<T> permute(const Tensor<T>& x, const Permutation& p, int threads = 0);
/// To another scalar type; complex to real is a UserError unless every imaginary part is zero.
template <Scalar To, Scalar From>
Tensor<To> convert(const Tensor<From>& x);
/// Hash of tilings, nonzero tiles and bits in canonical tile order: equal for bitwise equal tensors.
template <Scalar T>
TESSERA_API std::uint64_t checksum(const Tensor<T>& x);

}  // namespace tessera

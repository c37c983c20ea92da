#pragma once
// A block-sparse tensor: tilings, the shape (which tiles are nonzero, with their norms), and the tiles.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/scalar.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/shape/shape.hpp"
#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// Tiles are row-major and contiguous, in ascending ordinal (canonical tile order). The shape's norms are always those
/// of the data: whoever changes tiles through this class leaves the norms right.
template <Scalar T>
class Tensor {
  public:
    using Real = RealOf<T>;

    /// Rank 0, zero.
    Tensor();
    /// Every tile of the shape stored, filled with zeros (norms become zero).
    explicit Tensor(Shape shape);
    Tensor(const Tensor& other);
    Tensor(Tensor&& other) noexcept;
    Tensor& operator=(const Tensor& other);
    Tensor& operator=(Tensor&& other) noexcept;
    ~Tensor();

    /// The tiles of the shape, each made by the generator, in parallel. NaN or infinity is a UserError naming the tile.
    static Tensor generate(const Shape& shape, const TileGenerator<T>& generator, int threads = 0);
    /// Tiles of a dense row-major array; tiles whose Frobenius norm is <= drop are not stored.
    static Tensor from_dense(const TileGrid& grid, std::span<const T> dense, double drop = 0);
    /// Uniform random numbers: the same for a seed on every machine; each tile's norm is at most the shape's.
    static Tensor random(const Shape& shape, std::uint64_t seed, int threads = 0);

    std::vector<T> to_dense() const;
    const Shape& shape() const;
    const TileGrid& grid() const { return shape().grid(); }
    int rank() const { return grid().rank(); }
    std::int64_t tile_count() const { return shape().tile_count(); }
    /// Elements of a nonzero tile by slot; by coordinates, empty where the tile is zero.
    std::span<const T> tile(std::int64_t slot) const;
    std::span<const T> tile(const IndexVector& coordinates) const;
    /// Calls visit(info, elements) for each nonzero tile in canonical order.
    void for_each_tile(const std::function<void(const TileInfo&, std::span<const T>)>& visit) const;
    /// Calls change(info, elements) for each nonzero tile, in parallel, and takes the norms anew.
    void update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& change, int threads = 0);

    /// Bytes of tiles (their alignment included), and of everything else.
    std::int64_t tile_bytes() const;
    std::int64_t metadata_bytes() const;

    struct Impl;  // for the library's own executor and file readers
    Impl& impl() { return *impl_; }
    const Impl& impl() const { return *impl_; }
    explicit Tensor(std::unique_ptr<Impl> impl);

  private:
    std::unique_ptr<Impl> impl_;
};

/// Same tilings, same nonzero tiles, same bits.
template <Scalar T>
bool operator==(const Tensor<T>& a, const Tensor<T>& b);

template <Scalar T>
void scale(Tensor<T>& x, T factor);
/// alpha x + beta y; nonzero where either is.
template <Scalar T>
Tensor<T> add(T alpha, const Tensor<T>& x, T beta, const Tensor<T>& y);
/// y += alpha x
template <Scalar T>
void axpy(T alpha, const Tensor<T>& x, Tensor<T>& y);
/// Sum of conj(x) y: the same bits on any number of threads.
template <Scalar T>
T dot(const Tensor<T>& x, const Tensor<T>& y);
/// Frobenius norm.
template <Scalar T>
double norm(const Tensor<T>& x);
template <Scalar T>
double max_abs(const Tensor<T>& x);
/// Without the tiles whose norm is below the threshold.
template <Scalar T>
Tensor<T> filter(const Tensor<T>& x, double threshold);
/// Index d of the result is index p[d] of x.
template <Scalar T>
Tensor<T> permute(const Tensor<T>& x, const Permutation& p, int threads = 0);
/// To another scalar type; complex to real is a UserError unless every imaginary part is zero.
template <Scalar To, Scalar From>
Tensor<To> convert(const Tensor<From>& x);
/// Hash of tilings, nonzero tiles and bits in canonical tile order: equal for bitwise equal tensors.
template <Scalar T>
std::uint64_t checksum(const Tensor<T>& x);

}  // namespace tessera

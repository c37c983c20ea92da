#pragma once
// The tiles of an operand as they lie on a device, [batch][rows][padded columns], and the ways there and back.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/store.hpp"
#include "kernels/tile_math.hpp"
#include "tessera/kernels/transpose.hpp"
#include "tessera/shape/tile_views.hpp"

namespace tessera {

class DeviceTiles {
  public:
    /// One for all tiles of the same extents that are seen alike.
    struct Layout {
        std::int64_t batch = 1, rows = 1, cols = 1, ld = 1;
        std::int64_t elements = 1;
        std::int64_t bytes = 0;                     // on the device
        bool plain = true;                          // the stored tile is [batch][rows][columns] too
        bool transposed = false;                    // it is [columns][rows]
        double factor = 1;                          // of a tile that is seen in another one
        bool conjugate = false;                     // likewise
        kernels::TransposePlan to_device, to_host;  // where it is not
        /// Of a tile that a device stores, laid as the layout says and back; without the addresses.
        StridedJob laid, back;
        /// Rows of all points of the batch: what a plain tile is cut into.
        std::int64_t all_rows() const { return batch * rows; }

        /// The part of a matrix that starts at this row and column.
        struct At {
            std::int64_t bytes, ld;
            bool transposed;
        };
        /// In a tile as it is laid out, or as it is stored.
        At laid_at(std::int64_t h, std::int64_t row, std::int64_t col, std::int64_t element) const {
            return {((h * rows + row) * ld + col) * element, ld, false};
        }
        At stored_at(std::int64_t h, std::int64_t row, std::int64_t col, std::int64_t element) const {
            if (plain) return {((h * rows + row) * cols + col) * element, cols, false};
            return {(col * rows + row) * element, rows, true};
        }
    };

    /// Labels of the tensor's indices, and those that walk rows, columns and batch.
    DeviceTiles(const Shape& shape, const TileViews& views, const std::string& labels, const std::string& rows,
                const std::string& cols, const std::string& batch, std::int64_t element_bytes);
    const Layout& operator[](std::int64_t slot) const { return layouts_[class_of_[slot]]; }
    /// On the device.
    std::int64_t largest_bytes() const { return largest_bytes_; }
    std::int64_t largest_elements() const { return largest_elements_; }

  private:
    std::vector<Layout> layouts_;
    std::vector<std::int32_t> class_of_;
    std::int64_t largest_bytes_ = 0, largest_elements_ = 0;
};

/// Rows [begin, end) of a stored tile into device layout; other than all rows only of plain tiles. Padding is zero;
/// with the last row comes the padding behind the tile.
template <Scalar T>
void pack_rows(const DeviceTiles::Layout& layout, const T* tile, std::int64_t begin, std::int64_t end, std::byte* to);

/// A whole tile back.
template <Scalar T>
void unpack_tile(const DeviceTiles::Layout& layout, const std::byte* from, T* tile);

/// Elements in a chunk of sum_of_squares.
template <Scalar T>
inline constexpr std::int64_t kChunkElements = kSquaresChunk / (is_complex<T> ? 2 : 1);
/// Rows [begin, end) of a plain tile back, written past the caches: what they come from stays there instead. Sets the
/// sums of squares of the tile's chunks that lie within these rows.
template <Scalar T>
void unpack_rows(const DeviceTiles::Layout& layout, const std::byte* from, std::int64_t begin, std::int64_t end,
                 T* tile, std::span<double> squares);

}  // namespace tessera

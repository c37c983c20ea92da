#pragma once
// A tensor as an array, for loops that want one.

#include <algorithm>

#include "base/parallel.hpp"
#include "storage/buffer.hpp"
#include "storage/dry_run.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::chem {

/// All elements of a tensor that this process has whole, every tile of it, row-major; counted and not there in a dry
/// run.
class DenseArray {
  public:
    explicit DenseArray(const Tensor<double>& x, int threads = 1) : values_(8 * x.grid().element_total()) {
        if (DryRun::current()) return;
        const auto& grid = x.grid();
        const int rank = grid.rank();
        if (x.shape().tile_count() < grid.tile_total()) std::fill_n(values_.data(), values_.bytes(), std::byte{0});
        parallel_for(x.shape().tile_count(), threads, 1, [&](std::int64_t n) {
            const auto info = tile_info(grid, x.shape().tile(n));
            const double* from = x.tile(n).data();
            // Rows of the last index, to where the first of them lies and on by the indices before it.
            const auto width = info.extents[static_cast<std::size_t>(rank - 1)];
            std::int64_t rows = 1;
            for (int d = 0; d + 1 < rank; ++d) rows *= info.extents[static_cast<std::size_t>(d)];
            for (std::int64_t r = 0; r < rows; ++r, from += width) {
                std::int64_t rest = r, at = info.begin[static_cast<std::size_t>(rank - 1)],
                             step = grid.tiling(rank - 1).extent();
                for (int d = rank - 2; d >= 0; --d) {
                    const auto extent = info.extents[static_cast<std::size_t>(d)];
                    at += (info.begin[static_cast<std::size_t>(d)] + rest % extent) * step;
                    rest /= extent;
                    step *= grid.tiling(d).extent();
                }
                std::copy_n(from, width, reinterpret_cast<double*>(values_.data()) + at);
            }
        });
    }
    const double* data() const { return reinterpret_cast<const double*>(values_.data()); }

  private:
    Buffer values_;
};

}  // namespace tessera::chem

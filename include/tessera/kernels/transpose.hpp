#pragma once
// B = alpha * permute(A) + beta * B for dense tensors of any rank, near the speed of a copy.
//
// After Lyakh (tensor transpose for CPU, Phi and GPU): the fastest indices of input and output span a sub-block that
// fits a cache; everything else is a loop over independent blocks. Axis d of the output is axis permutation[d] of the
// input; tensors are row-major (last index fastest) unless strides say otherwise.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {
namespace kernels {

inline constexpr int kMaxTransposeRank = 16;

/// How one block travels.
enum class TransposeKernel {
    empty,    // nothing to do
    rows,     // long runs contiguous on both sides: copied
    pieces,   // short runs contiguous on both sides: gathered into long output runs
    micro,    // in-register transposes: runs of input become columns of output runs
    gather,   // leading indices of both sides overlap: elements are gathered by offset table
    strided,  // the output has no contiguous index: plain loops
};
std::string_view name(TransposeKernel kernel);

/// One index after fusion; axes are listed in output order, slowest first. Strides are in elements.
struct TransposeAxis {
    std::int64_t extent = 1;
    std::int64_t in_stride = 0;
    std::int64_t out_stride = 0;
    std::int64_t block = 1;  // elements of this index in one block
    bool operator==(const TransposeAxis&) const = default;
};

/// Plain data: what transpose() will do with tensors of one shape.
struct TransposePlan {
    int element_bytes = 0;
    std::int64_t volume = 0;
    std::vector<std::int64_t> extents;  // of the input, as given
    std::vector<int> permutation;       // as given

    int rank = 0;  // after dropping extents of 1 and fusing indices that stay together
    std::array<TransposeAxis, kMaxTransposeRank> axis{};

    TransposeKernel kernel = TransposeKernel::empty;
    std::int64_t in_run = 0;   // elements contiguous in the input in one block
    std::int64_t out_run = 0;  // elements contiguous in the output in one block
    int tile_row_axes = 0;     // micro: the fastest axes of the output that make the rows of a tile,
    int tile_column_axes = 0;  // and of the input that make its columns
    std::int64_t block_volume = 0;
    std::int64_t blocks = 0;
    bool stream = false;  // too large for the caches: whole lines are written past them
    bool team = true;     // large enough that waking other threads costs less than it saves

    std::int64_t in_span = 0;  // elements from the first to the last touched, plus one
    std::int64_t out_span = 0;
    /// Bytes that cross the memory bus: cache lines touched by the runs, and the read of lines only partly written. At
    /// most the largest 64-bit number.
    std::int64_t predicted_bytes = 0;

    bool operator==(const TransposePlan&) const = default;
};

/// What the planner may assume and wish for; the defaults suit a core with 2 MiB of second-level cache. Positive;
/// stream_bytes and team_bytes may be 0 (always).
struct TransposeTuning {
    std::int64_t block_bytes = 160 << 10;  // the staging buffer of a block; at least two elements
    std::int64_t run_bytes = 1024;         // wanted contiguous run on both sides
    std::int64_t row_bytes = 1024;         // runs shared by both sides from here on are copied directly
    std::int64_t stream_bytes = 16 << 20;  // outputs from here on bypass the caches
    std::int64_t team_bytes = 256 << 10;   // from here on several threads pay
    bool operator==(const TransposeTuning&) const = default;
};

/// Throws UserError for what is not a permutation, negative or overflowing extents, strides that overlap in the output.
/// Strides that interleave without overlapping ({2, 3} for 3 x 2) are refused in the output as well: each must step
/// over all elements of the faster indices. Empty stride spans mean packed row-major. in_strides follow the input's
/// axes, out_strides the output's.
TransposePlan plan_transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, int element_bytes,
                             std::span<const std::int64_t> in_strides = {},
                             std::span<const std::int64_t> out_strides = {}, const TransposeTuning& tuning = {});

/// Several lines for a person.
std::string describe(const TransposePlan& plan);

/// Plans by shape. Safe to share between threads; owned by whoever makes many transposes.
class TransposePlanCache {
  public:
    explicit TransposePlanCache(std::size_t capacity = 4096) : capacity_(capacity) {}
    std::shared_ptr<const TransposePlan> get(std::span<const std::int64_t> extents, std::span<const int> permutation,
                                             int element_bytes, std::span<const std::int64_t> in_strides = {},
                                             std::span<const std::int64_t> out_strides = {});
    std::size_t size() const;

  private:
    std::size_t capacity_;
    mutable std::mutex mutex_;
    std::map<std::vector<std::int64_t>, std::shared_ptr<const TransposePlan>> plans_;
};

template <Scalar T>
struct TransposeArguments {
    T alpha = T(1);
    T beta = T(0);  // zero: the output is not read, whatever it holds
    bool conjugate = false;
    int threads = 1;              // 0: all cores
    std::optional<Isa> isa = {};  // less than the best of this processor, for tests
};

/// Throws UserError when input and output overlap (from first to last element: interleaved ones too), an address is no
/// multiple of the size of a real number of the type, or the plan is for another element size.
template <Scalar T>
TESSERA_API void transpose(const TransposePlan& plan, const T* in, T* out, const TransposeArguments<T>& arguments = {});

/// Plans and runs.
template <Scalar T>
TESSERA_API void transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, const T* in, T* out,
                           const TransposeArguments<T>& arguments = {});

namespace ref {
/// The obvious loop over the output. Strides as for plan_transpose.
template <Scalar T>
TESSERA_API void transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, const T* in, T* out,
                           T alpha = T(1), T beta = T(0), bool conjugate = false,
                           std::span<const std::int64_t> in_strides = {},
                           std::span<const std::int64_t> out_strides = {});
}  // namespace ref

}  // namespace kernels
}  // namespace tessera

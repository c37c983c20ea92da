#pragma once
// All tensor work of the methods goes through here: one place to count, to time and to choose where it runs.

#include <string_view>

#include "chem/matrix.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::chem {

using RealTensor = Tensor<double>;
using RealOperand = ContractOperand<double>;

/// Who does it. With several ranks each holds all tensors; large products are dealt out and their results gathered,
/// with the bits that one rank alone would get.
struct TensorWorkers {
    Resources here;           // its memory bounds the whole process, not a contraction
    double share_from = 5e7;  // multiply-adds that pay for messages
    double device_from = -1;  // multiply-adds of a rank that pay for the way to its devices; < 0: by an estimate
    int rank_count() const { return here.communicator ? here.communicator->size() : 1; }
};

/// Multiply-adds of a dense contraction of these extents.
double work_of(std::string_view spec, const Shape& a, const Shape* b);
/// Threads that are worth waking for it.
int threads_for(std::string_view spec, const Shape& a, const Shape* b, int threads);

constexpr std::int64_t kMadeTiles = 32 << 20;    // bytes for tiles made on demand, of lean_product
constexpr std::int64_t kLargeResult = 64 << 20;  // bytes of a c that add_product adds to in runs of tiles
constexpr std::int64_t kRuns = 8;

class TensorWork {
  public:
    explicit TensorWork(TensorWorkers workers) : workers_(std::move(workers)), threads_(workers_.here.threads) {}

    /// alpha a b
    RealTensor product(std::string_view spec, const RealOperand& a, const RealOperand& b, double alpha = 1);
    /// a b, the tiles of `only`.
    RealTensor product(std::string_view spec, const RealOperand& a, const RealOperand& b, const Shape& only);
    /// c += alpha a b
    void add_product(std::string_view spec, const RealOperand& a, const RealOperand& b, RealTensor& c,
                     double alpha = 1);
    /// The same as product, with little memory for tiles that are made on demand.
    RealTensor lean_product(std::string_view spec, const RealOperand& a, const RealOperand& b);
    RealTensor permuted(std::string_view spec, const RealTensor& a);

    int threads() const { return threads_; }
    const TensorWorkers& workers() const { return workers_; }
    double seconds() const { return seconds_; }
    double flops() const { return flops_; }
    std::int64_t count() const { return count_; }
    const ContractReport& last() const { return last_; }
    /// Of these, what ran on devices, and the bytes that took there and back.
    struct OnDevices {
        std::int64_t count = 0, loaded_bytes = 0, stored_bytes = 0;
        double flops = 0;
        std::int64_t refused = 0;  // did not fit in the devices' memory and ran on the cores
    };
    const OnDevices& on_devices() const { return on_devices_; }

    /// In a DryRun: the most threads that a contraction was for.
    int most_threads() const { return most_threads_; }

  private:
    /// What the same contraction would hold, counted (tensor_count.cpp).
    RealTensor counted(std::string_view spec, const RealOperand& a, const RealOperand* b, const Shape* only = nullptr);
    bool add_in_runs(std::string_view spec, const RealOperand& a, const RealOperand& b, RealTensor& c, double alpha);
    /// Whether ranks share it.
    bool shares(std::string_view spec, const RealOperand& a, const RealOperand& b) const;
    void note(ContractReport report, double start);
    bool for_devices(std::string_view spec, const RealOperand& a, const RealOperand& b, bool shared) const;
    /// For operands that live on devices, both of them: the work is done there.
    Resources home_of(const RealTensor& x) const;
    /// The cores of this process, as many as the work pays for.
    Resources cores_for(std::string_view spec, const Shape& a, const Shape* b) const;
    template <class Run>
    auto on_devices(const Resources& cores, const Run& run);
    Contraction<double> shared_product(std::string_view spec, const RealOperand& a, const RealOperand& b,
                                       Resources cores, const ContractOptions& options);
    TensorWorkers workers_;
    int threads_;
    double seconds_ = 0, flops_ = 0;
    std::int64_t count_ = 0;
    ContractReport last_;
    OnDevices on_devices_;
    int most_threads_ = 1;
};

/// Rows x columns of a matrix, every tile.
RealTensor to_tensor(const Matrix& m, const Tiling& rows, const Tiling& columns);
/// All of a tensor with two indices.
Matrix to_matrix(const RealTensor& x);
/// Tiles as even as they can be, of at most `target` elements.
Tiling even_tiling(std::int64_t extent, std::int64_t target);
/// Runs of tiles, first to last (excluded), of at most `most` elements; a tile at least. What is too large to be whole
/// goes through in such blocks.
std::vector<std::pair<std::int64_t, std::int64_t>> runs_of_tiles(const Tiling& tiling, std::int64_t most);
/// The tiles first to last (excluded) as a tiling.
Tiling part_of(const Tiling& tiling, std::int64_t first, std::int64_t last);

}  // namespace tessera::chem

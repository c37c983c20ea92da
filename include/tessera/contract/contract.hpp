#pragma once
// The front door: C = alpha A B + beta C for any einsum of one or two block-sparse tensors.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/index/contraction_spec.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/trace.hpp"
#include "tessera/tensor/generated_tensor.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {

struct ContractOptions {
    std::complex<double> alpha = 1.0;
    std::complex<double> beta = 0.0;  // with contract_into
    bool conjugate_a = false, conjugate_b = false;
    /// Result tiles whose norm stays below this are dropped, products that cannot matter are skipped.
    double filter = 0;
    /// Compute these tiles only (all of them, also where they are zero).
    const Shape* result_shape = nullptr;
    /// Bytes for tiles on the host, operands and result included; 0: no limit but the machine's memory. Too small:
    /// BudgetError.
    std::int64_t memory = 0;
    int threads = 0;  // per rank; 0: all cores
    /// auto, stationary_b, outer_product, split_k, replicate_b; and the grid of ranks, 0: from the shapes.
    std::string algorithm = "auto";
    int grid_rows = 0, grid_cols = 0;
    /// The ranks that work together, where both operands are made on demand; else those of the stored operands.
    Communicator* communicator = nullptr;
    /// Where the result's tiles shall be; else where the algorithm likes them best (with contract_into: C's own).
    std::optional<Distribution> result_distribution = {};
    /// GPUs of each rank by number (one may be named more than once); none: its cores. Bytes on each of them, 0: what
    /// is free. auto, columns, patches or worst_fit.
    std::vector<int> devices = {};
    std::int64_t device_memory = 0;
    std::string blocks = "auto";
    PlanParameters parameters = {};  // of device plans; what is not set is computed
    bool trace = false;              // keep what each device and link did when: ContractReport::trace
    /// A plan that on_plan was given before, for the same operands' tiles and the same options: planning is left out.
    const Plan* plan = nullptr;
    /// Called with the plan before any work.
    std::function<void(const Plan&)> on_plan = {};
    /// Called now and then with flops done and flops in all, from one thread at a time.
    std::function<void(double done, double total)> on_progress = {};
};

struct ContractReport {
    /// No more than this (Frobenius norm) was left out by the filter. Tiles outside a given result shape do not count.
    double left_out = 0;
    double flops = 0;
    std::int64_t products = 0, made_tiles = 0, dropped_tiles = 0;
    std::int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0, peak_host_bytes = 0;
    double plan_seconds = 0, execute_seconds = 0;
    std::string algorithm;
    int threads = 0, ranks = 1;
    std::vector<int> devices = {};
    std::int64_t sent_bytes = 0;                                // between ranks, all of them
    std::int64_t rank_sent_bytes = 0, rank_received_bytes = 0;  // by this rank
    /// Share of the time with messages under way that was hidden behind work; 1 where there were none. With devices: of
    /// the time in which something moved to, from or between a rank's devices, the share in which they also worked;
    /// known where a trace was kept, else not a number (null in JSON).
    double overlap = 1;
    /// Where a trace was kept: how long devices worked, something moved to, from or between them, and cores made tiles
    /// for them, each counted once where it is done twice at a time; the mean of the ranks.
    double device_seconds = 0, transfer_seconds = 0, make_seconds = 0;
    std::int64_t loaded_bytes = 0, stored_bytes = 0, copied_bytes = 0;  // host to device, back, device to device
    std::int64_t descriptor_bytes = 0;  // lists of products for devices, which no plan counts
    std::int64_t peak_device_bytes = 0;
    Trace trace;  // of this rank's devices, where asked for
};

template <Scalar T>
struct Contraction {
    Tensor<T> tensor;
    ContractReport report;
};

/// An operand: a stored tensor, or one that is made on demand. Refers to it; does not own it.
template <Scalar T>
class ContractOperand {
  public:
    ContractOperand(const Tensor<T>& stored) : stored_(&stored) {}
    ContractOperand(const GeneratedTensor<T>& made) : made_(&made) {}
    const Tensor<T>* stored() const { return stored_; }
    const GeneratedTensor<T>* made() const { return made_; }
    const Shape& shape() const { return stored_ ? stored_->shape() : made_->shape; }

  private:
    const Tensor<T>* stored_ = nullptr;
    const GeneratedTensor<T>* made_ = nullptr;
};

/// Two operands: contract("pcd,cdab->pab", a, b).
template <Scalar T>
Contraction<T> contract(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                        const std::type_identity_t<ContractOperand<T>>& b, const ContractOptions& options);

/// One operand: permute, trace, diagonal, partial sums.
template <Scalar T>
Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const ContractOptions& options = {});

template <Scalar T>
Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const Tensor<T>& b,
                        const ContractOptions& options = {}) {
    return contract<T>(spec, ContractOperand<T>(a), ContractOperand<T>(b), options);
}
template <Scalar T>
Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const GeneratedTensor<T>& b,
                        const ContractOptions& options = {}) {
    return contract<T>(spec, ContractOperand<T>(a), ContractOperand<T>(b), options);
}
template <Scalar T>
Contraction<T> contract(std::string_view spec, const GeneratedTensor<T>& a, const Tensor<T>& b,
                        const ContractOptions& options = {}) {
    return contract<T>(spec, ContractOperand<T>(a), ContractOperand<T>(b), options);
}
template <Scalar T>
Contraction<T> contract(std::string_view spec, const GeneratedTensor<T>& a, const GeneratedTensor<T>& b,
                        const ContractOptions& options = {}) {
    return contract<T>(spec, ContractOperand<T>(a), ContractOperand<T>(b), options);
}

/// c = alpha a b + beta c. On an exception c is as it was.
template <Scalar T>
ContractReport contract_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                             const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c,
                             const ContractOptions& options = {});

/// c = alpha (a, permuted, its diagonal, or sums of it) + beta c. On an exception c is as it was.
template <Scalar T>
ContractReport contract_into(std::string_view spec, const Tensor<T>& a, Tensor<T>& c,
                             const ContractOptions& options = {});

/// A result that is never stored whole: each tile is handed over once, finished, with its norm, and forgotten. Called
/// from several threads at once, in no order. On devices no more than a few tiles are held on the host at a time.
/// Each rank is handed the tiles that it owns. Returns the shape of the result (this rank's norms) with the report.
template <Scalar T>
struct ConsumedContraction {
    Shape shape;
    ContractReport report;
};
template <Scalar T>
using TileConsumer = std::function<void(std::int64_t slot, std::span<const T> tile, double norm)>;
template <Scalar T>
ConsumedContraction<T> contract_each(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                     const std::type_identity_t<ContractOperand<T>>& b,
                                     const std::type_identity_t<TileConsumer<T>>& consume,
                                     const ContractOptions& options = {});

/// Just the tensor.
template <Scalar T>
Tensor<T> einsum(std::string_view spec, const Tensor<T>& a, const Tensor<T>& b) {
    return contract(spec, a, b).tensor;
}
template <Scalar T>
Tensor<T> einsum(std::string_view spec, const Tensor<T>& a) {
    return contract(spec, a).tensor;
}

}  // namespace tessera

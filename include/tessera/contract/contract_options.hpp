#pragma once
// What is contracted, how it is watched, and what is reported. Where it runs: resources.hpp. How it is planned:
// plan/plan_options.hpp.

#include <complex>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/plan_options.hpp"
#include "tessera/plan/trace.hpp"
#include "tessera/tensor/generated_tensor.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Elements lo, lo + 1, ... hi - 1 of the index with this label.
struct IndexBounds {
    char label = 0;
    std::int64_t lo = 0, hi = 0;
    bool operator==(const IndexBounds&) const = default;
};

struct ContractOptions {
    std::complex<double> alpha = 1.0;
    std::complex<double> beta = 0.0;  // of the C that is added to: plan_into, contract_into
    bool conjugate_a = false, conjugate_b = false;
    /// The same by number, from 0: for einsums of more operands.
    std::vector<int> conjugate = {};
    /// Result tiles whose norm stays below this are dropped, products that cannot matter are skipped.
    double filter = 0;
    /// Compute these tiles only (all of them, also where they are zero).
    const Shape* result_shape = nullptr;
    /// contract_into, execute_into: on an exception C is as it was, whatever happens, at the price of a second C.
    /// Without, a C that has the result's tiles is worked on in place by the cores: what is wrong with the call is said
    /// before it is touched; where the result holds NaN or infinity, the machine fails or a progress function throws,
    /// it is zero.
    bool strict = false;
    /// Where the result's tiles shall be; else where the algorithm likes them best (adding to a C: where C is).
    std::optional<Distribution> result_distribution = {};
    /// Of the result: "ij=ji". Of tiles that follow from each other one is computed and stored. That the operands give
    /// such a result is for the caller to know. Adding to a C, and a given result shape, have the same one.
    Symmetry result_symmetry = {};
    /// Sums over indices that both operands may exchange (c and d in "ijcd,cdab->ijab", where A and B are both
    /// symmetric in them, or both antisymmetric) go over c <= d, tile by tile, and count c < d twice. The products are
    /// fewer, the sums are taken in another order, so other bits come out.
    bool fold = false;
    /// Whether the result stays on the devices (docs/gpu.md); not said: it does where all stored operands, or the C
    /// that is added to, live there. As much of it as their memory has room for.
    std::optional<bool> result_on_devices = {};
    /// Operands count as zero outside these ranges, of any indices: {{'P', 0, 500}}. Tiles outside cost nothing, no
    /// tile inside is copied; only tiles that a range cuts are. The result keeps its grid (and beta C all of C).
    std::vector<IndexBounds> bounds = {};

    bool conjugates(int operand) const;
};

/// Watching a contraction while it runs.
struct Watch {
    /// Called now and then with flops done and flops in all, from one thread at a time.
    std::function<void(double done, double total)> on_progress = {};
    bool trace = false;  // keep what each device and link did when: ContractReport::trace
};

struct ContractReport {
    /// No more than this (Frobenius norm) was left out by the filter. Tiles outside a given result shape do not count.
    double left_out = 0;
    double flops = 0;
    std::int64_t products = 0, made_tiles = 0, dropped_tiles = 0;
    std::int64_t bytes_a = 0, bytes_b = 0, bytes_c = 0, peak_host_bytes = 0;
    double plan_seconds = 0, execute_seconds = 0;  // plan_seconds is 0 where a plan was kept from before
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
    /// One for each contraction of two that an einsum of a list of operands was. What is above are then sums, or the
    /// largest; bytes_b is all operands but the first, traces are in the steps.
    std::vector<ContractReport> steps;
};

template <Scalar T>
struct Contraction {
    Tensor<T> tensor;
    ContractReport report;
};

/// A result that nobody keeps: each tile is handed over once, finished, with its norm, and forgotten. Called from
/// several threads at once, in no order. Devices hand over while they work, and the host holds a few tiles at a time;
/// cores hold the result until it is complete. Each rank is handed the tiles that it owns. Not with a filter, which is
/// a UserError: whoever takes the tiles may drop them by their norms.
template <Scalar T>
using TileConsumer = std::function<void(std::int64_t slot, std::span<const T> tile, double norm)>;

/// The shape of a result that was handed over (this rank's norms), with the report.
struct ConsumedContraction {
    Shape shape;
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
    /// Of a stored one, norms may not be known yet.
    const Shape& shape() const { return stored_ ? stored_->tiles() : made_->shape; }

  private:
    const Tensor<T>* stored_ = nullptr;
    const GeneratedTensor<T>* made_ = nullptr;
};

/// What planning asks of an operand that need not be there yet: its tiles, where they come from, and, on several ranks,
/// who holds which (not given: whoever the algorithm likes best, and the operand must be made there). Refers to the
/// shape; does not own it.
struct OperandShape {
    OperandShape(const Shape& tiles, SourceKind from = SourceKind::stored, std::optional<Distribution> where = {})
        : shape(&tiles), source(from), distribution(std::move(where)) {}
    const Shape* shape;
    SourceKind source;
    std::optional<Distribution> distribution;
    /// Where it is stored on devices: which of these has each tile, by slot; -1: the host.
    std::vector<int> devices = {};
    std::vector<std::int16_t> homes = {};
};

/// The scalar type of what can be an operand.
template <class X>
struct OperandTraits {};
template <Scalar T>
struct OperandTraits<Tensor<T>> {
    using Value = T;
};
template <Scalar T>
struct OperandTraits<GeneratedTensor<T>> {
    using Value = T;
};
template <Scalar T>
struct OperandTraits<ContractOperand<T>> {
    using Value = T;
};
template <class X>
using OperandValue = typename OperandTraits<X>::Value;
/// Two operands of one scalar type.
template <class A, class B>
concept Operands = std::same_as<OperandValue<A>, OperandValue<B>>;
template <class Sink, class T>
concept Consumes = std::convertible_to<Sink, TileConsumer<T>>;

}  // namespace tessera

#pragma once
// One contraction in many steps: operands come in batches, ranges of indices one after the other, and C is finished,
// and filtered, once.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/contract/contract_options.hpp"

namespace TESSERA_API tessera {

struct BatchOptions {
    std::complex<double> alpha = 1.0, beta = 1.0;  // C becomes alpha times the sum of all products, plus beta C
    bool conjugate_a = false, conjugate_b = false;
    bool retain_sparsity = false;  // C keeps its tiles and gets no others
    /// The operands that the batches are parts of, where the result shall have the bits of contracting them at once.
    const Shape* whole_a = nullptr;
    const Shape* whole_b = nullptr;
};

struct BatchReport {
    double left_out = 0;  // no more than this (Frobenius norm) was left out by the filter
    std::int64_t dropped_tiles = 0;
    std::int64_t batches = 0, plans = 0;  // a plan serves all batches of the same tiles
    double flops = 0;
    std::int64_t products = 0, sent_bytes = 0, peak_host_bytes = 0;
    double plan_seconds = 0, execute_seconds = 0;
    /// The bits are those of one contraction of the whole operands. Where not, why: they are still the same on any
    /// number of ranks and threads.
    bool as_one_call = false;
    std::string why_not;
};

/// C stays as it is until finish(), and must outlive the batch. Collective over C's ranks. On an exception that a batch
/// throws while it is worked on, the sums are lost; C is as it was.
template <Scalar T>
class ContractionBatch {
  public:
    ContractionBatch(std::string_view spec, Tensor<T>& c, const Resources& here = {}, const BatchOptions& options = {},
                     const PlanOptions& how = {});
    ContractionBatch(ContractionBatch&&) noexcept;
    ContractionBatch& operator=(ContractionBatch&&) noexcept;
    ~ContractionBatch();

    /// Adds a b within the bounds to the sums.
    void add(const ContractOperand<T>& a, const ContractOperand<T>& b, const std::vector<IndexBounds>& bounds = {});
    /// The same; the operands' memory is given up as soon as they are used.
    void add(Tensor<T>&& a, Tensor<T>&& b, const std::vector<IndexBounds>& bounds = {});

    /// C = alpha sums + beta C, without the tiles whose norm is below the filter. The batch is then empty.
    BatchReport finish(double filter = 0);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// batch("pqP,Prs->pqrs", c)
template <Scalar T>
ContractionBatch<T> batch(std::string_view spec, Tensor<T>& c, const Resources& here = {},
                          const BatchOptions& options = {}, const PlanOptions& how = {}) {
    return ContractionBatch<T>(spec, c, here, options, how);
}

}  // namespace tessera

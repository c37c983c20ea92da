#pragma once
// What a PlannedContraction holds, and how one is made.

#include <array>
#include <exception>
#include <optional>

#include "base/check.hpp"
#include "comm/same_on_all.hpp"
#include "execute/cpu/tile_layouts.hpp"
#include "execute/device/direct.hpp"
#include "index/einsum_spec.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/contract/planned_contraction.hpp"
#include "tessera/index/contraction_spec.hpp"

namespace tessera {

struct PlannedContraction::Impl {
    ContractionSpec spec, reduced;  // as given; without diagonals and sums within one operand, as the plan has it
    Plan plan;
    std::optional<Shape> original_a, original_b;  // of operands that are reduced before the product, or have symmetry
    Resources here;
    Communicator* ranks = nullptr;  // null: of a machine that is not here
    ContractOptions options;        // its result_shape is not to be followed any more
    PlanOptions how;
    MachineModel machine;
    bool into = false;             // made by plan_into
    std::int64_t reducing = 0;     // most bytes of tiles on a rank while operands are reduced
    std::exception_ptr too_large;  // why the result cannot be stored; null where it can
    double seconds = 0;
    SourceKind source_a = SourceKind::stored, source_b = SourceKind::stored;  // before operands are reduced
    // What each execution would work out anew; none of a machine that is not here.
    std::unique_ptr<const PlanLayouts> layouts = {};       // where cores do the work
    std::shared_ptr<const TilePlaces> result_places = {};  // where the result fits
    bool result_stays = false;                             // on devices, also where the plan sums it up on the host
    std::unique_ptr<DirectRuns> direct = {};               // where all tiles live on one device
    bool in_place = false;                                 // made by plan_into, and may work in C's own tiles
    bool one_c = false;                                    // with beta: the plan counts no other C besides that

    const Shape& shape_a() const { return original_a ? *original_a : plan.a; }
    const Shape& shape_b() const { return original_b ? *original_b : plan.b; }
};

/// All that planning is told. Refers to what it is made from.
struct PlanQuestion {
    ContractionSpec spec;
    OperandShape a, b;
    std::optional<OperandShape> c;  // to be added to, or replaced
    ScalarKind scalar = ScalarKind::f64;
    double alpha_magnitude = 1, beta_magnitude = 0;
    const ContractOptions& options;
    const PlanOptions& how;
    std::int64_t held_bytes = 0;  // on this rank besides: what operands were reduced from, other operands of an einsum
    std::int64_t reducing = 0;    // as in Impl, where they have been reduced already
    /// Of operands that the options bound: a and b are then of the tiles that are kept.
    struct Parts {
        std::shared_ptr<const Shape> whole, kept, cut;
    };
    std::array<Parts, 2> bounds = {};

    bool reduces() const { return spec.needs_reduction(0) || spec.needs_reduction(1); }
};

/// alpha or beta as a scalar of the tensors.
template <Scalar T>
T scalar_of(std::complex<double> value, const char* what) {
    require(std::isfinite(value.real()) && std::isfinite(value.imag()), "{} is not finite: {} + {}i", what,
            value.real(), value.imag());
    if constexpr (is_complex<T>) {
        return T(static_cast<RealOf<T>>(value.real()), static_cast<RealOf<T>>(value.imag()));
    } else {
        require(value.imag() == 0, "{} has an imaginary part of {}, but the tensors are real", what, value.imag());
        return static_cast<T>(value.real());
    }
}

/// Leaves the operands what options.bounds leave of them.
void bound_operands(PlanQuestion& question);

template <Scalar T>
PlanQuestion question_of(std::string_view spec, const OperandShape& a, const OperandShape& b, const OperandShape* c,
                         const ContractOptions& options, const PlanOptions& how) {
    const T alpha = scalar_of<T>(options.alpha, "alpha"), beta = scalar_of<T>(options.beta, "beta");
    require(c || beta == T(0), "beta is {}, but there is no C to add to: use contract_into or plan_into",
            options.beta.real());
    PlanQuestion q{ContractionSpec(without_ellipsis(spec, {a.shape->grid().extents(), b.shape->grid().extents()})),
                   a,
                   b,
                   c ? std::optional(*c) : std::nullopt,
                   ScalarTraits<T>::kind,
                   static_cast<double>(std::abs(alpha)),
                   static_cast<double>(std::abs(beta)),
                   options,
                   how};
    bound_operands(q);
    return q;
}

/// What is known of an operand before the product: on several ranks, where it is.
template <Scalar T>
OperandShape shape_of(const ContractOperand<T>& x) {
    if (x.stored()) {
        const bool alone = x.stored()->communicator().size() == 1;
        OperandShape out{x.shape(), SourceKind::stored,
                         alone ? std::nullopt : std::optional(x.stored()->distribution())};
        if (x.stored()->on_devices() && alone) {
            out.devices = x.stored()->placement().devices;
            out.homes = x.stored()->impl().places->homes;
        }
        return out;
    }
    return {x.shape(), makes_tiles(x.made()->on_device) ? SourceKind::device_made : SourceKind::host_made};
}

/// Which of `devices` each tile is on, of a tensor that says it by its own list. UserError where one is on another.
std::vector<std::int16_t> homes_among(const char* operand, const std::vector<int>& own,
                                      const std::vector<std::int16_t>& homes, const std::vector<int>& devices);
/// A filter counts with norms: those that were put off are taken.
template <Scalar T>
void settle_norms(const ContractOptions& options, const ContractOperand<T>& a, const ContractOperand<T>& b,
                  const Tensor<T>* old) {
    if (options.filter <= 0) return;
    for (const auto* x : {a.stored(), b.stored(), old})
        if (x) (void)x->shape();
}

/// The ranks that all operands live on.
template <Scalar T>
Communicator& ranks_of(const ContractOperand<T>& a, const ContractOperand<T>& b, const Tensor<T>* old,
                       const Resources& here) {
    Communicator* ranks = nullptr;
    const auto meet = [&](Communicator* found, const char* what) {
        require(!ranks || same_ranks(*ranks, *found),
                "{} is another communicator ({} ranks) than that of the operands before it ({})", what, found->size(),
                ranks ? ranks->size() : 0);
        ranks = found;
    };
    if (a.stored()) meet(&a.stored()->communicator(), "that of A");
    if (b.stored()) meet(&b.stored()->communicator(), "that of B");
    if (old) meet(&old->communicator(), "that of C");
    if (here.communicator) meet(here.communicator, "the communicator of the resources");
    return ranks ? *ranks : self_communicator();
}

/// On the ranks and devices at hand. Collective.
PlannedContraction plan_here(const PlanQuestion& question, const Resources& here, Communicator& ranks);
/// On a described machine.
PlannedContraction plan_there(const PlanQuestion& question, const MachineModel& machine, const PlanBudget& budget);

/// Checks of spec, options and resources that need no plan.
void check_question(const PlanQuestion& question, const Resources& here);
/// Bytes of this rank's tiles at most while operands are made as a whole, or moved between ranks, to be reduced; 0
/// where none is. BudgetError where the budget is less. Collective where operands are reduced.
std::int64_t require_room_to_reduce(const PlanQuestion& question, const Resources& here, Communicator& ranks);

void require_planned_symmetry(const char* operand, const Symmetry& planned, const Symmetry& now);
/// UserError naming the operand and the first tile in which these shapes differ; `norms`: also the first norm.
void require_planned_shape(const char* operand, const Shape& planned, const Shape& now, bool norms);

/// Whether the operands to be conjugated are there.
void require_conjugate(const ContractOptions& options, int operands, std::string_view spec);

/// Whether a C that is added to has the result's tilings. `labels` are those of the result.
void require_like_result(const std::string& spec, const std::string& labels, const TileGrid& c, const TileGrid& result);
inline void require_like_result(const ContractionSpec& spec, const TileGrid& c, const TileGrid& result) {
    require_like_result(spec.text(), spec.c(), c, result);
}

}  // namespace tessera

#pragma once
// Many small contractions into one six-index block, then an epilogue: the pattern of the CCSD(T) triples correction.
//
//     out[x0..x5]  (+)=  sum over terms t, sum over s < sum_extent(t):   factor(t) * a_t[.., s] * b_t[.., s]
//
// Each of the six output indices comes from exactly one of a term's two operands; any split (3+3, 2+4, 6+0), any
// strides, any extents and any number of terms will do. A summed index in pieces (its tiles lie in different buffers)
// is one term per piece. A block of the output is held close to the arithmetic (registers, cache) while ALL terms are
// added to it, and is then handed to the epilogue once: stored, reduced to an energy or to whatever number a caller's
// own function makes of it, without ever being stored.
// The eighteen CCSD(T) terms (Kim et al., ICS 2018, Table 1) and the twelve closed-shell ones are instances,
// made by triples_terms() and closed_shell_block() below.
//
// Order of summation (CPU, every instruction set, any blocking and thread count): per element one chain of fused
// multiply-adds in ascending term and ascending s, c = fma(a, factor * b, c), starting from zero or, when
// accumulating, from what the output holds. ref/ is that loop written plainly.

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/cpu.hpp"

namespace TESSERA_API tessera {
namespace kernels {

inline constexpr int kBlockRank = 6;
using BlockExtents = std::array<std::int64_t, kBlockRank>;

/// A strided view. stride[n] belongs to output index n and is read only if this operand carries n; strides count
/// elements and may be zero or negative.
struct TermOperand {
    const double* data = nullptr;
    std::array<std::int64_t, kBlockRank> stride{};
    std::int64_t sum_stride = 0;
};

struct FusedTerm {
    double factor = 1.0;
    TermOperand a, b;
    unsigned a_indices = 0;  // bit n set: output index n comes from a; clear: from b
    std::int64_t sum_extent = 1;
};

struct FusedOutput {
    double* data = nullptr;
    std::array<std::int64_t, kBlockRank> stride{};
    bool accumulate = false;
};

/// Packed operands and block buffers, kept from call to call: fresh pages cost as much as the packing itself.
/// Used by one call at a time. Grows to about (36 operands) * (their size) for the eighteen terms.
class FusedWorkspace {
  public:
    FusedWorkspace();
    ~FusedWorkspace();
    FusedWorkspace(FusedWorkspace&&) noexcept;
    FusedWorkspace& operator=(FusedWorkspace&&) noexcept;
    struct Impl;
    Impl& impl();

  private:
    std::unique_ptr<Impl> impl_;
};

struct FusedOptions {
    int threads = 0;  // 0: all cores
    Isa isa = detected_isa();
    FusedWorkspace* workspace = nullptr;  // null: a fresh one for this call
    /// Of fused_contract: false holds one vector of the output in registers instead of a tile of them, for those who
    /// measure what the tile is worth. The same bits.
    bool register_tiles = true;
};

/// All terms into the output. Throws UserError for extents < 1, pointers that are null or no multiple of 8, an output
/// that overlaps an operand (by address range) or whose strides do not nest (each past all that smaller ones reach),
/// and for sizes or offsets past 64 bits.
void fused_contract(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output,
                    const FusedOptions& options = {});

/// A finished piece of the output, as a caller's own epilogue sees it: element x (x[n] < extents[n]) belongs to output
/// index origin + x and lies at the sum of stride[n] * x[n] in each of `sums`, in the order of the lists of terms.
/// One index has stride 1. The memory is used again after the call.
struct FusedPiece {
    BlockExtents origin{}, extents{};
    std::array<std::int64_t, kBlockRank> stride{};
    std::span<const double* const> sums;
};
/// What a piece contributes. Called from several threads at once; what it throws ends the call and reaches the caller.
using FusedVisit = std::function<double(const FusedPiece& piece)>;

/// An epilogue of the caller's own: visit sees each element of the output in exactly one piece (some KiB, of any shape,
/// in cache), with all terms of its list added. Returns the sum of what visit returns, in a fixed order: the same bits
/// for any thread count. Several lists of terms give several sums over the same indices (W and V of the triples, say).
/// Throws UserError as fused_contract does, for no list, and for a visit that is empty.
double fused_reduce(const BlockExtents& extents, std::span<const std::span<const FusedTerm>> lists,
                    const FusedVisit& visit, const FusedOptions& options = {});
double fused_reduce(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedVisit& visit,
                    const FusedOptions& options = {});

/// The first three output indices are occupied (k, j, i), the last three virtual (c, b, a).
/// W is the sum of the terms, V = W + the sum of the singles, D = e_k + e_j + e_i - e_c - e_b - e_a.
enum class TripleWeights {
    spin_orbital,  // scale * sum of W V / D; scale is 1/36 over all spin orbitals
    // scale * sum of (4 W[abc] + W[bca] + W[cab] - 2 W[cba] - 2 W[acb] - 2 W[bac]) V[abc] / D; scale is 1/3 over all
    // i, j, k. The textbook (4 W[abc] + W[bca] + W[cab]) (V[abc] - V[cba]) with its odd permutations averaged: the same
    // sum over all i, j, k, and in this form the same for each permutation of i, j, k.
    closed_shell,
};

struct EnergyEpilogue {
    TripleWeights weights = TripleWeights::spin_orbital;
    std::array<const double*, kBlockRank> orbital_energies{};  // one list per output index, as long as its extent
    std::span<const FusedTerm> singles;                        // disconnected part; may be empty
    double scale = 1.0;
};

/// The energy of the block; the six-index tensor is never stored. The closed-shell weights need a, b and c to run over
/// the same range (equal extents). UserError where a denominator vanishes or an orbital energy is not within 1e90.
/// Summed in a fixed order: the same bits for any thread count.
double fused_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                    const FusedOptions& options = {});

/// What fused_contract, fused_reduce and fused_energy check; other back ends call the same.
void check_terms(const BlockExtents& extents, std::span<const FusedTerm> terms, const char* what = "fused term");
void check_fused(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output);
void check_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue);

/// Likewise closed_shell_block and the formulas of ref: there are orbitals, tensors, and these within 64 bits.
void check_triples_tensors(std::int64_t occupied, std::int64_t virtuals, std::initializer_list<const double*> tensors);

/// UserError where orbital energies (on the host) are not within 1e90, or occupied and virtual sums meet: says which.
void check_denominators(const BlockExtents& extents, const std::array<const double*, kBlockRank>& orbital_energies);

/// 2 * (product of the extents) * (sum of the summed extents), a double because it is a count of work.
double fused_flops(const BlockExtents& extents, std::span<const FusedTerm> terms);

/// Dense strides, first index fastest.
std::array<std::int64_t, kBlockRank> packed_strides(const BlockExtents& extents);

/// A term of densely stored operands named by letters, fastest index first: of the output "kjicba" or the summed one.
/// make_term(-1, "labi", t2, "kjcl", v2, extents, L) is -t2[l,a,b,i] v2[k,j,c,l].
FusedTerm make_term(double factor, std::string_view a_indices, const double* a, std::string_view b_indices,
                    const double* b, const BlockExtents& extents, std::int64_t sum_extent);

/// Operands of the eighteen terms, in the order of the published table (index order inside each: see table below).
/// The nine of a kind may be nine tiles or one tensor nine times.
struct TriplesOperands {
    std::array<const double*, 9> t2_occupied{}, v2_occupied{};  // sd1: t2[l,a,b,i] v2[k,j,c,l] and its permutations
    std::array<const double*, 9> t2_virtual{}, v2_virtual{};    // sd2: t2[d,a,i,j] v2[d,k,c,b] and its permutations
    std::int64_t occupied_sum = 0, virtual_sum = 0;             // extents of l and d; 0 leaves the nine out
};
/// extents = {k, j, i, c, b, a}.
std::vector<FusedTerm> triples_terms(const BlockExtents& extents, const TriplesOperands& operands);

struct TermPattern {
    double factor;
    const char *t2, *v2;  // letters, fastest first
};
/// The published table: nine sd1 (summed letter l), nine sd2 (summed letter d).
extern const std::array<TermPattern, 9> kOccupiedPatterns, kVirtualPatterns;

/// The nine disconnected terms of the spin-orbital formula: t1[a,i] v[k,j,c,b] and its permutations, from dense
/// t1[a][i] tiles (fastest first: "ai") and v ("kjcb"), in the order of kSinglesPatterns.
struct SinglesOperands {
    std::array<const double*, 9> t1{}, v2{};
};
std::vector<FusedTerm> singles_terms(const BlockExtents& extents, const SinglesOperands& operands);
extern const std::array<TermPattern, 9> kSinglesPatterns;

/// Closed-shell amplitudes and integrals of o occupied and v virtual orbitals, all dense, last index fastest;
/// integrals in chemists' notation (pq|rs).
struct ClosedShellTensors {
    std::int64_t occupied = 0, virtuals = 0;
    const double* t1 = nullptr;    // t1[i][a]
    const double* t2 = nullptr;    // t2[i][j][a][b]
    const double* ovov = nullptr;  // (ia|jb)
    const double* ovvv = nullptr;  // (ia|bc)
    const double* ooov = nullptr;  // (ij|ka)
    const double* occupied_energies = nullptr;
    const double* virtual_energies = nullptr;
    const double* fock = nullptr;  // F[i][a] between occupied and virtual orbitals; null where it is zero
    /// In place of ovvv, which is large: (ia|bc) of the first k, j and i of a block, and of those after it.
    std::array<const double*, 3> ovvv_from{};
};
/// One block of occupied orbitals [begin, begin + extent) for k, j and i, against all virtuals: what fused_energy
/// needs for it. The sum over all blocks (scale 1/3) is E(T); blocks that differ by a permutation of their three
/// ranges give the same energy, so a caller may take one and multiply the scale.
struct ClosedShellBlock {
    BlockExtents extents{};
    std::vector<FusedTerm> terms;    // twelve
    std::vector<FusedTerm> singles;  // three; six with a Fock matrix
    EnergyEpilogue epilogue;         // its span points at singles: the block must stay where it is
    ClosedShellBlock() = default;
    ClosedShellBlock(const ClosedShellBlock&) = delete;
    ClosedShellBlock& operator=(const ClosedShellBlock&) = delete;
};
void closed_shell_block(const ClosedShellTensors& tensors, std::array<std::int64_t, 3> begin_kji,
                        std::array<std::int64_t, 3> extent_kji, ClosedShellBlock& block);

namespace ref {
/// The plain loops, one thread.
void fused_contract(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output);
/// One element of the sum, for sampled checks of large blocks.
double fused_element(std::span<const FusedTerm> terms, const BlockExtents& index);
/// The whole sum in memory, then the weights.
double fused_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue);

/// The (T) formulas as textbooks write them, for checks: independent of the terms above.
/// Spin orbitals: antisymmetric t2[i][j][a][b], <pq||rs> blocks oovv[i][j][a][b], ovvv[i][a][b][c], ooov[i][j][k][a].
struct SpinOrbitalTensors {
    std::int64_t occupied = 0, virtuals = 0;
    const double *t1 = nullptr, *t2 = nullptr, *oovv = nullptr, *ovvv = nullptr, *ooov = nullptr;
    const double *occupied_energies = nullptr, *virtual_energies = nullptr;
};
double spin_orbital_triples(const SpinOrbitalTensors& tensors);
double closed_shell_triples(const ClosedShellTensors& tensors);
}  // namespace ref

}  // namespace kernels
}  // namespace tessera

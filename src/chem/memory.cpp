#include "chem/memory.hpp"

#include <algorithm>

#include "chem/dense_array.hpp"
#include "chem/direct_field.hpp"
#include "chem/fock.hpp"
#include "chem/natural_orbitals.hpp"
#include "chem/ri_mp2.hpp"
#include "chem/triples_energy.hpp"
#include "kernels/gemm.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kProgram = 30 * kMiB;  // code, libraries, tables of the integrals; a few more than here
constexpr std::int64_t kHeap = 5 * kMiB;      // plans and lists of contractions; freed, but not given back
constexpr std::int64_t kRanks = 12 * kMiB;    // of the library of messages
constexpr std::int64_t kDriver = 384 * kMiB;  // of a device, and pinned memory that descriptions of work pass through
constexpr int kIterations = 10;               // of CCSD: DIIS is full, and takes one more before it drops one

/// What Integrals holds of pairs of shells: a header, and of each pair of primitives a product.
std::int64_t shell_pairs(const Basis& basis) {
    constexpr std::int64_t kOfPair = 96, kOfPrimitives = 80;  // bytes, with what the heap adds
    std::int64_t primitives = 0;
    for (const auto& s : basis.shells) primitives += static_cast<std::int64_t>(s.shell.exponents.size());
    const auto shells = static_cast<std::int64_t>(basis.shells.size());
    return kOfPair * shells * shells + kOfPrimitives * primitives * primitives + 4 * 8 * shells * shells;
}

/// Orbitals of these numbers, all zero.
Orbitals some_orbitals(const MemoryQuestion& q) {
    RhfResult scf;
    scf.occupied = q.occupied;
    scf.coefficients = Matrix::Zero(q.stored->functions.extent(), q.occupied + q.virtuals);
    scf.orbital_energies = Vector::Zero(q.occupied + q.virtuals);
    return make_orbitals(scf, 0, 0, q.stored->functions, q.tile);
}

LocalPairs some_pairs(const Orbitals& orbitals, std::int64_t tile) {
    const auto n = orbitals.occupied_count();
    return LocalPairs(to_tensor(Matrix::Zero(n, n), orbitals.occupied.grid().tiling(1), even_tiling(n, tile)));
}

std::unique_ptr<FittedField> some_field(const MemoryQuestion& q, TensorWork& work) {
    FieldShare share;
    if (q.method == Method::rhf || q.method == Method::ri_mp2) share = {kFieldSlices, q.workers.rank_count()};
    return std::make_unique<FittedField>(Fitting(*q.stored, *q.jkfit), work, share);
}

/// Bytes of the Hartree-Fock iterations without matrices and engines.
std::int64_t of_field(const MemoryQuestion& q) {
    DryRun dry;
    TensorWork work({.here = {.threads = q.threads}});
    if (q.jkfit) {
        const RealTensor orbitals = to_tensor(Matrix::Zero(q.stored->functions.extent(), q.occupied),
                                              q.stored->functions, even_tiling(q.occupied, q.tile));
        const auto field = some_field(q, work);
        if (q.on_device)
            field->unpack({}, q.threads);  // and from there it goes to the device
        else
            field->of_product(orbitals, orbitals, work);
        return dry.peak();
    }
    const Tiling& functions = q.stored->functions;
    const RealTensor density(Shape::dense(TileGrid{functions, functions}));
    if (q.scf_direct) {
        DirectField(functions).of(density, nullptr, work);
        return dry.peak();
    }
    const AoIntegrals integrals(*q.stored);
    TwoElectron two_electron(integrals, kFockBlock, kFockKept);
    // What stays is there from the second time on.
    for (int iteration = 0; iteration < 2; ++iteration) two_electron.of(density, nullptr, work);
    return dry.peak();
}

/// Of the iterations of CCSD; never converged, as nothing changes.
void iterate(const MemoryQuestion& q, IntegralSource& source, const Orbitals& orbitals, Amplitudes start,
             TensorWork& work) {
    CcsdOptions how;
    how.converge = 0;
    if (q.diis_on_disk) how.scratch = "of a dry run";
    how.max_iterations = kIterations;
    if (q.checkpoint) how.keep = [](const Amplitudes& t, int, double, double) { const DenseArray t1(t.t1), t2(t.t2); };
    try {
        ccsd(source, orbitals, std::move(start), how, work);
    } catch (const NotConverged&) {
    }
}

/// Likewise, where all of CCSD lives on a device: B comes from the host, amplitudes go back there for (T).
std::int64_t beside_device(const MemoryQuestion& q) {
    DryRun dry;
    TensorWork work({.here = {.threads = q.threads}});
    const Orbitals orbitals = some_orbitals(q);
    const FittedOrbitals b = transform(Fitting(*q.stored, *q.rifit), orbitals, Transform::ccsd, work);
    const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
    const auto doubles = [&] { return RealTensor(Shape::dense(TileGrid{o, o, v, v})); };
    constexpr int kVectors = 2 * 9;  // iterates and errors, one more until the oldest goes
    std::vector<RealTensor> vectors;
    for (int n = 0; q.vectors_on_host && n < kVectors; ++n) vectors.push_back(doubles());
    const RealTensor t2 = doubles();
    if (q.checkpoint) {
        const DenseArray before(t2), now(t2);
    }
    vectors.clear();
    dry.release();
    if (q.method == Method::ccsd_t) const DenseArray all(t2), oo(b.oo), ov(b.ov), vv(b.vv);
    return dry.peak() + q.threads * kernels::gemm_workspace_bytes();
}

/// Bytes of what comes after the Hartree-Fock iterations: the steps of Calculation::correlate().
std::int64_t of_correlation(const MemoryQuestion& q) {
    DryRun dry;
    TensorWork work(q.workers);
    const bool cc = q.method != Method::mp2, stored = q.abcd == Abcd::stored;
    const Orbitals orbitals = some_orbitals(q);
    const DryArray checkpoint(q.checkpoint ? 8 * q.occupied * q.occupied * q.virtuals * q.virtuals : 0);
    const auto what = !cc ? Transform::mp2 : stored && !q.rifit ? Transform::ccsd_four_virtuals : Transform::ccsd;
    MoIntegrals mo;
    FittedOrbitals b;
    std::unique_ptr<FittedField> field;
    std::shared_ptr<const AoIntegrals> kept;
    std::unique_ptr<AbcdTerm> abcd;
    std::unique_ptr<IntegralSource> source;
    if (q.rifit) {
        if (cc || q.once_more) field = some_field(q, work);
        b = transform(Fitting(*q.stored, *q.rifit), orbitals, what, work);
        source = std::make_unique<FittedSource>(b, orbitals, field.get());
    } else {
        auto integrals = std::make_shared<const AoIntegrals>(*q.stored, !q.scf_direct);
        if (q.once_more) kept = integrals;
        mo = transform(std::move(integrals), orbitals, what, work);
        if (cc && stored)
            abcd = stored_abcd(mo.vvvv, some_pairs(orbitals, q.tile), orbitals.virtuals.grid().tiling(1));
        else if (cc)
            abcd = std::make_unique<DirectAbcd>(*q.direct, orbitals, some_pairs(orbitals, kPairsInTile));
        source = std::make_unique<StoredSource>(mo, abcd.get());
    }
    Amplitudes t;
    t.t2 = first_order_doubles(*source, orbitals, work);
    correlation_energy(*source, t.t2, work);
    if (q.once_more) natural_density(t.t2, work);
    const Tiling o = orbitals.occupied.grid().tiling(1), v = orbitals.virtuals.grid().tiling(1);
    const auto singles = [&] { return RealTensor(Shape::dense(TileGrid{o, v})); };
    if (cc) {
        t.t1 = singles();
        iterate(q, *source, orbitals, std::move(t), work);
    }
    if (q.method == Method::ccsd_t) {
        t = {singles(), first_order_doubles(*source, orbitals, work)};
        source.reset();
        abcd.reset();
        field.reset();
        mo.vvvv = {};
        dry.release();
        triples_energy(q.rifit ? fitted_triples_integrals(b, mo, work) : stored_triples_integrals(mo), orbitals, t,
                       q.workers, {});
    }
    return dry.peak() + work.most_threads() * kernels::gemm_workspace_bytes();
}

}  // namespace

NeededMemory needed_memory(const MemoryQuestion& q) {
    // Engines of the integral library are there while integrals are made; the heap keeps some of their memory.
    const auto n = q.stored->functions.extent();
    const auto engines = q.threads * coulomb_engine_bytes(*q.basis);
    std::int64_t auxiliary = 0;  // functions of the larger set: (P|Q), its Cholesky factor, and the inverse twice
    for (const Basis* set : {q.jkfit, q.rifit})
        if (set) auxiliary = std::max(auxiliary, set->functions);
    const auto always = kProgram + kHeap + (q.workers.here.devices.empty() ? 0 : kDriver) + shell_pairs(*q.basis) +
                        8 * 40 * n * n + 8 * 4 * auxiliary * auxiliary;
    const auto scf = always + of_field(q) + engines;
    if (q.method == Method::rhf || q.virtuals == 0) return {scf, kFockKept};
    if (q.method == Method::ri_mp2) {
        const auto tensors =
            ri_mp2_bytes(*q.stored, q.rifit->functions, q.occupied, q.virtuals, q.workers.rank_count());
        return {std::max(scf, always + engines + tensors + q.threads * kernels::gemm_workspace_bytes()), kFockKept};
    }
    const auto rest = q.on_device ? beside_device(q) : of_correlation(q);
    const bool direct = q.method != Method::mp2 && q.abcd == Abcd::direct;
    const auto later = always + (q.workers.rank_count() > 1 ? kRanks : 0) +
                       (direct ? rest + engines : std::max(rest, engines) + 3 * std::min(rest, engines) / 10);
    return {std::max(scf, later), kFockKept + std::max<std::int64_t>(0, later - scf)};
}

}  // namespace tessera::chem

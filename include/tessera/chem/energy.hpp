#pragma once
// Energies of molecules: Hartree-Fock, MP2, CCSD, CCSD(T), of closed and open shells. Hartree throughout.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/error.hpp"
#include "tessera/chem/molecule.hpp"
#include "tessera/contract/resources.hpp"

namespace TESSERA_API tessera {
namespace chem {

/// ri_mp2: MP2 with fitted integrals in block-sparse tensors that are dealt to the ranks.
enum class Method { rhf, mp2, ri_mp2, ccsd, ccsd_t };
/// "rhf", "mp2", "ri-mp2", "ccsd", "ccsd(t)" or "ccsd_t", any case. UserError with the list otherwise.
Method parse_method(const std::string& text);
std::string name(Method method);

/// How the product of amplitudes with integrals over four virtual orbitals is made.
enum class Abcd { stored, direct };

/// Conventional integrals over basis functions: stored once, or made anew in each Hartree-Fock iteration and in the
/// transformation; automatic: stored where they fit.
enum class AoStorage { automatic, stored, direct };

/// Integrals over basis functions as they are, or fitted with auxiliary functions, which need three indices only.
enum class IntegralKind { conventional, df };

/// What the electrons are in first: pairs; orbitals of each spin; or pairs and single electrons in the same orbitals.
enum class Reference { rhf, uhf, rohf };
/// "rhf", "uhf" or "rohf", any case.
Reference parse_reference(const std::string& text);
std::string name(Reference reference);
/// Whether it is looked for rotations of orbitals that lower the energy, and gone on to what they lead to.
enum class Stability { none, check, follow };
/// "none", "check" or "follow".
Stability parse_stability(const std::string& text);

struct EnergyOptions {
    Reference reference = Reference::rhf;
    int multiplicity = 0;  // 2 S + 1; 0: the lowest, 1 or 2
    /// Of Reference::uhf and rohf: hartree by which orbitals without electrons rise while the SCF iterates; share of
    /// the last Fock matrix in the next one far from convergence; and what is done about solutions that are no minimum
    /// (uhf).
    double level_shift = 0, damping = 0;
    Stability stability = Stability::check;
    Method method = Method::ccsd_t;
    std::string basis = "def2-svp";  // a name in basis_folder, or the path of a .g94 file
    std::string basis_folder;        // empty: basis/ of the files that come with the program, or of $TESSERA_SHARE
    bool frozen_core = false;
    /// SCF: energy change and orbital gradient; CC: energy change, and ten times this for the change of amplitudes.
    double converge = 1e-8;
    int max_iterations = 100;
    IntegralKind integrals = IntegralKind::conventional;  // Method::ri_mp2 is fitted throughout
    /// With IntegralKind::df: the auxiliary sets of Fock matrices and of correlation, found as `basis` is. Empty: those
    /// that go with the basis, where it has a name.
    std::string jkfit, rifit;
    Abcd abcd = Abcd::stored;              // of conventional integrals
    AoStorage scf = AoStorage::automatic;  // of conventional integrals
    /// With Abcd::direct: integral tiles whose bound per element is below this are not made.
    double screen = 0;
    /// With Method::ri_mp2: tiles of (P|mn) whose norm is below this are left out.
    double filter = 1e-10;
    /// Where integrals over the orbitals of rhf or rohf are written as an FCIDUMP file; the frozen core is in the
    /// integrals of one electron.
    std::string fcidump_out;
    /// With CCSD of Reference::uhf and rohf: its dipole moment, from the Lambda equations; orbitals do not follow the
    /// field.
    bool dipole = false;
    /// With CCSD: virtual orbitals are natural ones of MP2, without those whose occupation (from 0 to 2; of a spin,
    /// twice its own) is below this; what MP2 loses by that is added to the energy. 0 keeps all. None: canonical
    /// orbitals.
    std::optional<double> fno;
    std::string checkpoint;  // amplitudes, written each iteration; read first where the file is there
    /// Folder for what does not fit in memory: the vectors of DIIS. Empty: the system's folder of temporary files.
    std::string scratch;
    std::int64_t tile = 32;  // about this many orbitals in a tile
    /// Where: ranks share the work of large contractions and of the triples, each holding all tensors (none: this
    /// process); memory is of the whole process, and what may need more is refused; devices take large contractions and
    /// the triples, and what does not fit there runs on the cores. The rates of a machine file plan what ranks share
    /// and what devices take.
    Resources here = {};
    /// Multiply-adds from which on a contraction pays for messages.
    double share_from = 5e7;
    /// Multiply-adds of a rank from which on a contraction goes to its devices, < 0: where that is faster by an
    /// estimate from its operations, its bytes and the number of threads.
    double device_from = -1;
    /// Progress, a line at a time.
    std::function<void(const std::string&)> log;
    /// What may make the result worse than it looks, a line at a time. None: as lines "warning: ..." of the log.
    std::function<void(const std::string&)> warn;
};

/// An iteration of the SCF; no gradient in the first.
struct ScfStep {
    double energy = 0, change = 0, gradient = 0;
};

/// What there is besides where alpha and beta electrons have orbitals of their own.
struct OpenShell {
    int multiplicity = 1;
    std::array<std::int64_t, 2> occupied{}, virtuals{};  // correlated orbitals, alpha and beta
    double s_squared = 0;                                // of the determinant; S (S + 1) has no contamination
    std::optional<double> hessian;                       // lowest eigenvalue for rotations of orbitals, where asked
    int followed = 0;                                    // solutions that were left for lower ones
    /// Of the correlation energies: pairs of one spin, of two, and singles (zero but with rohf).
    struct Parts {
        double same = 0, opposite = 0, singles = 0;
    };
    Parts mp2, ccsd;
    /// The largest amplitudes by size, as "1a 2b -> 6a 7b": orbitals by number from 1, frozen ones included, and spin.
    struct Amplitude {
        std::string orbitals;
        double value = 0;
    };
    std::vector<Amplitude> singles, doubles;
};

/// Of the virtual orbitals of alpha and beta.
struct NaturalOrbitals {
    std::array<std::int64_t, 2> all{}, kept{};
    std::array<double, 2> occupation{}, occupation_kept{};  // sums over them
    double correction = 0;                                  // MP2 with all orbitals less MP2 with those that are kept
};

struct EnergyResult {
    double nuclear = 0, rhf = 0;                       // rhf: the total energy of the reference
    std::vector<ScfStep> scf_history;                  // of uhf and rohf
    std::optional<std::array<double, 3>> dipole;       // of the reference, about the origin, in e bohr
    std::optional<std::array<double, 3>> ccsd_dipole;  // likewise, of CCSD, where asked
    int lambda_iterations = 0;
    std::optional<OpenShell> open;                     // with uhf and rohf
    double mp2 = 0, ccsd = 0, triples = 0, total = 0;  // mp2, ccsd: correlation energies
    std::optional<NaturalOrbitals> fno;                // with EnergyOptions::fno; its correction is in the total
    bool converged = false;
    int scf_iterations = 0, iterations = 0;
    int iterations_before = 0;  // of the checkpoint that CCSD went on from; not among `iterations`
    double t1_diagnostic = 0;
    std::int64_t basis_functions = 0, occupied = 0, frozen = 0, virtuals = 0;  // occupied: the correlated ones
    std::int64_t dropped_functions = 0;                                        // near-dependent combinations
    double smallest_overlap = 0;  // eigenvalue of the overlap of the functions that are kept

    /// With IntegralKind::df: what was used; no rifit with Method::rhf.
    std::string jkfit, rifit;
    std::int64_t jkfit_functions = 0, rifit_functions = 0;
    /// Who made the basis sets, where their files say so.
    std::vector<std::string> references;

    /// Of the direct ABCD term: tiles of integrals in all and made, and what skipping the rest changed of the
    /// CCSD energy (first order).
    std::int64_t v_tiles = 0, v_tiles_made = 0;
    double screen_change = 0;

    /// With Method::ri_mp2: tiles of (P|mn) in all and kept, the norm of those that were left out; combinations of
    /// auxiliary functions that depend on the others and were dropped, the condition of (P|Q) for the rest; and the
    /// bytes that tensors took at most, on the rank with most.
    std::int64_t fitted_tiles = 0, fitted_tiles_kept = 0, dropped_auxiliary = 0, rank_bytes = 0;
    double fitted_left_out = 0, metric_condition = 0;

    double seconds = 0, scf_seconds = 0, integral_seconds = 0, transform_seconds = 0, ccsd_seconds = 0;
    double fno_seconds = 0;  // MP2 with all orbitals, and which are kept
    double triples_seconds = 0, contraction_seconds = 0, contraction_flops = 0, triples_flops = 0;
    std::int64_t contractions = 0;
    /// Of these, what ran on devices; bytes that the contractions moved there and back.
    std::int64_t device_contractions = 0, device_loaded_bytes = 0, device_stored_bytes = 0;
    double device_contraction_flops = 0, device_triples_flops = 0;
    double ccsd_flops = 0;    // of contractions, in all iterations of CCSD
    bool scf_direct = false;  // integrals over basis functions were made anew
    /// Share of the pieces of (T) that a run before this one had done.
    double triples_recorded = 0;
    /// B, amplitudes and all between them lived on the first device.
    bool ccsd_on_device = false;
    /// Bytes this was expected to take at most, for the whole process. With that much as EnergyOptions::memory it runs
    /// in the same way; with less the vectors of DIIS go to disk, or it is refused with the smallest that works.
    std::int64_t memory_estimate = 0;
    bool diis_on_disk = false;  // CCSD would not have fit otherwise
};

/// An iteration did not converge; nothing is wrong with the input or the machine.
class NotConverged : public Error {
  public:
    NotConverged(const std::string& what, std::string where, int iterations, double energy)
        : Error(what), where_(std::move(where)), iterations_(iterations), energy_(energy) {}
    int exit_code() const noexcept override { return 4; }
    /// "scf" or "ccsd"; its last iteration and the energy there (CCSD: of correlation), which is none to use.
    const std::string& where() const noexcept { return where_; }
    int iterations() const noexcept { return iterations_; }
    double energy() const noexcept { return energy_; }
    /// What was known by then; `converged` is false, and what had not converged is zero.
    const EnergyResult& result() const noexcept { return result_; }
    void set_result(const EnergyResult& result) { result_ = result; }

  private:
    std::string where_;
    int iterations_;
    double energy_;
    EnergyResult result_;
};

/// UserError for input that cannot be treated, NotConverged where an iteration gives up.
EnergyResult energy(const Molecule& molecule, const EnergyOptions& options);

}  // namespace chem
}  // namespace tessera

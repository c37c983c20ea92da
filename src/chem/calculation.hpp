#pragma once
// An energy from its options to its result: what energy() does, in steps that share their state. Input, memory and
// Hartree-Fock are in energy.cpp, what follows in correlate.cpp.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "chem/checkpoint.hpp"
#include "chem/open_shell.hpp"
#include "chem/triples_record.hpp"
#include "comm/outcome.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/storage/memory.hpp"

namespace tessera::chem {

/// Seconds from here to its end, also where that is an exception: what did not converge took its time.
class Stopwatch {
  public:
    explicit Stopwatch(double& seconds) : seconds_(seconds) {}
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    ~Stopwatch() { seconds_ = now_seconds() - start_; }

  private:
    double& seconds_;
    double start_ = now_seconds();
};

class Calculation {
  public:
    Calculation(const Molecule& molecule, const EnergyOptions& options)
        : input_(molecule),
          molecule_(molecule),
          options_(options),
          field_({.here = {.threads = options.here.threads}}),
          work_({options.here, options.share_from, options.device_from}) {}

    EnergyResult run();

  private:
    void say(const std::string& line) {
        if (options_.log) options_.log(line);
    }
    void warn(const std::string& line) {
        if (options_.warn)
            options_.warn(line);
        else
            say("warning: " + line);
    }
    /// Work of rank 0 for all, who fail alike.
    template <class Work>
    void on_rank_zero(Work&& work) {
        if (!options_.here.communicator) return work();
        Outcome outcome;
        if (options_.here.communicator->rank() == 0) outcome.attempt(work);
        outcome.share(*options_.here.communicator, 0);
    }
    void check();
    /// Ranks on one node share its memory, and each holds everything.
    std::int64_t memory_limit() const {
        return options_.here.memory > 0 ? options_.here.memory
                                        : memory_bytes() / (options_.here.communicator ? ranks_on_node() : 1);
    }
    CheckpointOf checkpoint_of() const { return {input_, integrals_->basis().name, options_.converge, input_rows_}; }
    void check_memory(const Basis& basis, Method method, std::array<std::int64_t, 2> virtuals, bool again);
    void check_rough_memory(std::int64_t functions);
    [[noreturn]] void refuse_memory(const std::string& smallest, std::int64_t needed);
    Basis make_tilings(const BasisSet& set);
    void find_auxiliary_sets();
    void make_field();
    void self_consistent_field();
    std::string scratch() const {
        return options_.scratch.empty() ? std::filesystem::temp_directory_path().string() : options_.scratch;
    }
    /// Ranks share the fitted integrals where nothing but the Hartree-Fock iterations wants them.
    FieldShare field_share() const {
        if (open() || (options_.method != Method::rhf && options_.method != Method::ri_mp2)) return {};
        Communicator* ranks = options_.here.communicator;
        return {kFieldSlices, ranks ? ranks->size() : 1, ranks ? ranks->rank() : 0, ranks};
    }
    bool fitted() const { return options_.integrals == IntegralKind::df || options_.method == Method::ri_mp2; }
    void write_integrals(Field& field, const Matrix& coefficients);
    bool open() const { return options_.reference != Reference::rhf; }
    void check_reference();
    void open_shell_field(Field& field, const Matrix& guess, const RhfOptions& how);
    void part_core(RhfResult& scf, const Matrix& cores);
    void share(std::vector<std::span<double>> parts);
    void share_orbitals(RhfResult& scf);
    void correlate_spins();
    void leave_orbitals_out();
    void correlate();
    void choose_home(const Basis& basis);
    void correlate_on_ranks();
    void report_screening(DirectAbcd& abcd, const IntegralSource& source, const Orbitals& orbitals,
                          const Amplitudes& t);

    const Molecule& input_;
    Molecule molecule_;  // its atoms in the order of their clusters
    const EnergyOptions& options_;
    TensorWork field_;  // of the Hartree-Fock iterations, which each rank does on its cores
    TensorWork work_;
    double ranks_flops_ = 0;  // of what ranks share without work_
    EnergyResult result_;
    std::unique_ptr<Integrals> integrals_;
    std::shared_ptr<const AoIntegrals> ao_;  // conventional ones
    std::unique_ptr<FittedField> fitted_field_;
    std::optional<BasisSet> jkfit_, rifit_;
    AoTiling ao_tiling_, direct_tiling_;  // of the stored integrals, and of those made anew in each iteration
    std::int64_t fock_kept_ = 0;          // bytes; see NeededMemory
    RhfResult scf_;
    UhfResult spins_;        // in place of it, with uhf and rohf
    std::int64_t core_ = 0;  // of the occupied orbitals, the first ones
    std::optional<Checkpoint> checkpoint_;
    std::optional<TriplesRecord> record_;
    std::optional<int> home_;  // the device that CCSD lives on
    bool vectors_on_host_ = false;
    std::vector<std::size_t> input_atom_;   // of each atom: its place in the input
    std::vector<std::int64_t> input_rows_;  // of each basis function: likewise
};

}  // namespace tessera::chem

#pragma once
// What (T) has done so far, in a file beside the checkpoint: a run that was killed goes on where it stood.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera::chem {

/// Share of these that are numbers.
double known_share(const std::vector<double>& energies);

/// The CCSD that it stands on.
struct ConvergedCcsd {
    int iterations = 0;
    double energy = 0, converge = 0;
    std::uint64_t amplitudes = 0;  // their checksum
    bool operator==(const ConvergedCcsd&) const = default;
};

/// Each rank has a file of its own, PATH or PATH.RANK; what any rank has done is known to all that go on, however many
/// they are.
class TriplesRecord {
  public:
    /// Reads what is there: collective. UserError where it is no such file. interval: seconds between two writes.
    TriplesRecord(std::string path, Communicator* ranks, double interval = 0.5);

    const std::optional<ConvergedCcsd>& found() const { return found_; }
    /// What the file says of another CCSD is forgotten.
    void begin(const ConvergedCcsd& of);
    /// Energies of the pieces of the work, not a number where they are not known. `key`: of all that decides them.
    const std::vector<double>& open(std::uint64_t key, std::size_t pieces);
    /// Thread-safe. Written now and then.
    void done(std::size_t piece, double energy);
    /// The work is done: no file is left. Collective.
    void remove();

  private:
    std::string file_of(int rank) const;
    bool read(const std::string& path);
    void write();

    std::string path_;
    Communicator* ranks_;
    std::optional<ConvergedCcsd> found_;
    ConvergedCcsd of_;
    std::uint64_t key_ = 0;
    std::vector<double> energies_;
    std::mutex mutex_;
    double interval_, written_ = 0;
};

}  // namespace tessera::chem

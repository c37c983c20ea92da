#pragma once
// Amplitudes put away in a file: DIIS looks at one of its vectors at a time.

#include <memory>
#include <string>
#include <vector>

#include "chem/diis.hpp"
#include "chem/integral_source.hpp"
#include "io/file.hpp"

namespace tessera::chem {

/// A file without a name, gone with this. In a DryRun there is none, and what is put away takes no memory.
class AmplitudeFile {
  public:
    /// UserError where the folder takes no files.
    AmplitudeFile(const std::string& folder, int threads);
    ~AmplitudeFile();
    /// x is written, and read each time it is asked for. This must outlive what it gives.
    Diis<Amplitudes>::Kept keep(const Amplitudes& x);

  private:
    class Place;
    void write(const RealTensor& x, std::int64_t at);
    RealTensor read(const Shape& shape, std::int64_t at) const;
    int threads_;
    std::unique_ptr<AtomicFile> out_;
    std::unique_ptr<InputFile> in_;
    std::vector<std::int64_t> free_;  // places of vectors that are gone
    std::int64_t places_ = 0;
};

}  // namespace tessera::chem

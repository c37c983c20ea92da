#pragma once
// The (T) correction on devices: rows of virtual orbitals (triples_rows.hpp) against all occupied ones, operands made
// and packed on the device once for all of them.

#include <span>

#include "chem/triples_energy.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::chem {

/// Arrays of the host, row-major. With fitted integrals B(Q|pq), of which the device makes what it needs; else stored
/// ones, in `tensors`.
struct DeviceTriplesInput {
    kernels::ClosedShellTensors tensors;
    std::int64_t auxiliary = 0;  // functions Q; none with stored integrals
    const double *oo = nullptr, *ov = nullptr, *vv = nullptr;
};

/// Bytes on a device, at most, with ranges of at most `longest` virtual orbitals.
double device_triples_bytes(std::int64_t occupied, std::int64_t virtuals, std::int64_t auxiliary, std::int64_t longest,
                            int multiprocessors);

/// (T) on each of the devices of each rank, with at most `memory` bytes (the same on all ranks); nothing where that is
/// too little. All ranks get all of it.
TriplesResult device_triples(const DeviceTriplesInput& input, std::span<const int> devices, std::int64_t memory,
                             Communicator& ranks, const TriplesProgress& progress, TriplesRecord* record = nullptr,
                             std::uint64_t key = 0);

}  // namespace tessera::chem

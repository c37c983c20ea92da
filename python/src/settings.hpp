#pragma once
// The arguments of contractions and of functions of matrices.

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/contract/contract_options.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/plan/plan_options.hpp"

namespace tessera::python {

/// What Python says of a contraction, all of it.
struct Settings {
    std::complex<double> alpha = 1, beta = 0;
    std::vector<int> conjugate;  // operands by number
    double filter = 0;
    std::string symmetry;  // of the result
    bool fold = false, trace = false;
    int threads = 0;
    std::int64_t memory = 0, device_memory = 0;
    std::vector<int> devices;
    std::string machine, algorithm = "auto", blocks = "auto";
    Communicator* ranks = nullptr;

    Resources here() const {
        Resources r;
        r.communicator = ranks;
        r.threads = threads;
        r.memory = memory;
        r.devices = devices;
        r.device_memory = device_memory;
        r.machine = machine;
        return r;
    }
    ContractOptions what() const {
        ContractOptions o;
        o.alpha = alpha;
        o.beta = beta;
        o.conjugate = conjugate;
        o.filter = filter;
        o.result_symmetry = symmetry;
        o.fold = fold;
        o.strict = true;  // an error, or Ctrl-C, leaves `out` as it was
        return o;
    }
    PlanOptions how() const {
        PlanOptions o;
        o.algorithm = parse_algorithm(algorithm);
        o.blocks = parse_blocks(blocks);
        return o;
    }
};

}  // namespace tessera::python

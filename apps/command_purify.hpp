#pragma once
// `tessera run purify:...`: the density matrix of a model insulator.

#include <string>

#include "command.hpp"

namespace tessera::app {

struct PurifyRequest {
    std::string problem;
    double filter = 0;
    Resources here;
    bool check = true;  // small ones, against dense diagonalisation
    CommonOptions common;
};
void run_purify(const PurifyRequest& request);

}  // namespace tessera::app

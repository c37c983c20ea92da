#pragma once
// For tests of what must happen in a process of its own.

#include <cstdio>
#include <cstdlib>

#include "tessera/base/error.hpp"

namespace tessera::testing {

/// Does the work and ends the process as the command line would: with the error's message and exit code, or 0.
template <class Work>
[[noreturn]] void exit_as(Work&& work) {
    try {
        work();
    } catch (const Error& e) {
        std::fputs(e.what(), stderr);
        std::_Exit(e.exit_code());
    }
    std::_Exit(0);
}

}  // namespace tessera::testing

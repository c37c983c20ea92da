#pragma once
// What a refusal says.

#include <string>

#include "tessera/base/error.hpp"

namespace tessera::testing {

/// What the call's error says; empty where there is none.
template <class Call>
std::string message(Call&& call) {
    try {
        call();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

}  // namespace tessera::testing

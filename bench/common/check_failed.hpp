#pragma once
#include "tessera/base/error.hpp"

namespace tessera {

/// A result is not what it should be: exit code 4.
class CheckFailed : public Error {
  public:
    using Error::Error;
    int exit_code() const noexcept override { return 4; }
};

}  // namespace tessera

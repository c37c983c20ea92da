#pragma once
// Three kinds of failure, never one: the user's input is wrong, the machine cannot, or we have a bug.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
    /// The exit code a program should end with when this reaches its main.
    virtual int exit_code() const noexcept = 0;
};

/// The input is wrong; the message names the operand and the values. Thrown before any work is done.
class UserError : public Error {
  public:
    using Error::Error;
    int exit_code() const noexcept override { return 2; }
};

/// This machine cannot do it: no such device, memory, driver, disk.
class MachineError : public Error {
  public:
    using Error::Error;
    int exit_code() const noexcept override { return 3; }
};

/// The memory budget is too small; carries the smallest one that would do (where an operand must be made as a whole
/// before there can be a plan: the least for that).
class BudgetError : public MachineError {
  public:
    BudgetError(const std::string& what, std::int64_t budget_bytes, std::int64_t smallest_bytes)
        : MachineError(what), budget_bytes_(budget_bytes), smallest_bytes_(smallest_bytes) {}
    std::int64_t budget_bytes() const noexcept { return budget_bytes_; }
    std::int64_t smallest_bytes() const noexcept { return smallest_bytes_; }

  private:
    std::int64_t budget_bytes_, smallest_bytes_;
};

/// A back end that was not built, or has no device here.
class BackendUnavailable : public MachineError {
  public:
    using MachineError::MachineError;
};

/// Our own bug: an invariant of Tessera does not hold.
class InternalError : public Error {
  public:
    using Error::Error;
    int exit_code() const noexcept override { return 70; }
};

}  // namespace tessera

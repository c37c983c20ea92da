#pragma once
// Ctrl-C while Tessera works: Python's own handler only notes the signal for later, so a contraction looks for itself.

namespace tessera::python {

/// While it lives, and where it is made on Python's main thread, Ctrl-C is noted here as well as by Python.
class Interrupt {
  public:
    Interrupt();
    ~Interrupt();
    Interrupt(const Interrupt&) = delete;
    Interrupt& operator=(const Interrupt&) = delete;
    /// From any thread, without the GIL.
    static bool seen();

  private:
    bool installed_ = false;
};

}  // namespace tessera::python

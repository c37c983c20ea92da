#include "interrupt.hpp"

#include <Python.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace tessera::python {

namespace {

// What a signal handler may touch. One contraction at a time: that of the main thread.
std::atomic<bool> interrupted{false};
struct sigaction before {};

void note(int signal) {
    interrupted = true;
    before.sa_handler(signal);  // Python's own
}

bool on_main_thread() {
    // The one thread on which Python runs signal handlers; the interpreter knows it by its process-wide id on Linux.
    return PyThread_get_thread_native_id() == static_cast<unsigned long>(::getpid());
}

}  // namespace

Interrupt::Interrupt() {
    if (!on_main_thread()) return;
    interrupted = false;
    if (::sigaction(SIGINT, nullptr, &before) != 0) return;
    if ((before.sa_flags & SA_SIGINFO) || before.sa_handler == SIG_IGN || before.sa_handler == SIG_DFL) return;
    struct sigaction own = before;
    own.sa_handler = note;
    installed_ = ::sigaction(SIGINT, &own, nullptr) == 0;
}

Interrupt::~Interrupt() {
    if (installed_) ::sigaction(SIGINT, &before, nullptr);
    if (installed_) interrupted = false;
}

bool Interrupt::seen() { return interrupted; }

}  // namespace tessera::python

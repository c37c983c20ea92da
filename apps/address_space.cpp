// A limit on the address space (ulimit -v, batch systems) that is too small for the libraries alone: OpenBLAS starts
// its threads while it is loaded, and where they cannot have their memory the program would hang or abort. The check
// therefore runs before any library is initialised.

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

namespace {

constexpr unsigned long long kMiB = 1ULL << 20;

/// Sanitizers are not ready yet either.
#define TESSERA_BEFORE_ALL __attribute__((no_sanitize("address", "thread", "undefined")))

/// Text on stderr with the system call alone: no library is ready yet.
TESSERA_BEFORE_ALL void say(const char* text) {
    std::size_t n = 0;
    while (text[n] != 0) ++n;
    if (write(STDERR_FILENO, text, n) < 0) _exit(3);
}
TESSERA_BEFORE_ALL void say(unsigned long long number) {
    char digits[24];
    int at = 23;
    digits[at] = 0;
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    say(digits + at);
}

TESSERA_BEFORE_ALL void refuse_small_address_space(int, char**, char**) {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    cpu_set_t cores;
    const auto threads = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    // Measured on 2 cores: 600 MiB are too few, 800 are enough.
    const auto needed = 512 * kMiB + static_cast<unsigned long long>(threads) * 128 * kMiB;
    if (limit.rlim_cur >= needed) return;
    say("tessera: the limit of ");
    say(limit.rlim_cur / kMiB);
    say(" MiB on the address space (ulimit -v) is too small: the smallest that works is ");
    say(needed / kMiB);
    say(" MiB; --memory bounds tiles\n");
    _exit(3);
}

__attribute__((section(".preinit_array"), used)) void (*const at_start)(int, char**,
                                                                        char**) = refuse_small_address_space;

}  // namespace

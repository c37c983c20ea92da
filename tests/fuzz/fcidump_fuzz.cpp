// Any text is either the integrals of a closed shell, of the size that it says, or a UserError or BudgetError of one
// line.
#include <cmath>
#include <cstdlib>

#include "chem/fcidump.hpp"
#include "tessera/base/error.hpp"

using namespace tessera;

namespace {

void need(bool ok) {
    if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto one_line = [](const std::exception& e) { need(std::string(e.what()).find('\n') == std::string::npos); };
    try {
        const auto h = chem::parse_fcidump({reinterpret_cast<const char*>(data), size}, "fuzzed", 1 << 22);
        const auto n = h.orbitals, pairs = n * (n + 1) / 2;
        need(n >= 1 && h.electrons >= 2 && h.electrons % 2 == 0 && h.electrons <= 2 * n);
        need(static_cast<std::int64_t>(h.one.size()) == n * n);
        need(static_cast<std::int64_t>(h.two.size()) == pairs * (pairs + 1) / 2);
        for (std::int64_t p = 0; p < n; ++p)
            for (std::int64_t q = 0; q < p; ++q) need(h.one[p * n + q] == h.one[q * n + p]);
        for (const double x : h.two) need(std::isfinite(x));
    } catch (const UserError& e) {
        one_line(e);
    } catch (const BudgetError& e) {
        one_line(e);
    }
    return 0;
}

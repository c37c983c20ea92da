#include "openblas_library.hpp"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "tessera/base/cpu.hpp"

namespace tessera::bench {

namespace {

using Dgemm = void (*)(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
                       const int*, const double*, const int*, const double*, double*, const int*);
using SetThreads = void (*)(int);
using Text = char* (*)();

/// A variable of the environment for as long as this lives: OpenBLAS reads it while it is loaded, children must not.
class Variable {
  public:
    Variable(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        setenv(name, value, 1);
    }
    ~Variable() {
        if (old_)
            setenv(name_, old_->c_str(), 1);
        else
            unsetenv(name_);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
    std::optional<std::string> old_;
};

/// The kernels that OpenBLAS should have taken, or null where its choice was right.
const char* better_core(std::string_view core) {
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, core) != names.end();
    };
    const bool wide = is_one_of({"SkylakeX", "Cooperlake", "Sapphirerapids"});
    if (detected_isa() == Isa::avx512 && !wide) return "SkylakeX";
    if (detected_isa() == Isa::avx2 && !wide && !is_one_of({"Haswell", "Zen"})) return "Haswell";
    return nullptr;
}

std::string text_of(void* library, const char* symbol) {
    const auto call = reinterpret_cast<Text>(dlsym(library, symbol));
    const char* text = call != nullptr ? call() : nullptr;
    return text != nullptr ? text : "";
}

}  // namespace

OpenblasLibrary::OpenblasLibrary() {
    if (!has_room(1)) {
        missing_ = "the limit on the address space (ulimit -v) leaves no room for OpenBLAS";
        return;
    }
    const Variable one_thread("OPENBLAS_NUM_THREADS", "1");  // more are started when they are asked for
    for (const char* file : {"libopenblas.so.0", "libblas.so.3"}) {
        if (!open(file)) continue;
        const char* better = std::getenv("OPENBLAS_CORETYPE") == nullptr ? better_core(core_) : nullptr;
        if (better == nullptr) return;
        // It chooses while it is loaded: once more, told which.
        dlclose(library_);
        const Variable told("OPENBLAS_CORETYPE", better);
        if (open(file)) return;
    }
    missing_ = "OpenBLAS is not installed";
}

bool OpenblasLibrary::open(const char* file) {
    library_ = dgemm_ = nullptr;
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    core_ = text_of(library, "openblas_get_corename");  // another BLAS has none
    set_threads_ = dlsym(library, "openblas_set_num_threads");
    void* dgemm = dlsym(library, "dgemm_");
    if (core_.empty() || set_threads_ == nullptr || dgemm == nullptr) {
        dlclose(library);
        return false;
    }
    version_ = text_of(library, "openblas_get_config");
    library_ = library;
    dgemm_ = dgemm;
    return true;
}

std::uint64_t address_space_used() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool OpenblasLibrary::has_room(int threads) {
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
    // Each thread maps a buffer of 128 MiB and its stack; the library itself and operands come on top.
    const std::uint64_t needed = (256 + 160 * static_cast<std::uint64_t>(threads)) << 20;
    return address_space_used() + needed <= limit.rlim_cur;
}

void OpenblasLibrary::set_threads(int threads) const { reinterpret_cast<SetThreads>(set_threads_)(threads); }

void OpenblasLibrary::dgemm(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t lda,
                            const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) const {
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), inner = static_cast<int>(k);
    const int ld_a = static_cast<int>(lda), ld_b = static_cast<int>(ldb), ld_c = static_cast<int>(ldc);
    const double one = 1;
    reinterpret_cast<Dgemm>(dgemm_)("N", "N", &rows, &columns, &inner, &one, a, &ld_a, b, &ld_b, &beta, c, &ld_c);
}

const OpenblasLibrary& openblas() {
    static const OpenblasLibrary library;
    return library;
}

}  // namespace tessera::bench

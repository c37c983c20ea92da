// TREXIO files with their HDF5 back end, as trexio.h of TREXIO 2 lays them out: groups of that name, numbers as
// attributes, arrays as datasets GROUP/GROUP_NAME, sparse ones as two of them, indices and values.

#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "chem/hamiltonian_builder.hpp"
#include "io/foreign_file.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kRun = 1 << 18;  // integrals at a time
constexpr double kSymmetric = 1e-8;

/// The nuclei's repulsion: as the file says, else by its charges and places.
double repulsion(const ForeignFile& file) {
    if (const auto said = file.real("nucleus", "nucleus_repulsion")) return *said;
    const auto n = file.integer("nucleus", "nucleus_num").value_or(0);
    if (n <= 0) return 0;
    const auto charges = file.reals("nucleus/nucleus_charge", {n});
    const auto places = file.reals("nucleus/nucleus_coord", {n, 3});
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < i; ++j)
            sum += charges[i] * charges[j] /
                   std::hypot(places[3 * i] - places[3 * j], places[3 * i + 1] - places[3 * j + 1],
                              places[3 * i + 2] - places[3 * j + 2]);
    return sum;
}

std::vector<double> core_hamiltonian(const ForeignFile& file, const std::string& path, std::int64_t n) {
    const std::string group = "mo_1e_int/mo_1e_int_";
    if (file.has(group + "core_hamiltonian")) return file.reals(group + "core_hamiltonian", {n, n});
    require(file.has(group + "kinetic") && file.has(group + "potential_n_e"),
            "{}: there is no mo_1e_int_core_hamiltonian, nor kinetic and potential_n_e that add up to it", path);
    auto sum = file.reals(group + "kinetic", {n, n});
    for (const char* part : {"potential_n_e", "ecp"}) {
        if (!file.has(group + part)) continue;
        const auto more = file.reals(group + part, {n, n});
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += more[k];
    }
    return sum;
}

std::int64_t electrons_of(const ForeignFile& file, const std::string& path) {
    const auto all = file.integer("electron", "electron_num"), up = file.integer("electron", "electron_up_num"),
               down = file.integer("electron", "electron_dn_num");
    require(all || (up && down), "{}: there is no electron_num", path);
    if (up && down) {
        require(*up == *down, "{}: {} electrons with spin up, {} down: only closed shells are computed", path, *up,
                *down);
        require(!all || *all == *up + *down, "{}: electron_num is {}, of both spins there are {}", path,
                all.value_or(0), *up + *down);
    }
    return all.value_or(up.value_or(0) + down.value_or(0));
}

void check_orbitals(const ForeignFile& file, const std::string& path, std::int64_t n) {
    for (const char* imaginary : {"mo/mo_coefficient_im", "mo_1e_int/mo_1e_int_core_hamiltonian_im"})
        require(!file.has(imaginary), "{}: it has {}: only real orbitals are read", path, imaginary);
    if (!file.has("mo/mo_spin")) return;
    require(file.extents("mo/mo_spin") == std::vector{n}, "{}: mo_spin is not of {} orbitals", path, n);
    std::vector<std::int64_t> spin(static_cast<std::size_t>(n));
    file.read("mo/mo_spin", 0, spin);
    for (const auto s : spin) require(s == 0, "{}: mo_spin has {}: only restricted orbitals are read", path, s);
}

}  // namespace

Hamiltonian read_trexio(const std::string& path, std::int64_t memory) {
    require(
        !std::filesystem::is_directory(path),
        "{}: a folder, as TREXIO's text back end writes; its HDF5 back end is read (trexio convert-to makes one of the "
        "other)",
        path);
    const ForeignFile file(path, "TREXIO file");
    const auto n = file.integer("mo", "mo_num").value_or(0);
    require(n >= 1 && n <= kMostOrbitals, "{}: no TREXIO file of molecular orbitals: mo/mo_num is {}", path, n);
    check_orbitals(file, path, n);
    const std::string two = "mo_2e_int/mo_2e_int_eri";
    require(file.has(two + "_values") && file.has(two + "_indices"), "{}: there are no integrals mo_2e_int_eri{}", path,
            file.has("ao_2e_int/ao_2e_int_eri_values")            ? "; those over basis functions (ao) are not read"
            : file.has("mo_2e_int/mo_2e_int_eri_cholesky_values") ? "; Cholesky vectors are not read"
                                                                  : "");
    HamiltonianBuilder out(path, n, electrons_of(file, path), "electron_num=", memory > 0 ? memory : memory_bytes());

    const auto core = core_hamiltonian(file, path, n);
    for (std::int64_t p = 0; p < n; ++p)
        for (std::int64_t q = 0; q <= p; ++q) {
            const double value = core[p * n + q], other = core[q * n + p];
            require(std::isfinite(value) && std::abs(value - other) <= kSymmetric * std::max(1.0, std::abs(value)),
                    "{}: mo_1e_int has {} at {}, {} and {} at {}, {}: it must be symmetric", path, value, p, q, other,
                    q, p);
            out.one(p, q, 0.5 * (value + other));
        }
    const double constant = repulsion(file);
    require(std::isfinite(constant), "{}: the repulsion of the nuclei is {}", path, constant);
    out.constant(constant);

    const auto lengths = file.extents(two + "_values"), of_indices = file.extents(two + "_indices");
    require(lengths.size() == 1 && of_indices.size() == 1 && of_indices[0] == 4 * lengths[0],
            "{}: mo_2e_int_eri has {} values and {} indices, four each are needed", path,
            lengths.empty() ? 0 : lengths[0], of_indices.empty() ? 0 : of_indices[0]);
    std::vector<double> values;
    std::vector<std::int64_t> indices;
    for (std::int64_t first = 0; first < lengths[0]; first += kRun) {
        const auto count = std::min(kRun, lengths[0] - first);
        values.resize(static_cast<std::size_t>(count));
        indices.resize(static_cast<std::size_t>(4 * count));
        file.read(two + "_values", first, values);
        file.read(two + "_indices", 4 * first, indices);
        for (std::int64_t k = 0; k < count; ++k) {
            const auto* at = indices.data() + 4 * k;
            for (int d = 0; d < 4; ++d)
                require(at[d] >= 0 && at[d] < n, "{}: mo_2e_int_eri number {} is of orbital {}, there are {}", path,
                        first + k, at[d], n);
            require(std::isfinite(values[k]), "{}: mo_2e_int_eri number {} is {}", path, first + k, values[k]);
            // <ij|kl> is (ik|jl).
            const auto before = out.two(at[0], at[2], at[1], at[3], values[k]);
            require(!before, "{}: mo_2e_int_eri number {}, <{} {}|{} {}>, is {}, and was {} before", path, first + k,
                    at[0], at[1], at[2], at[3], values[k], before.value_or(0));
        }
    }
    return out.take();
}

}  // namespace tessera::chem

#include "chem/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/text.hpp"
#include "comm/outcome.hpp"
#include "io/array_file.hpp"
#include "tensor/dense_tiles.hpp"

namespace tessera::chem {

namespace {

constexpr char kFormat[] = "tessera-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMostIterations = 1'000'000'000;  // counted on from in an int
constexpr double kSameSpace = 1e-4;  // how far orbitals of the same functions may be from orthonormal
constexpr double kSamePlace = 1e-6;  // bohr: how far an atom may be from where it was, for messages

/// "C2H6": elements in the order in which they first stand.
std::string formula(const std::vector<std::int64_t>& elements) {
    std::vector<std::pair<std::int64_t, int>> counts;
    for (const auto number : elements) {
        const auto known = std::ranges::find(counts, number, &std::pair<std::int64_t, int>::first);
        if (known == counts.end())
            counts.emplace_back(number, 1);
        else
            ++known->second;
    }
    std::string out;
    for (const auto& [number, count] : counts) {
        const auto symbol = element_symbol(static_cast<int>(std::clamp<std::int64_t>(number, 0, 1000)));
        out += symbol.empty() ? fmt::format("({})", number) : std::string(symbol);
        if (count > 1) out += std::to_string(count);
    }
    return out;
}

std::vector<std::int64_t> elements_of(const Molecule& molecule) {
    std::vector<std::int64_t> out;
    for (const auto& a : molecule.atoms) out.push_back(a.number);
    return out;
}

std::vector<double> coordinates_of(const Molecule& molecule) {
    std::vector<double> out;
    for (const auto& a : molecule.atoms) out.insert(out.end(), a.at.begin(), a.at.end());
    return out;
}

}  // namespace

void write_checkpoint(const std::string& path, const CheckpointOf& of, const Orbitals& orbitals,
                      const Amplitudes& amplitudes, const CheckpointState& state) {
    const auto o = orbitals.occupied_count(), v = orbitals.virtual_count();
    Matrix all(orbitals.occupied_matrix.rows(), o + v);
    for (Eigen::Index r = 0; r < all.rows(); ++r)
        all.row(of.rows[r]) << orbitals.occupied_matrix.row(r), orbitals.virtual_matrix.row(r);
    std::vector<double> energies = orbitals.occupied_energies;
    energies.insert(energies.end(), orbitals.virtual_energies.begin(), orbitals.virtual_energies.end());
    const auto elements = elements_of(of.molecule);
    const auto coordinates = coordinates_of(of.molecule);
    const auto atoms = static_cast<std::int64_t>(elements.size());
    const auto t1 = amplitudes.t1.to_dense(), t2 = amplitudes.t2.to_dense();
    write_arrays(
        path, kFormat, kVersion,
        {{"method", "ccsd"},
         {"iteration", std::int64_t{state.iteration}},
         {"correlation_energy", state.energy},
         {"residual", state.residual},
         {"converge", of.converge},
         {"formula", formula(elements)},
         {"charge", std::int64_t{of.molecule.charge}},
         {"basis", shown(of.basis)},
         {"functions", all.rows()},
         {"occupied", o},
         {"virtual", v},
         {"frozen", orbitals.frozen}},
        {{"molecule/elements", {atoms}, std::span<const std::int64_t>(elements)},
         {"molecule/coordinates", {atoms, 3}, std::span<const double>(coordinates)},
         {"orbitals/energies", {o + v}, std::span<const double>(energies)},
         {"orbitals/coefficients", {all.rows(), o + v}, std::span(all.data(), static_cast<std::size_t>(all.size()))},
         {"t1", {o, v}, std::span<const double>(t1)},
         {"t2", {o, o, v, v}, std::span<const double>(t2)}});
}

namespace {

/// Iteration, orbitals, t1 and t2 one after the other, and why the orbitals may not fit; nothing where there is no
/// file.
struct Parts {
    std::vector<double> numbers;
    std::string differs;
};

Parts read_parts(const std::string& path, const OrbitalCounts& now, const CheckpointOf& of) {
    if (std::error_code none; !std::filesystem::exists(path, none)) return {};
    const ArrayFile file(path, "checkpoint");
    const auto format = file.text("format");
    require(format != "tessera-tensor",
            "checkpoint {}: a tensor file, not one of amplitudes. Tessera 0.1 wrote checkpoints so; they are no longer "
            "read: finish with 0.1, or remove the file to begin anew",
            path);
    require(format == kFormat, "checkpoint {}: its format is '{}', not '{}'", path, format, kFormat);
    require(file.integer("version") == kVersion, "checkpoint {}: written in format {}; this Tessera reads format {}",
            path, file.integer("version"), kVersion);
    const OrbitalCounts then{file.integer("functions"), file.integer("occupied"), file.integer("virtual"),
                             file.integer("frozen")};
    const auto elements = file.integers("molecule/elements");
    require(then == now,
            "checkpoint {}: of {}, {} functions, {} occupied and {} virtual orbitals ({} frozen); this calculation has "
            "{}, {}, {} ({})",
            path, formula(elements), then.functions, then.occupied, then.virtuals, then.frozen, now.functions,
            now.occupied, now.virtuals, now.frozen);
    const auto expected = elements_of(of.molecule);
    require(elements == expected,
            "checkpoint {}: of another molecule, {} (atoms in this order); this calculation has {}", path,
            formula(elements), formula(expected));

    Parts out;
    const auto n = now.functions, o = now.occupied, v = now.virtuals;
    const auto coordinates = file.reals("molecule/coordinates", {static_cast<std::int64_t>(elements.size()), 3});
    const auto here = coordinates_of(of.molecule);
    double moved = 0;
    for (std::size_t x = 0; x < here.size(); ++x) moved = std::max(moved, std::abs(here[x] - coordinates[x]));
    if (const auto basis = file.text("basis"); basis != shown(of.basis))
        out.differs = fmt::format("; its basis is {}", basis);
    if (moved > kSamePlace)
        out.differs += fmt::format("; its atoms stand up to {:.2g} Angstrom elsewhere", moved * kBohrInAngstrom);
    const auto iteration = file.integer("iteration");
    require(iteration >= 0 && iteration <= kMostIterations, "checkpoint {}: its iteration is {}, not 0 to {}", path,
            iteration, kMostIterations);
    out.numbers = {static_cast<double>(iteration)};
    const auto append = [&](const std::string& name, const std::vector<std::int64_t>& extents) {
        const auto values = file.reals(name, extents);
        out.numbers.insert(out.numbers.end(), values.begin(), values.end());
    };
    append("orbitals/coefficients", {n, o + v});
    append("t1", {o, v});
    append("t2", {o, o, v, v});
    return out;
}

}  // namespace

std::optional<Checkpoint> read_checkpoint(const std::string& path, const CheckpointOf& of, const OrbitalCounts& counts,
                                          const Matrix& overlap, Communicator* ranks) {
    Parts parts;
    Outcome outcome;
    if (!ranks)
        parts = read_parts(path, counts, of);
    else if (ranks->rank() == 0)
        outcome.attempt([&] { parts = read_parts(path, counts, of); });
    auto& all = parts.numbers;
    if (ranks) {
        outcome.share(*ranks, 0);
        const auto from = std::as_bytes(std::span(all));
        std::vector<std::byte> bytes(from.begin(), from.end());
        ranks->broadcast(bytes, 0);
        all.resize(bytes.size() / sizeof(double));
        if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    }
    if (all.empty()) return std::nullopt;
    const auto n = counts.functions, o = counts.occupied, v = counts.virtuals;
    Checkpoint x;
    x.iteration = static_cast<int>(all[0]);
    const double* at = all.data() + 1;
    const Eigen::Map<const Matrix> given(at, n, o + v);
    x.orbitals.resize(n, o + v);
    for (Eigen::Index r = 0; r < n; ++r) x.orbitals.row(r) = given.row(of.rows[r]);
    at += n * (o + v);
    x.t1.assign(at, at + o * v);
    x.t2.assign(at + o * v, at + o * v + o * o * v * v);
    const Matrix product = between(x.orbitals, overlap, x.orbitals);
    require((product - Matrix::Identity(o + v, o + v)).cwiseAbs().maxCoeff() < kSameSpace,
            "checkpoint {}: of another geometry or basis (its orbitals are not orthonormal here){}", path,
            parts.differs);
    return x;
}

Amplitudes amplitudes_of(const Checkpoint& checkpoint, const std::string& path, const Orbitals& orbitals,
                         const Matrix& overlap, TensorWork& work) {
    const auto o = orbitals.occupied_count(), v = orbitals.virtual_count();
    const Tiling ot = orbitals.occupied.grid().tiling(1), vt = orbitals.virtuals.grid().tiling(1);
    // Tiles that are zero are kept: amplitudes are added to tile by tile.
    const auto tiled = [&](const std::vector<double>& values, const TileGrid& grid) {
        return RealTensor::generate(
            Shape::dense(grid),
            [&](const TileInfo& info, std::span<double> tile) {
                copy_from_dense(info, grid.extents(), values.data(), tile.data());
            },
            work.threads());
    };
    Matrix now(checkpoint.orbitals.rows(), o + v);
    now << orbitals.occupied_matrix, orbitals.virtual_matrix;
    if (now == checkpoint.orbitals)  // the same run again: the same bits
        return {tiled(checkpoint.t1, TileGrid{ot, vt}), tiled(checkpoint.t2, TileGrid{ot, ot, vt, vt})};
    const Matrix to_o = between(checkpoint.orbitals.leftCols(o), overlap, orbitals.occupied_matrix);
    const Matrix to_v = between(checkpoint.orbitals.rightCols(v), overlap, orbitals.virtual_matrix);
    const double off = std::max(off_orthogonal(to_o), off_orthogonal(to_v));
    require(off < kSameSpace, "checkpoint {}: of another state (its orbitals do not span the present ones)", path);

    const RealTensor uo = to_tensor(to_o, ot, ot), uv = to_tensor(to_v, vt, vt);
    Amplitudes t;
    const RealTensor t1 = tiled(checkpoint.t1, TileGrid{ot, vt});
    RealTensor t2 = tiled(checkpoint.t2, TileGrid{ot, ot, vt, vt});
    t.t1 = work.product("ib,ba->ia", work.product("jb,ji->ib", t1, uo), uv);
    t2 = work.product("ljcd,li->ijcd", work.product("lkcd,kj->ljcd", t2, uo), uo);
    t.t2 = work.product("ijcb,ca->ijab", work.product("ijcd,db->ijcb", t2, uv), uv);
    return t;
}

}  // namespace tessera::chem

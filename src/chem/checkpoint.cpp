#include "chem/checkpoint.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kCounts = 8;
constexpr double kVersion = 1;
constexpr double kSameSpace = 1e-4;  // how far orbitals of the same functions may be from orthonormal

Tiling parts(std::int64_t functions, std::int64_t o, std::int64_t v) {
    return Tiling{kCounts, functions * (o + v), o * v, o * o * v * v};
}

Matrix stacked(const Orbitals& orbitals) {
    Matrix all(orbitals.occupied_matrix.rows(), orbitals.occupied_count() + orbitals.virtual_count());
    all << orbitals.occupied_matrix, orbitals.virtual_matrix;
    return all;
}

}  // namespace

void write_checkpoint(const std::string& path, const Orbitals& orbitals, const std::vector<std::int64_t>& rows,
                      const Amplitudes& amplitudes, int iteration) {
    const auto o = orbitals.occupied_count(), v = orbitals.virtual_count();
    const Matrix here = stacked(orbitals);
    Matrix all(here.rows(), here.cols());
    for (Eigen::Index r = 0; r < here.rows(); ++r) all.row(rows[r]) = here.row(r);
    const double counts[kCounts] = {kVersion,
                                    static_cast<double>(all.rows()),
                                    static_cast<double>(o),
                                    static_cast<double>(v),
                                    static_cast<double>(orbitals.frozen),
                                    static_cast<double>(iteration),
                                    0,
                                    0};
    const auto t1 = amplitudes.t1.to_dense(), t2 = amplitudes.t2.to_dense();
    const TileGrid grid{parts(all.rows(), o, v)};
    write_tensor(path, RealTensor::generate(Shape::dense(grid), [&](const TileInfo& info, std::span<double> out) {
                     const double* from[] = {counts, all.data(), t1.data(), t2.data()};
                     std::copy_n(from[info.coordinates[0]], out.size(), out.data());
                 }));
}

namespace {

/// The parts of the file one after the other; nothing where there is no file.
std::vector<double> read_parts(const std::string& path, const OrbitalCounts& now) {
    if (std::error_code none; !std::filesystem::exists(path, none)) return {};
    const auto file = read_tensor<double>(path);
    require(file.rank() == 1 && file.tile_count() >= 1 && file.grid().tiling(0).size(TileIndex{0}) == kCounts &&
                file.tile(IndexVector{0}).size() == kCounts && file.tile(IndexVector{0})[0] == kVersion,
            "checkpoint {}: a tensor file, but not one of amplitudes", path);
    const auto counts = file.tile(IndexVector{0});
    require(
        file.grid() == TileGrid{parts(now.functions, now.occupied, now.virtuals)} &&
            counts[4] == static_cast<double>(now.frozen),
        "checkpoint {}: {} functions, {} occupied and {} virtual orbitals ({} frozen); this calculation has {}, {}, {} "
        "({})",
        path, counts[1], counts[2], counts[3], counts[4], now.functions, now.occupied, now.virtuals, now.frozen);
    return file.to_dense();
}

}  // namespace

std::optional<Checkpoint> read_checkpoint(const std::string& path, const OrbitalCounts& counts,
                                          const std::vector<std::int64_t>& rows, const Matrix& overlap,
                                          Communicator* ranks) {
    std::vector<double> all;
    Outcome outcome;
    if (!ranks)
        all = read_parts(path, counts);
    else if (ranks->rank() == 0)
        outcome.attempt([&] { all = read_parts(path, counts); });
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
    x.iteration = static_cast<int>(all[5]);
    const double* at = all.data() + kCounts;
    const Eigen::Map<const Matrix> given(at, n, o + v);
    x.orbitals.resize(n, o + v);
    for (Eigen::Index r = 0; r < n; ++r) x.orbitals.row(r) = given.row(rows[r]);
    at += n * (o + v);
    x.t1.assign(at, at + o * v);
    x.t2.assign(at + o * v, at + o * v + o * o * v * v);
    const Matrix product = x.orbitals.transpose() * overlap * x.orbitals;
    require((product - Matrix::Identity(o + v, o + v)).cwiseAbs().maxCoeff() < kSameSpace,
            "checkpoint {}: of another geometry or basis (its orbitals are not orthonormal here)", path);
    return x;
}

Amplitudes amplitudes_of(const Checkpoint& checkpoint, const std::string& path, const Orbitals& orbitals,
                         const Matrix& overlap, TensorWork& work) {
    const auto o = orbitals.occupied_count(), v = orbitals.virtual_count();
    const Matrix to_o = checkpoint.orbitals.leftCols(o).transpose() * overlap * orbitals.occupied_matrix;
    const Matrix to_v = checkpoint.orbitals.rightCols(v).transpose() * overlap * orbitals.virtual_matrix;
    const double off = std::max((to_o.transpose() * to_o - Matrix::Identity(o, o)).cwiseAbs().maxCoeff(),
                                (to_v.transpose() * to_v - Matrix::Identity(v, v)).cwiseAbs().maxCoeff());
    require(off < kSameSpace, "checkpoint {}: of another state (its orbitals do not span the present ones)", path);

    const Tiling ot = orbitals.occupied.grid().tiling(1), vt = orbitals.virtuals.grid().tiling(1);
    const RealTensor uo = to_tensor(to_o, ot, ot), uv = to_tensor(to_v, vt, vt);
    // Tiles that are zero are kept: amplitudes are added to tile by tile.
    const auto tiled = [&](const std::vector<double>& values, const TileGrid& grid) {
        return add(1.0, RealTensor(Shape::dense(grid)), 1.0, RealTensor::from_dense(grid, values));
    };
    Amplitudes t;
    const RealTensor t1 = tiled(checkpoint.t1, TileGrid{ot, vt});
    RealTensor t2 = tiled(checkpoint.t2, TileGrid{ot, ot, vt, vt});
    t.t1 = work.product("ib,ba->ia", work.product("jb,ji->ib", t1, uo), uv);
    t2 = work.product("ljcd,li->ijcd", work.product("lkcd,kj->ljcd", t2, uo), uo);
    t.t2 = work.product("ijcb,ca->ijab", work.product("ijcd,db->ijcb", t2, uv), uv);
    return t;
}

}  // namespace tessera::chem

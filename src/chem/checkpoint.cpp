#include "chem/checkpoint.hpp"

#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kCounts = 8;
constexpr double kVersion = 1;

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

std::optional<Restart> read_checkpoint(const std::string& path, const Orbitals& orbitals,
                                       const std::vector<std::int64_t>& rows, const Matrix& overlap, TensorWork& work) {
    if (std::error_code none; !std::filesystem::exists(path, none)) return std::nullopt;
    const auto file = read_tensor<double>(path);
    const auto o = orbitals.occupied_count(), v = orbitals.virtual_count(), n = orbitals.occupied_matrix.rows();
    require(file.rank() == 1 && file.tile_count() >= 1 && file.grid().tiling(0).size(TileIndex{0}) == kCounts &&
                file.tile(IndexVector{0}).size() == kCounts && file.tile(IndexVector{0})[0] == kVersion,
            "checkpoint {}: a tensor file, but not one of amplitudes", path);
    const auto counts = file.tile(IndexVector{0});
    require(
        file.grid() == TileGrid{parts(n, o, v)} && counts[4] == static_cast<double>(orbitals.frozen),
        "checkpoint {}: {} functions, {} occupied and {} virtual orbitals ({} frozen); this calculation has {}, {}, {} "
        "({})",
        path, counts[1], counts[2], counts[3], counts[4], n, o, v, orbitals.frozen);

    const auto stored = file.tile(IndexVector{1});
    require(!stored.empty(), "checkpoint {}: its orbitals are zero", path);
    const Eigen::Map<const Matrix> given(stored.data(), n, o + v);
    Matrix old(n, o + v);
    for (Eigen::Index r = 0; r < n; ++r) old.row(r) = given.row(rows[r]);
    const Matrix to_o = old.leftCols(o).transpose() * overlap * orbitals.occupied_matrix;
    const Matrix to_v = old.rightCols(v).transpose() * overlap * orbitals.virtual_matrix;
    const double off = std::max((to_o.transpose() * to_o - Matrix::Identity(o, o)).cwiseAbs().maxCoeff(),
                                (to_v.transpose() * to_v - Matrix::Identity(v, v)).cwiseAbs().maxCoeff());
    require(off < 1e-4, "checkpoint {}: of another geometry or basis (its orbitals do not span the present ones)",
            path);

    const Tiling ot = orbitals.occupied.grid().tiling(1), vt = orbitals.virtuals.grid().tiling(1);
    const RealTensor uo = to_tensor(to_o, ot, ot), uv = to_tensor(to_v, vt, vt);
    const auto amplitudes = [&](std::int64_t part, const TileGrid& grid) {
        const auto tile = file.tile(IndexVector{part});
        if (tile.empty()) return RealTensor(Shape::dense(grid, 0));
        return RealTensor::from_dense(grid, tile);
    };
    Restart r;
    r.iteration = static_cast<int>(counts[5]);
    RealTensor t1 = amplitudes(2, TileGrid{ot, vt}), t2 = amplitudes(3, TileGrid{ot, ot, vt, vt});
    r.amplitudes.t1 = work.product("ib,ba->ia", work.product("jb,ji->ib", t1, uo), uv);
    t2 = work.product("ljcd,li->ijcd", work.product("lkcd,kj->ljcd", t2, uo), uo);
    r.amplitudes.t2 = work.product("ijcb,ca->ijab", work.product("ijcd,db->ijcb", t2, uv), uv);
    return r;
}

}  // namespace tessera::chem

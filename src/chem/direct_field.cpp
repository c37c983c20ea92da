#include "chem/direct_field.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "storage/dry_run.hpp"

namespace tessera::chem {

namespace {

// The sum is taken in this many parts, each in an order of its own, which are added in turn: whoever works on them, the
// bits are the same.
constexpr std::int64_t kParts = 32;

struct Range {
    std::int64_t first, count;
};
Range functions_of(const Basis& basis, std::int64_t shell) {
    const auto& s = basis.shells[static_cast<std::size_t>(shell)];
    return {s.first, s.shell.functions()};
}

/// Adds the block (ij|kl) to the lower or upper half of 2 J - K, whichever: both are added up in the end. `orders`: in
/// how many orders the four shells have it.
void add_block(const double* block, double orders, const Range& i, const Range& j, const Range& k, const Range& l,
               const Matrix& d, Matrix& g) {
    for (std::int64_t a = 0; a < i.count; ++a) {
        const double* of_a = d.row(i.first + a).data();
        double* to_a = g.row(i.first + a).data();
        for (std::int64_t b = 0; b < j.count; ++b) {
            const double* of_b = d.row(j.first + b).data();
            double* to_b = g.row(j.first + b).data();
            double coulomb = 0;
            const double ab = of_a[j.first + b];
            for (std::int64_t c = 0; c < k.count; ++c) {
                const double* of_c = d.row(k.first + c).data();
                double* to_c = g.row(k.first + c).data();
                const double ac = of_a[k.first + c], bc = of_b[k.first + c];
                double of_ac = 0, of_bc = 0;
                for (std::int64_t e = 0; e < l.count; ++e) {
                    const double v = orders * *block++, quarter = 0.25 * v;
                    const auto at = l.first + e;
                    coulomb += of_c[at] * v;
                    to_c[at] += ab * v;
                    of_ac += of_b[at] * quarter;
                    of_bc += of_a[at] * quarter;
                    to_a[at] -= bc * quarter;
                    to_b[at] -= ac * quarter;
                }
                to_a[k.first + c] -= of_ac;
                to_b[k.first + c] -= of_bc;
            }
            to_a[j.first + b] += coulomb;
        }
    }
}

}  // namespace

DirectField::DirectField(const Integrals& integrals, Tiling functions)
    : integrals_(&integrals), functions_(std::move(functions)) {
    const Matrix& bounds = integrals.schwarz_largest();
    const double most = bounds.maxCoeff();
    for (std::int64_t i = 0; i < bounds.rows(); ++i)
        for (std::int64_t j = 0; j <= i; ++j)
            if (!Integrals::negligible(bounds(i, j) * most)) pairs_.push_back({i, j, bounds(i, j)});
    std::ranges::stable_sort(pairs_, [](const Pair& x, const Pair& y) { return x.bound > y.bound; });
    field_ = density_ = Matrix::Zero(functions_.extent(), functions_.extent());
}

DirectField::DirectField(Tiling functions) : functions_(std::move(functions)) {}

std::int64_t DirectField::all() const {
    const auto n = static_cast<std::int64_t>(integrals_->basis().shells.size()), pairs = n * (n + 1) / 2;
    return pairs * (pairs + 1) / 2;
}

Matrix DirectField::of_change(const Matrix& change, int threads) {
    const Basis& basis = integrals_->basis();
    const auto shells = static_cast<std::int64_t>(basis.shells.size());
    Matrix top(shells, shells);  // of the density over two shells
    for (std::int64_t i = 0; i < shells; ++i)
        for (std::int64_t j = 0; j < shells; ++j) {
            const auto p = functions_of(basis, i), q = functions_of(basis, j);
            top(i, j) = change.block(p.first, q.first, p.count, q.count).cwiseAbs().maxCoeff();
        }
    const double most = top.maxCoeff();
    const auto count = static_cast<std::int64_t>(pairs_.size());
    std::vector<Matrix> parts(kParts);
    std::vector<std::int64_t> made(kParts, 0);
    EnginePool<Integrals> engines(*integrals_);
    parallel_for(kParts, threads, 1, [&](std::int64_t part) {
        Matrix& g = parts[static_cast<std::size_t>(part)];
        g = Matrix::Zero(change.rows(), change.cols());
        engines.with([&](Integrals::Coulomb& engine) {
            for (auto p = part; p < count; p += kParts) {
                const Pair& ij = pairs_[static_cast<std::size_t>(p)];
                const auto i = ij.i, j = ij.j;
                for (auto q = p; q < count; ++q) {
                    const Pair& kl = pairs_[static_cast<std::size_t>(q)];
                    const double bound = ij.bound * kl.bound;
                    if (Integrals::negligible(bound * most)) break;  // so are all behind it
                    const auto k = kl.i, l = kl.j;
                    const double meets = std::max({top(i, j), top(k, l), top(i, k), top(i, l), top(j, k), top(j, l)});
                    if (Integrals::negligible(bound * meets)) continue;
                    const double* block = engine.block(i, j, k, l);
                    if (!block) continue;
                    ++made[static_cast<std::size_t>(part)];
                    const double orders = (i == j ? 1 : 2) * (k == l ? 1 : 2) * (p == q ? 1 : 2);
                    add_block(block, orders, functions_of(basis, i), functions_of(basis, j), functions_of(basis, k),
                              functions_of(basis, l), change, g);
                }
            }
        });
    });
    made_ = 0;
    for (const auto n : made) made_ += n;
    for (std::size_t part = 1; part < parts.size(); ++part) parts[0] += parts[part];
    return 0.5 * (parts[0] + parts[0].transpose());
}

RealTensor DirectField::of(const RealTensor& density, const RealTensor*, TensorWork& work) {
    const auto n = functions_.extent();
    const DryArray parts(8 * (kParts + 5) * n * n);
    if (DryRun::current()) return RealTensor(Shape::dense(TileGrid{functions_, functions_}));
    const Matrix now = to_matrix(density);
    field_ += of_change(now - density_, work.threads());
    density_ = now;
    return to_tensor(field_, functions_, functions_);
}

}  // namespace tessera::chem

#include "chem/uhf.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/diis.hpp"
#include "chem/text.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kTile = 64;     // of orthonormal combinations and of occupied orbitals
constexpr double kDampedAbove = 0.05;  // orbital gradient down to which Fock matrices are mixed
constexpr double kUnstable = -1e-5;    // eigenvalue of the Hessian
constexpr double kStep = 0.4;          // of a rotation out of an unstable solution
constexpr int kMostFollowed = 8;

/// One Fock matrix for each set of orbitals.
struct Focks {
    std::vector<RealTensor> of;
};
void scale(Focks& x, double factor) {
    for (auto& f : x.of) scale(f, factor);
}
void axpy(double factor, const Focks& x, Focks& y) {
    for (std::size_t n = 0; n < x.of.size(); ++n) axpy(factor, x.of[n], y.of[n]);
}
double dot(const Focks& x, const Focks& y) {
    double sum = 0;
    for (std::size_t n = 0; n < x.of.size(); ++n) sum += dot(x.of[n], y.of[n]);
    return sum;
}

class SelfConsistent {
  public:
    SelfConsistent(const RhfProblem& problem, std::array<std::int64_t, 2> electrons, Field& field,
                   const UhfOptions& options, TensorWork& work)
        : problem_(problem), electrons_(electrons), field_(field), options_(options), work_(work) {
        orthonormal_ = orthonormal_combinations(problem.overlap);
        const auto rows = orthonormal_.x.cols();
        for (const auto n : electrons)
            require(n <= rows, "{}: {} of one spin do not fit in {} of basis {}", problem.name, counted(n, "electron"),
                    counted(rows, "orbital"), problem.basis);
        functions_ = field.functions();
        rows_ = even_tiling(rows, kTile);
        h_ = to_tensor(problem.core, functions_, functions_);
        x_ = to_tensor(orthonormal_.x, functions_, rows_);
        one_ = to_tensor(Matrix::Identity(rows, rows), rows_, rows_);
    }

    UhfResult run(const Matrix& guess) {
        for (auto& d : density_) d = to_tensor(guess, functions_, functions_);
        iterate(true);
        for (;;) {
            finish();
            if (options_.stability == Stability::none || options_.restricted_open) break;
            const LowestRotation lowest = lowest_rotation(out_, field_, work_);
            out_.hessian = lowest.value;
            say(fmt::format("stability: lowest eigenvalue of the orbital Hessian {:.6f}{}", lowest.value,
                            lowest.value < kUnstable ? ": not a minimum" : ""));
            if (lowest.value >= kUnstable) break;
            if (options_.stability == Stability::check || out_.followed == kMostFollowed) {
                if (options_.scf.warn)
                    options_.scf.warn(fmt::format(
                        "{}: the UHF solution is not a minimum (an orbital rotation with curvature {:.4f} lowers the "
                        "energy): stability follow goes on to a lower one",
                        problem_.name, lowest.value));
                break;
            }
            ++out_.followed;
            rotate(lowest.direction);
            iterate(false);
        }
        return std::move(out_);
    }

  private:
    void say(const std::string& line) const {
        if (options_.scf.log) options_.scf.log(line);
    }
    RealTensor within(const RealTensor& fock) {
        return work_.product("mp,mq->pq", x_, work_.product("mn,nq->mq", fock, x_));
    }
    /// The electrons of a spin in these orbitals, the first of columns over the orthonormal combinations.
    void occupy(std::size_t s, const ColumnMatrix& orbitals) {
        const auto n = electrons_[s];
        if (n == 0) {
            projector_[s] = RealTensor(Shape::dense(TileGrid{rows_, rows_}, 0));
            density_[s] = RealTensor(Shape::dense(TileGrid{functions_, functions_}, 0));
            return;
        }
        const RealTensor u = to_tensor(orbitals.leftCols(n), rows_, even_tiling(n, kTile));
        projector_[s] = work_.product("pi,qi->pq", u, u);
        c_[s] = work_.product("mp,pi->mi", x_, u);
        density_[s] = work_.product("mi,ni->mn", c_[s], c_[s]);
    }
    std::array<RealTensor, 2> two_electron(bool from_orbitals) {
        std::array<RealTensor, 2> closed;
        for (std::size_t s = 0; s < 2; ++s)
            closed[s] = field_.of(density_[s], from_orbitals && electrons_[s] > 0 ? &c_[s] : nullptr, work_);
        return spin_fields(std::move(closed), field_.coulomb(add(1.0, density_[0], -1.0, density_[1]), work_));
    }
    /// Of ROHF: between closed and open shells that of beta, between open and virtual ones that of alpha, else the
    /// mean.
    RealTensor common(const std::array<RealTensor, 2>& f) {
        const RealTensor open = add(1.0, projector_[0], -1.0, projector_[1]),
                         empty = add(1.0, one_, -1.0, projector_[0]);
        RealTensor out = add(0.5, f[0], 0.5, f[1]);
        const RealTensor half = add(0.5, f[0], -0.5, f[1]);  // alpha - mean
        const auto couple = [&](const RealTensor& left, const RealTensor& right, double sign) {
            const RealTensor x = work_.product("pr,rq->pq", work_.product("ps,sr->pr", left, half), right);
            axpy(sign, x, out);
            axpy(sign, work_.permuted("qp->pq", x), out);
        };
        couple(projector_[1], open, -1);
        couple(open, empty, 1);
        return out;
    }
    /// f p - p f
    RealTensor commutator(const RealTensor& f, const RealTensor& p) {
        RealTensor out = work_.product("pr,rq->pq", f, p);
        work_.add_product("pr,rq->pq", p, f, out, -1);
        return out;
    }

    void iterate(bool guessed) {
        const double start = now_seconds(), converge = options_.scf.converge;
        Diis<Focks> diis(8, [](const Focks& a, const Focks& b) { return dot(a, b); });
        std::optional<Focks> before;
        double last = 0;
        say(" iter        energy / Eh       change     gradient   diis   time / s");
        for (int iteration = 1; iteration <= options_.scf.max_iterations; ++iteration) {
            const bool first = guessed && iteration == 1;
            const auto g = two_electron(!first);
            std::array<RealTensor, 2> f;
            double e = problem_.constant;
            for (std::size_t s = 0; s < 2; ++s) {
                fock_[s] = add(1.0, h_, 1.0, g[s]);
                e += 0.5 * dot(density_[s], add(1.0, h_, 1.0, fock_[s]));
                f[s] = within(fock_[s]);
            }
            Focks focks, gradient;
            double size = 0;
            if (!first) {  // the guess is no density of this molecule and has no gradient
                if (options_.restricted_open) {
                    focks.of.push_back(common(f));
                    gradient.of.push_back(commutator(focks.of[0], add(0.5, projector_[0], 0.5, projector_[1])));
                } else {
                    for (std::size_t s = 0; s < 2; ++s) gradient.of.push_back(commutator(f[s], projector_[s]));
                }
                for (const auto& x : gradient.of) size = std::max(size, max_abs(x));
            } else if (options_.restricted_open) {
                focks.of.push_back(add(0.5, f[0], 0.5, f[1]));
            }
            if (!options_.restricted_open) focks.of.assign(f.begin(), f.end());
            const double change = e - last;
            last = e;
            out_.history.push_back({e, change, first ? 0 : size});
            require(std::isfinite(e), "{}: the SCF energy is not a number", problem_.name);
            const bool done = !first && iteration > 1 && std::abs(change) < converge && size < converge;
            if (!first) diis.add(focks, std::move(gradient));
            say(fmt::format("{:5} {:18.10f} {:12.2e} {:>12} {:6} {:10.2f}", iteration, e, change,
                            first ? "-" : fmt::format("{:.2e}", size), diis.size(), now_seconds() - start));
            if (done) {
                energy_ = e;
                f_ = f;
                iterations_ += iteration;
                final_ = std::move(focks);
                return;
            }
            if (!first) focks = diis.combination();
            if (before && options_.damping > 0 && size > kDampedAbove) {
                scale(focks, 1 - options_.damping);
                axpy(options_.damping, *before, focks);
            }
            before = focks;
            if (!first && options_.level_shift > 0) shift(focks);
            std::vector<ColumnMatrix> orbitals;
            for (const auto& x : focks.of) orbitals.push_back(symmetric_eigen(to_matrix(x)).vectors);
            for (std::size_t s = 0; s < 2; ++s) occupy(s, orbitals[std::min(s, orbitals.size() - 1)]);
        }
        EnergyResult known;
        known.scf_history = out_.history;
        NotConverged stop(fmt::format("{}: the SCF did not converge in {} (energy {:.8f}); a level shift, damping or "
                                      "another multiplicity may help",
                                      problem_.name, counted(options_.scf.max_iterations, "iteration"), last),
                          "scf", options_.scf.max_iterations, last);
        stop.set_result(known);
        throw stop;
    }
    /// Orbitals that are empty rise, half as much where one spin has them.
    void shift(Focks& focks) {
        const double by = options_.level_shift;
        for (std::size_t n = 0; n < focks.of.size(); ++n) {
            axpy(by, one_, focks.of[n]);
            if (options_.restricted_open)
                for (const auto& p : projector_) axpy(-by / 2, p, focks.of[n]);
            else
                axpy(-by, projector_[n], focks.of[n]);
        }
    }

    /// Canonical orbitals, or semicanonical ones.
    void finish() {
        const auto rows = rows_.extent();
        SymmetricEigen shared;
        if (options_.restricted_open) {
            shared = symmetric_eigen(to_matrix(final_.of[0]));
            out_.common = to_matrix(work_.product("mp,pq->mq", x_, to_tensor(shared.vectors, rows_, rows_)));
        }
        for (std::size_t s = 0; s < 2; ++s) {
            RhfResult& r = out_.spin[s];
            const Matrix f = to_matrix(f_[s]);
            SymmetricEigen e;
            if (options_.restricted_open) {
                e = shared;
                const auto part = [&](std::int64_t from, std::int64_t count) {
                    if (count == 0) return;
                    const Matrix u = shared.vectors.middleCols(from, count);
                    const auto inner = symmetric_eigen_within(u, f);
                    e.values.segment(from, count) = inner.values;
                    e.vectors.middleCols(from, count) =
                        between(u.transpose(), Matrix::Identity(count, count), inner.vectors);
                };
                part(0, electrons_[s]);
                part(electrons_[s], rows - electrons_[s]);
            } else {
                e = symmetric_eigen(f);
            }
            r.orbital_energies = e.values;
            r.coefficients = to_matrix(work_.product("mp,pq->mq", x_, to_tensor(e.vectors, rows_, rows_)));
            r.energy = energy_;
            r.overlap = problem_.overlap;
            r.occupied = electrons_[s];
            r.dropped = problem_.overlap.rows() - rows;
            r.smallest_overlap = orthonormal_.smallest;
            r.iterations = iterations_;
            out_.fock[s] = to_matrix(fock_[s]);
        }
        out_.restricted_open = options_.restricted_open;
        out_.density = to_matrix(add(1.0, density_[0], 1.0, density_[1]));
        const double sz = 0.5 * static_cast<double>(electrons_[0] - electrons_[1]);
        out_.s_squared = sz * (sz + 1) + static_cast<double>(electrons_[1]) - dot(projector_[0], projector_[1]);
    }

    /// Out of a solution along a rotation of its orbitals.
    void rotate(const Vector& direction) {
        const double length = direction.cwiseAbs().maxCoeff();
        Eigen::Index at = 0;
        for (std::size_t s = 0; s < 2; ++s) {
            const auto n = electrons_[s], v = rows_.extent() - n;
            if (n == 0 || v == 0) continue;
            const auto& c = out_.spin[s].coefficients;
            const Matrix step = Eigen::Map<const Matrix>(direction.data() + at, n, v) * (kStep / length);
            at += n * v;
            const RealTensor all = to_tensor(c.leftCols(n), functions_, even_tiling(n, kTile));
            const RealTensor turned =
                work_.product("ma,ia->mi", to_tensor(c.rightCols(v), functions_, even_tiling(v, kTile)),
                              to_tensor(step, even_tiling(n, kTile), even_tiling(v, kTile)));
            // Orthonormal again, and over the orthonormal combinations: eigenvectors of the projector with value one.
            const Matrix moved = to_matrix(add(1.0, all, 1.0, turned));
            const Matrix overlap = between(moved, problem_.overlap, moved);
            const auto root = symmetric_eigen(overlap);
            Matrix inverse = root.vectors;
            for (Eigen::Index k = 0; k < inverse.cols(); ++k) inverse.col(k) /= std::sqrt(root.values(k));
            const Matrix sx = between(orthonormal_.x, problem_.overlap, moved);
            occupy(s, between(sx.transpose(), Matrix::Identity(n, n), inverse));
        }
    }

    const RhfProblem& problem_;
    std::array<std::int64_t, 2> electrons_;
    Field& field_;
    const UhfOptions& options_;
    TensorWork& work_;
    Orthonormal orthonormal_;
    Tiling functions_, rows_;
    // m, n are functions, p, q their orthonormal combinations, i occupied orbitals.
    RealTensor h_, x_, one_;
    std::array<RealTensor, 2> c_, density_, projector_, fock_, f_;
    Focks final_;
    double energy_ = 0;
    int iterations_ = 0;
    UhfResult out_;
};

}  // namespace

std::array<RealTensor, 2> spin_fields(std::array<RealTensor, 2> closed, const RealTensor& spin_coulomb) {
    axpy(-1.0, spin_coulomb, closed[0]);
    axpy(1.0, spin_coulomb, closed[1]);
    return closed;
}

UhfResult uhf(const RhfProblem& problem, std::array<std::int64_t, 2> electrons, Field& field, const Matrix& guess,
              const UhfOptions& options, TensorWork& work) {
    return SelfConsistent(problem, electrons, field, options, work).run(guess);
}

}  // namespace tessera::chem

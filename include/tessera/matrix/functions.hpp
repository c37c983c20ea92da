#pragma once
// Functions of block-sparse matrices: sign, inverse, root of the inverse, exponential, and density matrices. Each is an
// iteration of products, filtered as it goes, with a bound of all that was left out. Collective; the same bits on any
// number of ranks and threads.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// What an iteration did.
struct MatrixStep {
    double residual = 0;  // Frobenius norm of what the iteration makes zero: X - X X for density matrices
    double trace = 0;     // of X, its real part
    double left_out = 0;  // Frobenius norm of the tiles that the filter dropped
    std::int64_t tiles = 0;
    bool planned = false;  // a product had other tiles than before, and was planned anew
    double plan_seconds = 0, seconds = 0;
};

/// How the spectrum of a symmetric matrix is scaled to where an iteration converges.
enum class Scaling : std::uint8_t {
    gershgorin,  // by discs, which hold all eigenvalues
    lanczos,     // by estimates, which are closer: fewer iterations; the bound takes them for true
};

struct MatrixOptions {
    double filter = 0;  // tiles whose norm is below are dropped in each iteration
    /// The residual to reach. 0: iterate until filter or rounding let it fall no further.
    double tolerance = 0;
    int max_iterations = 100;
    Scaling scaling = Scaling::gershgorin;
    /// Called after each step, on every rank.
    std::function<void(const MatrixStep&)> on_step = {};
};

struct MatrixReport {
    /// The result is no further (Frobenius norm) from the exact one. Filtering counts in full, rounding to first order.
    /// Infinite where nothing can be said: the filter is too large for the gap.
    double error = 0;
    double residual = 0;  // of the result
    /// All eigenvalues were taken to lie between them: sign, sqrt_inverse, purify.
    double lowest = 0, highest = 0;
    /// purify: no eigenvalue lies between them, and as many as asked for are below. Both 0 where that is not known.
    double homo = 0, lumo = 0;
    double gap() const { return lumo - homo; }
    std::vector<MatrixStep> history;
    std::int64_t products = 0, plans = 0;  // products of matrices; of them planned anew
    std::int64_t device_products = 0;      // of them computed on devices
    double flops = 0, plan_seconds = 0, product_seconds = 0, seconds = 0;
};

/// The iteration came to no end, or not to the tolerance. Nothing is wrong with the machine.
class MatrixNotConverged : public Error {
  public:
    MatrixNotConverged(const std::string& what, MatrixReport report) : Error(what), report_(std::move(report)) {}
    int exit_code() const noexcept override { return 4; }
    const MatrixReport& report() const noexcept { return report_; }

  private:
    MatrixReport report_;
};

template <Scalar T>
struct MatrixResult {
    Tensor<T> matrix;
    MatrixReport report;
};

// All of them take square matrices with the same tiles along rows and columns. "Symmetric" is up to 1e-10 of the norm
// (1e-5 in single precision), and means hermitian where elements are complex. With devices among the resources products
// run there, with the bits of the cores; the rest of an iteration runs on the host. A matrix that lives on devices is
// brought from there, multiplied there, and the result goes there.

/// The sign of a symmetric matrix without eigenvalue 0: its eigenvectors, with eigenvalues 1 and -1.
template <Scalar T>
TESSERA_API MatrixResult<T> sign(const Tensor<T>& a, const MatrixOptions& options = {}, const Resources& here = {});
/// Of any matrix that has one.
template <Scalar T>
TESSERA_API MatrixResult<T> inverse(const Tensor<T>& a, const MatrixOptions& options = {}, const Resources& here = {});
/// Z with Z A Z = 1, of a symmetric positive definite matrix.
template <Scalar T>
TESSERA_API MatrixResult<T> sqrt_inverse(const Tensor<T>& a, const MatrixOptions& options = {},
                                         const Resources& here = {});
template <Scalar T>
TESSERA_API MatrixResult<T> exponential(const Tensor<T>& a, const MatrixOptions& options = {},
                                        const Resources& here = {});
/// The projector on as many of the lowest eigenvectors of a symmetric F as there are electrons, one a state: with two
/// in a state, ask for half as many.
template <Scalar T>
TESSERA_API MatrixResult<T> purify(const Tensor<T>& f, std::int64_t electrons, const MatrixOptions& options = {},
                                   const Resources& here = {});
/// In a basis with the overlap S: D of trace(D S) = electrons and D S D = D.
template <Scalar T>
TESSERA_API MatrixResult<T> purify(const Tensor<T>& f, const Tensor<T>& s, std::int64_t electrons,
                                   const MatrixOptions& options = {}, const Resources& here = {});

/// The lowest and the highest eigenvalue of a symmetric matrix, by Lanczos. An eigenvalue lies within `error` of each.
struct Extremes {
    double lowest = 0, highest = 0;
    double lowest_error = 0, highest_error = 0;
    int steps = 0;
};
template <Scalar T>
TESSERA_API Extremes extremal_eigenvalues(const Tensor<T>& a, double relative_error = 1e-3, int max_steps = 100,
                                          int threads = 0);
/// Between these lie all eigenvalues of a symmetric matrix: Gershgorin's discs. No error, no iteration.
template <Scalar T>
TESSERA_API Extremes gershgorin_interval(const Tensor<T>& a, int threads = 0);

}  // namespace tessera

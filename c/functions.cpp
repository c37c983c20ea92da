// Functions of matrices: sign, inverse, density matrices.

#include "tessera/matrix/functions.hpp"

#include "object.hpp"

using namespace tessera;
using namespace tessera::c;

namespace {

struct How {
    MatrixOptions options;
    Resources here;
};

How how_of(const tessera_matrix_options* given_options) {
    tessera_matrix_options o;
    tessera_matrix_options_init(&o);
    if (given_options) o = *given_options;
    How out;
    out.options.filter = o.filter;
    out.options.tolerance = o.tolerance;
    out.options.max_iterations = o.max_iterations;
    out.options.scaling = o.lanczos ? Scaling::lanczos : Scaling::gershgorin;
    out.here.threads = o.threads;
    out.here.memory = o.memory;
    return out;
}

void tell(tessera_matrix_report* out, const MatrixReport& r) {
    if (!out) return;
    *out = {r.error,    r.residual, r.lowest, r.highest, r.homo, r.lumo, static_cast<int>(r.history.size()),
            r.products, r.plans,    r.flops,  r.seconds};
}

/// What did not converge tells its numbers too.
template <class Function>
int apply(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
          tessera_matrix_report* report, const Function& function) {
    return guarded([&] {
        std::visit(
            [&](const auto& x) {
                given(result, "result");
                const auto how = how_of(options);
                try {
                    auto made = function(x, how);
                    give(result, std::move(made.matrix));
                    tell(report, made.report);
                } catch (const MatrixNotConverged& e) {
                    tell(report, e.report());
                    throw;
                }
            },
            any(a, "a"));
    });
}

}  // namespace

void tessera_matrix_options_init(tessera_matrix_options* options) {
    if (!options) return;
    *options = {};
    options->max_iterations = MatrixOptions().max_iterations;
}

int tessera_sign(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                 tessera_matrix_report* report) {
    return apply(a, options, result, report,
                 [](const auto& x, const How& how) { return sign(x, how.options, how.here); });
}

int tessera_inverse(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                    tessera_matrix_report* report) {
    return apply(a, options, result, report,
                 [](const auto& x, const How& how) { return inverse(x, how.options, how.here); });
}

int tessera_sqrt_inverse(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                         tessera_matrix_report* report) {
    return apply(a, options, result, report,
                 [](const auto& x, const How& how) { return sqrt_inverse(x, how.options, how.here); });
}

int tessera_exponential(tessera_tensor a, const tessera_matrix_options* options, tessera_tensor* result,
                        tessera_matrix_report* report) {
    return apply(a, options, result, report,
                 [](const auto& x, const How& how) { return exponential(x, how.options, how.here); });
}

int tessera_purify(tessera_tensor f, tessera_tensor s, int64_t electrons, const tessera_matrix_options* options,
                   tessera_tensor* result, tessera_matrix_report* report) {
    return apply(f, options, result, report, [&]<class T>(const Tensor<T>& x, const How& how) {
        return s ? purify(x, of_type<T>(s, "s"), electrons, how.options, how.here)
                 : purify(x, electrons, how.options, how.here);
    });
}

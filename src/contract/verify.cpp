#include "contract/verify.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "index/matrix_view.hpp"
#include "shape/product_shape.hpp"
#include "tensor/symmetric_tile.hpp"

namespace tessera {

namespace {

/// Offsets of all positions of some labels in a row-major tile.
std::vector<std::int64_t> offsets_of(const std::string& group, const std::string& labels, const IndexVector& extents) {
    const auto strides = row_major_strides(extents);
    std::vector<std::int64_t> offsets{0};
    for (char l : group) {
        const int d = static_cast<int>(labels.find(l));
        std::vector<std::int64_t> next;
        next.reserve(offsets.size() * static_cast<std::size_t>(extents[d]));
        for (auto o : offsets)
            for (std::int64_t e = 0; e < extents[d]; ++e) next.push_back(o + e * strides[d]);
        offsets = std::move(next);
    }
    return offsets;
}

template <Scalar T>
using Sum = std::conditional_t<is_complex<T>, std::complex<double>, double>;

template <Scalar T>
std::vector<T> tile_of(const ContractOperand<T>& x, const WholeShape& whole, std::int64_t slot) {
    if (!whole.views.empty()) {
        const auto& shape = whole.shape;
        const auto place = x.shape().find(shape.tile(whole.views.place(static_cast<std::int32_t>(slot))));
        const auto extents = shape.grid().tile_extents(shape.tile(slot));
        std::vector<T> tile(static_cast<std::size_t>(extents.product()));
        see(whole.views[slot], x.stored()->tile(*place).data(), extents, tile.data());
        return tile;
    }
    if (x.stored()) {
        const auto t = x.stored()->tile(slot);
        return {t.begin(), t.end()};
    }
    const auto info = tile_info(x.shape().grid(), x.shape().tile(slot));
    std::vector<T> tile(static_cast<std::size_t>(info.extents.product()));
    x.made()->make(info, tile);
    return tile;
}

}  // namespace

std::vector<std::int64_t> verify_slots(const Shape& c, const VerifyOptions& options) {
    std::vector<std::int64_t> slots;
    for (int i = 0; i < options.tiles && c.tile_count() > 0; ++i)
        slots.push_back(static_cast<std::int64_t>(mix64(static_cast<std::uint64_t>(i)) %
                                                  static_cast<std::uint64_t>(c.tile_count())));
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
}

template <Scalar T>
Verification verify_sample(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                           const std::type_identity_t<ContractOperand<T>>& b, const Tensor<T>& c,
                           const VerifyOptions& options) {
    const auto whole = whole_shape(c.shape());
    if (whole.views.empty())
        return verify_tiles<T>(
            spec, a, b, c.shape(), [&](std::int64_t slot) { return c.tile(slot); }, options);
    // Tiles that follow from stored ones are looked at too: where the result has not the symmetry, they tell.
    std::map<std::int64_t, std::vector<T>> seen;
    const auto tile_at = [&](std::int64_t slot) -> std::span<const T> {
        auto& tile = seen[slot];
        if (tile.empty()) {
            const auto at = whole.shape.tile(slot);
            const auto stored =
                c.tile(*c.shape().find(whole.shape.tile(whole.views.place(static_cast<std::int32_t>(slot)))));
            tile.resize(stored.size());
            see(whole.views[slot], stored.data(), whole.shape.grid().tile_extents(at), tile.data());
        }
        return tile;
    };
    return verify_tiles<T>(spec, a, b, whole.shape, tile_at, options);
}

template <Scalar T>
Verification verify_tiles(std::string_view text, const std::type_identity_t<ContractOperand<T>>& a,
                          const std::type_identity_t<ContractOperand<T>>& b, const Shape& c,
                          const std::function<std::span<const T>(std::int64_t slot)>& tile_at,
                          const VerifyOptions& options) {
    const ContractionSpec spec(text);
    const auto whole_a = whole_shape(a.shape()), whole_b = whole_shape(b.shape());
    require(spec.operand_count() == 2 && !spec.needs_reduction(0) && !spec.needs_reduction(1),
            "verify: '{}' has diagonals or sums of one operand", spec.text());
    Verification out;
    std::vector<ShapeEntry> sample;
    for (auto slot : verify_slots(c, options))
        if (!tile_at(slot).empty()) sample.push_back({c.tile(slot), 1.0});
    if (sample.empty()) return out;
    const Shape wanted(c.grid(), std::move(sample));
    const auto products = product_shape(spec, whole_a.shape, whole_b.shape, {0, 1, &wanted});

    const MatrixView view(spec);
    const auto &n = view.n, &k = view.k, &batch = view.batch;
    const auto m = batch + view.m;
    const double per_tile = options.flops / static_cast<double>(wanted.tile_count());

    for (std::int64_t s = 0; s < products.c.tile_count(); ++s) {
        const auto slot = *c.find(products.c.tile(s));
        const auto extents_c = c.grid().tile_extents(products.c.tile(s));
        const auto rows_c = offsets_of(m, spec.c(), extents_c), cols_c = offsets_of(n, spec.c(), extents_c);
        const double work = std::max(1.0, products.tile_flops[s] / static_cast<double>(rows_c.size()));
        const auto want =
            static_cast<std::size_t>(std::clamp(per_tile / work, 1.0, static_cast<double>(rows_c.size())));
        std::vector<std::size_t> rows(want);  // spread evenly, the first and last among them
        for (std::size_t r = 0; r < want; ++r) rows[r] = want == 1 ? 0 : r * (rows_c.size() - 1) / (want - 1);

        std::vector<Sum<T>> sums(want * cols_c.size());
        std::vector<double> magnitudes(
            sums.size());  // of the terms: what rounding is relative to, also where they cancel
        for (auto p = products.first[s]; p < products.first[s + 1]; ++p) {
            const auto [sa, sb] = products.products[p];
            const auto ta = tile_of<T>(a, whole_a, sa), tb = tile_of<T>(b, whole_b, sb);
            const auto ea = a.shape().grid().tile_extents(whole_a.shape.tile(sa)),
                       eb = b.shape().grid().tile_extents(whole_b.shape.tile(sb));
            const auto rows_a = offsets_of(m, spec.a(), ea), ka = offsets_of(k, spec.a(), ea);
            const auto batch_b = offsets_of(batch, spec.b(), eb), cols_b = offsets_of(n, spec.b(), eb),
                       kb = offsets_of(k, spec.b(), eb);
            const std::size_t per_batch = rows_a.size() / batch_b.size();
            parallel_for(static_cast<std::int64_t>(want), options.threads, 1, [&](std::int64_t r) {
                const auto row = rows[r];
                const auto base_b = batch_b[row / per_batch];
                Sum<T>* to = sums.data() + static_cast<std::size_t>(r) * cols_c.size();
                double* size = magnitudes.data() + static_cast<std::size_t>(r) * cols_c.size();
                for (std::size_t q = 0; q < ka.size(); ++q) {
                    const Sum<T> x =
                        conjugate_if(ta[static_cast<std::size_t>(rows_a[row] + ka[q])], options.conjugate_a);
                    for (std::size_t j = 0; j < cols_b.size(); ++j) {
                        const Sum<T> term =
                            x * Sum<T>(conjugate_if(tb[static_cast<std::size_t>(base_b + cols_b[j] + kb[q])],
                                                    options.conjugate_b));
                        to[j] += term;
                        size[j] += std::abs(term);
                    }
                }
            });
        }
        const auto tile = tile_at(slot);
        // alpha as the contraction had it, in its own precision.
        Sum<T> alpha;
        if constexpr (is_complex<T>)
            alpha = T(static_cast<RealOf<T>>(options.alpha.real()), static_cast<RealOf<T>>(options.alpha.imag()));
        else
            alpha = static_cast<T>(options.alpha.real());
        double largest = 0, error = 0;
        for (std::size_t r = 0; r < want; ++r)
            for (std::size_t q = 0; q < cols_c.size(); ++q) {
                const Sum<T> expected = alpha * sums[r * cols_c.size() + q];
                const Sum<T> got = tile[static_cast<std::size_t>(rows_c[rows[r]] + cols_c[q])];
                largest = std::max(largest, std::abs(alpha) * magnitudes[r * cols_c.size() + q]);
                const double difference = std::abs(got - expected);
                error = std::isnan(difference) ? HUGE_VAL : std::max(error, difference);
            }
        if (error > 0) {
            const bool known = std::isfinite(error) && std::isfinite(largest) && largest > 0;
            out.max_relative_error = std::max(out.max_relative_error, known ? error / largest : HUGE_VAL);
        }
        ++out.tiles;
        out.elements += static_cast<std::int64_t>(want * cols_c.size());
    }
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                                                \
    template Verification verify_sample<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&, \
                                           const std::type_identity_t<ContractOperand<T>>&, const Tensor<T>&, \
                                           const VerifyOptions&);                                             \
    template Verification verify_tiles<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,  \
                                          const std::type_identity_t<ContractOperand<T>>&, const Shape&,      \
                                          const std::function<std::span<const T>(std::int64_t)>&,             \
                                          const VerifyOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

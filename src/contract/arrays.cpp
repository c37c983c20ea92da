// Dense arrays: checked, seen as products of matrices, two at a time, and multiplied where they lie.

#include "tessera/contract/arrays.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "contract/einsum_order.hpp"
#include "contract/planned_impl.hpp"
#include "execute/cpu/array_product.hpp"
#include "index/automatic_tiles.hpp"
#include "index/matrix_view.hpp"
#include "kernels/gemm.hpp"

namespace tessera {

namespace {

/// An array without its type.
struct Layout {
    std::string name;
    std::uintptr_t data;  // of the first element
    std::int64_t size;    // of an element, in bytes
    IndexVector extents, strides;
};

template <class T>
Layout layout_of(std::string name, const ArrayView<T>& x) {
    return {std::move(name), reinterpret_cast<std::uintptr_t>(x.data), static_cast<std::int64_t>(sizeof(T)), x.extents,
            x.strides};
}

void require_layout(const std::string& spec, const std::string& labels, const Layout& x) {
    require(x.extents.size() == static_cast<int>(labels.size()),
            "contraction '{}': {} has {} indices, the spec says {}", spec, x.name, x.extents.size(), labels.size());
    require(x.strides.size() == x.extents.size(), "contraction '{}': {} has {} strides for {} indices", spec, x.name,
            x.strides.size(), x.extents.size());
    bool empty = false;
    for (int d = 0; d < x.extents.size(); ++d) {
        require(x.extents[d] >= 0, "contraction '{}': index {} of {} has extent {}", spec, d, x.name, x.extents[d]);
        empty = empty || x.extents[d] == 0;
    }
    require(x.data != 0 || empty, "contraction '{}': {} has no elements (a null pointer), its extents are {}", spec,
            x.name, to_string(x.extents));
}

/// Each label has one extent everywhere; `all` are the operands, and the result where it is there. By label.
std::array<std::int64_t, 128> require_extents(const EinsumSpec& spec, std::span<const Layout> all) {
    std::array<const Layout*, 128> first{};
    std::array<std::int64_t, 128> extent{};
    for (std::size_t o = 0; o < all.size(); ++o) {
        const auto& labels = o < spec.operands.size() ? spec.operands[o] : spec.result;
        for (std::size_t d = 0; d < labels.size(); ++d) {
            const auto l = static_cast<std::size_t>(labels[d]);
            const auto is = all[o].extents[static_cast<int>(d)];
            if (!first[l]) {
                first[l] = &all[o];
                extent[l] = is;
            }
            if (extent[l] != is)
                user_error("contraction '{}': label '{}' has {} elements in {} and {} in {}", spec.text(), labels[d],
                           extent[l], first[l]->name, is, all[o].name);
        }
    }
    return extent;
}

/// The bytes from the first to the last element.
std::pair<std::uintptr_t, std::uintptr_t> span_of(const Layout& x) {
    std::int64_t low = 0, high = 0;
    for (int d = 0; d < x.extents.size(); ++d) {
        if (x.extents[d] == 0) return {x.data, x.data};
        (x.strides[d] < 0 ? low : high) += (x.extents[d] - 1) * x.strides[d];
    }
    return {x.data + static_cast<std::uintptr_t>(low * x.size),
            x.data + static_cast<std::uintptr_t>((high + 1) * x.size)};
}

/// Elements of a result lie apart: each index steps over all that the faster ones reach.
void require_apart(const std::string& spec, const Layout& c) {
    std::vector<int> order;
    for (int d = 0; d < c.extents.size(); ++d) {
        if (c.extents[d] == 0) return;
        if (c.extents[d] > 1) order.push_back(d);
    }
    std::sort(order.begin(), order.end(),
              [&](int x, int y) { return std::abs(c.strides[x]) < std::abs(c.strides[y]); });
    std::int64_t reach = 0;
    for (const int d : order) {
        require(std::abs(c.strides[d]) > reach,
                "contraction '{}': index {} of the result steps by {} elements, within what faster indices reach ({}): "
                "elements would be written twice",
                spec, d, c.strides[d], reach);
        reach += (c.extents[d] - 1) * std::abs(c.strides[d]);
    }
}

/// Whether some element may belong to both. Arrays that interleave, as columns of one matrix do, are told apart where
/// they step alike.
bool may_share(const Layout& x, const Layout& y) {
    const auto [x_begin, x_end] = span_of(x);
    const auto [y_begin, y_end] = span_of(y);
    if (x_begin >= y_end || y_begin >= x_end) return false;
    // Modulo a step that both take, each lies in a window; windows that do not meet have no element in common.
    for (int d = 0; d < x.extents.size(); ++d) {
        const auto step = std::abs(x.strides[d]) * x.size;
        if (step == 0 || x.extents[d] < 2) continue;
        const auto window = [&](const Layout& z, std::int64_t& low, std::int64_t& width) {
            std::int64_t down = 0, up = 0;
            for (int i = 0; i < z.extents.size(); ++i) {
                const auto by = z.strides[i] * z.size;
                if (z.extents[i] < 2 || by % step == 0) continue;
                (by < 0 ? down : up) += (z.extents[i] - 1) * by;
            }
            low = (static_cast<std::int64_t>(z.data % static_cast<std::uintptr_t>(step)) + down % step + step) % step;
            width = up - down + z.size;
        };
        std::int64_t low_x, width_x, low_y, width_y;
        window(x, low_x, width_x);
        window(y, low_y, width_y);
        const auto between = (low_y - low_x + step) % step;  // from x's window to y's, around the step
        if (width_x <= between && width_y <= step - between) return false;
    }
    return true;
}

/// Labels of a group, with their steps in each array. A label that an operand repeats steps along the diagonal.
ArrayLabels labels_of(const std::string& group, const ContractionSpec& spec, const Layout* const (&arrays)[3]) {
    ArrayLabels out;
    for (const char l : group) {
        ArrayLabel label;
        for (int o = 0; o < 3; ++o) {
            const auto& labels = o < 2 ? spec.labels(o) : spec.c();
            for (int d = 0; d < static_cast<int>(labels.size()); ++d)
                if (labels[d] == l) {
                    label.extent = arrays[o]->extents[d];
                    label.stride[o] += arrays[o]->strides[d];
                }
        }
        out.label[out.count++] = label;
    }
    return out;
}

/// Of a product of two arrays whose layouts and extents are checked. `held`: bytes of intermediates there are besides.
template <Scalar T>
ContractReport multiply_arrays(const ContractionSpec& spec, const ArrayView<const T>& a, const ArrayView<const T>& b,
                               const ArrayView<T>& c, const Resources& here, T alpha, T beta, bool conjugate_a,
                               bool conjugate_b, std::int64_t held) {
    const double start = now_seconds();
    const Layout la = layout_of("A", a), lb = layout_of("B", b), lc = layout_of("the result", c);
    const Layout* const arrays[3] = {&la, &lb, &lc};
    const MatrixView view(spec);
    ArrayProduct<T> product;
    product.m = labels_of(view.m, spec, arrays);
    product.n = labels_of(view.n, spec, arrays);
    product.k = labels_of(view.k, spec, arrays);
    product.batch = labels_of(view.batch, spec, arrays);
    const auto tiles = automatic_tile_sizes(spec, a.extents, b.extents);
    for (int i = 0; i < product.k.count; ++i)
        product.k_tile[i] = tiles[static_cast<unsigned char>(view.k[static_cast<std::size_t>(i)])];
    product.a = a.data;
    product.b = b.data;
    product.c = c.data;
    product.alpha = alpha;
    product.beta = beta;
    product.conjugate_a = conjugate_a;
    product.conjugate_b = conjugate_b;
    ContractReport report;
    report.threads = resolve_threads(here.threads);
    report.algorithm = "arrays";
    report.products = 1;
    report.bytes_a = a.elements() * la.size;
    report.bytes_b = b.elements() * lb.size;
    report.bytes_c = c.elements() * lc.size;
    report.flops =
        kFlopsPerMultiplyAdd<T> * static_cast<double>(c.elements()) * static_cast<double>(product.k.extent());
    report.peak_host_bytes = held;
    if (c.elements() == 0) return report;
    report.peak_host_bytes += scratch_bytes(product, report.threads) + report.threads * kernels::gemm_workspace_bytes();
    if (here.memory > 0 && report.peak_host_bytes > here.memory)
        throw BudgetError(
            fmt::format("contraction '{}': {} of intermediates, partial sums and work space are more than the memory "
                        "budget of {}; {} would do",
                        spec.text(), format_bytes(report.peak_host_bytes), format_bytes(here.memory),
                        format_bytes(report.peak_host_bytes)),
            here.memory, report.peak_host_bytes);
    require(multiply(product, report.threads),
            "contraction '{}': the result holds NaN or infinity; what its array holds is unspecified", spec.text());
    report.execute_seconds = now_seconds() - start;
    return report;
}

/// Operands in pairs, in the order of dense counts; what is in between is in arrays of its own.
template <Scalar T>
ContractReport multiply_many(const EinsumSpec& spec, std::vector<ArrayView<const T>> parts, const ArrayView<T>& c,
                             const Resources& here, T alpha, T beta, const ContractOptions& options) {
    const double start = now_seconds();
    const auto n = static_cast<std::size_t>(spec.count());
    std::vector<IndexVector> extents;
    for (const auto& x : parts) extents.push_back(x.extents);
    const auto order = dense_order_of(spec, extents);
    ContractReport report;
    report.plan_seconds = now_seconds() - start;

    // What is held, step by step: before anything is made.
    const auto bytes_of_result = [&](std::size_t i) {
        return i + 1 == order.steps.size() ? 0.0 : order.steps[i].result_elements * static_cast<double>(sizeof(T));
    };
    const auto freed = [&](std::size_t i) {
        double bytes = 0;
        for (const int p : {order.steps[i].left, order.steps[i].right})
            if (static_cast<std::size_t>(p) >= n) bytes += bytes_of_result(static_cast<std::size_t>(p) - n);
        return bytes;
    };
    double live = 0, peak = 0;
    for (std::size_t i = 0; i < order.steps.size(); ++i) {
        peak = std::max(peak, live + bytes_of_result(i));
        live += bytes_of_result(i) - freed(i);
    }
    if (peak > 0x1p62)
        throw MachineError(fmt::format("contraction '{}': its intermediates take {:.3g} bytes", spec.text(), peak));
    const auto least = static_cast<std::int64_t>(peak);
    if (here.memory > 0 && least > here.memory)
        throw BudgetError(fmt::format("contraction '{}': {} of intermediates are more than the memory budget of {}",
                                      spec.text(), format_bytes(least), format_bytes(here.memory)),
                          here.memory, least);

    std::vector<Array<T>> made(order.steps.size());
    live = 0;
    for (std::size_t i = 0; i < order.steps.size(); ++i) {
        const auto& step = order.steps[i];
        const auto left = static_cast<std::size_t>(step.left), right = static_cast<std::size_t>(step.right);
        const bool last = i + 1 == order.steps.size();
        const ContractionSpec two(step.spec);
        if (!last) {
            made[i] = Array<T>(result_extents(two.text(), parts[left].extents, parts[right].extents));
            live += bytes_of_result(i);
        }
        auto ran =
            multiply_arrays<T>(two, parts[left], parts[right], last ? c : made[i].view(), here, last ? alpha : T(1),
                               last ? beta : T(0), left < n && options.conjugates(step.left),
                               right < n && options.conjugates(step.right), static_cast<std::int64_t>(live));
        if (!last) parts.push_back(made[i].view());
        for (const auto p : {left, right})
            if (p >= n) made[p - n] = Array<T>();
        live -= freed(i);
        report.flops += ran.flops;
        report.products += ran.products;
        report.peak_host_bytes = std::max(report.peak_host_bytes, ran.peak_host_bytes);
        report.execute_seconds += ran.execute_seconds;
        report.threads = ran.threads;
        report.algorithm = ran.algorithm;
        report.steps.push_back(std::move(ran));
    }
    return report;
}

/// The labels that an operand sums on its own, each once.
std::string summed_labels(const EinsumSpec& spec, int operand) {
    const auto own = own_labels(spec, operand);
    std::string out;
    for (const char l : spec.operands[static_cast<std::size_t>(operand)])
        if (own.find(l) == std::string::npos && out.find(l) == std::string::npos) out += l;
    return out;
}

}  // namespace

IndexVector result_extents(std::string_view text, const std::vector<IndexVector>& operands) {
    const EinsumSpec spec(text, operands);
    std::vector<Layout> all;
    for (int o = 0; o < spec.count(); ++o) {
        const auto& x = operands[static_cast<std::size_t>(o)];
        all.push_back({operand_name(o, spec.count()), 1, 1, x, x});
        require_layout(spec.text(), spec.operands[static_cast<std::size_t>(o)], all.back());
    }
    const auto extent = require_extents(spec, all);
    IndexVector out;
    for (const char l : spec.result) out.push_back(extent[static_cast<std::size_t>(l)]);
    return out;
}

IndexVector result_extents(std::string_view text, const IndexVector& a, const IndexVector& b) {
    return result_extents(text, {a, b});
}

template <Scalar T>
ContractReport contract_arrays(std::string_view given, const std::vector<ArrayView<const T>>& operands,
                               const ArrayView<T>& c, const Resources& here, const ContractOptions& options) {
    std::vector<IndexVector> extents;
    for (const auto& x : operands) extents.push_back(x.extents);
    EinsumSpec spec(given, extents);
    const auto text = spec.text();
    std::vector<Layout> all;
    for (int o = 0; o < spec.count(); ++o) {
        all.push_back(layout_of(operand_name(o, spec.count()), operands[static_cast<std::size_t>(o)]));
        require_layout(text, spec.operands[static_cast<std::size_t>(o)], all.back());
    }
    all.push_back(layout_of("the result", c));
    require_layout(text, spec.result, all.back());
    const auto extent = require_extents(spec, all);
    require_apart(text, all.back());
    for (int o = 0; o < spec.count(); ++o) {
        const auto& x = all[static_cast<std::size_t>(o)];
        require(!may_share(x, all.back()), "contraction '{}': {} and the result share memory", text, x.name);
    }
    require_conjugate(options, spec.count(), text);
    require(options.filter == 0, "filter {}: arrays have no tiles to drop; contract tensors", options.filter);
    require(options.bounds.empty(), "contraction '{}': bounds are for tensors; give views of those elements", text);
    require(!options.result_shape && !options.result_distribution,
            "contraction '{}': the result is an array, which has neither shape nor distribution", text);
    require(options.result_symmetry.none() && !options.fold,
            "contraction '{}': arrays are whole, without symmetry; contract tensors", text);
    require(!here.communicator || here.communicator->size() == 1,
            "contraction '{}': arrays are on one rank, the communicator has {}", text,
            here.communicator ? here.communicator->size() : 1);
    require(here.devices.empty(), "contraction '{}': arrays are worked on by the cores; give no devices", text);
    require(here.memory >= 0, "memory budget {} is negative", here.memory);
    const T alpha = scalar_of<T>(options.alpha, "alpha"), beta = scalar_of<T>(options.beta, "beta");

    // A sum of one operand alone is a product with ones: a single one, repeated.
    const T one(1);
    auto parts = operands;
    for (int o = 0; o < static_cast<int>(operands.size()); ++o) {
        const auto summed = summed_labels(spec, o);
        if (summed.empty() && operands.size() > 1) continue;
        IndexVector sizes;
        for (const char l : summed) sizes.push_back(extent[static_cast<std::size_t>(l)]);
        spec.operands.push_back(summed);
        parts.emplace_back(&one, sizes, IndexVector::filled(sizes.size(), 0));
    }
    ContractReport report = spec.count() == 2
                                ? multiply_arrays<T>(ContractionSpec(spec.text()), parts[0], parts[1], c, here, alpha,
                                                     beta, options.conjugates(0), options.conjugates(1), 0)
                                : multiply_many<T>(spec, std::move(parts), c, here, alpha, beta, options);
    const auto bytes = [](const auto& x) { return x.elements() * static_cast<std::int64_t>(sizeof(T)); };
    report.bytes_a = bytes(operands[0]);
    report.bytes_b = 0;
    for (std::size_t o = 1; o < operands.size(); ++o) report.bytes_b += bytes(operands[o]);
    report.bytes_c = bytes(c);
    return report;
}

#define TESSERA_INSTANTIATE(T)                                                                           \
    template ContractReport contract_arrays<T>(std::string_view, const std::vector<ArrayView<const T>>&, \
                                               const ArrayView<T>&, const Resources&, const ContractOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

// Dense arrays: checked, seen as a product of matrices, and multiplied where they lie.

#include "tessera/contract/arrays.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "contract/planned_impl.hpp"
#include "execute/cpu/array_product.hpp"
#include "index/matrix_view.hpp"
#include "kernels/gemm.hpp"

namespace tessera {

namespace {

/// An array without its type.
struct Layout {
    const char* name;
    std::uintptr_t data;  // of the first element
    std::int64_t size;    // of an element, in bytes
    IndexVector extents, strides;
};

template <class T>
Layout layout_of(const char* name, const ArrayView<T>& x) {
    return {name, reinterpret_cast<std::uintptr_t>(x.data), static_cast<std::int64_t>(sizeof(T)), x.extents, x.strides};
}

void require_layout(const ContractionSpec& spec, int operand, const Layout& x) {
    const auto& labels = operand < 2 ? spec.labels(operand) : spec.c();
    require(x.extents.size() == static_cast<int>(labels.size()),
            "contraction '{}': {} has {} indices, the spec says {}", spec.text(), x.name, x.extents.size(),
            labels.size());
    require(x.strides.size() == x.extents.size(), "contraction '{}': {} has {} strides for {} indices", spec.text(),
            x.name, x.strides.size(), x.extents.size());
    bool empty = false;
    for (int d = 0; d < x.extents.size(); ++d) {
        require(x.extents[d] >= 0, "contraction '{}': index {} of {} has extent {}", spec.text(), d, x.name,
                x.extents[d]);
        empty = empty || x.extents[d] == 0;
    }
    require(x.data != 0 || empty, "contraction '{}': {} has no elements (a null pointer), its extents are {}",
            spec.text(), x.name, to_string(x.extents));
}

/// Each label has one extent everywhere.
void require_extents(const ContractionSpec& spec, const Layout& a, const Layout& b, const Layout* c) {
    std::array<std::pair<const Layout*, int>, 256> seen{};
    const auto look = [&](const Layout& x, const std::string& labels) {
        for (int d = 0; d < static_cast<int>(labels.size()); ++d) {
            auto& [first, index] = seen[static_cast<unsigned char>(labels[d])];
            if (!first) {
                first = &x;
                index = d;
            }
            require(first->extents[index] == x.extents[d],
                    "contraction '{}': label '{}' has {} elements in {} and {} in {}", spec.text(), labels[d],
                    first->extents[index], first->name, x.extents[d], x.name);
        }
    };
    look(a, spec.a());
    look(b, spec.b());
    if (c) look(*c, spec.c());
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
void require_apart(const ContractionSpec& spec, const Layout& c) {
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
                spec.text(), d, c.strides[d], reach);
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

}  // namespace

IndexVector result_extents(std::string_view text, const IndexVector& a, const IndexVector& b) {
    const ContractionSpec spec(text);
    const Layout x{"A", 1, 1, a, a}, y{"B", 1, 1, b, b};
    require(spec.operand_count() == 2, "contraction '{}': two arrays are given, the spec has {} operand", spec.text(),
            spec.operand_count());
    require_layout(spec, 0, x);
    require_layout(spec, 1, y);
    require_extents(spec, x, y, nullptr);
    IndexVector out;
    for (const char l : spec.c()) {
        const auto in_a = spec.a().find(l);
        out.push_back(in_a != std::string::npos ? a[static_cast<int>(in_a)] : b[static_cast<int>(spec.b().find(l))]);
    }
    return out;
}

template <Scalar T>
ContractReport contract_arrays(std::string_view text, const ArrayView<const T>& a, const ArrayView<const T>& b,
                               const ArrayView<T>& c, const Resources& here, const ContractOptions& options) {
    const double start = now_seconds();
    const ContractionSpec spec(text);
    require(spec.operand_count() == 2, "contraction '{}': two arrays are given, the spec has {} operand", spec.text(),
            spec.operand_count());
    const Layout la = layout_of("A", a), lb = layout_of("B", b), lc = layout_of("the result", c);
    require_layout(spec, 0, la);
    require_layout(spec, 1, lb);
    require_layout(spec, 2, lc);
    require_extents(spec, la, lb, &lc);
    require_apart(spec, lc);
    for (const auto* x : {&la, &lb})
        require(!may_share(*x, lc), "contraction '{}': {} and the result share memory", spec.text(), x->name);
    require(options.filter == 0, "filter {}: arrays have no tiles to drop; contract tensors", options.filter);
    require(!options.result_shape && !options.result_distribution,
            "contraction '{}': the result is an array, which has neither shape nor distribution", spec.text());
    require(!here.communicator || here.communicator->size() == 1,
            "contraction '{}': arrays are on one rank, the communicator has {}", spec.text(),
            here.communicator ? here.communicator->size() : 1);
    require(here.devices.empty(), "contraction '{}': arrays are worked on by the cores; give no devices", spec.text());
    require(here.memory >= 0, "memory budget {} is negative", here.memory);
    for (int o = 0; o < 2; ++o)
        require(spec.labels_with(o == 0 ? LabelRole::summed_a : LabelRole::summed_b).empty(),
                "contraction '{}': label '{}' stands in one array alone and is summed there; sum it first", spec.text(),
                spec.labels_with(o == 0 ? LabelRole::summed_a : LabelRole::summed_b));

    const Layout* const arrays[3] = {&la, &lb, &lc};
    const MatrixView view(spec);
    ArrayProduct<T> product;
    product.m = labels_of(view.m, spec, arrays);
    product.n = labels_of(view.n, spec, arrays);
    product.k = labels_of(view.k, spec, arrays);
    product.batch = labels_of(view.batch, spec, arrays);
    product.a = a.data;
    product.b = b.data;
    product.c = c.data;
    product.alpha = scalar_of<T>(options.alpha, "alpha");
    product.beta = scalar_of<T>(options.beta, "beta");
    product.conjugate_a = options.conjugate_a;
    product.conjugate_b = options.conjugate_b;
    ContractReport report;
    report.threads = resolve_threads(here.threads);
    report.algorithm = "arrays";
    report.products = 1;
    report.bytes_a = a.elements() * la.size;
    report.bytes_b = b.elements() * lb.size;
    report.bytes_c = c.elements() * lc.size;
    report.flops =
        kFlopsPerMultiplyAdd<T> * static_cast<double>(c.elements()) * static_cast<double>(product.k.extent());
    if (c.elements() == 0) return report;
    report.peak_host_bytes = scratch_bytes(product, report.threads) + report.threads * kernels::gemm_workspace_bytes();
    if (here.memory > 0 && report.peak_host_bytes > here.memory)
        throw BudgetError(fmt::format("contraction '{}': {} of partial sums and work space are more than the memory "
                                      "budget of {}; {} would do",
                                      spec.text(), format_bytes(report.peak_host_bytes), format_bytes(here.memory),
                                      format_bytes(report.peak_host_bytes)),
                          here.memory, report.peak_host_bytes);
    require(multiply(product, report.threads),
            "contraction '{}': the result holds NaN or infinity; what its array holds is unspecified", spec.text());
    report.execute_seconds = now_seconds() - start;
    return report;
}

#define TESSERA_INSTANTIATE(T)                                                                                         \
    template ContractReport contract_arrays<T>(std::string_view, const ArrayView<const T>&, const ArrayView<const T>&, \
                                               const ArrayView<T>&, const Resources&, const ContractOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

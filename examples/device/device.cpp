// Tensors that live on a GPU, and the kernels on their own: a transpose, products of tiles in one launch, and two terms
// of a six-index block. No CUDA header is needed: memory is that of tensors, streams are void*.

#include <cstdio>
#include <tessera/device/grouped.hpp>
#include <tessera/device/transpose.hpp>
#include <tessera/device/triples.hpp>
#include <tessera/tessera.hpp>

namespace {

using namespace tessera;

/// A tensor of one tile on device 0.
Tensor<double> array(std::vector<std::int64_t> extents, std::uint64_t seed) {
    std::vector<Tiling> tilings;
    for (const auto e : extents) tilings.push_back(Tiling{e});
    return Tensor<double>::random(Shape::dense(TileGrid(tilings)), seed, 0, Placement::on_devices({0}));
}
double* data(const Tensor<double>& x) { return static_cast<double*>(x.device_tile(0)); }

bool say(const char* what, bool same) {
    std::printf("%-28s %s\n", what, same ? "as on the host" : "DIFFERS");
    return same;
}

}  // namespace

int main() try {
    void* stream = device_stream(0);
    bool right = true;

    // A block-sparse contraction whose operands and result stay, and algebra there.
    const Tiling i{3, 4, 5}, k{6, 2};
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{i, k}), 1),
               b = Tensor<double>::random(Shape::dense(TileGrid{k, i}), 2);
    const auto there = einsum("ik,kj->ij", to_devices(a, {0}), to_devices(b, {0}));
    const auto here = einsum("ik,kj->ij", a, b);
    right &= say("einsum", there == here) && say("norm", norm(there) == norm(here));

    // A transpose.
    const auto x = array({30, 40, 50}, 3);
    auto y = array({50, 30, 40}, 4);
    const std::vector<std::int64_t> extents{30, 40, 50};
    const std::vector<int> permutation{2, 0, 1};
    const device::Transpose transpose(extents, permutation, sizeof(double));
    transpose.run(data(x), data(y), 1.0, 0.0, false, stream);
    y.tiles_changed();
    right &= say("transpose", y == permute(to_host(x), {2, 0, 1}));

    // C0 = A B and C1 = A^T A, in one launch.
    const auto m = array({20, 20}, 5), n = array({20, 20}, 6);
    auto c0 = array({20, 20}, 7), c1 = array({20, 20}, 8);
    device::GroupedProducts products(ScalarKind::f64);
    products.add_tile(data(c0), 20, 20, 20);
    products.add_product({data(m), 20}, {data(n), 20}, 20);
    products.add_tile(data(c1), 20, 20, 20);
    products.add_product({data(m), 20, true}, {data(m), 20}, 20);
    products.run(stream);
    c0.tiles_changed();
    c1.tiles_changed();
    right &= say("grouped products", c0 == einsum("ik,kj->ij", m, n) && c1 == einsum("ki,kj->ij", m, m));

    // Two terms of a six-index block in one pass.
    const kernels::BlockExtents block{2, 2, 2, 3, 3, 3};  // k j i c b a
    const auto t2 = array({5, 3, 3, 2}, 9), v2 = array({2, 2, 3, 5}, 10);
    auto t3 = array({2, 2, 2, 3, 3, 3}, 11);
    const auto terms = [&](const double* t, const double* v) {
        return std::vector{kernels::make_term(-1, "labi", t, "kjcl", v, block, 5),
                           kernels::make_term(+2, "labj", t, "kicl", v, block, 5)};
    };
    const device::Triples triples(block, terms(data(t2), data(v2)), {data(t3), kernels::packed_strides(block), false});
    triples.run(stream);
    t3.tiles_changed();
    std::vector<double> wanted(216);
    const auto t2_here = to_host(t2), v2_here = to_host(v2);
    kernels::fused_contract(block, terms(t2_here.tile(0).data(), v2_here.tile(0).data()),
                            {wanted.data(), kernels::packed_strides(block), false});
    double off = 0;
    const auto found = t3.to_dense();
    for (std::size_t e = 0; e < found.size(); ++e) off = std::max(off, std::abs(found[e] - wanted[e]));
    right &= say("triples", off < 1e-13);
    return right ? 0 : 1;
} catch (const tessera::BackendUnavailable& e) {
    std::printf("SKIPPED: %s\n", e.what());
    return 0;
}

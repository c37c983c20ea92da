#include "contract/reduce.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

namespace {

/// A loop over one label: how far it moves in the input and in the output.
struct Loop {
    std::int64_t extent, in, out;
};

template <Scalar T>
void add_strided(const T* in, T* out, const std::vector<Loop>& loops) {
    std::vector<std::int64_t> at(loops.size(), 0);
    if (loops.empty()) {
        *out += *in;
        return;
    }
    const Loop inner = loops.back();
    for (;;) {
        const T* i = in;
        T* o = out;
        for (std::int64_t e = 0; e < inner.extent; ++e, i += inner.in, o += inner.out) *o += *i;
        std::ptrdiff_t d = static_cast<std::ptrdiff_t>(loops.size()) - 2;
        for (; d >= 0; --d) {
            in += loops[d].in;
            out += loops[d].out;
            if (++at[d] < loops[d].extent) break;
            in -= loops[d].in * loops[d].extent;
            out -= loops[d].out * loops[d].extent;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace

template <Scalar T>
Tensor<T> reduce(const Tensor<T>& x, const std::string& in, const std::string& out, int threads) {
    const auto& grid = x.grid();
    std::vector<Tiling> tilings;
    for (char l : out) tilings.push_back(grid.tiling(static_cast<int>(in.find(l))));
    const TileGrid result(std::move(tilings));

    // Which tiles of x go into which tile of the result: those on the diagonal of repeated labels.
    struct Contribution {
        std::int64_t to, slot;
    };
    std::vector<Contribution> contributions;
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const auto at = grid.coordinates(x.shape().tile(s));
        bool on_diagonal = true;
        for (std::size_t d = 0; d < in.size(); ++d)
            on_diagonal &= at[static_cast<int>(in.find(in[d]))] == at[static_cast<int>(d)];
        if (!on_diagonal) continue;
        IndexVector to;
        for (char l : out) to.push_back(at[static_cast<int>(in.find(l))]);
        contributions.push_back({result.ordinal(to).value, s});
    }
    std::stable_sort(contributions.begin(), contributions.end(),
                     [](const Contribution& p, const Contribution& q) { return p.to < q.to; });
    std::vector<std::int64_t> ordinals;
    for (const auto& c : contributions)
        if (ordinals.empty() || ordinals.back() != c.to) ordinals.push_back(c.to);
    std::vector<double> norms(ordinals.size(), 0.0);

    return Tensor<T>::generate(
        Shape::from_sorted(result, std::move(ordinals), std::move(norms)),
        [&](const TileInfo& info, std::span<T> tile) {
            std::fill(tile.begin(), tile.end(), T{});
            const auto out_strides = row_major_strides(info.extents);
            auto c = std::lower_bound(contributions.begin(), contributions.end(), info.tile.value,
                                      [](const Contribution& p, std::int64_t to) { return p.to < to; });
            for (; c != contributions.end() && c->to == info.tile.value; ++c) {
                const auto extents = grid.tile_extents(x.shape().tile(c->slot));
                const auto in_strides = row_major_strides(extents);
                std::vector<Loop> loops;
                for (std::size_t d = 0; d < in.size(); ++d) {
                    if (in.find(in[d]) != d) continue;
                    Loop loop{extents[static_cast<int>(d)], 0, 0};
                    for (std::size_t e = d; e < in.size(); ++e)
                        if (in[e] == in[d]) loop.in += in_strides[static_cast<int>(e)];
                    if (const auto o = out.find(in[d]); o != std::string::npos)
                        loop.out = out_strides[static_cast<int>(o)];
                    loops.push_back(loop);
                }
                add_strided(x.impl().tile(c->slot), tile.data(), loops);
            }
        },
        threads);
}

template Tensor<float> reduce(const Tensor<float>&, const std::string&, const std::string&, int);
template Tensor<double> reduce(const Tensor<double>&, const std::string&, const std::string&, int);
template Tensor<std::complex<float>> reduce(const Tensor<std::complex<float>>&, const std::string&, const std::string&,
                                            int);
template Tensor<std::complex<double>> reduce(const Tensor<std::complex<double>>&, const std::string&,
                                             const std::string&, int);

}  // namespace tessera

#pragma once
// An operand as the plan sees it: stored or made, without diagonals and sums of its own.

#include <optional>

#include "base/check.hpp"
#include "contract/bounds.hpp"
#include "contract/reduce.hpp"
#include "execute/cpu/execute.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract_options.hpp"

namespace tessera {

template <Scalar T>
struct Prepared {
    std::optional<Tensor<T>> moved;
    std::optional<Tensor<T>> reduced;
    std::optional<Tensor<T>> part;                // what bounds leave of an operand that is reduced
    std::optional<GeneratedTensor<T>> made_part;  // or made
    const Tensor<T>* stored = nullptr;
    const GeneratedTensor<T>* made = nullptr;
    std::vector<const T*> tiles;  // of a stored operand with bounds: by slot of what is left, the tile or a copy of it
    std::optional<Tensor<T>> copies;

    Prepared(const ContractionSpec& spec, int operand, const ContractOperand<T>& x,
             const std::vector<IndexBounds>& bounds, int threads, Communicator& ranks)
        : stored(x.stored()), made(x.made()) {
        // Between ranks tiles travel from host to host.
        if (stored && stored->on_devices() && ranks.size() > 1) stored = &moved.emplace(to_host(*stored));
        if (!bounds.empty())
            bound(window_of(spec, operand, x.shape().grid(), bounds), spec.needs_reduction(operand), threads);
        if (!spec.needs_reduction(operand)) return;
        const auto in = spec.labels(operand), out = spec.reduced_labels(operand);
        // A diagonal or a sum of an operand that is made on demand needs its tiles once, before the product.
        std::optional<Tensor<T>> all;
        if (made)
            all = Tensor<T>::generate(made->shape, made->make, threads,
                                      {ranks, reduce_placement(made->shape.grid(), in, out, ranks.size()).x});
        reduced = reduce(made ? *all : *stored, in, out, threads);
        stored = &*reduced;
        made = nullptr;
    }
    Prepared(const Prepared&) = delete;
    Prepared& operator=(const Prepared&) = delete;

    void bound(const Box& window, bool reduces, int threads) {
        if (made) {
            made = &made_part.emplace(bounded(*made, window));
        } else if (reduces) {
            stored = &part.emplace(bounded(*stored, window, false, threads));
        } else {
            copies = bounded(*stored, window, true, threads);
            const Shape kept = bounded_shape(stored->shape(), window);
            for (const auto tile : kept.ordinals()) {
                const auto copy = copies->shape().find(TileOrdinal{tile});
                const auto& from = copy ? copies->impl() : stored->impl();
                const auto slot = copy ? *copy : *stored->shape().find(TileOrdinal{tile});
                tiles.push_back(from.is_local(slot) ? from.tile(slot) : nullptr);
            }
        }
    }

    ContractOperand<T> operand() const { return stored ? ContractOperand<T>(*stored) : ContractOperand<T>(*made); }
    /// A filter counts with the norms of the shape, so made tiles are held against them.
    TileSource<T> source(bool filtered) const {
        if (stored && copies) return {{nullptr, nullptr, tiles.data()}, {}};
        if (stored && stored->on_devices())
            return {stored->impl().tiles(), {}, {}, [impl = &stored->impl()](std::int64_t slot) {
                        return static_cast<const T*>(impl->device_tile(slot));
                    }};
        if (stored) return {stored->impl().tiles(), {}};
        if (!filtered) return {{}, made->make, made->on_device};
        return {{},
                [m = made](const TileInfo& info, std::span<T> tile) {
                    m->make(info, tile);
                    const double is = tile_norm(tile.data(), static_cast<std::int64_t>(tile.size()));
                    const double said = m->shape.norm_of(*m->shape.find(info.tile));
                    if (is > said * (1 + 1e-6))
                        user_error("tile {} of an operand made on demand has norm {}, its shape says at most {}",
                                   to_string(info.coordinates), is, said);
                },
                made->on_device};
    }
};

/// The tiles of an operand as a plan numbers them: with symmetry many are stored as one.
template <Scalar T>
struct SeenTiles {
    SeenTiles(const TileViews& views, const Prepared<T>& x, bool filtered) : source(x.source(filtered)) {
        if (views.empty()) return;
        const auto& stored = x.stored->impl();
        std::int64_t next = 0;
        for (std::size_t s = 0; s < views.stand_in.size(); ++s) {
            const auto place = static_cast<std::size_t>(views.stand_in[s]);
            if (place != s) {
                each.push_back(each[place]);
                continue;
            }
            each.push_back(stored.is_local(next) ? stored.tile(next) : nullptr);
            ++next;
        }
        source.stored = {nullptr, nullptr, each.data()};
    }
    SeenTiles(const SeenTiles&) = delete;
    SeenTiles& operator=(const SeenTiles&) = delete;

    std::vector<const T*> each;
    TileSource<T> source;
};

/// Work in which one rank may fail alone: then all of them end, since the others wait for it.
template <class Work>
void together(Communicator& ranks, Work&& work) {
    if (ranks.size() == 1)
        work();
    else
        run_ranks_or_abort(ranks, work);
}

/// Both operands of a contraction.
template <Scalar T>
struct PreparedOperands {
    std::optional<Prepared<T>> a, b;
    PreparedOperands(const ContractionSpec& spec, const ContractOperand<T>& x, const ContractOperand<T>& y,
                     const std::vector<IndexBounds>& bounds, int threads, Communicator& ranks) {
        together(ranks, [&] {
            a.emplace(spec, 0, x, bounds, threads, ranks);
            b.emplace(spec, 1, y, bounds, threads, ranks);
        });
    }
};

}  // namespace tessera

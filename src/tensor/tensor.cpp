#include "tessera/tensor/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "storage/dry_run.hpp"
#include "tensor/dense_tiles.hpp"
#include "tensor/exchange.hpp"
#include "tensor/resident.hpp"
#include "tensor/symmetric_tile.hpp"
#include "tensor/tensor_impl.hpp"
#include "tensor/tile_turns.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {

namespace {

template <class Impl>
const Impl& held(const std::unique_ptr<Impl>& impl) {
    require(impl != nullptr, "a tensor that was moved from holds nothing");
    return *impl;
}

/// Elements from one tile to the next: each has cache lines of its own.
std::int64_t padded(const Shape& shape, std::int64_t slot, std::int64_t element_bytes) {
    return align_up(shape.grid().tile_elements(shape.tile(slot)), kTileAlignment / element_bytes);
}

}  // namespace

std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes) {
    return tile_storage_bytes(shape, element_bytes, Distribution(), 0);
}

std::int64_t tile_storage_bytes(const Shape& shape, std::int64_t element_bytes, const Distribution& distribution,
                                int rank) {
    std::int64_t at = 0;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        if (distribution.ranks() == 1 || distribution.owner(shape.grid(), shape.tile(s)) == rank)
            at = checked_add(at, padded(shape, s, element_bytes), "tensor: elements");
    return checked_multiply(at, element_bytes, "tensor: bytes");
}

template <Scalar T>
Tensor<T>::Impl::Impl(Shape s, MemoryBudget* budget, const std::string& what)
    : Impl(std::move(s), Placement(), budget, what) {}

template <Scalar T>
Tensor<T>::Impl::Impl(Shape s, Placement where, MemoryBudget* budget, const std::string& what)
    : Impl(s, where, tile_places<T>(s, where), budget, what) {}

template <Scalar T>
Tensor<T>::Impl::Impl(Shape s, Placement where, std::shared_ptr<const TilePlaces> at, MemoryBudget* budget,
                      const std::string& what)
    : shape(std::move(s)),
      placement(std::move(where)),
      places(std::move(at)),
      buffer(checked_multiply(places->offsets.back(), sizeof(T), "tensor: bytes"), budget, what) {
    if (DryRun::current()) return;
    for (std::size_t d = 0; d < placement.devices.size(); ++d)
        device.push_back(device_store(placement.devices[d])
                             .allocate(checked_multiply(places->device_ends[d], sizeof(T), "tensor: bytes"), what));
}

template <Scalar T>
std::shared_ptr<const TilePlaces> tile_places(const Shape& shape, const Placement& where) {
    return tile_places<T>(shape, where, {});
}

template <Scalar T>
std::shared_ptr<const TilePlaces> tile_places(const Shape& shape, const Placement& where,
                                              std::vector<std::int16_t> homes) {
    const auto& d = where.distribution;
    const auto& ranks = *where.communicator;
    if (d.ranks() != ranks.size())
        user_error("tensor: dealt to {}, but its communicator has {}", to_string(d), ranks.size());
    d.require_fits(shape.grid());
    require(where.device_memory >= 0, "tensor: {} bytes on each device", where.device_memory);
    require(where.devices.empty() || ranks.size() == 1,
            "tensor: placed on devices and dealt to {} ranks: tensors live on the devices of one rank alone",
            ranks.size());
    if (!where.devices.empty() && !shape.symmetry().none())
        user_error("tensor: tensors with symmetry ('{}') are stored on hosts; desymmetrise it first",
                   shape.symmetry().text());
    const bool alone = ranks.size() == 1, given = !homes.empty();
    const int me = ranks.rank(), devices = static_cast<int>(where.devices.size());
    const auto out = std::make_shared<TilePlaces>();
    out->offsets.reserve(static_cast<std::size_t>(shape.tile_count()) + 1);
    std::int64_t at = 0;
    auto& ends = out->device_ends;
    ends.assign(where.devices.size(), 0);
    // Over the devices as over ranks.
    const auto dealt = devices > 1 ? Distribution::even(shape.grid(), devices) : Distribution();
    if (devices > 0 && !given) homes.assign(static_cast<std::size_t>(shape.tile_count()), 0);
    for (std::int64_t slot = 0; slot < shape.tile_count(); ++slot) {
        if (!alone && d.owner(shape.grid(), shape.tile(slot)) != me) {
            out->offsets.push_back(-1);
            if (devices > 0) homes[slot] = -1;
            continue;
        }
        if (!alone) out->local.push_back(slot);
        const auto size = padded(shape, slot, sizeof(T));
        auto* end = &at;
        if (devices > 0) {
            if (!given) {
                homes[slot] = static_cast<std::int16_t>(devices > 1 ? dealt.owner(shape.grid(), shape.tile(slot)) : 0);
                const auto there = ends[static_cast<std::size_t>(homes[slot])];
                if (where.device_memory > 0 &&
                    there + size > where.device_memory / static_cast<std::int64_t>(sizeof(T)))
                    homes[slot] = -1;
            }
            if (homes[slot] >= 0) end = &ends[static_cast<std::size_t>(homes[slot])];
        }
        out->offsets.push_back(*end);
        *end = checked_add(*end, size, "tensor: elements");
    }
    out->offsets.push_back(at);
    out->homes = std::move(homes);
    return out;
}

template <Scalar T>
void Tensor<T>::Impl::set_norms(std::vector<double> norms) {
    collect(norms);
    shape = shape.with_norms(std::move(norms));
}

template <Scalar T>
void Tensor<T>::Impl::clear_padding() {
    for (std::int64_t i = 0; i < local_count(); ++i) {
        const std::int64_t s = local_slot(i);
        if (home(s) < 0) std::fill(tile(s) + elements(s), tile(s) + padded(shape, s, sizeof(T)), T{});
    }
}

template <Scalar T>
Tensor<T>::Tensor() : Tensor(Shape()) {}

template <Scalar T>
Tensor<T>::Tensor(Shape shape, Placement where) : impl_(std::make_unique<Impl>(std::move(shape), std::move(where))) {
    if (impl_->buffer.data())
        std::memset(static_cast<void*>(impl_->buffer.data()), 0, static_cast<std::size_t>(impl_->buffer.bytes()));
    for (std::size_t d = 0; d < impl_->device.size(); ++d)
        impl_->store(static_cast<int>(d))
            .zero(impl_->device[d].get(), impl_->places->device_ends[d] * static_cast<std::int64_t>(sizeof(T)));
    impl_->shape = impl_->shape.with_norms(std::vector<double>(static_cast<std::size_t>(tile_count()), 0.0));
}

template <Scalar T>
Tensor<T>::Tensor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

template <Scalar T>
Tensor<T>::Tensor(const Tensor& other)
    : impl_(std::make_unique<Impl>(other.impl_->shape, other.placement(), other.impl_->places)) {
    if (impl_->buffer.data())
        std::memcpy(static_cast<void*>(impl_->buffer.data()), other.impl_->buffer.data(),
                    static_cast<std::size_t>(impl_->buffer.bytes()));
    for (std::size_t d = 0; d < impl_->device.size(); ++d)
        impl_->store(static_cast<int>(d))
            .copy(impl_->device[d].get(), other.impl_->device[d].get(),
                  impl_->places->device_ends[d] * static_cast<std::int64_t>(sizeof(T)));
    impl_->pending = other.impl_->pending.load();
}

template <Scalar T>
Tensor<T>::Tensor(Tensor&& other) noexcept = default;
template <Scalar T>
Tensor<T>& Tensor<T>::operator=(Tensor&& other) noexcept = default;
template <Scalar T>
Tensor<T>::~Tensor() = default;

template <Scalar T>
Tensor<T>& Tensor<T>::operator=(const Tensor& other) {
    if (this != &other) *this = Tensor(other);
    return *this;
}

template <Scalar T>
const Shape& Tensor<T>::shape() const {
    impl_->settle();
    return impl_->shape;
}

template <Scalar T>
const Shape& Tensor<T>::tiles() const {
    return held(impl_).shape;
}

template <Scalar T>
const Placement& Tensor<T>::placement() const {
    return held(impl_).placement;
}

template <Scalar T>
bool Tensor<T>::is_local(std::int64_t slot) const {
    require(slot >= 0 && slot < tile_count(), "tensor: slot {} is outside 0..{}", slot, tile_count() - 1);
    return impl_->is_local(slot);
}

template <Scalar T>
int Tensor<T>::owner(std::int64_t slot) const {
    require(slot >= 0 && slot < tile_count(), "tensor: slot {} is outside 0..{}", slot, tile_count() - 1);
    return impl_->owner(slot);
}

template <Scalar T>
std::span<const T> Tensor<T>::tile(std::int64_t slot) const {
    if (!is_local(slot)) return {};
    return {impl_->tile(slot), static_cast<std::size_t>(impl_->elements(slot))};
}

template <Scalar T>
std::span<const T> Tensor<T>::tile(const IndexVector& coordinates) const {
    const auto slot = shape().find(grid().ordinal(coordinates));
    return slot ? tile(*slot) : std::span<const T>();
}

template <Scalar T>
void Tensor<T>::for_each_tile(const std::function<void(const TileInfo&, std::span<const T>)>& visit,
                              int threads) const {
    if (DryRun::current()) return;
    parallel_for(impl_->local_count(), threads, tiles_of_a_turn<T>(*impl_, threads), [&](std::int64_t i) {
        const std::int64_t s = impl_->local_slot(i);
        const auto info = tile_info(grid(), tiles().tile(s));
        if (impl_->home(s) < 0) return visit(info, tile(s));
        std::vector<T> copy(static_cast<std::size_t>(impl_->elements(s)));
        impl_->store(impl_->home(s))
            .copy_out(copy.data(), impl_->device_tile(s), static_cast<std::int64_t>(copy.size() * sizeof(T)));
        visit(info, copy);
    });
}

template <Scalar T>
void Tensor<T>::update_tiles(const std::function<T(const IndexVector&, T)>& change, int threads) {
    update_tiles(
        [&](const TileInfo& info, std::span<T> tile) {
            IndexVector at = info.begin;
            for (T& element : tile) {
                element = change(at, element);
                for (int d = at.size() - 1; d >= 0; --d) {
                    if (++at[d] < info.begin[d] + info.extents[d]) break;
                    at[d] = info.begin[d];
                }
            }
        },
        threads);
}

template <Scalar T>
void Tensor<T>::update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& change, int threads) {
    if (DryRun::current()) return;
    if (impl_->resident()) return update_by_way_of_host(*this, change, threads);
    std::vector<double> norms(static_cast<std::size_t>(tile_count()));
    const auto local = [&](const auto& body) {
        parallel_for(impl_->local_count(), threads, tiles_of_a_turn<T>(*impl_, threads),
                     [&](std::int64_t i) { body(impl_->local_slot(i)); });
    };
    const auto elements = [&](std::int64_t s) {
        return std::span<T>(impl_->tile(s), static_cast<std::size_t>(impl_->elements(s)));
    };
    // Norms are those of the data whatever happens: what has none is zero from here on.
    std::mutex mutex;
    std::map<std::int64_t, std::string> reasons;  // by slot, of tiles of this rank
    const auto take_norm = [&](std::int64_t s) {
        const auto tile = elements(s);
        norms[s] = tile_norm(tile.data(), static_cast<std::int64_t>(tile.size()));
        if (std::isfinite(norms[s])) return;
        {
            const std::lock_guard lock(mutex);
            if (reasons.empty() || s < reasons.begin()->first)
                reasons.emplace(s, why_not_finite(tile_info(grid(), shape().tile(s)), tile.data()));
        }
        std::fill(tile.begin(), tile.end(), T{});
    };
    const auto set_norms = [&] {
        auto known = norms;
        for (double& n : known)
            if (!std::isfinite(n)) n = 0;
        impl_->shape = shape().with_norms(std::move(known));
    };
    try {
        local([&](std::int64_t s) {
            std::fill(impl_->tile(s) + impl_->elements(s), impl_->tile(s) + padded(shape(), s, sizeof(T)), T{});
            change(tile_info(grid(), shape().tile(s)), elements(s));
            take_norm(s);
        });
    } catch (...) {  // some tiles are changed, some are not; other ranks cannot be asked
        if (communicator().size() == 1) {
            local(take_norm);
            set_norms();
        }
        throw;
    }
    // Looked at when all ranks have them, so that all ranks throw or none.
    impl_->collect(norms);
    set_norms();
    for (std::int64_t s = 0; s < tile_count(); ++s)
        if (!std::isfinite(norms[s]))
            user_error("tensor: {}", reasons.contains(s) ? reasons[s]
                                                         : fmt::format("tile {} of another rank holds NaN or infinity",
                                                                       to_string(grid().coordinates(shape().tile(s)))));
}

template <Scalar T>
Tensor<T> Tensor<T>::generate(const Shape& shape, const TileGenerator<T>& generator, int threads, Placement where) {
    if (!where.devices.empty()) return generate(shape, generator, std::monostate(), std::move(where));
    Tensor t(std::make_unique<Impl>(shape, std::move(where)));
    t.update_tiles(generator, threads);
    return t;
}

template <Scalar T>
Tensor<T> Tensor<T>::from_dense(const TileGrid& grid, std::span<const T> dense, double drop, Placement where) {
    require(drop >= 0, "from_dense: tiles of norm up to {} are to be dropped; a number >= 0 is needed", drop);
    require(static_cast<std::int64_t>(dense.size()) == grid.element_total(),
            "from_dense: {} elements given, but the tilings have {}", dense.size(), grid.element_total());
    const auto extents = grid.extents();
    const int me = where.communicator->rank();
    const bool alone = where.communicator->size() == 1;
    // Norms first, so that tiles to be dropped are never stored.
    std::vector<double> norms(static_cast<std::size_t>(grid.tile_total()));
    std::vector<T> scratch;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        if (!alone && where.distribution.owner(grid, TileOrdinal{o}) != me) continue;
        const auto info = tile_info(grid, TileOrdinal{o});
        scratch.resize(static_cast<std::size_t>(info.extents.product()));
        copy_from_dense(info, extents, dense.data(), scratch.data());
        norms[o] = tile_norm(scratch.data(), static_cast<std::int64_t>(scratch.size()));
    }
    if (!alone) where.communicator->sum(norms);
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        if (!std::isfinite(norms[o])) {
            const auto info = tile_info(grid, TileOrdinal{o});
            scratch.resize(static_cast<std::size_t>(info.extents.product()));
            copy_from_dense(info, extents, dense.data(), scratch.data());
            user_error("{}", why_not_finite(info, scratch.data()));
        }
        if (norms[o] > drop) entries.push_back({TileOrdinal{o}, norms[o]});
    }
    return generate(
        Shape(grid, std::move(entries)),
        [&](const TileInfo& info, std::span<T> tile) { copy_from_dense(info, extents, dense.data(), tile.data()); }, 0,
        std::move(where));
}

template <Scalar T>
std::vector<T> Tensor<T>::to_dense() const {
    if (impl_->resident()) return to_host(*this).to_dense();
    if (!tiles().symmetry().none()) return desymmetrise(*this).to_dense();
    std::vector<T> dense(static_cast<std::size_t>(grid().element_total()));
    const auto extents = grid().extents();
    if (impl_->one_rank()) {
        for_each_tile([&](const TileInfo& info, std::span<const T> tile) {
            copy_to_dense(info, extents, tile.data(), dense.data());
        });
        return dense;
    }
    std::vector<std::byte> batch;
    stream_to_root<T>(*this, 0, [&](std::int64_t first, std::int64_t last, std::span<const T> elements) {
        const auto bytes = std::as_bytes(elements);
        batch.assign(bytes.begin(), bytes.end());  // the root's; the others get its size with the broadcast
        communicator().broadcast(batch, 0);
        const T* at = reinterpret_cast<const T*>(batch.data());
        for (std::int64_t s = first; s < last; ++s) {
            copy_to_dense(tile_info(grid(), shape().tile(s)), extents, at, dense.data());
            at += impl_->elements(s);
        }
    });
    return dense;
}

template <Scalar T>
Tensor<T> Tensor<T>::random(const Shape& shape, std::uint64_t seed, int threads, Placement where) {
    if (!where.devices.empty()) {
        const HashRule rule = [&](const TileInfo& info) -> HashTileValues {
            return {combine(mix64(seed), static_cast<std::uint64_t>(info.tile.value)),
                    hash_scale<T>(shape.norm_of(*shape.find(info.tile)), info.extents.product())};
        };
        return generate(shape, hash_generator<T>(rule), rule, std::move(where));
    }
    return generate(
        shape,
        [&](const TileInfo& info, std::span<T> tile) {
            const double norm = shape.norm_of(*shape.find(info.tile));
            hash_fill<T>(combine(mix64(seed), static_cast<std::uint64_t>(info.tile.value)),
                         hash_scale<T>(norm, static_cast<std::int64_t>(tile.size())), tile);
            if (!shape.symmetry().none()) make_symmetric(shape.symmetry(), info, tile);
        },
        threads, std::move(where));
}

template <Scalar T>
std::int64_t Tensor<T>::tile_bytes() const {
    return impl_->buffer.bytes();
}

template <Scalar T>
std::int64_t Tensor<T>::device_bytes() const {
    std::int64_t elements = 0;
    for (const auto end : impl_->places->device_ends) elements += end;
    return elements * static_cast<std::int64_t>(sizeof(T));
}

template <Scalar T>
std::int64_t Tensor<T>::metadata_bytes() const {
    return tiles().metadata_bytes() + impl_->places->bytes() + static_cast<std::int64_t>(sizeof(Impl) + sizeof(Tensor));
}

#define TESSERA_INSTANTIATE(T)                                                                 \
    template class Tensor<T>;                                                                  \
    template std::shared_ptr<const TilePlaces> tile_places<T>(const Shape&, const Placement&); \
    template std::shared_ptr<const TilePlaces> tile_places<T>(const Shape&, const Placement&,  \
                                                              std::vector<std::int16_t>);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

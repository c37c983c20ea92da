#include "tensor/resident.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/dense_tiles.hpp"

namespace tessera {

namespace {

/// From anywhere to anywhere in this process.
template <Scalar T>
void move_tile(const typename Tensor<T>::Impl& from, std::int64_t slot, typename Tensor<T>::Impl& to) {
    const auto bytes = from.elements(slot) * static_cast<std::int64_t>(sizeof(T));
    const int here = from.home(slot), there = to.home(slot);
    if (here < 0 && there < 0)
        std::memcpy(static_cast<void*>(to.tile(slot)), from.tile(slot), static_cast<std::size_t>(bytes));
    else if (here < 0)
        to.store(there).copy_in(to.device_tile(slot), from.tile(slot), bytes);
    else if (there < 0)
        from.store(here).copy_out(to.tile(slot), from.device_tile(slot), bytes);
    else
        to.store(there).copy(to.device_tile(slot), from.device_tile(slot), bytes);
}

/// A tile as a device's own kernels see it: one row.
template <Scalar T>
DeviceTile device_tile_of(const typename Tensor<T>::Impl& x, std::int64_t slot) {
    const auto n = x.elements(slot);
    return {tile_info(x.shape.grid(), x.shape.tile(slot)), x.device_tile(slot), 1, n, n};
}

}  // namespace

void for_each_home(const TilePlaces& places, std::int64_t tiles, bool one_rank, const std::vector<int>& devices,
                   const std::function<void(std::int64_t)>& on_host,
                   const std::function<void(DeviceStore&, std::span<const std::int64_t>)>& on_device) {
    std::vector<std::vector<std::int64_t>> there(devices.size());
    std::vector<std::int64_t> here;
    const auto count = one_rank ? tiles : static_cast<std::int64_t>(places.local.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const auto slot = one_rank ? i : places.local[static_cast<std::size_t>(i)];
        const int home = places.home(slot);
        (home < 0 ? here : there[static_cast<std::size_t>(home)]).push_back(slot);
    }
    for (std::size_t d = 0; d < devices.size(); ++d)
        if (!there[d].empty()) on_device(device_store(devices[d]), there[d]);
    parallel_for(static_cast<std::int64_t>(here.size()), 0, 1,
                 [&](std::int64_t i) { on_host(here[static_cast<std::size_t>(i)]); });
}

template <Scalar T>
Tensor<T> uninitialised(const Shape& shape, Placement where, Homes homes) {
    auto places = tile_places<T>(shape, where, std::move(homes));
    auto impl = std::make_unique<typename Tensor<T>::Impl>(
        shape.with_norms(std::vector<double>(static_cast<std::size_t>(shape.tile_count()), 0.0)), std::move(where),
        std::move(places));
    impl->clear_padding();
    impl->put_off_norms();
    return Tensor<T>(std::move(impl));
}

template <Scalar T>
const Tensor<T>& at_homes(const Tensor<T>& x, const std::vector<int>& devices, const Homes& homes,
                          std::optional<Tensor<T>>& made) {
    const auto& from = x.impl();
    bool same = from.placement.devices == devices;
    for (std::int64_t i = 0; same && i < from.local_count(); ++i) {
        const auto s = from.local_slot(i);
        same = from.home(s) == (homes.empty() ? -1 : homes[static_cast<std::size_t>(s)]);
    }
    if (same) return x;
    Placement where(x.communicator(), x.distribution());
    where.devices = devices;
    auto places = tile_places<T>(from.shape, where, homes);
    auto impl = std::make_unique<typename Tensor<T>::Impl>(from.shape, std::move(where), std::move(places));
    impl->clear_padding();
    // Another device's tiles are there when its stream has come to them.
    for (std::size_t d = 0; d < from.device.size(); ++d) from.store(static_cast<int>(d)).synchronize();
    const auto whole = [&](const TilePlaces& p) { return p.homes.empty() || p.device_ends.size() == 1; };
    const auto all_on = [&](const typename Tensor<T>::Impl& y, int home) {
        for (std::int64_t i = 0; i < y.local_count(); ++i)
            if (y.home(y.local_slot(i)) != home) return false;
        return true;
    };
    const auto bytes = x.tile_bytes() + x.device_bytes();
    if (impl->device.size() == 1 && whole(*from.places) && all_on(from, -1) && all_on(*impl, 0)) {
        impl->store(0).copy_in(impl->device[0].get(), from.buffer.data(), bytes);  // they lie alike
    } else if (from.device.size() == 1 && whole(*impl->places) && all_on(from, 0) && all_on(*impl, -1)) {
        from.store(0).copy_out(impl->buffer.data(), from.device[0].get(), std::min(bytes, impl->buffer.bytes()));
        impl->clear_padding();
    } else {
        for (std::int64_t i = 0; i < from.local_count(); ++i) move_tile<T>(from, from.local_slot(i), *impl);
    }
    for (std::size_t d = 0; d < from.device.size(); ++d) from.store(static_cast<int>(d)).synchronize();
    for (std::size_t d = 0; d < impl->device.size(); ++d) impl->store(static_cast<int>(d)).synchronize();
    impl->pending = from.pending.load();
    made.emplace(std::move(impl));
    return *made;
}

template <Scalar T>
Homes homes_like(const Shape& shape, const Tensor<T>& x, const Tensor<T>* y) {
    Homes homes(static_cast<std::size_t>(shape.tile_count()), -1);
    const auto& devices = x.placement().devices;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        if (const auto at = x.tiles().find(shape.tile(s))) {
            if (x.impl().is_local(*at)) homes[s] = static_cast<std::int16_t>(x.impl().home(*at));
        } else if (const auto other = y ? y->tiles().find(shape.tile(s)) : std::nullopt;
                   other && y->impl().is_local(*other) && y->impl().home(*other) >= 0) {
            const auto id = y->placement().devices[static_cast<std::size_t>(y->impl().home(*other))];
            const auto it = std::find(devices.begin(), devices.end(), id);
            if (it != devices.end()) homes[s] = static_cast<std::int16_t>(it - devices.begin());
        }
    }
    return homes;
}

template <Scalar T>
std::vector<double> norms_of_tiles(typename Tensor<T>::Impl& x) {
    std::vector<double> norms(static_cast<std::size_t>(x.shape.tile_count()));
    for_each_home(
        *x.places, x.shape.tile_count(), x.one_rank(), x.placement.devices,
        [&](std::int64_t s) { norms[static_cast<std::size_t>(s)] = tile_norm(x.tile(s), x.elements(s)); },
        [&](DeviceStore& store, std::span<const std::int64_t> slots) {
            std::vector<ElementJob> jobs;
            for (const auto s : slots) jobs.push_back({x.device_tile(s), nullptr, nullptr, x.elements(s)});
            std::vector<double> sums(jobs.size()), tops(jobs.size());
            store.squares(ScalarTraits<T>::kind, jobs, sums, tops);
            for (std::size_t i = 0; i < jobs.size(); ++i) {
                auto& norm = norms[static_cast<std::size_t>(slots[i])];
                if (is_safe_sum(sums[i])) {
                    norm = std::sqrt(sums[i]);
                } else if (tops[i] == 0) {
                    norm = 0;
                } else {  // squares overflowed or underflowed, or it is not finite: as the host does it
                    std::vector<T> tile(static_cast<std::size_t>(jobs[i].n));
                    store.copy_out(tile.data(), jobs[i].x, jobs[i].n * static_cast<std::int64_t>(sizeof(T)));
                    norm = tile_norm(tile.data(), jobs[i].n);
                }
            }
        });
    return norms;
}

template <Scalar T>
void Tensor<T>::Impl::settle() {
    if (!pending) return;
    const std::lock_guard lock(settling);
    if (!pending) return;
    auto norms = norms_of_tiles<T>(*this);
    collect(norms);
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        if (!std::isfinite(norms[static_cast<std::size_t>(s)]))
            user_error("tensor: tile {} holds NaN or infinity, or its norm does",
                       to_string(shape.grid().coordinates(shape.tile(s))));
    shape = shape.with_norms(std::move(norms));
    pending = false;
}

template <Scalar T>
void Tensor<T>::Impl::refuse(std::int64_t slot) const {
    user_error("tile {} of the tensor is in the memory of device {}: to_host() brings it",
               to_string(shape.grid().coordinates(shape.tile(slot))),
               placement.devices[static_cast<std::size_t>(home(slot))]);
}

template <Scalar T>
void update_by_way_of_host(Tensor<T>& x, const std::function<void(const TileInfo&, std::span<T>)>& change,
                           int threads) {
    auto& impl = x.impl();
    const auto each = [&](std::int64_t i) {
        const auto s = impl.local_slot(i);
        const auto info = tile_info(x.grid(), x.tiles().tile(s));
        const auto n = static_cast<std::size_t>(impl.elements(s));
        if (impl.home(s) < 0) return change(info, {impl.tile(s), n});
        std::vector<T> tile(n);
        const auto bytes = static_cast<std::int64_t>(n * sizeof(T));
        auto& store = impl.store(impl.home(s));
        store.copy_out(tile.data(), impl.device_tile(s), bytes);
        change(info, tile);
        store.copy_in(impl.device_tile(s), tile.data(), bytes);
    };
    impl.put_off_norms();
    parallel_for(impl.local_count(), threads, 1, each);
    impl.settle();
}

template <Scalar T>
Tensor<T> Tensor<T>::generate(const Shape& shape, const TileGenerator<T>& generator, const DeviceGenerator& on_device,
                              Placement where) {
    if (where.devices.empty()) return generate(shape, generator, 0, std::move(where));
    auto places = tile_places<T>(shape, where);
    auto made = std::make_unique<Impl>(shape, std::move(where), std::move(places));
    made->clear_padding();
    Tensor t(std::move(made));
    auto& impl = *t.impl_;
    const auto make = [&](std::int64_t s) {
        const auto info = tile_info(shape.grid(), shape.tile(s));
        const auto n = static_cast<std::size_t>(impl.elements(s));
        if (impl.home(s) < 0) return generator(info, {impl.tile(s), n});
        std::vector<T> tile(n);
        generator(info, tile);
        impl.store(impl.home(s)).copy_in(impl.device_tile(s), tile.data(), static_cast<std::int64_t>(n * sizeof(T)));
    };
    for_each_home(*impl.places, shape.tile_count(), impl.one_rank(), impl.placement.devices, make,
                  [&](DeviceStore& store, std::span<const std::int64_t> slots) {
                      if (const auto* rule = std::get_if<HashRule>(&on_device); rule && *rule) {
                          std::vector<FillJob> jobs;
                          for (const auto s : slots) {
                              const auto values = (*rule)(tile_info(shape.grid(), shape.tile(s)));
                              jobs.push_back({impl.device_tile(s), values.state, values.scale, impl.elements(s)});
                          }
                          store.fill(ScalarTraits<T>::kind, jobs, store.stream());
                      } else if (const auto* launch = std::get_if<DeviceLaunch>(&on_device); launch && *launch) {
                          std::vector<DeviceTile> tiles;
                          for (const auto s : slots) tiles.push_back(device_tile_of<T>(impl, s));
                          store.launch(*launch, tiles);
                      } else {
                          parallel_for(static_cast<std::int64_t>(slots.size()), 0, 1,
                                       [&](std::int64_t i) { make(slots[static_cast<std::size_t>(i)]); });
                      }
                  });
    impl.put_off_norms();
    impl.settle();
    return t;
}

template <Scalar T>
void Tensor<T>::update_tiles(const std::function<void(const TileInfo&, std::span<T>)>& on_host,
                             const DeviceLaunch& on_device) {
    require(static_cast<bool>(on_device) || !on_devices(),
            "update_tiles: there is no device code for tiles on devices");
    for_each_home(
        *impl_->places, tile_count(), impl_->one_rank(), impl_->placement.devices,
        [&](std::int64_t s) {
            on_host(tile_info(grid(), tiles().tile(s)), {impl_->tile(s), static_cast<std::size_t>(impl_->elements(s))});
        },
        [&](DeviceStore& store, std::span<const std::int64_t> slots) {
            std::vector<DeviceTile> there;
            for (const auto s : slots) there.push_back(device_tile_of<T>(*impl_, s));
            store.launch(on_device, there);
        });
    tiles_changed();
}

template <Scalar T>
void Tensor<T>::tiles_changed() {
    impl_->put_off_norms();
}

template <Scalar T>
int Tensor<T>::device(std::int64_t slot) const {
    if (!is_local(slot) || impl_->home(slot) < 0) return -1;
    return impl_->placement.devices[static_cast<std::size_t>(impl_->home(slot))];
}

template <Scalar T>
void* Tensor<T>::device_tile(std::int64_t slot) const {
    return device(slot) < 0 ? nullptr : impl_->device_tile(slot);
}

template <Scalar T>
Tensor<T> to_devices(const Tensor<T>& x, std::vector<int> devices, std::int64_t device_memory) {
    require(!devices.empty(), "to_devices: no device is given");
    Placement where(x.communicator(), x.distribution());
    where.devices = std::move(devices);
    where.device_memory = device_memory;
    std::optional<Tensor<T>> made;
    const auto homes = tile_places<T>(x.tiles(), where)->homes;
    const auto& there = at_homes(x, where.devices, homes, made);
    return made ? std::move(*made) : there;
}

template <Scalar T>
Tensor<T> to_host(const Tensor<T>& x) {
    std::optional<Tensor<T>> made;
    const auto& here = at_homes<T>(x, {}, {}, made);
    return made ? std::move(*made) : here;
}

void* device_stream(int device) { return device_store(device).stream(); }
void synchronize(int device) { device_store(device).synchronize(); }
std::int64_t device_memory_in_use(int device) { return device_store(device).used_bytes(); }

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template Tensor<T> uninitialised<T>(const Shape&, Placement, Homes);                                              \
    template const Tensor<T>& at_homes<T>(const Tensor<T>&, const std::vector<int>&, const Homes&,                    \
                                          std::optional<Tensor<T>>&);                                                 \
    template Homes homes_like<T>(const Shape&, const Tensor<T>&, const Tensor<T>*);                                   \
    template std::vector<double> norms_of_tiles<T>(Tensor<T>::Impl&);                                                 \
    template void update_by_way_of_host<T>(Tensor<T>&, const std::function<void(const TileInfo&, std::span<T>)>&,     \
                                           int);                                                                      \
    template void Tensor<T>::Impl::settle();                                                                          \
    template void Tensor<T>::Impl::refuse(std::int64_t) const;                                                        \
    template Tensor<T> Tensor<T>::generate(const Shape&, const TileGenerator<T>&, const DeviceGenerator&, Placement); \
    template void Tensor<T>::update_tiles(const std::function<void(const TileInfo&, std::span<T>)>&,                  \
                                          const DeviceLaunch&);                                                       \
    template void Tensor<T>::tiles_changed();                                                                         \
    template int Tensor<T>::device(std::int64_t) const;                                                               \
    template void* Tensor<T>::device_tile(std::int64_t) const;                                                        \
    template Tensor<T> to_devices<T>(const Tensor<T>&, std::vector<int>, std::int64_t);                               \
    template Tensor<T> to_host<T>(const Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

#include "tessera/tensor/dlpack.hpp"

#include <algorithm>
#include <vector>

#include "base/check.hpp"
#include "device/host_store.hpp"
#include "tensor/resident.hpp"

namespace tessera {

namespace {

using dlpack::Managed;

template <Scalar T>
constexpr dlpack::DataType kType{is_complex<T> ? dlpack::complex : dlpack::real, 8 * sizeof(T), 1};

/// What an exported array keeps.
template <Scalar T>
struct Exported {
    Managed array;
    Tensor<T> tensor;
    std::vector<std::int64_t> extents;
};

using Owner = std::shared_ptr<Managed>;

bool without_gaps(const dlpack::Array& a) {
    if (!a.strides) return true;
    std::int64_t step = 1;
    for (int d = a.rank - 1; d >= 0; --d) {
        if (a.extents[d] != 1 && a.strides[d] != step) return false;
        step *= a.extents[d];
    }
    return true;
}

template <Scalar T>
void check(const Managed* m) {
    require(m != nullptr, "from_dlpack: there is no array");
    const auto& a = m->array;
    const auto wanted = kType<T>;
    require(a.type.code == wanted.code && a.type.bits == wanted.bits && a.type.lanes == 1,
            "from_dlpack: the array holds elements of type {}, {} bits, {} lanes, not {}", a.type.code, a.type.bits,
            a.type.lanes, name(ScalarTraits<T>::kind));
    require(a.device.type == dlpack::cpu || a.device.type == dlpack::gpu || a.device.type == dlpack::pinned,
            "from_dlpack: the array is on a device of type {}", a.device.type);
    for (int d = 0; d < a.rank; ++d)
        require(a.extents[d] >= 0, "from_dlpack: extent {} of the array is {}", d, a.extents[d]);
}

template <Scalar T>
T* elements_of(const Managed& m) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(m.array.data) + m.array.byte_offset);
}

Placement place_of(const Managed& m) {
    return m.array.device.type == dlpack::gpu ? Placement::on_devices({m.array.device.id}) : Placement();
}

TileGrid one_tile(const Managed& m) {
    std::vector<Tiling> tilings;
    for (int d = 0; d < m.array.rank; ++d)
        tilings.push_back(m.array.extents[d] > 0 ? Tiling{m.array.extents[d]} : Tiling());
    return TileGrid(std::move(tilings));
}

/// Each tile is a box of the array.
template <Scalar T>
Tensor<T> copied(const Managed& m, const TileGrid& grid) {
    const auto& a = m.array;
    std::vector<std::int64_t> strides(static_cast<std::size_t>(a.rank));
    std::int64_t step = 1;
    for (int d = a.rank - 1; d >= 0; --d) {
        strides[static_cast<std::size_t>(d)] = a.strides ? a.strides[d] : step;
        step *= a.extents[d];
    }
    auto where = place_of(m);
    const Shape shape = Shape::dense(grid);
    std::vector<std::int16_t> homes(where.devices.empty() ? 0 : static_cast<std::size_t>(shape.tile_count()), 0);
    auto out = uninitialised<T>(shape, std::move(where), std::move(homes));
    auto& to = out.impl();
    std::vector<StridedJob> jobs;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto info = tile_info(grid, shape.tile(s));
        const auto own = row_major_strides(info.extents);
        StridedJob job;
        job.copies = true;
        require(a.rank <= StridedJob::kMostLoops, "from_dlpack: an array of rank {}, the most is {}", a.rank,
                StridedJob::kMostLoops);
        const T* x = elements_of<T>(m);
        for (int d = 0; d < a.rank; ++d) {
            x += info.begin[d] * strides[static_cast<std::size_t>(d)];
            job.loop[job.kept_loops++] = {info.extents[d], strides[static_cast<std::size_t>(d)], own[d]};
            job.kept *= info.extents[d];
        }
        job.x = x;
        job.out = to.anywhere(s);
        if (to.home(s) < 0)
            strided_on_host(ScalarTraits<T>::kind, job);
        else
            jobs.push_back(job);
    }
    if (!jobs.empty()) {
        auto& store = to.store(0);
        store.strided(ScalarTraits<T>::kind, jobs, store.stream());
        store.synchronize();  // then the array may go
    }
    return out;
}

}  // namespace

template <Scalar T>
Managed* to_dlpack(Tensor<T> x, std::int64_t slot) {
    require(x.is_local(slot), "to_dlpack: tile {} is stored by rank {}", slot, x.owner(slot));
    auto out = std::make_unique<Exported<T>>();
    out->tensor = std::move(x);
    auto& impl = out->tensor.impl();
    for (const auto e : out->tensor.grid().tile_extents(out->tensor.tiles().tile(slot))) out->extents.push_back(e);
    auto& a = out->array.array;
    a.data = impl.anywhere(slot);
    if (impl.home(slot) >= 0) {
        a.device = {dlpack::gpu, out->tensor.device(slot)};
        impl.store(impl.home(slot)).synchronize();
    }
    a.rank = static_cast<std::int32_t>(out->extents.size());
    a.type = kType<T>;
    a.extents = out->extents.data();
    out->array.context = out.get();
    out->array.deleter = [](Managed* self) { delete static_cast<Exported<T>*>(self->context); };
    return &out.release()->array;
}

template <Scalar T>
Tensor<T> from_dlpack(Managed* m) {
    check<T>(m);
    const auto grid = one_tile(*m);
    const Shape shape = Shape::dense(grid);
    if (m->array.device.type != dlpack::gpu || !without_gaps(m->array) || shape.tile_count() == 0)
        return from_dlpack<T>(m, grid);
    // The tile's memory is the array's, which ends where its elements do.
    auto places = std::make_shared<TilePlaces>();
    places->offsets = {0, 0};
    places->homes = {0};
    places->device_ends = {shape.elements()};
    const auto where = place_of(*m);
    auto& store = device_store(where.devices[0]);  // throws where there is none
    auto impl = std::make_unique<typename Tensor<T>::Impl>(shape, Placement(), tile_places<T>(Shape(grid), {}));
    impl->placement = where;
    impl->places = std::move(places);
    const Owner owner(m, [&store](Managed* self) {
        store.synchronize();  // nothing of ours uses it any more
        if (self->deleter) self->deleter(self);
    });
    impl->device.emplace_back(owner, reinterpret_cast<std::byte*>(elements_of<T>(*m)));
    impl->put_off_norms();
    return Tensor<T>(std::move(impl));
}

template <Scalar T>
Tensor<T> from_dlpack(Managed* m, const TileGrid& grid) {
    check<T>(m);
    require(grid.rank() == m->array.rank, "from_dlpack: an array of rank {} in {} tilings", m->array.rank, grid.rank());
    for (int d = 0; d < grid.rank(); ++d)
        require(grid.tiling(d).extent() == m->array.extents[d], "from_dlpack: index {} has {} elements, its tiling {}",
                d, m->array.extents[d], grid.tiling(d).extent());
    auto out = copied<T>(*m, grid);
    if (m->deleter) m->deleter(m);
    if (!out.on_devices()) out.impl().settle();
    return out;
}

#define TESSERA_INSTANTIATE(T)                               \
    template Managed* to_dlpack<T>(Tensor<T>, std::int64_t); \
    template Tensor<T> from_dlpack<T>(Managed*);             \
    template Tensor<T> from_dlpack<T>(Managed*, const TileGrid&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

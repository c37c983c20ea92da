// Tiles that live on a device: used where they are, laid anew for the products, and finished there.

#include "base/check.hpp"
#include "execute/device/interpreter.hpp"

namespace tessera {

/// Of a stored tile, as if it were in the arena: lists count from there.
template <Scalar T>
std::int64_t DeviceInterpreter<T>::offset_there(int d, Operand o, std::int32_t slot) const {
    const T* tile = o == Operand::c ? c_.device_tile(slot) : host_.source(o).device_tile(slot);
    return static_cast<std::int64_t>(
        reinterpret_cast<std::uintptr_t>(tile) -
        reinterpret_cast<std::uintptr_t>(entries_[static_cast<std::size_t>(d)]->device->arena()));
}

template <Scalar T>
void DeviceInterpreter<T>::lay_anew(int d, const PlanStep& s) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    std::vector<StridedJob> jobs;
    for (auto i = s.begin; i < s.end; ++i) {
        const auto& t = plan_.arrivals[static_cast<std::size_t>(i)];
        auto job = tiles(t.operand)[t.slot].laid;
        job.x = host_.source(t.operand).device_tile(t.slot);
        job.out = e.device->arena() + t.offset;
        jobs.push_back(job);
        e.run.copied_bytes += t.bytes;
    }
    auto& store = *device_options_.stores.at(static_cast<std::size_t>(d));
    e.device->launch(Lane::copy, [&store, jobs = std::move(jobs)](void* stream) {
        store.strided(ScalarTraits<T>::kind, jobs, stream);
    });
}

template <Scalar T>
void DeviceInterpreter<T>::lay_back(int d, const PlanStep& s) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    std::vector<StridedJob> jobs;
    for (auto m = s.begin; m < s.end; ++m) {
        const auto& from = plan_.sums[static_cast<std::size_t>(plan_.moves[static_cast<std::size_t>(m)].from)];
        auto job = tiles_c_[from.c].back;
        job.x = e.device->arena() + from.offset;
        job.out = c_.device_tile(from.c);
        jobs.push_back(job);
        e.run.copied_bytes += tiles_c_[from.c].bytes;
    }
    auto& store = *device_options_.stores.at(static_cast<std::size_t>(d));
    e.device->launch(Lane::store, [&store, jobs = std::move(jobs)](void* stream) {
        store.strided(ScalarTraits<T>::kind, jobs, stream);
    });
}

/// Sums of one tile, in the order of a tree.
template <Scalar T>
void DeviceInterpreter<T>::merge_there(int d, const PlanStep& s) {
    auto& device = *entries_[static_cast<std::size_t>(d)]->device;
    auto& store = *device_options_.stores.at(static_cast<std::size_t>(d));
    for (auto m = s.begin; m < s.end; ++m) {
        const auto& move = plan_.moves[static_cast<std::size_t>(m)];
        const auto at = [&](std::int32_t id) -> std::byte* {
            const auto& sum = plan_.sums[static_cast<std::size_t>(id)];
            return sum.offset < 0 ? reinterpret_cast<std::byte*>(c_.device_tile(sum.c)) : device.arena() + sum.offset;
        };
        const auto& l = tiles_c_[plan_.sums[static_cast<std::size_t>(move.to)].c];
        const auto n = l.plain ? l.elements : l.bytes / static_cast<std::int64_t>(sizeof(T));
        device.launch(Lane::compute, [&store, job = ElementJob{at(move.from), nullptr, at(move.to), n}](void* stream) {
            store.elements(ScalarTraits<T>::kind, ElementOperation::add_to, {&job, 1}, {}, stream);
        });
    }
}

/// alpha C + beta old, rounded as HostTiles::finish does it. Norms are taken when they are asked for.
template <Scalar T>
void DeviceInterpreter<T>::finish_there(int d, const PlanStep& s) {
    std::vector<ElementJob> scaled, added;
    for (auto f = s.begin; f < s.end; ++f) {
        const auto slot = plan_.sums[static_cast<std::size_t>(plan_.finish_sums[static_cast<std::size_t>(f)])].c;
        const auto n = host_.elements(Operand::c, slot);
        T* tile = c_.device_tile(slot);
        if (options_.alpha != T(1)) scaled.push_back({nullptr, nullptr, tile, n});
        if (options_.beta != T(0) && c_.old_device_tile)
            if (const T* old = c_.old_device_tile(slot)) added.push_back({old, nullptr, tile, n});
    }
    if (scaled.empty() && added.empty()) return;
    auto& store = *device_options_.stores.at(static_cast<std::size_t>(d));
    const std::complex<double> alpha = options_.alpha, beta = options_.beta;
    entries_[static_cast<std::size_t>(d)]->device->launch(
        Lane::compute, [&store, alpha, beta, scaled = std::move(scaled), added = std::move(added)](void* stream) {
            store.elements(ScalarTraits<T>::kind, ElementOperation::scale, scaled, {.alpha = alpha}, stream);
            store.elements(ScalarTraits<T>::kind, ElementOperation::add_to, added, {.alpha = beta}, stream);
        });
}

template class DeviceInterpreter<float>;
template class DeviceInterpreter<double>;
template class DeviceInterpreter<std::complex<float>>;
template class DeviceInterpreter<std::complex<double>>;

}  // namespace tessera

#include "execute/device/direct.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "execute/device/device_tiles.hpp"
#include "index/matrix_view.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kProductBytes = 48;  // of a description, about

std::int64_t address(const void* p) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(p)); }
std::int32_t small(std::int64_t n) { return static_cast<std::int32_t>(n); }  // see require_device_extents

bool stays_there(const Plan& plan, const PlanStep& s) {
    switch (s.kind) {
        case StepKind::join:
            return true;
        case StepKind::copy:
            for (auto i = s.begin; i < s.end; ++i)
                if (plan.arrivals[static_cast<std::size_t>(i)].from >= 0) return false;
            return s.device == 0;
        case StepKind::store:
            return s.device == 0 && s.peer == 0;
        case StepKind::compute:
        case StepKind::evict:
        case StepKind::merge:
        case StepKind::finish:
            return s.device == 0;
        default:
            return false;
    }
}

}  // namespace

bool is_direct(const Plan& plan) {
    return plan.ranks == 1 && plan.devices_per_rank == 1 && !plan.homes_c.empty() &&
           std::ranges::all_of(plan.steps, [&](const PlanStep& s) { return stays_there(plan, s); }) &&
           static_cast<std::int64_t>(plan.products.size()) * kProductBytes <=
               device_reserve_bytes(plan.budget.device_bytes) / 2;
}

template <Scalar T>
std::vector<DirectRuns::Work> DirectRuns::work_of(const Plan& plan, DeviceStore& store, std::byte* arena,
                                                  const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                                                  const ExecuteOptions<T>& options) {
    constexpr auto element = static_cast<std::int64_t>(sizeof(T));
    const ContractionSpec spec(plan.spec);
    const MatrixView view(spec);
    const DeviceTiles tiles_a(plan.a, plan.views_a, spec.a(), view.m, view.k, view.batch, element);
    const DeviceTiles tiles_b(plan.b, plan.views_b, spec.b(), view.k, view.n, view.batch, element);
    const DeviceTiles tiles_c(plan.c, {}, spec.c(), view.m, view.n, view.batch, element);
    const auto sum_at = [&](std::int32_t sum) {
        const auto& s = plan.sums[static_cast<std::size_t>(sum)];
        return s.offset < 0 ? reinterpret_cast<std::byte*>(c.device_tile(s.c)) : arena + s.offset;
    };
    const auto matrix = [&](const DeviceTiles& tiles, const TileSource<T>& x, std::int32_t slot, std::int32_t arrival,
                            std::int64_t h) {
        const auto& l = tiles[slot];
        auto at = arrival < 0 ? l.stored_at(h, 0, 0, element) : l.laid_at(h, 0, 0, element);
        at.bytes += arrival < 0 ? address(x.device_tile(slot))
                                : address(arena + plan.arrivals[static_cast<std::size_t>(arrival)].offset);
        return at;
    };
    std::vector<Work> all;
    for (const auto& s : plan.steps) {
        Work work;
        DeviceProducts list;
        for (auto i = s.begin; i < s.end; ++i) {
            if (s.kind == StepKind::copy) {
                const auto& t = plan.arrivals[static_cast<std::size_t>(i)];
                auto& job = work.laid.emplace_back((t.operand == Operand::a ? tiles_a : tiles_b)[t.slot].laid);
                job.x = (t.operand == Operand::a ? a : b).device_tile(t.slot);
                job.out = arena + t.offset;
            } else if (s.kind == StepKind::store) {
                const auto& m = plan.moves[static_cast<std::size_t>(i)];
                const auto slot = plan.sums[static_cast<std::size_t>(m.from)].c;
                auto& job = work.laid.emplace_back(tiles_c[slot].back);
                job.x = sum_at(m.from);
                job.out = c.device_tile(slot);
            } else if (s.kind == StepKind::merge) {
                const auto& m = plan.moves[static_cast<std::size_t>(i)];
                const auto& to = plan.sums[static_cast<std::size_t>(m.to)];
                const auto& l = tiles_c[to.c];
                const auto n = l.plain ? l.elements : l.bytes / element;  // as it is laid, padding and all
                // A tree: one after another.
                all.push_back({.added = {{sum_at(m.from), nullptr, sum_at(m.to), n}}});
            } else if (s.kind == StepKind::compute) {
                const auto& chain = plan.chains[static_cast<std::size_t>(i)];
                const auto& sum = plan.sums[static_cast<std::size_t>(chain.sum)];
                const auto& lc = tiles_c[sum.c];
                if (chain.products == 0 && chain.starts)
                    work.zeroed.push_back({nullptr, nullptr, sum_at(chain.sum), lc.elements * element});
                for (std::int64_t h = 0; h < lc.batch && chain.products > 0; ++h) {
                    const auto at = lc.plain ? lc.stored_at(h, 0, 0, element) : lc.laid_at(h, 0, 0, element);
                    list.chains.push_back({address(sum_at(chain.sum)) + at.bytes,
                                           static_cast<std::int64_t>(list.products.size()), chain.products,
                                           small(lc.rows), small(lc.cols), small(at.ld), !chain.starts});
                    for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p) {
                        const auto& product = plan.products[static_cast<std::size_t>(p)];
                        const auto places = plan.places_of(p);
                        const auto x = matrix(tiles_a, a, product.a, places.a, h),
                                   y = matrix(tiles_b, b, product.b, places.b, h);
                        list.products.push_back({x.bytes, y.bytes, small(x.ld), small(y.ld),
                                                 small(tiles_a[product.a].cols), options.conjugate_a,
                                                 options.conjugate_b, x.transposed, y.transposed});
                    }
                }
            }
        }
        if (!list.chains.empty()) work.products = store.prepare(plan.scalar, list);
        if (work.products || !work.laid.empty() || !work.zeroed.empty()) all.push_back(std::move(work));
    }
    return all;
}

template <Scalar T>
void DirectRuns::run(const Plan& plan, DeviceStore& store, const std::array<const void*, 3>& bases,
                     const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                     const ExecuteOptions<T>& options) {
    const auto arena_bytes = plan.device_counts.front().peak_bytes;
    const auto arena = arena_bytes > 0 ? store.allocate(arena_bytes, "tiles on their way") : nullptr;
    const std::array<const void*, 4> key{bases[0], bases[1], bases[2], arena.get()};
    {
        // One at a time: descriptions hold the counters of their runs, which follow one another on the stream.
        const std::lock_guard lock(mutex_);
        auto at = std::ranges::find(kept_, key, &Kept::bases);
        if (at == kept_.end()) {
            kept_.push_front({key, work_of(plan, store, arena.get(), a, b, c, options)});
            if (kept_.size() > kMost) kept_.pop_back();
        } else {
            kept_.splice(kept_.begin(), kept_, at);
        }
        for (const auto& work : kept_.front().work) {
            for (const auto& z : work.zeroed) store.zero(z.out, z.n);
            if (!work.laid.empty()) store.strided(plan.scalar, work.laid, store.stream());
            if (!work.added.empty())
                store.elements(plan.scalar, ElementOperation::add_to, work.added, {}, store.stream());
            if (work.products) store.run(work.products);
        }
    }
    if (options.alpha == T(1) && (options.beta == T(0) || !c.old_device_tile)) return;
    std::vector<ElementJob> scaled, added;
    for (const auto sum : plan.finish_sums) {
        const auto slot = plan.sums[static_cast<std::size_t>(sum)].c;
        const auto n = plan.c.grid().tile_elements(plan.c.tile(slot));
        T* tile = c.device_tile(slot);
        if (options.alpha != T(1)) scaled.push_back({nullptr, nullptr, tile, n});
        if (const T* old = options.beta != T(0) && c.old_device_tile ? c.old_device_tile(slot) : nullptr)
            added.push_back({old, nullptr, tile, n});
    }
    store.elements(plan.scalar, ElementOperation::scale, scaled, {.alpha = options.alpha}, store.stream());
    store.elements(plan.scalar, ElementOperation::add_to, added, {.alpha = options.beta}, store.stream());
}

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template void DirectRuns::run(const Plan&, DeviceStore&, const std::array<const void*, 3>&, const TileSource<T>&, \
                                  const TileSource<T>&, const TileSink<T>&, const ExecuteOptions<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

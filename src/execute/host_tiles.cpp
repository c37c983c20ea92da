#include "execute/host_tiles.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {

template <Scalar T>
HostTiles<T>::HostTiles(const Plan& plan, int rank, const TileSource<T>& a, const TileSource<T>& b,
                        const TileSink<T>& c, const ExecuteOptions<T>& options)
    : plan_(plan),
      a_(a),
      b_(b),
      c_(c),
      options_(options),
      arena_(plan.rank_counts.at(static_cast<std::size_t>(rank)).arena_bytes, options.budget, "tiles on their way") {}

template <Scalar T>
T* HostTiles<T>::sum(std::int32_t id) {
    const auto& s = plan_.sums[static_cast<std::size_t>(id)];
    return s.offset < 0 ? result(s.c) : in_arena(s.offset);
}

template <Scalar T>
T* HostTiles<T>::result(std::int32_t slot) {
    if (!c_.consume) return c_.tile(slot);
    const std::lock_guard lock(kept_mutex_);
    auto& buffer = kept_[slot];
    if (buffer.bytes() == 0)
        buffer = Buffer(elements(Operand::c, slot) * static_cast<std::int64_t>(sizeof(T)),
                        options_.budget_results ? options_.budget : nullptr, "result tile");
    return reinterpret_cast<T*>(buffer.data());
}

template <Scalar T>
void HostTiles<T>::make(const PlanArrival& arrival) {
    const auto& of = shape(arrival.operand);
    const auto info = tile_info(of.grid(), of.tile(arrival.slot));
    source(arrival.operand).make(info, {in_arena(arrival.offset), static_cast<std::size_t>(info.extents.product())});
    made_tiles_.fetch_add(1, std::memory_order_relaxed);
}

template <Scalar T>
void HostTiles<T>::merge(const PlanMove& move) {
    const T* from = sum(move.from);
    T* to = sum(move.to);
    const auto n = elements(Operand::c, plan_.sums[static_cast<std::size_t>(move.to)].c);
    for (std::int64_t e = 0; e < n; ++e) to[e] += from[e];
}

template <Scalar T>
void HostTiles<T>::zero(std::int32_t slot, T* tile) const {
    std::fill_n(tile, elements(Operand::c, slot), T(0));
}

template <Scalar T>
void HostTiles<T>::finish(std::int32_t slot, T* tile) {
    const auto n = elements(Operand::c, slot);
    if (options_.alpha != T(1))
        for (std::int64_t e = 0; e < n; ++e) tile[e] *= options_.alpha;
    if (options_.beta != T(0))
        if (const T* old = c_.old_tile ? c_.old_tile(slot) : nullptr)
            for (std::int64_t e = 0; e < n; ++e) tile[e] += options_.beta * old[e];
    const double norm = tile_norm(tile, n);
    if (!std::isfinite(norm))
        user_error("contraction '{}': result tile {} holds NaN or infinity, or its norm does", plan_.spec,
                   to_string(plan_.c.grid().coordinates(plan_.c.tile(slot))));
    if (c_.consume)
        c_.consume(slot, {tile, static_cast<std::size_t>(n)}, norm);
    else
        c_.finished(slot, norm);
}

template <Scalar T>
void HostTiles<T>::finish(std::int32_t slot) {
    finish(slot, result(slot));
    if (!c_.consume) return;
    const std::lock_guard lock(kept_mutex_);
    kept_.erase(slot);
}

template <Scalar T>
std::vector<MessagePiece> HostTiles<T>::message_pieces(const PlanStep& s) {
    std::vector<MessagePiece> out;
    const auto add = [&](void* data, Operand o, std::int32_t slot) {
        out.push_back({data, elements(o, slot) * static_cast<std::int64_t>(sizeof(T))});
    };
    for (auto i = static_cast<std::size_t>(s.begin); i < static_cast<std::size_t>(s.end); ++i) {
        if (s.kind == StepKind::send_sums || s.kind == StepKind::receive_sums) {
            const auto id = s.kind == StepKind::send_sums ? plan_.moves[i].from : plan_.moves[i].to;
            add(sum(id), Operand::c, plan_.sums[static_cast<std::size_t>(id)].c);
            continue;
        }
        const auto& t = plan_.arrivals[i];
        // Sent from where it is stored; MPI takes no pointers to const.
        add(s.kind == StepKind::receive ? in_arena(t.offset) : const_cast<T*>(source(t.operand).stored(t.slot)),
            t.operand, t.slot);
    }
    return out;
}

template class HostTiles<float>;
template class HostTiles<double>;
template class HostTiles<std::complex<float>>;
template class HostTiles<std::complex<double>>;

}  // namespace tessera

// Loads, stores and copies between devices.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "execute/device/interpreter.hpp"
#include "execute/device/pieces.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {

// Loads
// ----------------------------------------------------------------------------------------------------------------

template <Scalar T>
std::vector<std::shared_ptr<typename DeviceInterpreter<T>::Piece>> DeviceInterpreter<T>::cut_load(
    const PlanStep& s) const {
    std::vector<std::shared_ptr<Piece>> pieces;
    const auto open_piece = [&](std::int64_t at) -> Piece& {
        auto& p = *pieces.emplace_back(std::make_shared<Piece>());
        p.to = at;
        return p;
    };
    for (auto i = s.begin; i < s.end; ++i) {
        const auto& t = plan_.arrivals[static_cast<std::size_t>(i)];
        const auto& l = tiles(t.operand)[t.slot];
        const auto row_bytes = l.ld * static_cast<std::int64_t>(sizeof(T));
        ensure(t.bytes == l.bytes, "arrival {} has {} bytes on the device, its tile takes {}", i, t.bytes, l.bytes);
        const auto rows = rows_per_piece(l, sizeof(T));
        for (std::int64_t begin = 0; begin < l.all_rows(); begin += rows) {
            const auto end = std::min(begin + rows, l.all_rows());
            const auto at = t.offset + begin * row_bytes;
            const auto bytes = end == l.all_rows() ? l.bytes - begin * row_bytes : (end - begin) * row_bytes;
            Piece* p = pieces.empty() ? nullptr : pieces.back().get();
            if (!p || p->to + p->bytes != at || p->bytes + bytes > kPieceBytes) p = &open_piece(at);
            p->fragments.push_back({i, begin, end});
            p->bytes += bytes;
        }
    }
    return pieces;
}

template <Scalar T>
void DeviceInterpreter<T>::pack(const Piece& piece, std::byte* to) const {
    for (const auto& f : piece.fragments) {
        const auto& t = plan_.arrivals[static_cast<std::size_t>(f.arrival)];
        const auto& l = tiles(t.operand)[t.slot];
        pack_rows<T>(l, host_.tile(t.operand, t.slot, t.from), f.begin, f.end, to);
        to += f.end == l.all_rows() ? l.bytes - f.begin * l.ld * static_cast<std::int64_t>(sizeof(T))
                                    : (f.end - f.begin) * l.ld * static_cast<std::int64_t>(sizeof(T));
    }
}

/// Issues the first item that is waiting, if it is packed or `block` says to wait for that.
template <Scalar T>
bool DeviceInterpreter<T>::issue_front(int d, std::deque<LoadItem>& items, bool block) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto item = items.front();
    if (item.begins) {
        begin_step(d, Lane::load, item.step);
    } else if (item.ends) {
        std::int64_t bytes = 0;
        const auto& s = plan_.steps[static_cast<std::size_t>(item.step)];
        for (auto i = s.begin; i < s.end; ++i) bytes += plan_.arrivals[static_cast<std::size_t>(i)].bytes;
        end_step(d, Lane::load, item.step, bytes);
    } else {
        auto& p = *item.piece;
        {
            std::unique_lock lock(e.packed_mutex);
            while (!p.packed) {
                if (!block) return false;
                if (scheduler_.failed()) return false;
                e.packed.wait_for(lock, std::chrono::milliseconds(20));
            }
        }
        e.device->copy_in(Lane::load, e.device->arena() + p.to, e.in.at(p.staged), p.bytes);
        e.run.loaded_bytes += p.bytes;
        e.streams[static_cast<int>(Lane::load)]->mark([&e, at = p.staged](double) { e.in.ring->give(at); });
    }
    items.pop_front();
    return true;
}

template <Scalar T>
void DeviceInterpreter<T>::load_lane(int d) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto id = stream_of(d, Lane::load);
    std::deque<LoadItem> items;
    const auto flush = [&] {
        while (!items.empty() && issue_front(d, items, true)) {
        }
    };
    for (;;) {
        auto step = scheduler_.next(id, false);
        if (step == -2) {
            // What comes next may wait for the steps that are still here.
            flush();
            step = scheduler_.next(id);
        }
        if (step < 0) break;
        items.push_back({step, true, false, nullptr});
        for (auto& piece : cut_load(plan_.steps[static_cast<std::size_t>(step)])) {
            auto at = e.in.ring->try_take(piece->bytes);
            while (!at && !items.empty() && issue_front(d, items, true)) at = e.in.ring->try_take(piece->bytes);
            if (!at) at = e.in.ring->take(piece->bytes, stopped());
            if (!at) return;
            piece->staged = *at;
            pool_->submit([this, &e, piece, step](Scratch& scratch) {
                const double begin = device_options_.trace ? now_seconds() : 0;
                pack(*piece, e.in.at(piece->staged));
                if (device_options_.trace)
                    note_host(step, StepKind::load, scratch.thread, begin, static_cast<double>(piece->bytes));
                const std::lock_guard lock(e.packed_mutex);
                piece->packed = true;
                e.packed.notify_all();
            });
            items.push_back({step, false, false, piece});
            while (!items.empty() && issue_front(d, items, false)) {
            }
        }
        items.push_back({step, false, true, nullptr});
    }
    flush();
}

// Stores
// ---------------------------------------------------------------------------------------------------------------

/// A tile that a worker can put where it belongs part by part. Tiles that are handed over must be whole.
template <Scalar T>
bool DeviceInterpreter<T>::cut_at_rows(const PlanMove& move) const {
    const auto& l = tiles_c_[plan_.sums[static_cast<std::size_t>(move.from)].c];
    const bool handed_over = c_.consume && plan_.sums[static_cast<std::size_t>(move.to)].offset < 0;
    return l.plain && l.bytes > kPieceBytes && !handed_over && l.all_rows() > 1;
}

template <Scalar T>
std::vector<typename DeviceInterpreter<T>::Delivery> DeviceInterpreter<T>::cut_store(const PlanStep& s) const {
    std::vector<Delivery> pieces;
    for (auto m = s.begin; m < s.end; ++m) {
        const auto& move = plan_.moves[static_cast<std::size_t>(m)];
        const auto& sum = plan_.sums[static_cast<std::size_t>(move.from)];
        const auto& l = tiles_c_[sum.c];
        if (!cut_at_rows(move)) {
            Delivery* last = pieces.empty() || pieces.back().parts ? nullptr : &pieces.back();
            if (!last || sum.offset != last->from + last->bytes || last->bytes + l.bytes > kPieceBytes) {
                pieces.push_back({m, m, sum.offset, 0});
                last = &pieces.back();
            }
            last->end = m + 1;
            last->bytes += l.bytes;
            continue;
        }
        const auto rows = rows_per_piece(l, sizeof(T)), row_bytes = l.ld * static_cast<std::int64_t>(sizeof(T));
        const auto parts = std::make_shared<Parts>();
        parts->squares.assign(static_cast<std::size_t>((l.elements + kChunkElements<T> - 1) / kChunkElements<T>), -1);
        parts->left = (l.all_rows() + rows - 1) / rows;
        for (std::int64_t begin = 0; begin < l.all_rows(); begin += rows) {
            const auto end = std::min(begin + rows, l.all_rows());
            const auto bytes = end == l.all_rows() ? l.bytes - begin * row_bytes : (end - begin) * row_bytes;
            pieces.push_back({m, m + 1, sum.offset + begin * row_bytes, bytes, begin, end, parts});
        }
    }
    return pieces;
}

template <Scalar T>
void DeviceInterpreter<T>::store_lane(int d) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    for (;;) {
        const auto step = scheduler_.next(stream_of(d, Lane::store));
        if (step < 0) return;
        begin_step(d, Lane::store, step);
        if (const auto& s = plan_.steps[static_cast<std::size_t>(step)]; s.peer >= 0) {
            lay_back(d, s);
            end_step(d, Lane::store, step, 0);
            continue;
        }
        const auto open = std::make_shared<std::atomic<std::int64_t>>(1);
        const auto close = [this, step, open] {
            if (open->fetch_sub(1) == 1) scheduler_.done(step);
        };
        std::int64_t total = 0;
        for (auto& piece : cut_store(plan_.steps[static_cast<std::size_t>(step)])) {
            const auto at = e.out.ring->take(piece.bytes, stopped());
            if (!at) return;
            piece.staged = *at;
            e.device->copy_out(Lane::store, e.out.at(piece.staged), e.device->arena() + piece.from, piece.bytes);
            e.run.stored_bytes += piece.bytes;
            total += piece.bytes;
            ++*open;
            e.streams[static_cast<int>(Lane::store)]->mark([this, &e, piece, close, step](double) {
                pool_->submit([this, &e, piece, close, step](Scratch& scratch) {
                    const double begin = device_options_.trace ? now_seconds() : 0;
                    deliver(piece, e.out.at(piece.staged), scratch);
                    if (device_options_.trace)
                        note_host(step, StepKind::finish, scratch.thread, begin, static_cast<double>(piece.bytes));
                    close();
                });
            });
        }
        end_step(d, Lane::store, step, total, 0, close);
    }
}

/// A piece has come to the host; its place in the ring is given back as soon as it is empty.
template <Scalar T>
void DeviceInterpreter<T>::deliver(const Delivery& piece, std::byte* at, Scratch& scratch) {
    const auto& first = plan_.moves[static_cast<std::size_t>(piece.begin)];
    auto& ring = *entries_[static_cast<std::size_t>(plan_.sums[static_cast<std::size_t>(first.from)].device)]->out.ring;
    if (piece.parts) {
        const auto& to = plan_.sums[static_cast<std::size_t>(first.to)];
        T* tile = host_.sum(first.to);
        unpack_rows<T>(tiles_c_[to.c], at, piece.row_begin, piece.row_end, tile, piece.parts->squares);
        ring.give(piece.staged);
        // Everyone's rows are there before the last one goes on.
        if (piece.parts->left.fetch_sub(1) == 1) finish_parts(first, *piece.parts);
        return;
    }
    for (auto i = piece.begin; i < piece.end; ++i) {
        const auto& move = plan_.moves[static_cast<std::size_t>(i)];
        deliver(move, at, scratch);
        at += tiles_c_[plan_.sums[static_cast<std::size_t>(move.from)].c].bytes;
    }
    ring.give(piece.staged);
}

/// All rows of a tile are there. Where nothing is left to be done to them their squares are its norm.
template <Scalar T>
void DeviceInterpreter<T>::finish_parts(const PlanMove& move, const Parts& parts) {
    const auto& to = plan_.sums[static_cast<std::size_t>(move.to)];
    if (to.offset >= 0 || !fused_[static_cast<std::size_t>(move.to)]) return;
    double sum = 0;
    for (std::size_t i = 0; i < parts.squares.size(); ++i) {
        const auto begin = static_cast<std::int64_t>(i) * kChunkElements<T>;
        const auto n = std::min(kChunkElements<T>, tiles_c_[to.c].elements - begin);
        sum += parts.squares[i] < 0 ? sum_of_squares(c_.tile(to.c) + begin, n) : parts.squares[i];
    }
    if (options_.alpha == T(1) && options_.beta == T(0) && is_safe_sum(sum))
        c_.finished(to.c, std::sqrt(sum));
    else
        host_.finish(to.c, c_.tile(to.c));
}

/// A sum has come to the host: into the arena, or into its result tile, which is finished if nothing else is to come.
template <Scalar T>
void DeviceInterpreter<T>::deliver(const PlanMove& move, std::byte* from, Scratch& scratch) {
    const auto& to = plan_.sums[static_cast<std::size_t>(move.to)];
    const auto& l = tiles_c_[to.c];
    if (to.offset >= 0 || !fused_[static_cast<std::size_t>(move.to)]) {
        unpack_tile<T>(l, from, host_.sum(move.to));
        return;
    }
    if (!c_.consume) {
        T* tile = c_.tile(to.c);
        unpack_tile<T>(l, from, tile);
        host_.finish(to.c, tile);
        return;
    }
    // A tile that lies on the device as it does on the host is finished where it is.
    T* tile = reinterpret_cast<T*>(from);
    if (!l.plain || l.ld != l.cols) {
        tile = reinterpret_cast<T*>(scratch.room(l.elements * static_cast<std::int64_t>(sizeof(T))));
        unpack_tile<T>(l, from, tile);
    }
    host_.finish(to.c, tile);
}

// Copies between devices
// -----------------------------------------------------------------------------------------------

template <Scalar T>
void DeviceInterpreter<T>::copy_lane(int d) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    for (;;) {
        const auto step = scheduler_.next(stream_of(d, Lane::copy));
        if (step < 0) return;
        const auto& s = plan_.steps[static_cast<std::size_t>(step)];
        ensure(s.peer >= 0 && s.peer < static_cast<int>(entries_.size()), "step {} copies from device {}", step,
               s.peer);
        const auto& peer = *entries_[static_cast<std::size_t>(s.peer)]->device;
        begin_step(d, Lane::copy, step);
        if (s.begin < s.end && plan_.arrivals[static_cast<std::size_t>(s.begin)].from < 0) {
            lay_anew(d, s);
            end_step(d, Lane::copy, step, 0);
            continue;
        }
        std::int64_t total = 0;
        for (auto i = s.begin; i < s.end;) {
            const auto source_of = [&](std::int64_t k) {
                return plan_.arrivals[static_cast<std::size_t>(plan_.arrivals[static_cast<std::size_t>(k)].from)]
                    .offset;
            };
            const auto to = plan_.arrivals[static_cast<std::size_t>(i)].offset, from = source_of(i);
            std::int64_t bytes = 0;
            for (; i < s.end && plan_.arrivals[static_cast<std::size_t>(i)].offset == to + bytes &&
                   source_of(i) == from + bytes;
                 ++i)
                bytes += plan_.arrivals[static_cast<std::size_t>(i)].bytes;
            e.device->copy_from(Lane::copy, e.device->arena() + to, peer, peer.arena() + from, bytes);
            total += bytes;
        }
        e.run.copied_bytes += total;
        end_step(d, Lane::copy, step, total);
    }
}

template class DeviceInterpreter<float>;
template class DeviceInterpreter<double>;
template class DeviceInterpreter<std::complex<float>>;
template class DeviceInterpreter<std::complex<double>>;

}  // namespace tessera

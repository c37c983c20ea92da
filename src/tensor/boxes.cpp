#include "tensor/boxes.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "comm/wait.hpp"
#include "storage/dry_run.hpp"
#include "tensor/exchange.hpp"

namespace tessera {

namespace {

constexpr int kBoxTag = 3;

/// Part of a tile of x (in x's elements) that goes into a tile of the other tensor.
struct Piece {
    std::int64_t from, to;  // slots
    Box part;
    std::int64_t elements;
};

}  // namespace

IndexVector Box::extents() const {
    IndexVector e = hi;
    for (int d = 0; d < e.size(); ++d) e[d] -= lo[d];
    return e;
}

bool Box::empty() const {
    for (int d = 0; d < lo.size(); ++d)
        if (lo[d] >= hi[d]) return true;
    return false;
}

Box box_of(const TileGrid& grid, TileOrdinal tile) {
    Box b{grid.tile_begin(tile), grid.tile_extents(tile)};
    for (int d = 0; d < b.lo.size(); ++d) b.hi[d] += b.lo[d];
    return b;
}

Box meet(const Box& x, const Box& y) {
    Box b = x;
    for (int d = 0; d < b.lo.size(); ++d) {
        b.lo[d] = std::max(x.lo[d], y.lo[d]);
        b.hi[d] = std::min(x.hi[d], y.hi[d]);
    }
    return b;
}

Box shifted(const Box& x, const IndexVector& by) {
    Box b = x;
    for (int d = 0; d < b.lo.size(); ++d) {
        b.lo[d] += by[d];
        b.hi[d] += by[d];
    }
    return b;
}

void for_each_tile_in(const TileGrid& grid, const Box& box, const std::function<void(TileOrdinal)>& visit) {
    if (box.empty()) return;
    IndexVector first, last;
    for (int d = 0; d < grid.rank(); ++d) {
        first.push_back(grid.tiling(d).tile_of(ElementIndex{box.lo[d]}).value);
        last.push_back(grid.tiling(d).tile_of(ElementIndex{box.hi[d] - 1}).value);
    }
    for (IndexVector at = first;;) {
        visit(grid.ordinal(at));
        int d = grid.rank() - 1;
        for (; d >= 0; --d) {
            if (++at[d] <= last[d]) break;
            at[d] = first[d];
        }
        if (d < 0) return;
    }
}

template <Scalar T>
void copy_box(const T* from, const Box& from_box, T* to, const Box& to_box, const Box& part) {
    const int rank = part.lo.size();
    const auto extents = part.extents(), in = row_major_strides(from_box.extents()),
               out = row_major_strides(to_box.extents());
    for (int d = 0; d < rank; ++d) {
        from += (part.lo[d] - from_box.lo[d]) * in[d];
        to += (part.lo[d] - to_box.lo[d]) * out[d];
    }
    const std::int64_t run = rank == 0 ? 1 : extents[rank - 1];
    IndexVector at = IndexVector::filled(rank, 0);
    for (;;) {
        std::copy_n(from, run, to);
        int d = rank - 2;
        for (; d >= 0; --d) {
            from += in[d];
            to += out[d];
            if (++at[d] < extents[d]) break;
            from -= in[d] * extents[d];
            to -= out[d] * extents[d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

template <Scalar T>
void copy_elements(const Tensor<T>& x, const Box& window, const IndexVector& shift, Tensor<T>& into) {
    if (DryRun::current()) return;
    Communicator& ranks = x.communicator();
    const auto& from = x.impl();
    auto& to = into.impl();
    const auto box_from = [&](std::int64_t slot) { return box_of(x.grid(), x.shape().tile(slot)); };
    IndexVector back = shift;
    for (int d = 0; d < back.size(); ++d) back[d] = -shift[d];
    const auto box_to = [&](std::int64_t slot) { return shifted(box_of(into.grid(), into.shape().tile(slot)), back); };
    // Each rank looks at its own tiles alone, of either tensor. Pieces between two ranks go by x's tile, then the
    // other's: sender and receiver cut them into the same messages.
    std::vector<Piece> here;
    std::vector<std::vector<Piece>> out(static_cast<std::size_t>(ranks.size())), in(out.size());
    const auto add = [](std::vector<Piece>& pieces, std::int64_t s, std::int64_t t, Box part) {
        const std::int64_t n = part.extents().product();
        pieces.push_back({s, t, std::move(part), n});
    };
    for (std::int64_t i = 0; i < from.local_count(); ++i) {
        const std::int64_t s = from.local_slot(i);
        const Box mine = meet(box_from(s), window);
        for_each_tile_in(into.grid(), shifted(mine, shift), [&](TileOrdinal tile) {
            const auto t = into.shape().find(tile);
            if (!t) return;
            add(to.is_local(*t) ? here : out[static_cast<std::size_t>(to.owner(*t))], s, *t, meet(mine, box_to(*t)));
        });
    }
    if (ranks.size() > 1)
        for (std::int64_t i = 0; i < to.local_count(); ++i) {
            const std::int64_t t = to.local_slot(i);
            const Box mine = meet(box_to(t), window);
            for_each_tile_in(x.grid(), mine, [&](TileOrdinal tile) {
                const auto s = x.shape().find(tile);
                if (!s || from.is_local(*s)) return;
                add(in[static_cast<std::size_t>(from.owner(*s))], *s, t, meet(mine, box_from(*s)));
            });
        }
    for (auto& pieces : in) std::ranges::sort(pieces, {}, [](const Piece& p) { return std::pair(p.from, p.to); });

    parallel_for(static_cast<std::int64_t>(here.size()), 0, 4, [&](std::int64_t i) {
        const Piece& p = here[static_cast<std::size_t>(i)];
        copy_box(from.tile(p.from), box_from(p.from), to.tile(p.to), box_to(p.to), p.part);
    });

    // Round by round, so that the buffers stay small.
    const std::int64_t most =
        std::max<std::int64_t>(1, kBatchBytes / static_cast<std::int64_t>(sizeof(T)) / std::max(1, ranks.size() - 1));
    const auto batch_from = [&](const std::vector<Piece>& pieces, std::size_t first) {
        std::int64_t elements = 0;
        std::size_t last = first;
        for (; last < pieces.size() && (last == first || elements + pieces[last].elements <= most); ++last)
            elements += pieces[last].elements;
        return std::pair(last, elements);
    };
    std::vector<std::size_t> sent(out.size(), 0), received(in.size(), 0);
    std::vector<std::vector<T>> outgoing(out.size()), incoming(in.size());
    for (bool more = true; more;) {
        more = false;
        std::vector<std::unique_ptr<Transfer>> transfers;
        std::vector<std::size_t> upto(in.size());
        for (std::size_t r = 0; r < in.size(); ++r) {
            const auto [last, elements] = batch_from(in[r], received[r]);
            upto[r] = last;
            if (last == received[r]) continue;
            incoming[r].resize(static_cast<std::size_t>(elements));
            const MessagePiece piece{incoming[r].data(), elements * static_cast<std::int64_t>(sizeof(T))};
            transfers.push_back(ranks.receive(static_cast<int>(r), kBoxTag, std::span(&piece, 1)));
        }
        for (std::size_t r = 0; r < out.size(); ++r) {
            const auto [last, elements] = batch_from(out[r], sent[r]);
            if (last == sent[r]) continue;
            outgoing[r].resize(static_cast<std::size_t>(elements));
            T* at = outgoing[r].data();
            for (; sent[r] < last; ++sent[r]) {
                const Piece& p = out[r][sent[r]];
                copy_box(from.tile(p.from), box_from(p.from), at, p.part, p.part);
                at += p.elements;
            }
            const MessagePiece piece{outgoing[r].data(), elements * static_cast<std::int64_t>(sizeof(T))};
            transfers.push_back(ranks.send(static_cast<int>(r), kBoxTag, std::span(&piece, 1)));
            more |= last < out[r].size();
        }
        wait_all(transfers);
        for (std::size_t r = 0; r < in.size(); ++r) {
            const T* at = incoming[r].data();
            for (; received[r] < upto[r]; ++received[r]) {
                const Piece& p = in[r][received[r]];
                copy_box(at, p.part, to.tile(p.to), box_to(p.to), p.part);
                at += p.elements;
            }
            more |= upto[r] < in[r].size();
        }
    }
}

#define TESSERA_INSTANTIATE(T)                                                \
    template void copy_box(const T*, const Box&, T*, const Box&, const Box&); \
    template void copy_elements(const Tensor<T>&, const Box&, const IndexVector&, Tensor<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

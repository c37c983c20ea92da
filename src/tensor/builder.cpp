#include "tessera/tensor/builder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "base/check.hpp"
#include "comm/same_on_all.hpp"
#include "comm/wait.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/checksum.hpp"
#include "tensor/dense_tiles.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

namespace {

constexpr int kCountTag = 1, kBlockTag = 2;

enum class Kind : std::int64_t { reserved, sum, keyed, put };  // in the order in which a tile takes them

/// What is known of a block without its elements; travels ahead of it.
struct Header {
    std::int64_t tile = 0, key = 0;
    Kind kind = Kind::reserved;
};

/// A block on its way into the tensor.
struct Given {
    Header header;
    int rank = 0;                         // that gave it
    const std::byte* elements = nullptr;  // null: reserved
};

/// What a rank was given for one tile.
struct Pending {
    Buffer block;  // the sum of what has no key, or what was put
    bool put = false;
    struct Keyed {
        std::int64_t key;
        Buffer block;
    };
    std::vector<Keyed> keyed;
};

// What a tile and a block cost beside their elements.
constexpr std::int64_t kTileBytes = sizeof(Pending) + 32, kKeyedBytes = 2 * sizeof(Pending::Keyed);

/// By tile; of one tile in the order in which it takes them, whatever rank and thread they come from.
void sort_given(std::vector<Given>& all, const TileGrid& grid, std::int64_t element_bytes) {
    std::sort(all.begin(), all.end(), [&](const Given& x, const Given& y) {
        if (x.header.tile != y.header.tile) return x.header.tile < y.header.tile;
        if (x.header.kind != y.header.kind) return x.header.kind < y.header.kind;
        if (x.header.kind != Kind::keyed) return x.rank < y.rank;
        if (x.header.key != y.header.key) return x.header.key < y.header.key;
        const auto bytes = grid.tile_elements(TileOrdinal{x.header.tile}) * element_bytes;
        return std::memcmp(x.elements, y.elements, static_cast<std::size_t>(bytes)) < 0;
    });
}

/// What is wrong with the blocks of one tile, sorted; nothing where all is well.
std::string conflict(std::span<const Given> tile, const TileGrid& grid, std::int64_t element_bytes) {
    const auto put = std::ranges::find_if(tile, [](const Given& g) { return g.header.kind == Kind::put; });
    if (put == tile.end()) return {};
    const auto at = [&] { return to_string(grid.coordinates(TileOrdinal{put->header.tile})); };
    for (auto g = tile.begin(); g != put; ++g)
        if (g->header.kind != Kind::reserved)
            return fmt::format("builder: tile {} is put by rank {} and added to by rank {}", at(), put->rank, g->rank);
    const auto bytes = static_cast<std::size_t>(grid.tile_elements(TileOrdinal{put->header.tile}) * element_bytes);
    for (auto g = put + 1; g < tile.end(); ++g)
        if (std::memcmp(put->elements, g->elements, bytes) != 0)
            return fmt::format("builder: tile {} is put by ranks {} and {}, with different elements", at(), put->rank,
                               g->rank);
    return {};
}

/// The same vector of plain values from every rank, by rank.
template <class Value>
std::vector<std::vector<Value>> gather_all(Communicator& ranks, const std::vector<Value>& mine) {
    std::vector<std::vector<Value>> all;
    for (const auto& bytes : ranks.all_gather(std::as_bytes(std::span(mine)))) {
        all.emplace_back(bytes.size() / sizeof(Value));
        if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
    }
    return all;
}

}  // namespace

template <Scalar T>
struct TensorBuilder<T>::Impl {
    Impl(TileGrid g, Placement p, std::int64_t m)
        : grid(std::move(g)), placement(std::move(p)), memory(m), budget(m > 0 ? m : MemoryBudget::kUnlimited) {}

    /// Threads that give blocks of different tiles seldom meet.
    struct Shard {
        std::mutex mutex;
        std::unordered_map<std::int64_t, Pending> tiles;
    };
    Shard& shard(std::int64_t tile) { return shards[static_cast<std::size_t>(tile) % shards.size()]; }

    /// The tile's number, the block being one that can be given to it.
    std::int64_t check(const IndexVector& tile, std::span<const T> block) const {
        const TileOrdinal at = grid.ordinal(tile);
        const std::int64_t n = grid.tile_elements(at);
        if (static_cast<std::int64_t>(block.size()) != n)
            user_error("builder: a block of {} elements for tile {}, which has {}: {}", block.size(), to_string(tile),
                       n, to_string(grid.tile_extents(at)));
        if (!std::isfinite(tile_norm(block.data(), n)))
            user_error("builder: {}", why_not_finite(tile_info(grid, at), block.data()));
        return at.value;
    }
    Buffer copy(std::span<const T> block) {
        Buffer b(static_cast<std::int64_t>(block.size_bytes()), &budget, "builder: a block");
        std::memcpy(b.data(), block.data(), block.size_bytes());
        return b;
    }
    /// The entry of a tile, new where there is none, and room for so many bytes in it. Its shard is locked.
    Pending& entry(Shard& in, std::int64_t tile, std::int64_t bytes = 0) {
        const auto it = in.tiles.find(tile);
        budget.take(bytes + (it == in.tiles.end() ? kTileBytes : 0), "builder: a tile");
        return it == in.tiles.end() ? in.tiles[tile] : it->second;
    }
    static Pending* find(Shard& in, std::int64_t tile) {
        const auto it = in.tiles.find(tile);
        return it == in.tiles.end() ? nullptr : &it->second;
    }
    void require_no_put(Shard& in, std::int64_t tile) const {
        if (const auto* p = find(in, tile); p && p->put)
            user_error("builder: tile {} is put already and cannot be added to",
                       to_string(grid.coordinates(TileOrdinal{tile})));
    }

    /// What was given on this rank, by tile.
    std::vector<Given> given() const;
    /// Sends what is of other ranks' tiles there and adds what comes from them; `incoming` holds it. Collective.
    std::vector<Given> exchange(std::vector<Given> mine, Shape& shape, std::vector<Buffer>& incoming);
    void require_room(std::int64_t incoming, const Shape& shape) const;
    void clear() {
        for (auto& s : shards) {
            for (const auto& [tile, p] : s.tiles)
                budget.give(kTileBytes + static_cast<std::int64_t>(p.keyed.size()) * kKeyedBytes);
            s.tiles.clear();
        }
    }

    TileGrid grid;
    Placement placement;
    std::int64_t memory;
    MemoryBudget budget;  // before the blocks that count in it
    std::array<Shard, 64> shards;
};

template <Scalar T>
TensorBuilder<T>::TensorBuilder(TileGrid grid, Placement where, std::int64_t memory) {
    require(memory >= 0, "builder: memory budget {} is negative", memory);
    const typename Tensor<T>::Impl fits(Shape(grid), where);  // a placement that a tensor cannot have throws
    impl_ = std::make_unique<Impl>(std::move(grid), std::move(where), memory);
}

template <Scalar T>
TensorBuilder<T>::TensorBuilder(TensorBuilder&&) noexcept = default;
template <Scalar T>
TensorBuilder<T>& TensorBuilder<T>::operator=(TensorBuilder&&) noexcept = default;
template <Scalar T>
TensorBuilder<T>::~TensorBuilder() = default;

template <Scalar T>
const TileGrid& TensorBuilder<T>::grid() const {
    return impl_->grid;
}

template <Scalar T>
const Placement& TensorBuilder<T>::placement() const {
    return impl_->placement;
}

template <Scalar T>
std::int64_t TensorBuilder<T>::held_bytes() const {
    return impl_->budget.used();
}

template <Scalar T>
void TensorBuilder<T>::reserve(const IndexVector& tile) {
    const std::int64_t at = impl_->grid.ordinal(tile).value;
    auto& shard = impl_->shard(at);
    const std::lock_guard lock(shard.mutex);
    impl_->entry(shard, at);
}

template <Scalar T>
void TensorBuilder<T>::add(const IndexVector& tile, std::span<const T> block) {
    const std::int64_t at = impl_->check(tile, block);
    auto& shard = impl_->shard(at);
    const std::lock_guard lock(shard.mutex);
    impl_->require_no_put(shard, at);
    if (auto* there = Impl::find(shard, at); there && there->block.bytes() > 0) {
        T* sum = reinterpret_cast<T*>(there->block.data());
        for (std::size_t i = 0; i < block.size(); ++i) sum[i] += block[i];
        return;
    }
    Buffer copy = impl_->copy(block);
    impl_->entry(shard, at).block = std::move(copy);
}

template <Scalar T>
void TensorBuilder<T>::add(const IndexVector& tile, std::span<const T> block, std::int64_t key) {
    const std::int64_t at = impl_->check(tile, block);
    Buffer copy = impl_->copy(block);
    auto& shard = impl_->shard(at);
    const std::lock_guard lock(shard.mutex);
    impl_->require_no_put(shard, at);
    impl_->entry(shard, at, kKeyedBytes).keyed.push_back({key, std::move(copy)});
}

template <Scalar T>
void TensorBuilder<T>::put(const IndexVector& tile, std::span<const T> block) {
    const std::int64_t at = impl_->check(tile, block);
    auto& shard = impl_->shard(at);
    const std::lock_guard lock(shard.mutex);
    if (const auto* there = Impl::find(shard, at)) {
        if (there->put && std::memcmp(there->block.data(), block.data(), block.size_bytes()) == 0) return;
        require(!there->put, "builder: tile {} is put twice, with different elements", to_string(tile));
        require(there->block.bytes() == 0 && there->keyed.empty(),
                "builder: tile {} is put, but something was added to it before", to_string(tile));
    }
    Buffer copy = impl_->copy(block);
    Pending& p = impl_->entry(shard, at);
    p.block = std::move(copy);
    p.put = true;
}

template <Scalar T>
std::vector<Given> TensorBuilder<T>::Impl::given() const {
    const int me = placement.communicator->rank();
    std::vector<Given> all;
    for (const auto& s : shards)
        for (const auto& [tile, p] : s.tiles) {
            if (p.block.bytes() == 0 && p.keyed.empty()) all.push_back({{tile, 0, Kind::reserved}, me, nullptr});
            if (p.block.bytes() > 0) all.push_back({{tile, 0, p.put ? Kind::put : Kind::sum}, me, p.block.data()});
            for (const auto& k : p.keyed) all.push_back({{tile, k.key, Kind::keyed}, me, k.block.data()});
        }
    sort_given(all, grid, sizeof(T));
    return all;
}

template <Scalar T>
std::vector<Given> TensorBuilder<T>::Impl::exchange(std::vector<Given> mine, Shape& shape,
                                                    std::vector<Buffer>& incoming) {
    Communicator& ranks = *placement.communicator;
    const int me = ranks.rank();
    const auto count = static_cast<std::size_t>(ranks.size());
    const auto bytes_of = [&](const Header& h) {
        return h.kind == Kind::reserved
                   ? std::int64_t{0}
                   : grid.tile_elements(TileOrdinal{h.tile}) * static_cast<std::int64_t>(sizeof(T));
    };
    // What goes where, and how much comes.
    std::vector<std::vector<Header>> to(count), from(count);
    std::vector<std::vector<MessagePiece>> blocks(count);
    std::vector<Given> owned;
    for (const Given& g : mine) {
        const int owner = placement.distribution.owner(grid, TileOrdinal{g.header.tile});
        if (owner == me) {
            owned.push_back(g);
            continue;
        }
        to[static_cast<std::size_t>(owner)].push_back(g.header);
        if (g.elements)
            blocks[static_cast<std::size_t>(owner)].push_back({const_cast<std::byte*>(g.elements), bytes_of(g.header)});
    }
    std::vector<std::int64_t> sent;
    for (const auto& t : to) sent.push_back(static_cast<std::int64_t>(t.size()));
    const auto counts = gather_all(ranks, sent);
    std::vector<std::unique_ptr<Transfer>> transfers;
    const auto whole = [](std::vector<Header>& headers) {
        return MessagePiece{headers.data(), static_cast<std::int64_t>(headers.size() * sizeof(Header))};
    };
    for (std::size_t r = 0; r < count; ++r) {
        from[r].resize(static_cast<std::size_t>(counts[r][static_cast<std::size_t>(me)]));
        const MessagePiece in = whole(from[r]), out = whole(to[r]);
        if (in.bytes > 0) transfers.push_back(ranks.receive(static_cast<int>(r), kCountTag, std::span(&in, 1)));
        if (out.bytes > 0) transfers.push_back(ranks.send(static_cast<int>(r), kCountTag, std::span(&out, 1)));
    }
    wait_all(transfers);

    // Every rank names its tiles: the shape is known before any block moves.
    std::vector<std::int64_t> tiles;
    for (const Given& g : owned) tiles.push_back(g.header.tile);
    std::vector<std::int64_t> arriving(count);
    for (std::size_t r = 0; r < count; ++r)
        for (const Header& h : from[r]) {
            tiles.push_back(h.tile);
            arriving[r] += align_up(bytes_of(h));
        }
    std::ranges::sort(tiles);
    tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
    std::vector<std::int64_t> all;
    for (const auto& theirs : gather_all(ranks, tiles)) all.insert(all.end(), theirs.begin(), theirs.end());
    std::ranges::sort(all);
    std::vector<double> norms(all.size(), 0.0);
    shape = Shape::from_sorted(grid, std::move(all), std::move(norms));
    std::int64_t room = 0;
    for (const auto a : arriving) room += align_up(a);
    require_room(room, shape);

    for (std::size_t r = 0; r < count; ++r) {
        incoming.emplace_back(arriving[r], &budget, "builder: blocks from other ranks");
        std::vector<MessagePiece> places;
        std::byte* at = incoming.back().data();
        for (const Header& h : from[r]) {
            const std::int64_t n = bytes_of(h);
            owned.push_back({h, static_cast<int>(r), n > 0 ? at : nullptr});
            if (n > 0) places.push_back({at, n});
            at += align_up(n);
        }
        if (!places.empty()) transfers.push_back(ranks.receive(static_cast<int>(r), kBlockTag, places));
    }
    for (std::size_t r = 0; r < count; ++r)
        if (!blocks[r].empty()) transfers.push_back(ranks.send(static_cast<int>(r), kBlockTag, blocks[r]));
    wait_all(transfers);
    sort_given(owned, grid, sizeof(T));
    return owned;
}

template <Scalar T>
void TensorBuilder<T>::Impl::require_room(std::int64_t incoming, const Shape& shape) const {
    if (memory == 0) return;
    Communicator& ranks = *placement.communicator;
    const auto needed = largest_on_all(
        ranks, budget.used() + incoming + tile_storage_bytes(shape, sizeof(T), placement.distribution, ranks.rank()));
    if (needed > memory)
        throw BudgetError(fmt::format("builder: a memory budget of {} ({} bytes) is too small for the blocks and the "
                                      "tensor they make: the smallest that works is {} ({} bytes)",
                                      format_bytes(memory), memory, format_bytes(needed), needed),
                          memory, needed);
}

template <Scalar T>
Tensor<T> TensorBuilder<T>::finalize(int threads) {
    auto& me = *impl_;
    Communicator& ranks = *me.placement.communicator;
    require_same_on_all(
        ranks, {{"the builder's tilings",
                 fmt::format("{} ({:016x})", to_string(me.grid), join_checksums(ScalarTraits<T>::kind, me.grid, {}))},
                {"the builder's distribution", to_string(me.placement.distribution)},
                {"the builder's memory", fmt::format("{}", me.memory)}});
    Shape shape;
    std::vector<Buffer> incoming;
    const auto all = me.exchange(me.given(), shape, incoming);

    // The blocks of each tile, in the order of tiles.
    std::vector<std::span<const Given>> tiles;
    std::string wrong;
    for (std::size_t i = 0, end = 0; i < all.size(); i = end) {
        while (end < all.size() && all[end].header.tile == all[i].header.tile) ++end;
        tiles.emplace_back(all.data() + i, end - i);
        if (wrong.empty()) wrong = conflict(tiles.back(), me.grid, sizeof(T));
    }
    for (const auto& theirs : gather_all(ranks, std::vector<char>(wrong.begin(), wrong.end())))
        if (!theirs.empty()) user_error("{}", std::string(theirs.begin(), theirs.end()));

    auto out = std::make_unique<typename Tensor<T>::Impl>(std::move(shape), me.placement, &me.budget, "tensor");
    Tensor<T> x(std::move(out));
    x.update_tiles(
        [&](const TileInfo& info, std::span<T> tile) {
            const auto blocks = *std::ranges::lower_bound(tiles, info.tile.value, {},
                                                          [](const auto& t) { return t.front().header.tile; });
            bool first = true;
            for (const Given& g : blocks) {
                if (!g.elements) continue;
                const T* block = reinterpret_cast<const T*>(g.elements);
                if (first || g.header.kind == Kind::put)
                    std::copy_n(block, tile.size(), tile.begin());
                else
                    for (std::size_t i = 0; i < tile.size(); ++i) tile[i] += block[i];
                first = false;
            }
            if (first) std::ranges::fill(tile, T{});
        },
        threads);
    x.impl().buffer.leave_budget();
    incoming.clear();
    me.clear();
    return x;
}

template class TensorBuilder<float>;
template class TensorBuilder<double>;
template class TensorBuilder<std::complex<float>>;
template class TensorBuilder<std::complex<double>>;

}  // namespace tessera

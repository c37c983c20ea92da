#include "tensor/exchange.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.hpp"
#include "comm/outcome.hpp"
#include "comm/wait.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

namespace {

// One tag for each way: messages of one way between two ranks match in order.
constexpr int kStreamTag = 1, kMoveTag = 2;

using Pieces = std::vector<std::vector<MessagePiece>>;  // by rank
using Transfers = std::vector<std::unique_ptr<Transfer>>;

template <Scalar T>
MessagePiece piece(const T* data, std::int64_t elements) {
    return {const_cast<T*>(data), elements * static_cast<std::int64_t>(sizeof(T))};
}

/// The end of the batch of tiles that begins at `first`, and its elements.
std::pair<std::int64_t, std::int64_t> batch_from(const Shape& shape, std::int64_t first, std::int64_t most) {
    std::int64_t last = first, elements = 0;
    for (; last < shape.tile_count(); ++last) {
        const std::int64_t n = shape.grid().tile_elements(shape.tile(last));
        if (last > first && elements + n > most) break;
        elements += n;
    }
    return {last, elements};
}

void post(Communicator& ranks, bool send, int tag, const Pieces& pieces, Transfers& out) {
    for (int r = 0; r < ranks.size(); ++r) {
        const auto& theirs = pieces[static_cast<std::size_t>(r)];
        if (theirs.empty()) continue;
        out.push_back(send ? ranks.send(r, tag, theirs) : ranks.receive(r, tag, theirs));
    }
}

}  // namespace

template <Scalar T>
void stream_to_root(const Tensor<T>& x, int root, const BatchVisit<T>& visit, std::int64_t batch_bytes) {
    if (x.on_devices()) return stream_to_root(to_host(x), root, visit, batch_bytes);
    Communicator& ranks = x.communicator();
    const auto& impl = x.impl();
    const bool mine = ranks.rank() == root;
    struct Batch {
        std::int64_t first = 0, last = 0;
        std::vector<T> elements;
        Transfers transfers;
    };
    std::array<Batch, 2> batches;
    const std::int64_t most = std::max<std::int64_t>(1, batch_bytes / static_cast<std::int64_t>(sizeof(T)));
    const auto begin = [&](Batch& batch, std::int64_t first) {
        const auto [last, elements] = batch_from(x.shape(), first, most);
        batch.first = first;
        batch.last = last;
        Pieces pieces(static_cast<std::size_t>(ranks.size()));
        if (mine) batch.elements.resize(static_cast<std::size_t>(elements));
        std::int64_t at = 0;
        for (std::int64_t s = first; s < last; ++s) {
            const std::int64_t n = impl.elements(s);
            if (mine && impl.is_local(s))
                std::copy_n(impl.tile(s), n, batch.elements.data() + at);
            else if (mine)
                pieces[static_cast<std::size_t>(impl.owner(s))].push_back(piece(batch.elements.data() + at, n));
            else if (impl.is_local(s))
                pieces[static_cast<std::size_t>(root)].push_back(piece(impl.tile(s), n));
            at += n;
        }
        post(ranks, !mine, kStreamTag, pieces, batch.transfers);
    };
    int now = 0;
    if (x.tile_count() > 0) begin(batches[0], 0);
    for (std::int64_t first = 0; first < x.tile_count(); now = 1 - now) {
        Batch& batch = batches[now];
        first = batch.last;
        if (first < x.tile_count()) begin(batches[1 - now], first);  // travels while this one is visited
        if (mine) wait_all(batch.transfers);
        visit(batch.first, batch.last, batch.elements);
        wait_all(batch.transfers);
    }
}

template <Scalar T>
void stream_from_root(Tensor<T>& x, int root, const BatchFill<T>& fill, std::int64_t batch_bytes) {
    Communicator& ranks = x.communicator();
    auto& impl = x.impl();
    const bool mine = ranks.rank() == root;
    struct Batch {
        std::vector<T> elements;
        Transfers transfers;
    };
    std::array<Batch, 2> batches;
    const std::int64_t most = std::max<std::int64_t>(1, batch_bytes / static_cast<std::int64_t>(sizeof(T)));
    int now = 0;
    for (std::int64_t first = 0; first < x.tile_count(); now = 1 - now) {
        Batch& batch = batches[now];
        wait_all(batch.transfers);
        const auto [last, elements] = batch_from(x.shape(), first, most);
        if (mine) {
            batch.elements.resize(static_cast<std::size_t>(elements));
            fill(first, last, batch.elements);
        }
        Pieces pieces(static_cast<std::size_t>(ranks.size()));
        std::int64_t at = 0;
        for (std::int64_t s = first; s < last; ++s) {
            const std::int64_t n = impl.elements(s);
            if (mine && impl.is_local(s))
                std::copy_n(batch.elements.data() + at, n, impl.tile(s));
            else if (mine)
                pieces[static_cast<std::size_t>(impl.owner(s))].push_back(piece(batch.elements.data() + at, n));
            else if (impl.is_local(s))
                pieces[static_cast<std::size_t>(root)].push_back(piece(impl.tile(s), n));
            at += n;
        }
        post(ranks, mine, kStreamTag, pieces, batch.transfers);
        first = last;
    }
    for (auto& batch : batches) wait_all(batch.transfers);
}

Shape broadcast(Communicator& ranks, const Shape& shape, int root) {
    if (ranks.size() == 1) return shape;
    std::vector<std::int64_t> numbers;
    if (ranks.rank() == root) {
        numbers.push_back(shape.grid().rank());
        for (const auto& t : shape.grid().tilings()) {
            numbers.push_back(t.tile_count());
            const auto sizes = t.sizes();
            numbers.insert(numbers.end(), sizes.begin(), sizes.end());
        }
        numbers.push_back(shape.tile_count());
        numbers.insert(numbers.end(), shape.ordinals().begin(), shape.ordinals().end());
        for (double n : shape.norms()) numbers.push_back(std::bit_cast<std::int64_t>(n));
        for (const char letter : shape.symmetry().text()) numbers.push_back(letter);
    }
    const auto view = std::as_bytes(std::span(numbers));
    std::vector<std::byte> bytes(view.begin(), view.end());
    ranks.broadcast(bytes, root);
    if (ranks.rank() == root) return shape;
    numbers.resize(bytes.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    std::size_t at = 0;
    const auto take = [&](std::int64_t n) {
        const std::span part(numbers.data() + at, static_cast<std::size_t>(n));
        at += part.size();
        return part;
    };
    std::vector<Tiling> tilings;
    const std::int64_t rank = take(1)[0];
    for (std::int64_t d = 0; d < rank; ++d) tilings.push_back(Tiling::from_sizes(take(take(1)[0])));
    const std::int64_t tiles = take(1)[0];
    const auto ordinals = take(tiles);
    std::vector<double> norms;
    for (std::int64_t n : take(tiles)) norms.push_back(std::bit_cast<double>(n));
    std::string symmetry;
    for (const std::int64_t letter : take(static_cast<std::int64_t>(numbers.size() - at)))
        symmetry += static_cast<char>(letter);
    return Shape::from_sorted(TileGrid(std::move(tilings)), {ordinals.begin(), ordinals.end()}, std::move(norms),
                              symmetry);
}

template <Scalar T>
Tensor<T> redistribute(const Tensor<T>& x, const Distribution& distribution) {
    Communicator& ranks = x.communicator();
    if (distribution == x.distribution()) return x;
    auto to = std::make_unique<typename Tensor<T>::Impl>(x.shape(), Placement(ranks, distribution));
    const auto& from = x.impl();
    to->clear_padding();
    Pieces out(static_cast<std::size_t>(ranks.size())), in(out.size());
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const std::int64_t n = from.elements(s);
        if (from.is_local(s) && to->is_local(s))
            std::copy_n(from.tile(s), n, to->tile(s));
        else if (from.is_local(s))
            out[static_cast<std::size_t>(to->owner(s))].push_back(piece(from.tile(s), n));
        else if (to->is_local(s))
            in[static_cast<std::size_t>(from.owner(s))].push_back(piece(to->tile(s), n));
    }
    Transfers transfers;
    post(ranks, false, kMoveTag, in, transfers);
    post(ranks, true, kMoveTag, out, transfers);
    wait_all(transfers);
    return Tensor<T>(std::move(to));
}

template <Scalar T>
Tensor<T> gather(const Tensor<T>& x, int root) {
    Communicator& ranks = x.communicator();
    require(root >= 0 && root < ranks.size(), "gather: rank {} is outside 0..{}", root, ranks.size() - 1);
    const auto& from = x.impl();
    Pieces pieces(static_cast<std::size_t>(ranks.size()));
    Transfers transfers;
    if (ranks.rank() != root) {
        for (const std::int64_t s : from.places->local)
            pieces[static_cast<std::size_t>(root)].push_back(piece(from.tile(s), from.elements(s)));
        post(ranks, true, kMoveTag, pieces, transfers);
        wait_all(transfers);
        return Tensor<T>(Shape(x.grid()).with_symmetry(x.shape().symmetry()));
    }
    auto whole = std::make_unique<typename Tensor<T>::Impl>(x.shape());
    whole->clear_padding();
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        if (from.is_local(s))
            std::copy_n(from.tile(s), from.elements(s), whole->tile(s));
        else
            pieces[static_cast<std::size_t>(from.owner(s))].push_back(piece(whole->tile(s), from.elements(s)));
    }
    post(ranks, false, kMoveTag, pieces, transfers);
    wait_all(transfers);
    return Tensor<T>(std::move(whole));
}

template <Scalar T>
Tensor<T> scatter(const Tensor<T>& whole, Communicator& ranks, const Distribution& distribution, int root) {
    require(root >= 0 && root < ranks.size(), "scatter: rank {} is outside 0..{}", root, ranks.size() - 1);
    const bool mine = ranks.rank() == root;
    Outcome outcome;
    if (mine)
        outcome.attempt([&] {
            require(whole.communicator().size() == 1, "scatter: the tensor is already dealt to {}",
                    to_string(whole.distribution()));
        });
    outcome.share(ranks, root);
    auto to = std::make_unique<typename Tensor<T>::Impl>(broadcast(ranks, whole.shape(), root),
                                                         Placement(ranks, distribution));
    to->clear_padding();
    Pieces pieces(static_cast<std::size_t>(ranks.size()));
    Transfers transfers;
    if (mine) {
        const auto& from = whole.impl();
        for (std::int64_t s = 0; s < whole.tile_count(); ++s) {
            if (to->is_local(s))
                std::copy_n(from.tile(s), from.elements(s), to->tile(s));
            else
                pieces[static_cast<std::size_t>(to->owner(s))].push_back(piece(from.tile(s), from.elements(s)));
        }
    } else {
        for (const std::int64_t s : to->places->local)
            pieces[static_cast<std::size_t>(root)].push_back(piece(to->tile(s), to->elements(s)));
    }
    post(ranks, mine, kMoveTag, pieces, transfers);
    wait_all(transfers);
    return Tensor<T>(std::move(to));
}

namespace {

/// The number in `all` of each rank of a group, that says itself which of how many it is; `mine` is -1 outside.
std::vector<int> members_of(Communicator& all, int mine, int size, const char* what) {
    const int said[] = {mine, size};
    const auto told = all.all_gather(std::as_bytes(std::span(said)));
    std::vector<int> out;
    for (int r = 0; r < all.size(); ++r) {
        int rank = -1, of = 0;
        std::memcpy(&rank, told[static_cast<std::size_t>(r)].data(), sizeof rank);
        std::memcpy(&of, told[static_cast<std::size_t>(r)].data() + sizeof rank, sizeof of);
        if (rank < 0) continue;
        if (out.empty()) out.assign(static_cast<std::size_t>(of), -1);
        require(static_cast<std::size_t>(of) == out.size() && out[static_cast<std::size_t>(rank)] < 0,
                "copy_between: the ranks of {} are not those of one communicator", what);
        out[static_cast<std::size_t>(rank)] = r;
    }
    require(!out.empty(), "copy_between: no rank gives {}", what);
    for (std::size_t r = 0; r < out.size(); ++r)
        require(out[r] >= 0, "copy_between: rank {} of {} is not among all", r, what);
    return out;
}

/// The owner of each tile, as a number in `all`; known to the group whose first rank is the root.
std::vector<int> owners_for_all(Communicator& all, const std::vector<int>& members, std::int64_t tiles,
                                const std::function<int(std::int64_t)>& owner) {
    std::vector<int> out(static_cast<std::size_t>(tiles));
    std::vector<std::byte> bytes;
    if (all.rank() == members.front()) {
        for (std::int64_t s = 0; s < tiles; ++s)
            out[static_cast<std::size_t>(s)] = members[static_cast<std::size_t>(owner(s))];
        const auto view = std::as_bytes(std::span(out));
        bytes.assign(view.begin(), view.end());
    }
    all.broadcast(bytes, members.front());
    ensure(bytes.size() == out.size() * sizeof(int), "{} bytes of owners of {} tiles", bytes.size(), tiles);
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

}  // namespace

template <Scalar T>
std::optional<Tensor<T>> copy_between(Communicator& all, const Tensor<T>* x, const Placement* to) {
    if (x && x->on_devices()) {
        const auto here = to_host(*x);
        return copy_between(all, &here, to);
    }
    const auto from_ranks =
        members_of(all, x ? x->communicator().rank() : -1, x ? x->communicator().size() : 0, "the tensor");
    const auto to_ranks =
        members_of(all, to ? to->communicator->rank() : -1, to ? to->communicator->size() : 0, "the placement");
    const Shape shape = broadcast(all, x ? x->shape() : Shape(), from_ranks.front());
    std::unique_ptr<typename Tensor<T>::Impl> copy;
    if (to) {
        copy = std::make_unique<typename Tensor<T>::Impl>(shape, *to);
        copy->clear_padding();
    }
    const auto tiles = shape.tile_count();
    const auto from = owners_for_all(all, from_ranks, tiles, [&](std::int64_t s) { return x->impl().owner(s); });
    const auto into = owners_for_all(all, to_ranks, tiles, [&](std::int64_t s) { return copy->owner(s); });
    Pieces out(static_cast<std::size_t>(all.size())), in(out.size());
    for (std::int64_t s = 0; s < tiles; ++s) {
        const auto sender = from[static_cast<std::size_t>(s)], receiver = into[static_cast<std::size_t>(s)];
        const auto n = shape.grid().tile_elements(shape.tile(s));
        if (sender == all.rank() && receiver == all.rank())
            std::copy_n(x->impl().tile(s), n, copy->tile(s));
        else if (sender == all.rank())
            out[static_cast<std::size_t>(receiver)].push_back(piece(x->impl().tile(s), n));
        else if (receiver == all.rank())
            in[static_cast<std::size_t>(sender)].push_back(piece(copy->tile(s), n));
    }
    Transfers transfers;
    post(all, false, kMoveTag, in, transfers);
    post(all, true, kMoveTag, out, transfers);
    wait_all(transfers);
    if (!copy) return std::nullopt;
    return Tensor<T>(std::move(copy));
}

#define TESSERA_INSTANTIATE(T)                                                                         \
    template void stream_to_root(const Tensor<T>&, int, const BatchVisit<T>&, std::int64_t);           \
    template void stream_from_root(Tensor<T>&, int, const BatchFill<T>&, std::int64_t);                \
    template Tensor<T> redistribute(const Tensor<T>&, const Distribution&);                            \
    template Tensor<T> gather(const Tensor<T>&, int);                                                  \
    template std::optional<Tensor<T>> copy_between(Communicator&, const Tensor<T>*, const Placement*); \
    template Tensor<T> scatter(const Tensor<T>&, Communicator&, const Distribution&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

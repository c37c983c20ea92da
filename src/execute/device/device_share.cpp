#include "execute/device/device_share.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.hpp"
#include "base/units.hpp"
#include "execute/cpu/tile_layouts.hpp"
#include "kernels/cuda/device.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

struct Card {
    std::uint64_t identity = 0;
    std::int64_t memory = 0;
};

Card card_of(int device) {
    const auto info = kernels::cuda::device_info(device);
    return {info.identity, info.memory_bytes};
}

/// Every rank's cards, by rank.
std::vector<std::vector<Card>> gather(Communicator& ranks, const std::vector<Card>& mine) {
    std::vector<std::vector<Card>> out;
    for (const auto& bytes : ranks.all_gather(std::as_bytes(std::span(mine)))) {
        auto& theirs = out.emplace_back(bytes.size() / sizeof(Card));
        if (!theirs.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    }
    return out;
}

std::vector<Card> cards_of(std::span<const int> devices) {
    std::vector<Card> out;
    for (const int d : devices) out.push_back(card_of(d));
    return out;
}

}  // namespace

std::vector<int> share_of_devices(std::span<const std::vector<std::uint64_t>> seen, int rank) {
    const auto& mine = seen[static_cast<std::size_t>(rank)];
    const auto devices = static_cast<int>(mine.size());
    int with_me = 0, before_me = 0;
    for (std::size_t r = 0; r < seen.size(); ++r)
        if (seen[r] == mine) {
            ++with_me;
            before_me += static_cast<int>(r) < rank;
        }
    std::vector<int> out;
    if (devices == 0) return out;
    const int each = std::max(1, devices / with_me);
    for (int i = 0; i < each; ++i) out.push_back((before_me * each + i) % devices);
    return out;
}

std::vector<int> share_of_devices(Communicator& ranks) {
    const int count = kernels::cuda::device_count();
    if (count == 0) throw BackendUnavailable(kernels::cuda::why_no_device());
    std::vector<Card> mine;
    for (int d = 0; d < count; ++d) mine.push_back(card_of(d));
    std::vector<std::vector<std::uint64_t>> seen;
    for (const auto& theirs : gather(ranks, mine)) {
        auto& ids = seen.emplace_back();
        for (const auto& card : theirs) ids.push_back(card.identity);
    }
    return share_of_devices(seen, ranks.rank());
}

std::vector<bool> first_of_its_gpu(Communicator& ranks, std::span<const int> devices) {
    const auto all = gather(ranks, cards_of(devices));
    std::vector<bool> out;
    std::vector<std::uint64_t> known;
    for (int r = 0; r <= ranks.rank(); ++r)
        for (const auto& card : all[static_cast<std::size_t>(r)]) {
            const bool fresh = std::ranges::find(known, card.identity) == known.end();
            if (fresh) known.push_back(card.identity);
            if (r == ranks.rank()) out.push_back(fresh);
        }
    return out;
}

void require_device_memory(Communicator& ranks, std::span<const int> devices, std::int64_t budget) {
    require(budget >= 0, "device memory budget {} is negative", budget);
    if (budget == 0) return;
    struct Asked {
        int entries = 0;
        std::int64_t memory = 0;
        std::string first;
    };
    std::map<std::uint64_t, Asked> cards;
    const auto all = gather(ranks, cards_of(devices));
    for (std::size_t r = 0; r < all.size(); ++r)
        for (std::size_t i = 0; i < all[r].size(); ++i) {
            auto& card = cards[all[r][i].identity];
            if (card.entries++ == 0)
                card.first = r == static_cast<std::size_t>(ranks.rank()) ? fmt::format("CUDA device {}", devices[i])
                                                                         : fmt::format("a CUDA device of rank {}", r);
            card.memory = all[r][i].memory;
        }
    for (const auto& [identity, card] : cards)
        if (budget > card.memory / card.entries)
            throw MachineError(fmt::format("{} has {} of memory, but {} are asked for{}", card.first,
                                           format_bytes(card.memory), format_bytes(budget),
                                           card.entries > 1 ? fmt::format(" {} times", card.entries) : ""));
}

void require_device_extents(const ContractionSpec& spec, const TileGrid& a, const TileGrid& b) {
    constexpr std::int64_t most = (std::int64_t{1} << 30) - 1;  // complex ones are counted in reals
    const auto extent_of = [&](char label) {
        const auto at = spec.a().find(label);
        const auto& tiling =
            at != std::string::npos ? a.tiling(static_cast<int>(at)) : b.tiling(static_cast<int>(spec.b().find(label)));
        std::int64_t largest = 0;
        for (std::int64_t t = 0; t < tiling.tile_count(); ++t) largest = std::max(largest, tiling.size(TileIndex{t}));
        return largest;
    };
    const MatrixLabels labels(spec);
    const auto check = [&](const std::string& group, const char* what) {
        double product = 1;
        for (const char c : group) product *= static_cast<double>(extent_of(c));
        require(product <= static_cast<double>(most),
                "spec '{}': a tile has {:.0f} {}, and devices take at most {}; use smaller tiles or no devices",
                spec.text(), product, what, most);
    };
    check(labels.m, "rows of A");
    check(labels.k, "summed elements");
    check(labels.n, "columns of B");
    check(labels.batch + labels.k, "rows of B with its batch");
}

}  // namespace tessera

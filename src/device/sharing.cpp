#include "device/sharing.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

struct Card {
    std::uint64_t identity = 0;
    std::int64_t memory = 0;
};

Card card_of(int device) {
    const auto info = device::info(device);
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
    const int count = device::count();
    if (count == 0) throw BackendUnavailable(device::why_none());
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

namespace {

/// A rank whose device cannot be used says so to the others, which would wait for it.
void require_usable(Communicator& ranks, std::span<const int> devices) {
    std::exception_ptr mine;
    try {
        for (const int d : devices) (void)device::info(d);
    } catch (...) {
        mine = std::current_exception();
    }
    const bool any = largest_on_all(ranks, mine ? 1 : 0) > 0;
    if (mine) std::rethrow_exception(mine);
    if (any) throw MachineError("another rank cannot use its devices");
}

/// What is asked of one card, by all entries of all ranks that are this card.
struct Asked {
    int entries = 0;
    std::int64_t memory = 0;
    std::string first;
};

std::map<std::uint64_t, Asked> asked_of_cards(Communicator& ranks, std::span<const int> devices) {
    std::map<std::uint64_t, Asked> cards;
    const auto all = gather(ranks, cards_of(devices));
    for (std::size_t r = 0; r < all.size(); ++r)
        for (std::size_t i = 0; i < all[r].size(); ++i) {
            auto& card = cards[all[r][i].identity];
            if (card.entries++ == 0)
                card.first = r == static_cast<std::size_t>(ranks.rank())
                                 ? fmt::format("{} device {}", device::back_end(), devices[i])
                                 : fmt::format("a {} device of rank {}", device::back_end(), r);
            card.memory = all[r][i].memory;
        }
    return cards;
}

}  // namespace

std::int64_t device_memory_for(Communicator& ranks, std::span<const int> devices, std::int64_t wanted) {
    require_usable(ranks, devices);
    require(wanted >= 0, "device memory budget {} is negative", wanted);
    const auto cards = asked_of_cards(ranks, devices);
    if (wanted > 0) {
        for (const auto& [identity, card] : cards)
            if (wanted > card.memory / card.entries)
                throw MachineError(fmt::format("{} has {} of memory, but {} are asked for{}", card.first,
                                               format_bytes(card.memory), format_bytes(wanted),
                                               card.entries > 1 ? fmt::format(" {} times", card.entries) : ""));
        return wanted;
    }
    std::int64_t least = INT64_MAX;
    for (const int d : devices)
        least = std::min(least, device::free_bytes(d) / cards.at(device::info(d).identity).entries);
    return -largest_on_all(ranks, -(least - least / 32));
}

}  // namespace tessera

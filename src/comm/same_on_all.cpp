#include "comm/same_on_all.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"

namespace tessera {

namespace {

/// Names and values in turn, each with a zero behind it.
std::vector<std::byte> pack(const std::vector<std::pair<std::string, std::string>>& things) {
    std::vector<std::byte> out;
    const auto add = [&](const std::string& text) {
        for (const char c : text) out.push_back(static_cast<std::byte>(c));
        out.push_back(std::byte{0});
    };
    for (const auto& [name, value] : things) {
        add(name);
        add(value);
    }
    return out;
}

std::vector<std::string> unpack(const std::vector<std::byte>& bytes) {
    std::vector<std::string> out{{}};
    for (const auto b : bytes)
        if (b == std::byte{0})
            out.emplace_back();
        else
            out.back() += static_cast<char>(b);
    out.pop_back();
    return out;
}

}  // namespace

void require_same_on_all(Communicator& ranks, const std::vector<std::pair<std::string, std::string>>& things) {
    if (ranks.size() == 1) return;
    const auto mine = pack(things);
    // Nearly always all is well: one small reduction tells.
    std::uint64_t h = mine.size();
    for (const auto b : mine) h = combine(h, static_cast<std::uint64_t>(b));
    const double high = static_cast<double>(h >> 32), low = static_cast<double>(h & 0xffffffff);
    double most[] = {high, low, -high, -low};
    ranks.max(std::span<double>(most));
    if (most[0] == -most[2] && most[1] == -most[3]) return;
    const auto all = ranks.all_gather(mine);
    for (std::size_t r = 1; r < all.size(); ++r) {
        if (all[r] == all[0]) continue;
        const auto here = unpack(all[0]), there = unpack(all[r]);
        std::size_t i = 0;
        while (i + 1 < std::min(here.size(), there.size()) && here[i] == there[i] && here[i + 1] == there[i + 1])
            i += 2;
        const auto say = [&](const std::vector<std::string>& texts) {
            return i + 1 < texts.size() ? texts[i] + " is '" + texts[i + 1] + "'"
                                        : std::string("there is nothing more");
        };
        user_error("ranks were asked for different things: on rank {} {}, on rank 0 {}", r, say(there), say(here));
    }
}

std::int64_t largest_on_all(Communicator& ranks, std::int64_t value) {
    if (ranks.size() == 1) return value;
    double most[] = {static_cast<double>(value)};
    ranks.max(std::span<double>(most));
    return static_cast<std::int64_t>(most[0]);
}

}  // namespace tessera

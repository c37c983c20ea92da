// What an assignment costs its ranks, by counting alone: a fraction of the time that writing its plan takes.

#include "inspect/rank_costs.hpp"

#include <algorithm>

namespace tessera {

namespace {
constexpr std::int64_t kMostMarks = std::int64_t{1} << 28;  // bits: 32 MiB
double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }
}  // namespace

std::optional<RankCosts> rank_costs(const Inspection& in, const Assignment& how) {
    const auto ranks = static_cast<std::size_t>(in.machine.ranks);
    const auto most_tiles = std::max(in.shape(Operand::a).tile_count(), in.shape(Operand::b).tile_count());
    if (in.machine.devices_per_rank > 0 || most_tiles > kMostMarks / in.machine.ranks) return std::nullopt;
    RankCosts out;
    std::vector<double> work(ranks, 0);
    std::vector<std::int64_t> in_bytes(ranks, 0), out_bytes(ranks, 0);
    const auto move = [&](std::int32_t from, std::int32_t to, std::int64_t bytes) {
        if (from == to) return;
        out_bytes[from] += bytes;
        in_bytes[to] += bytes;
        out.sent_bytes += bytes;
    };
    for (const auto o : {Operand::a, Operand::b}) {
        const auto& shape = in.shape(o);
        const auto& lies = in.distribution(o, how.lies);
        std::vector<bool> needed(static_cast<std::size_t>(shape.tile_count()) * ranks);
        for (std::size_t i = 0; i < in.sums.size(); ++i)
            for (auto p = in.sums[i].first; p < in.sums[i].last; ++p)
                needed[static_cast<std::size_t>(in.place(o, in.tile_of(o, p))) * ranks + how.rank_of[i]] = true;
        for (std::int32_t t = 0; t < shape.tile_count(); ++t) {
            const auto owner = in.stored(o) ? lies.owner(shape.grid(), shape.tile(t)) : 0;
            for (std::size_t r = 0; r < ranks; ++r) {
                if (!needed[static_cast<std::size_t>(t) * ranks + r]) continue;
                if (in.stored(o))
                    move(owner, static_cast<std::int32_t>(r), in.payload(o, t));
                else
                    work[r] += over(static_cast<double>(in.bytes(o)[t]), in.machine.make_bytes_per_second);
            }
        }
    }
    const auto& c = in.product.c;
    const auto& lies = in.distribution(Operand::c, how.lies);
    for (std::int32_t t = 0; t < c.tile_count(); ++t) {
        const auto owner = lies.owner(c.grid(), c.tile(t));
        std::int32_t last = owner;  // sums of one rank are joined there, mostly
        for (auto i = in.first_sum[t]; i < in.first_sum[t + 1]; ++i) {
            if (how.rank_of[i] != last) move(how.rank_of[i], owner, in.payload(Operand::c, t));
            last = how.rank_of[i];
        }
    }
    for (std::size_t i = 0; i < in.sums.size(); ++i)
        work[how.rank_of[i]] += over(in.sums[i].flops, in.machine.gemm.flops_per_second);
    out.busiest_seconds = *std::max_element(work.begin(), work.end());
    for (std::size_t r = 0; r < ranks; ++r)
        out.most_moved_bytes = std::max({out.most_moved_bytes, in_bytes[r], out_bytes[r]});
    return out;
}

}  // namespace tessera

#include "contract/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "device/host_store.hpp"
#include "shape/require_whole.hpp"
#include "tensor/resident.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera {

namespace {

/// A loop over one label: how far it moves in the input and in the output.
struct Loop {
    std::int64_t extent, in, out;
};

template <Scalar T>
void add_strided(const T* in, T* out, const std::vector<Loop>& loops) {
    std::vector<std::int64_t> at(loops.size(), 0);
    if (loops.empty()) {
        *out += *in;
        return;
    }
    const Loop inner = loops.back();
    for (;;) {
        const T* i = in;
        T* o = out;
        for (std::int64_t e = 0; e < inner.extent; ++e, i += inner.in, o += inner.out) *o += *i;
        std::ptrdiff_t d = static_cast<std::ptrdiff_t>(loops.size()) - 2;
        for (; d >= 0; --d) {
            in += loops[d].in;
            out += loops[d].out;
            if (++at[d] < loops[d].extent) break;
            in -= loops[d].in * loops[d].extent;
            out -= loops[d].out * loops[d].extent;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

/// Which tiles of x go into which tile of the result, in the result's order: those on the diagonal of repeated labels.
struct Contribution {
    std::int64_t to, slot;
};
std::vector<Contribution> contributions_of(const Shape& x, const TileGrid& result, const std::string& in,
                                           const std::string& out) {
    std::vector<Contribution> all;
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const auto at = x.grid().coordinates(x.tile(s));
        bool on_diagonal = true;
        for (std::size_t d = 0; d < in.size(); ++d)
            on_diagonal &= at[static_cast<int>(in.find(in[d]))] == at[static_cast<int>(d)];
        if (!on_diagonal) continue;
        IndexVector to;
        for (char l : out) to.push_back(at[static_cast<int>(in.find(l))]);
        all.push_back({result.ordinal(to).value, s});
    }
    std::stable_sort(all.begin(), all.end(), [](const Contribution& p, const Contribution& q) { return p.to < q.to; });
    return all;
}

TileGrid result_grid(const TileGrid& grid, const std::string& in, const std::string& out) {
    std::vector<Tiling> tilings;
    for (char l : out) tilings.push_back(grid.tiling(static_cast<int>(in.find(l))));
    return TileGrid(std::move(tilings));
}

Shape shape_of(const TileGrid& result, const std::vector<Contribution>& contributions) {
    std::vector<std::int64_t> ordinals;
    for (const auto& c : contributions)
        if (ordinals.empty() || ordinals.back() != c.to) ordinals.push_back(c.to);
    std::vector<double> norms(ordinals.size(), 0.0);
    return Shape::from_sorted(result, std::move(ordinals), std::move(norms));
}

/// The tiles of x that go into the result, where others do not.
std::optional<Shape> needed_of(const Shape& x, const std::vector<Contribution>& contributions) {
    if (static_cast<std::int64_t>(contributions.size()) == x.tile_count()) return std::nullopt;
    std::vector<ShapeEntry> entries;
    for (const auto& c : contributions) entries.push_back({x.tile(c.slot), x.norm_of(c.slot)});
    return Shape(x.grid(), std::move(entries));
}

/// Which index of x each index of the result is, where none is summed and none repeated.
std::optional<Permutation> permutation_of(const std::string& in, const std::string& out) {
    if (in.size() != out.size()) return std::nullopt;
    std::vector<int> map;
    for (char l : out) map.push_back(static_cast<int>(in.find(l)));
    return Permutation(std::span<const int>(map));
}

/// Where the result of x lies, and x itself must: a permutation leaves every tile on its rank.
ReducePlacement placement_of(const TileGrid& grid, const Distribution* where, const std::string& in,
                             const std::string& out, int ranks) {
    if (const auto p = permutation_of(in, out); p && where) return {*where, where->permuted(*p)};
    return reduce_placement(grid, in, out, ranks);
}

}  // namespace

/// Ranks dealt along one kept label only, the one with the most tiles: whatever goes into a tile of the result is then
/// on that tile's rank. (Nothing kept: all on one rank.)
ReducePlacement reduce_placement(const TileGrid& grid, const std::string& in, const std::string& out, int ranks) {
    char label = 0;
    std::int64_t tiles = 0;
    for (char l : out)
        if (const auto n = grid.tiling(static_cast<int>(in.find(l))).tile_count(); n > tiles) {
            tiles = n;
            label = l;
        }
    const auto along = [&](const std::string& labels) {
        std::vector<Distribution::Axis> axes(labels.size());
        if (label) axes[labels.find(label)].ranks = ranks;
        return Distribution(ranks, std::move(axes));
    };
    return {along(in), along(out)};
}

/// A sum of n numbers is at most sqrt(n) times the root of the sum of their squares, and tiles that are summed add up.
Shape reduced_shape(const Shape& x, const std::string& in, const std::string& out) {
    const auto grid = result_grid(x.grid(), in, out);
    const auto contributions = contributions_of(x, grid, in, out);
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (const auto& c : contributions) {
        if (ordinals.empty() || ordinals.back() != c.to) {
            ordinals.push_back(c.to);
            norms.push_back(0);
        }
        const auto extents = x.grid().tile_extents(x.tile(c.slot));
        double summed = 1;
        for (std::size_t d = 0; d < in.size(); ++d)
            if (in.find(in[d]) == d && out.find(in[d]) == std::string::npos)
                summed *= static_cast<double>(extents[static_cast<int>(d)]);
        norms.back() = std::min(norms.back() + std::sqrt(summed) * x.norm_of(c.slot) * (1 + 1e-12),
                                std::numeric_limits<double>::max());
    }
    return Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
}

ReduceBytes reduce_bytes(const Shape& x, const Distribution* where, std::int64_t element_bytes, const std::string& in,
                         const std::string& out, const Communicator& ranks) {
    const auto wanted = placement_of(x.grid(), where, in, out, ranks.size());
    const auto grid = result_grid(x.grid(), in, out);
    const auto contributions = contributions_of(x, grid, in, out);
    const auto bytes = [&](const Shape& shape, const Distribution& dealt) {
        return tile_storage_bytes(shape, element_bytes, dealt, ranks.rank());
    };
    ReduceBytes all{0, bytes(shape_of(grid, contributions), wanted.result)};
    if (where && (ranks.size() == 1 || *where == wanted.x)) return all;
    const auto needed = where ? needed_of(x, contributions) : std::nullopt;
    all.copy = needed ? bytes(*needed, *where) + bytes(*needed, wanted.x) : bytes(x, wanted.x);
    return all;
}

namespace {

/// Of each contribution's tile, and of its result tile: with the first that goes into it.
struct ReducedHomes {
    std::vector<std::int16_t> x, result;
};
ReducedHomes homes_of(const std::vector<std::int16_t>& homes, const Shape& shape,
                      const std::vector<Contribution>& contributions) {
    ReducedHomes out{homes, std::vector<std::int16_t>(static_cast<std::size_t>(shape.tile_count()), -1)};
    std::int64_t slot = -1, before = -1;
    for (const auto& c : contributions) {
        if (c.to != before) out.result[static_cast<std::size_t>(++slot)] = homes[static_cast<std::size_t>(c.slot)];
        before = c.to;
        out.x[static_cast<std::size_t>(c.slot)] = out.result[static_cast<std::size_t>(slot)];
    }
    return out;
}

/// One tile of x into its result tile: the kept labels as the result walks them, then the summed ones as x does.
StridedJob reduce_job(const IndexVector& extents, const std::string& in, const std::string& out) {
    const auto strides = row_major_strides(extents);
    const auto stride_of = [&](char label) {
        std::int64_t sum = 0;
        for (std::size_t d = 0; d < in.size(); ++d)
            if (in[d] == label) sum += strides[static_cast<int>(d)];
        return sum;
    };
    StridedJob job;
    std::vector<StridedJob::Loop> kept, summed;
    const auto add = [](std::vector<StridedJob::Loop>& loops, StridedJob::Loop next) {
        if (next.extent == 1) return;
        auto* last = loops.empty() ? nullptr : &loops.back();
        if (last && last->in == next.in * next.extent && last->out == next.out * next.extent)
            *last = {last->extent * next.extent, next.in, next.out};
        else
            loops.push_back(next);
    };
    IndexVector to;
    for (char l : out) to.push_back(extents[static_cast<int>(in.find(l))]);
    const auto to_strides = row_major_strides(to);
    for (std::size_t d = 0; d < out.size(); ++d)
        add(kept, {to[static_cast<int>(d)], stride_of(out[d]), to_strides[static_cast<int>(d)]});
    for (std::size_t d = 0; d < in.size(); ++d)
        if (in.find(in[d]) == d && out.find(in[d]) == std::string::npos)
            add(summed, {extents[static_cast<int>(d)], stride_of(in[d]), 0});
    require(kept.size() + summed.size() <= static_cast<std::size_t>(StridedJob::kMostLoops),
            "'{}->{}': devices walk a tile by at most {} loops, this takes {}", in, out, StridedJob::kMostLoops,
            kept.size() + summed.size());
    for (const auto& l : kept) {
        job.loop[job.kept_loops++] = l;
        job.kept *= l.extent;
    }
    for (const auto& l : summed) {
        job.loop[job.kept_loops + job.summed_loops++] = l;
        job.summed *= l.extent;
    }
    return job;
}

/// The same sums in the same order as on the host; tiles that the host has are done there.
template <Scalar T>
Tensor<T> reduce_on_devices(const Tensor<T>& given, const Shape& shape, const std::vector<Contribution>& contributions,
                            const std::string& in, const std::string& out, Placement where, T alpha, bool conjugated) {
    const auto homes = homes_of(given.impl().places->homes, shape, contributions);
    const bool permutes = permutation_of(in, out).has_value();
    where.devices = given.placement().devices;
    std::optional<Tensor<T>> moved;
    const auto& x = at_homes(given, where.devices, homes.x, moved);
    auto result = uninitialised<T>(shape, std::move(where), homes.result);
    auto& to = result.impl();
    // The tiles that go into a result tile follow one another: the first of each, the second, ...
    std::vector<std::vector<std::vector<StridedJob>>> rounds(result.placement().devices.size());
    std::int64_t slot = -1, before = -1;
    std::size_t round = 0;
    for (const auto& c : contributions) {
        round = c.to == before ? round + 1 : 0;
        slot += c.to != before;
        before = c.to;
        if (!to.is_local(slot)) continue;
        const auto extents = x.grid().tile_extents(x.tiles().tile(c.slot));
        auto job = reduce_job(extents, in, out);
        job.copies = permutes;
        job.adds = round > 0;
        const int home = to.home(slot);
        if (home < 0) {
            job.x = x.impl().tile(c.slot);
            job.out = to.tile(slot);
            strided_on_host(ScalarTraits<T>::kind, job);
            continue;
        }
        job.x = x.impl().device_tile(c.slot);
        job.out = to.device_tile(slot);
        auto& there = rounds[static_cast<std::size_t>(home)];
        if (there.size() <= round) there.resize(round + 1);
        there[round].push_back(job);
    }
    const bool scales = alpha != T(1) || conjugated;
    std::vector<std::vector<ElementJob>> scaled(rounds.size());
    for (std::int64_t s = 0; scales && s < shape.tile_count(); ++s) {
        if (!to.is_local(s)) continue;
        if (to.home(s) >= 0) {
            scaled[static_cast<std::size_t>(to.home(s))].push_back(
                {nullptr, nullptr, to.device_tile(s), to.elements(s)});
            continue;
        }
        for (std::int64_t e = 0; e < to.elements(s); ++e) {
            auto& v = to.tile(s)[e];
            v = alpha * conjugate_if(v, conjugated);
        }
    }
    for (std::size_t d = 0; d < rounds.size(); ++d) {
        auto& store = to.store(static_cast<int>(d));
        for (const auto& jobs : rounds[d]) store.strided(ScalarTraits<T>::kind, jobs, store.stream());
        if (!scaled[d].empty())
            store.elements(ScalarTraits<T>::kind, ElementOperation::scale, scaled[d],
                           {.alpha = alpha, .conjugate_x = conjugated}, store.stream());
    }
    return result;
}

}  // namespace

std::vector<std::int16_t> reduced_homes(const Shape& x, const std::vector<std::int16_t>& homes, const std::string& in,
                                        const std::string& out) {
    const auto grid = result_grid(x.grid(), in, out);
    const auto contributions = contributions_of(x, grid, in, out);
    return homes_of(homes, shape_of(grid, contributions), contributions).result;
}

template <Scalar T>
Tensor<T> reduce(const Tensor<T>& x, const std::string& in, const std::string& out, int threads, std::int64_t memory,
                 std::optional<std::int64_t> added, std::type_identity_t<T> alpha, bool conjugated, std::int64_t held) {
    require_whole("a sum or a permutation of one operand", x.tiles());
    Communicator& comm = x.communicator();
    if (memory > 0) {
        const auto bytes = reduce_bytes(x.shape(), &x.distribution(), sizeof(T), in, out, comm);
        const auto needed = largest_on_all(
            comm, held + x.tile_bytes() + bytes.copy + bytes.result + (added ? 2 * *added + bytes.result : 0));
        if (needed > memory)
            throw BudgetError(fmt::format("a memory budget of {} ({} bytes) is too small for '{}->{}': the smallest "
                                          "that works is {} ({} bytes)",
                                          format_bytes(memory), memory, in, out, format_bytes(needed), needed),
                              memory, needed);
    }
    Placement where(comm, {});
    if (comm.size() > 1) {
        const auto wanted = placement_of(x.grid(), &x.distribution(), in, out, comm.size());
        if (!(x.distribution() == wanted.x)) {
            // Of a diagonal only its tiles move.
            std::optional<Tensor<T>> part;
            if (const auto needed =
                    needed_of(x.shape(), contributions_of(x.shape(), result_grid(x.grid(), in, out), in, out)))
                part = Tensor<T>::generate(
                    *needed,
                    [&](const TileInfo& info, std::span<T> tile) {
                        std::ranges::copy(x.tile(info.coordinates), tile.begin());
                    },
                    threads, x.placement());
            return reduce(redistribute(part ? *part : x, wanted.x), in, out, threads, 0, std::nullopt, alpha,
                          conjugated);
        }
        where.distribution = wanted.result;
    }
    const auto& grid = x.grid();
    const auto result = result_grid(grid, in, out);
    const auto contributions = contributions_of(x.tiles(), result, in, out);
    const Shape shape = shape_of(result, contributions);
    if (x.on_devices()) return reduce_on_devices(x, shape, contributions, in, out, std::move(where), alpha, conjugated);

    // Nothing summed, no diagonal: every tile is one tile of x, transposed. Few large tiles use all threads each.
    if (const auto permutation = permutation_of(in, out)) {
        kernels::TransposePlanCache plans;
        const bool few = shape.tile_count() < 2 * resolve_threads(threads);
        kernels::TransposeArguments<T> arguments;
        arguments.threads = few ? resolve_threads(threads) : 1;
        arguments.alpha = alpha;
        arguments.conjugate = conjugated;
        return Tensor<T>::generate(
            shape,
            [&](const TileInfo& info, std::span<T> tile) {
                const auto from = std::lower_bound(contributions.begin(), contributions.end(), info.tile.value,
                                                   [](const Contribution& p, std::int64_t to) { return p.to < to; });
                const auto extents = grid.tile_extents(x.shape().tile(from->slot));
                kernels::transpose(*plans.get(extents, permutation->map(), sizeof(T)), x.impl().tile(from->slot),
                                   tile.data(), arguments);
            },
            few ? 1 : threads, where);
    }
    return Tensor<T>::generate(
        shape,
        [&](const TileInfo& info, std::span<T> tile) {
            std::fill(tile.begin(), tile.end(), T{});
            const auto out_strides = row_major_strides(info.extents);
            auto c = std::lower_bound(contributions.begin(), contributions.end(), info.tile.value,
                                      [](const Contribution& p, std::int64_t to) { return p.to < to; });
            for (; c != contributions.end() && c->to == info.tile.value; ++c) {
                const auto extents = grid.tile_extents(x.shape().tile(c->slot));
                const auto in_strides = row_major_strides(extents);
                std::vector<Loop> loops;
                for (std::size_t d = 0; d < in.size(); ++d) {
                    if (in.find(in[d]) != d) continue;
                    Loop loop{extents[static_cast<int>(d)], 0, 0};
                    for (std::size_t e = d; e < in.size(); ++e)
                        if (in[e] == in[d]) loop.in += in_strides[static_cast<int>(e)];
                    if (const auto o = out.find(in[d]); o != std::string::npos)
                        loop.out = out_strides[static_cast<int>(o)];
                    loops.push_back(loop);
                }
                add_strided(x.impl().tile(c->slot), tile.data(), loops);
            }
            if (alpha != T(1) || conjugated)
                for (auto& e : tile) e = alpha * conjugate_if(e, conjugated);
        },
        threads, where);
}

#define TESSERA_INSTANTIATE(T)                                                                             \
    template Tensor<T> reduce(const Tensor<T>&, const std::string&, const std::string&, int, std::int64_t, \
                              std::optional<std::int64_t>, std::type_identity_t<T>, bool, std::int64_t);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

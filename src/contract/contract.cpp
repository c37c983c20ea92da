#include "tessera/contract/contract.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "contract/given_plan.hpp"
#include "contract/machine_for.hpp"
#include "contract/reduce.hpp"
#include "execute/cpu/execute.hpp"
#include "execute/device/device_share.hpp"
#include "execute/device/execute_devices.hpp"
#include "inspect/build_plan.hpp"
#include "kernels/tile_math.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

namespace {

template <Scalar T>
T scalar_of(std::complex<double> value, const char* what) {
    require(std::isfinite(value.real()) && std::isfinite(value.imag()), "{} is not finite: {} + {}i", what,
            value.real(), value.imag());
    if constexpr (is_complex<T>) {
        return T(static_cast<RealOf<T>>(value.real()), static_cast<RealOf<T>>(value.imag()));
    } else {
        require(value.imag() == 0, "{} has an imaginary part of {}, but the tensors are real", what, value.imag());
        return static_cast<T>(value.real());
    }
}

/// An operand as the plan sees it: stored or made, without diagonals and sums of its own.
template <Scalar T>
struct Prepared {
    std::optional<Tensor<T>> reduced;
    const Tensor<T>* stored = nullptr;
    const GeneratedTensor<T>* made = nullptr;
    std::int64_t original_bytes = 0;  // of the operand a reduction was made from

    Prepared(const ContractionSpec& spec, int operand, const ContractOperand<T>& x, int threads, Communicator& ranks)
        : stored(x.stored()), made(x.made()) {
        if (!spec.needs_reduction(operand)) return;
        const auto in = spec.labels(operand), out = spec.reduced_labels(operand);
        // A diagonal or a sum of an operand that is made on demand needs its tiles once, before the product.
        std::optional<Tensor<T>> all;
        if (made)
            all = Tensor<T>::generate(made->shape, made->make, threads,
                                      {ranks, reduce_placement(made->shape.grid(), in, out, ranks.size()).x});
        reduced = reduce(made ? *all : *stored, in, out, threads);
        if (stored) original_bytes = stored->tile_bytes();
        stored = &*reduced;
        made = nullptr;
    }
    const Shape& shape() const { return stored ? stored->shape() : made->shape; }
    SourceKind kind() const { return stored ? SourceKind::stored : SourceKind::host_made; }
    /// A filter counts with the norms of the shape, so made tiles are held against them.
    TileSource<T> source(bool filtered) const {
        if (stored) return {[t = &stored->impl()](std::int64_t slot) { return t->tile(slot); }, {}};
        if (!filtered) return {{}, made->make, made->on_device};
        return {{},
                [m = made](const TileInfo& info, std::span<T> tile) {
                    m->make(info, tile);
                    const double is = tile_norm(tile.data(), static_cast<std::int64_t>(tile.size()));
                    const double said = m->shape.norm_of(*m->shape.find(info.tile));
                    if (is > said * (1 + 1e-6))
                        user_error("tile {} of an operand made on demand has norm {}, its shape says at most {}",
                                   to_string(info.coordinates), is, said);
                },
                made->on_device};
    }
};

/// The ranks that all operands live on.
template <Scalar T>
Communicator& ranks_of(const ContractOperand<T>& a, const ContractOperand<T>& b, const Tensor<T>* old,
                       const ContractOptions& options) {
    Communicator* ranks = nullptr;
    const auto meet = [&](Communicator* found, const char* what) {
        require(!ranks || ranks == found, "{} is on other ranks ({} of them) than the operands before it ({})", what,
                found->size(), ranks ? ranks->size() : 0);
        ranks = found;
    };
    if (a.stored()) meet(&a.stored()->communicator(), "A");
    if (b.stored()) meet(&b.stored()->communicator(), "B");
    if (old) meet(&old->communicator(), "C");
    if (options.communicator) meet(options.communicator, "options.communicator");
    return ranks ? *ranks : self_communicator();
}

std::string describe(const Shape& shape, bool norms) {
    std::uint64_t h = 0;
    for (auto o : shape.ordinals()) h = combine(h, static_cast<std::uint64_t>(o));
    if (norms)
        for (auto n : shape.norms()) h = combine(h, std::bit_cast<std::uint64_t>(n));
    return fmt::format("{} with {} tiles ({:016x})", to_string(shape.grid()), shape.tile_count(), h);
}

std::string describe(const Distribution& distribution) {
    std::string text = fmt::format("{} ranks:", distribution.ranks());
    for (const auto& axis : distribution.axes())
        text += fmt::format(" {}{}", axis.ranks, axis.deal == Distribution::Deal::cyclic ? "" : " blocked");
    return text;
}

/// Ranks that call with different things would build different plans.
void require_same_call(Communicator& ranks, const ContractionSpec& spec, const Shape& a, const Shape& b,
                       const ContractOptions& o) {
    if (ranks.size() == 1) return;
    const auto number = [](const auto& x) { return x ? fmt::format("{}", *x) : std::string("default"); };
    const auto& p = o.parameters;
    require_same_on_all(
        ranks, {{"the spec", spec.text()},
                {"the shape of A", describe(a, o.filter > 0)},
                {"the shape of B", describe(b, o.filter > 0)},
                {"alpha", fmt::format("{} + {}i", o.alpha.real(), o.alpha.imag())},
                {"beta", fmt::format("{} + {}i", o.beta.real(), o.beta.imag())},
                {"conjugation of A and B", fmt::format("{} {}", o.conjugate_a, o.conjugate_b)},
                {"the result's distribution", o.result_distribution ? describe(*o.result_distribution) : "default"},
                {"filter", fmt::format("{}", o.filter)},
                {"the given result shape", o.result_shape ? describe(*o.result_shape, false) : "none"},
                {"memory", fmt::format("{}", o.memory)},
                {"device memory", fmt::format("{}", o.device_memory)},
                {"the number of devices", fmt::format("{}", o.devices.size())},
                {"algorithm", o.algorithm},
                {"grid", fmt::format("{}x{}", o.grid_rows, o.grid_cols)},
                {"blocks", o.blocks},
                {"a plan", o.plan ? "given" : "not given"},
                {"parameters",
                 fmt::format("{} {} {}x{} {} {}", number(p.block_share), number(p.chunk_share), number(p.block_rows),
                             number(p.block_cols), number(p.depth), number(p.lookahead))}});
}

/// Work in which one rank may fail alone: then all of them end, since the others wait for it.
template <class Work>
void together(Communicator& ranks, Work&& work) {
    if (ranks.size() == 1)
        work();
    else
        run_ranks_or_abort(ranks, work);
}

/// Whether a C that is added to has the result's tilings.
void require_like_result(const ContractionSpec& spec, const TileGrid& c, const TileGrid& result) {
    require(c.rank() == result.rank(), "spec '{}': C has rank {}, but the result's labels '{}' have {}", spec.text(),
            c.rank(), spec.c(), result.rank());
    for (int d = 0; d < result.rank(); ++d) {
        const Tiling &is = c.tiling(d), &wanted = result.tiling(d);
        if (is == wanted) continue;
        const auto one = to_string(is), two = to_string(wanted);
        user_error("spec '{}': label '{}' is {} at index {} of C, but {} in the result{}", spec.text(), spec.c()[d],
                   one, d, two, one == two ? ": " + first_difference(is, wanted) : "");
    }
}

/// Result tiles whose norm is below the filter go; what they held is added to what was left out.
template <Scalar T>
Tensor<T> drop_small(Tensor<T> c, const Plan& plan, ContractReport& report) {
    double square = report.left_out * report.left_out;
    for (std::int64_t s = 0; s < c.tile_count(); ++s) {
        const double n = c.shape().norm_of(s);
        if (n >= plan.filter) continue;
        const double skipped = plan.skipped[s];
        square += (skipped + n) * (skipped + n) - skipped * skipped;
        ++report.dropped_tiles;
    }
    report.left_out = std::sqrt(square) * (1 + 1e-12);
    return report.dropped_tiles > 0 ? filter(c, plan.filter) : std::move(c);
}

/// Of this rank's tiles, the most while operands are made as a whole, or moved between ranks, to be reduced; 0 where
/// none is.
template <Scalar T>
std::int64_t bytes_while_reduced(const ContractionSpec& spec, const ContractOperand<T>& a, const ContractOperand<T>& b,
                                 const Tensor<T>* old, const Communicator& ranks) {
    std::int64_t there = old ? old->tile_bytes() : 0, peak = 0;
    for (const auto* x : {&a, &b})
        if (x->stored()) there += x->stored()->tile_bytes();
    for (int n : {0, 1}) {
        if (!spec.needs_reduction(n)) continue;
        const auto& x = n == 0 ? a : b;
        const auto in = spec.labels(n), out = spec.reduced_labels(n);
        const auto bytes =
            reduce_bytes(x.shape(), x.stored() ? &x.stored()->distribution() : nullptr, sizeof(T), in, out, ranks);
        there += bytes.result;
        if (bytes.copy > 0) peak = std::max(peak, there + bytes.copy);
    }
    return peak;
}

template <Scalar T>
Contraction<T> run(std::string_view text, const ContractOperand<T>& a, const ContractOperand<T>& b,
                   const Tensor<T>* old, const ContractOptions& options, const TileConsumer<T>* consume = nullptr,
                   Shape* consumed = nullptr) {
    const double start = now_seconds();
    const ContractionSpec spec(text);
    require(spec.operand_count() == 2, "spec '{}': has one operand, but two were given", spec.text());
    const TileGrid grid = spec.result_grid(a.shape().grid(), b.shape().grid());
    require(options.filter >= 0 && std::isfinite(options.filter), "filter {} is not a finite number >= 0",
            options.filter);
    require(options.memory >= 0, "memory budget {} is negative", options.memory);
    require(options.device_memory >= 0, "device memory budget {} is negative", options.device_memory);
    const T alpha = scalar_of<T>(options.alpha, "alpha"), beta = scalar_of<T>(options.beta, "beta");
    require(old || beta == T(0), "beta is {}, but there is no C to add to: use contract_into", options.beta.real());
    if (old) require_like_result(spec, old->grid(), grid);
    const bool adds = old && beta != T(0);
    for (const auto* operand : {&a, &b})
        require(!operand->made() || operand->made()->make,
                "operand {} is made on demand, but has no function to make it", operand == &a ? 'A' : 'B');

    Communicator& ranks = ranks_of(a, b, old, options);
    require_same_call(ranks, spec, a.shape(), b.shape(), options);
    const bool reduces = spec.needs_reduction(0) || spec.needs_reduction(1);
    const auto reducing = reduces ? largest_on_all(ranks, bytes_while_reduced(spec, a, b, old, ranks)) : 0;
    if (options.memory > 0 && reducing > options.memory)
        throw BudgetError(
            fmt::format("a memory budget of {} ({} bytes) is too small for '{}': an operand with diagonals or sums of "
                        "its own is first made as a whole, or moved between ranks; {} ({} bytes) are needed at least",
                        format_bytes(options.memory), options.memory, spec.text(), format_bytes(reducing), reducing),
            options.memory, reducing);
    std::optional<Prepared<T>> both[2];
    together(ranks, [&] {
        both[0].emplace(spec, 0, a, options.threads, ranks);
        both[1].emplace(spec, 1, b, options.threads, ranks);
    });
    const auto &pa = *both[0], &pb = *both[1];
    const ContractionSpec reduced(spec.reduced_labels(0) + "," + spec.reduced_labels(1) + "->" + spec.c());

    if (!options.devices.empty()) require_device_extents(reduced, pa.shape().grid(), pb.shape().grid());
    const Nodes nodes = nodes_of(ranks);
    const MachineModel machine = machine_for(ranks, options, nodes);
    PlanRequest request;
    request.spec = &reduced;
    request.a = &pa.shape();
    request.b = &pb.shape();
    request.source_a = pa.kind();
    request.source_b = pb.kind();
    if (!options.devices.empty() && pb.made && makes_tiles(pb.made->on_device) && device_can_make(reduced, Operand::b))
        request.source_b = SourceKind::device_made;
    request.scalar = ScalarTraits<T>::kind;
    request.screening = {options.filter, static_cast<double>(std::abs(alpha)), options.result_shape};
    request.screening.beta_magnitude = adds ? static_cast<double>(std::abs(beta)) : 0;
    if (adds && !options.result_shape) request.accumulate = &old->shape();
    if (ranks.size() > 1) {
        if (pa.stored) request.distribution_a = pa.stored->distribution();
        if (pb.stored) request.distribution_b = pb.stored->distribution();
        request.distribution_c = old ? std::optional(old->distribution()) : options.result_distribution;
    }
    // Without a budget: what the machine has. Results that devices hand over tile by tile are never stored, so what the
    // plan counts for them is no limit.
    const bool hand_over = consume && machine.devices_per_rank > 0;
    request.host_memory = options.memory > 0 ? options.memory : hand_over ? 0 : machine.host_memory;
    request.device_memory = options.device_memory;
    request.other_bytes = largest_on_all(ranks, pa.original_bytes + pb.original_bytes + (old ? old->tile_bytes() : 0));
    request.algorithm = options.algorithm;
    request.blocks = options.blocks;
    request.parameters = options.parameters;
    request.grid_rows = options.grid_rows;
    request.grid_cols = options.grid_cols;
    if (options.plan) require_plan_of(*options.plan, request, machine);
    std::optional<Plan> made;
    if (!options.plan) made = build_plan(request, machine);
    const Plan& plan = made ? *made : *options.plan;
    if (options.memory == 0) require_host_room(plan, nodes, hand_over);
#ifndef NDEBUG
    validate(plan, {options.memory, options.device_memory});
#endif
    ContractReport report;
    report.plan_seconds = now_seconds() - start;
    if (options.on_plan) options.on_plan(plan);

    const double begin = now_seconds();
    MemoryBudget budget(options.memory > 0 ? options.memory : MemoryBudget::kUnlimited);
    const auto& mine = plan.rank_counts[static_cast<std::size_t>(ranks.rank())];
    std::unique_ptr<typename Tensor<T>::Impl> impl;
    ExecuteCounts counts;
    together(ranks, [&] {
        budget.take(mine.stored_a + mine.stored_b + request.other_bytes, "operands");
        if (!hand_over)
            impl = std::make_unique<typename Tensor<T>::Impl>(plan.c, Placement(ranks, plan.distribution_c), &budget,
                                                              "result");
        std::vector<double> norms(static_cast<std::size_t>(plan.c.tile_count()));
        TileSink<T> sink;
        sink.tile = [&](std::int64_t slot) { return impl->tile(slot); };
        if (adds)
            sink.old_tile = [&](std::int64_t slot) -> const T* {
                const auto s = old->shape().find(plan.c.tile(slot));
                return s ? old->impl().tile(*s) : nullptr;
            };
        sink.finished = [&](std::int64_t slot, double norm) { norms[slot] = norm; };
        if (hand_over)
            sink.consume = [&](std::int64_t slot, std::span<const T> tile, double norm) {
                norms[slot] = norm;
                (*consume)(slot, tile, norm);
            };
        ExecuteOptions<T> how;
        how.alpha = alpha;
        how.beta = beta;
        how.conjugate_a = options.conjugate_a;
        how.conjugate_b = options.conjugate_b;
        how.budget = &budget;
        how.progress = options.on_progress;
        if (plan.devices_per_rank > 0) {
            DeviceOptions on;
            on.memory = options.device_memory;
            on.ranks = &ranks;
            on.trace = options.trace;
            auto ran = execute_devices(plan, ranks.rank(), options.devices, pa.source(plan.filter > 0),
                                       pb.source(plan.filter > 0), sink, how, on);
            counts = ran.host;
            report.trace = std::move(ran.trace);
            for (const auto& d : ran.devices) {
                report.loaded_bytes += d.loaded_bytes;
                report.stored_bytes += d.stored_bytes;
                report.copied_bytes += d.copied_bytes;
                report.descriptor_bytes += d.descriptor_bytes;
                report.peak_device_bytes = std::max(report.peak_device_bytes, d.high_water);
                counts.made_tiles += d.made_tiles;
            }
        } else {
            counts = execute(plan, ranks, pa.source(plan.filter > 0), pb.source(plan.filter > 0), sink, how);
        }
        if (consume) {
            if (!hand_over)
                parallel_for(plan.c.tile_count(), options.threads, 1, [&](std::int64_t slot) {
                    if (impl->is_local(slot))
                        (*consume)(slot, {impl->tile(slot), static_cast<std::size_t>(impl->elements(slot))},
                                   norms[slot]);
                });
            const auto ordinals = plan.c.ordinals();
            *consumed = Shape::from_sorted(plan.c.grid(), {ordinals.begin(), ordinals.end()}, std::move(norms));
            impl = nullptr;
            return;
        }
        impl->set_norms(std::move(norms));
        impl->buffer.leave_budget();
    });

    report.left_out = plan.counts.left_out_bound;
    report.flops = plan.counts.flops;
    report.products = plan.counts.products;
    report.bytes_a = plan.counts.bytes_a;
    report.bytes_b = plan.counts.bytes_b;
    report.bytes_c = plan.counts.bytes_c;
    report.peak_host_bytes = largest_on_all(ranks, std::max(budget.peak(), reducing));
    report.algorithm = plan.algorithm;
    report.threads = plan.threads;
    report.ranks = plan.ranks;
    report.devices = options.devices;
    report.made_tiles = counts.made_tiles;
    if (ranks.size() > 1) {
        report.rank_sent_bytes = counts.sent_bytes;
        report.rank_received_bytes = counts.received_bytes;
        std::int64_t all[] = {counts.made_tiles,   counts.sent_bytes,   report.loaded_bytes,
                              report.stored_bytes, report.copied_bytes, report.descriptor_bytes};
        ranks.sum(std::span<std::int64_t>(all));
        report.made_tiles = all[0];
        report.sent_bytes = all[1];
        report.loaded_bytes = all[2];
        report.stored_bytes = all[3];
        report.copied_bytes = all[4];
        report.descriptor_bytes = all[5];
        report.peak_device_bytes = largest_on_all(ranks, report.peak_device_bytes);
        double seconds[] = {counts.transfer_seconds, std::min(counts.waited_seconds, counts.transfer_seconds)};
        ranks.sum(std::span<double>(seconds));
        report.overlap = seconds[0] > 0 ? 1 - seconds[1] / seconds[0] : 1;
    }
    if (plan.devices_per_rank > 0) {
        report.overlap = std::numeric_limits<double>::quiet_NaN();
        if (options.trace) {
            const auto shares = device_overlap(report.trace);
            double seconds[] = {shares.transfer_seconds, shares.hidden_seconds, shares.work_seconds,
                                shares.make_seconds};
            if (ranks.size() > 1) ranks.sum(std::span<double>(seconds));
            report.overlap = seconds[0] > 0 ? seconds[1] / seconds[0] : 1;
            report.transfer_seconds = seconds[0] / plan.ranks;
            report.device_seconds = seconds[2] / plan.ranks;
            report.make_seconds = seconds[3] / plan.ranks;
        }
    }
    if (consume) {
        report.execute_seconds = now_seconds() - begin;
        return {Tensor<T>(), std::move(report)};
    }
    Tensor<T> c(std::move(impl));
    if (options.filter > 0 && !options.result_shape) c = drop_small(std::move(c), plan, report);
    report.execute_seconds = now_seconds() - begin;
    return {std::move(c), std::move(report)};
}

}  // namespace

template <Scalar T>
Contraction<T> contract(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                        const std::type_identity_t<ContractOperand<T>>& b, const ContractOptions& options) {
    return run<T>(spec, a, b, nullptr, options);
}

template <Scalar T>
ConsumedContraction<T> contract_each(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                     const std::type_identity_t<ContractOperand<T>>& b,
                                     const std::type_identity_t<TileConsumer<T>>& consume,
                                     const ContractOptions& options) {
    require(options.filter == 0, "filter {}: a result that is handed over tile by tile cannot be filtered",
            options.filter);
    require(static_cast<bool>(consume), "contract_each: there is no function to hand the tiles to");
    ConsumedContraction<T> out;
    out.report = run<T>(spec, a, b, nullptr, options, &consume, &out.shape).report;
    return out;
}

template <Scalar T>
ContractReport contract_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                             const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c,
                             const ContractOptions& options) {
    auto result = run<T>(spec, a, b, &c, options);
    c = std::move(result.tensor);
    return std::move(result.report);
}

namespace {

template <Scalar T>
Contraction<T> run_one(std::string_view text, const Tensor<T>& a, const Tensor<T>* old,
                       const ContractOptions& options) {
    const double start = now_seconds();
    const ContractionSpec spec(text);
    const TileGrid grid = spec.result_grid(a.grid());
    const T alpha = scalar_of<T>(options.alpha, "alpha"), beta = scalar_of<T>(options.beta, "beta");
    require(old || beta == T(0), "beta is {}, but there is no C to add to: use contract_into", options.beta.real());
    require(options.filter >= 0 && std::isfinite(options.filter), "filter {} is not a finite number >= 0",
            options.filter);
    require(options.memory >= 0, "memory budget {} is negative", options.memory);
    require(options.devices.empty() && options.device_memory == 0,
            "spec '{}': has one operand, which the cores work on; give no devices", spec.text());
    if (old) require_like_result(spec, old->grid(), grid);
    const bool adds = old && beta != T(0);
    const auto added = adds ? std::optional(old->tile_bytes()) : std::nullopt;
    Contraction<T> out{
        reduce(a, spec.a(), spec.c(), options.threads, options.memory, added, alpha, options.conjugate_a), {}};
    out.report.bytes_a = a.tile_bytes();
    const auto bytes = reduce_bytes(a.shape(), &a.distribution(), sizeof(T), spec.a(), spec.c(), a.communicator());
    out.report.peak_host_bytes = out.report.bytes_a + bytes.copy + bytes.result;
    if (adds) {
        auto sum = add(T(1), out.tensor, beta, *old);
        out.report.peak_host_bytes += old->tile_bytes() + sum.tile_bytes();
        out.tensor = std::move(sum);
    }
    out.report.peak_host_bytes = largest_on_all(a.communicator(), out.report.peak_host_bytes);
    if (options.filter > 0) {
        double square = 0;
        for (double n : out.tensor.shape().norms())
            if (n < options.filter) square += n * n, ++out.report.dropped_tiles;
        out.report.left_out = std::sqrt(square) * (1 + 1e-12);
        out.tensor = filter(out.tensor, options.filter);
    }
    out.report.bytes_c = out.tensor.tile_bytes();
    out.report.algorithm = "reduce";
    out.report.threads = resolve_threads(options.threads);
    out.report.execute_seconds = now_seconds() - start;
    return out;
}

}  // namespace

template <Scalar T>
Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const ContractOptions& options) {
    return run_one<T>(spec, a, nullptr, options);
}

template <Scalar T>
ContractReport contract_into(std::string_view spec, const Tensor<T>& a, Tensor<T>& c, const ContractOptions& options) {
    auto result = run_one<T>(spec, a, &c, options);
    c = std::move(result.tensor);
    return std::move(result.report);
}

template <Scalar T>
Tensor<T> permute(const Tensor<T>& x, const Permutation& p, int threads) {
    require(p.rank() == x.rank(), "permute: permutation {} for a tensor of rank {}", to_string(p), x.rank());
    std::string in, out;
    for (int d = 0; d < x.rank(); ++d) in += static_cast<char>('a' + d);
    for (int d = 0; d < x.rank(); ++d) out += in[p[d]];
    return reduce(x, in, out, threads);
}

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template Contraction<T> contract<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,            \
                                        const std::type_identity_t<ContractOperand<T>>&, const ContractOptions&);     \
    template ContractReport contract_into<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,       \
                                             const std::type_identity_t<ContractOperand<T>>&, Tensor<T>&,             \
                                             const ContractOptions&);                                                 \
    template ConsumedContraction<T> contract_each<T>(                                                                 \
        std::string_view, const std::type_identity_t<ContractOperand<T>>&,                                            \
        const std::type_identity_t<ContractOperand<T>>&, const std::type_identity_t<TileConsumer<T>>&,                \
        const ContractOptions&);                                                                                      \
    template Contraction<T> contract<T>(std::string_view, const Tensor<T>&, const ContractOptions&);                  \
    template ContractReport contract_into<T>(std::string_view, const Tensor<T>&, Tensor<T>&, const ContractOptions&); \
    template Tensor<T> permute(const Tensor<T>&, const Permutation&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

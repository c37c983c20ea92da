#include "chem/tensor_work.hpp"

#include <algorithm>
#include <optional>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "storage/dry_run.hpp"
#include "tessera/base/error.hpp"

namespace tessera::chem {

void TensorWork::note(ContractReport report, double start) {
    seconds_ += now_seconds() - start;
    flops_ += report.flops;
    ++count_;
    if (!report.devices.empty()) {
        ++on_devices_.count;
        on_devices_.flops += report.flops;
        on_devices_.loaded_bytes += report.loaded_bytes;
        on_devices_.stored_bytes += report.stored_bytes;
    }
    last_ = std::move(report);
}

double work_of(std::string_view spec, const Shape& a, const Shape* b) {
    double work = 1;
    std::string seen;
    const auto count = [&](std::string_view labels, const TileGrid& grid) {
        for (int d = 0; d < grid.rank() && d < static_cast<int>(labels.size()); ++d)
            if (seen.find(labels[d]) == std::string::npos) {
                seen += labels[d];
                work *= static_cast<double>(grid.tiling(d).extent());
            }
    };
    count(spec, a.grid());
    if (b) count(spec.substr(spec.find(',') + 1), b->grid());
    return work;
}

/// Small work is done by one thread: waking the others costs more than they save. The result is the same bits.
int threads_for(std::string_view spec, const Shape& a, const Shape* b, int threads) {
    return work_of(spec, a, b) < (b ? 2e6 : 2e5) ? 1 : threads;
}

namespace {

/// The same tensor with each tile on one rank only. Everyone has all of x.
RealTensor deal(const RealTensor& x, Communicator& ranks, int threads) {
    return RealTensor::generate(
        x.shape(),
        [&](const TileInfo& info, std::span<double> out) { std::ranges::copy(x.tile(info.coordinates), out.begin()); },
        threads, {ranks, Distribution::even(x.grid(), ranks.size())});
}

/// The tiles of a shape from all elements.
RealTensor tiles_of(std::span<const double> all, const Shape& shape, int threads) {
    return RealTensor::generate(
        shape,
        [&](const TileInfo& info, std::span<double> out) {
            const int last = shape.grid().rank() - 1;
            const auto run = info.extents[last];
            for (std::int64_t n = 0; n < static_cast<std::int64_t>(out.size()); n += run) {
                std::int64_t at = info.begin[last], step = shape.grid().tiling(last).extent(), rest = n / run;
                for (int d = last - 1; d >= 0; --d) {
                    at += (info.begin[d] + rest % info.extents[d]) * step;
                    rest /= info.extents[d];
                    step *= shape.grid().tiling(d).extent();
                }
                std::copy_n(all.begin() + at, run, out.begin() + n);
            }
        },
        threads);
}

}  // namespace

/// Ranks that do not share a contraction all do it, each on its cores: their devices may be one and the same.
bool TensorWork::for_devices(std::string_view spec, const RealOperand& a, const RealOperand& b, bool shared) const {
    if (workers_.here.devices.empty() || !(shared || workers_.rank_count() == 1)) return false;
    const double work = work_of(spec, a.shape(), &b.shape()) / workers_.rank_count();
    if (workers_.device_from >= 0) return work >= workers_.device_from;
    // Round figures: opening the devices, the way there and back through staging, and the rates of cores and devices.
    constexpr double kOpen = 5e-3, kLink = 20e9, kCore = 40e9, kDevice = 40e12;
    const auto c = ContractionSpec(spec).result_grid(a.shape().grid(), b.shape().grid()).element_total();
    const double bytes =
        8.0 * static_cast<double>(a.shape().grid().element_total() + b.shape().grid().element_total() + c);
    const auto gpus = static_cast<double>(workers_.here.devices.size());
    return 2 * work / (kCore * resolve_threads(threads_)) > kOpen + bytes / kLink + 2 * work / (kDevice * gpus);
}

Resources TensorWork::cores_for(std::string_view spec, const Shape& a, const Shape* b) const {
    return {.threads = threads_for(spec, a, b, threads_)};
}

namespace {

bool lives_there(const RealOperand& x) { return x.stored() && x.stored()->on_devices(); }

}  // namespace

Resources TensorWork::home_of(const RealTensor& x) const {
    return {.threads = threads_, .devices = x.placement().devices, .device_memory = workers_.here.device_memory};
}

/// What does not fit there runs on the cores.
template <class Run>
auto TensorWork::on_devices(const Resources& cores, const Run& run) {
    Resources there = cores;
    there.devices = workers_.here.devices;
    there.device_memory = workers_.here.device_memory;
    there.machine = workers_.here.machine;
    there.memory = 0;  // tiles pass through staging; what is made is not kept
    try {
        return run(there);
    } catch (const BudgetError&) {
        ++on_devices_.refused;
    }
    return run(cores);
}

/// On all ranks and devices where it pays; the result is whole on every rank.
Contraction<double> TensorWork::shared_product(std::string_view spec, const RealOperand& a, const RealOperand& b,
                                               Resources cores, const ContractOptions& options) {
    if (lives_there(a)) return contract<double>(spec, a, b, home_of(*a.stored()), options);
    const bool shared = shares(spec, a, b);
    std::optional<RealTensor> dealt[2];
    if (shared) {
        cores.memory = 0;
        cores.communicator = workers_.here.communicator;
        cores.machine = workers_.here.machine;
        if (a.stored()) dealt[0] = deal(*a.stored(), *workers_.here.communicator, threads_);
        if (b.stored()) dealt[1] = deal(*b.stored(), *workers_.here.communicator, threads_);
    }
    const auto run = [&](const Resources& here) {
        return contract<double>(spec, dealt[0] ? RealOperand(*dealt[0]) : a, dealt[1] ? RealOperand(*dealt[1]) : b,
                                here, options);
    };
    auto result = for_devices(spec, a, b, shared) ? on_devices(cores, run) : run(cores);
    if (!shared) return result;
    const auto all = result.tensor.to_dense();
    const Shape& shape = result.tensor.shape();
    result.tensor =
        shape.symmetry().none() ? RealTensor::from_dense(shape.grid(), all) : tiles_of(all, shape, threads_);
    return result;
}

RealTensor TensorWork::product(std::string_view spec, const RealOperand& a, const RealOperand& b, double alpha) {
    if (DryRun::current()) return counted(spec, a, &b);
    const double start = now_seconds();
    ContractOptions options;
    options.alpha = alpha;
    auto result = shared_product(spec, a, b, cores_for(spec, a.shape(), &b.shape()), options);
    note(std::move(result.report), start);
    return std::move(result.tensor);
}

RealTensor TensorWork::product(std::string_view spec, const RealOperand& a, const RealOperand& b, const Shape& only) {
    if (DryRun::current()) return counted(spec, a, &b, &only);
    const double start = now_seconds();
    ContractOptions options;
    options.result_shape = &only;
    options.result_symmetry = only.symmetry();
    auto result = shared_product(spec, a, b, cores_for(spec, a.shape(), &b.shape()), options);
    note(std::move(result.report), start);
    return std::move(result.tensor);
}

/// A large c, a run of tiles at a time: the sum of all of them beside c would be one tensor more. The same bits.
bool TensorWork::add_in_runs(std::string_view spec, const RealOperand& a, const RealOperand& b, RealTensor& c,
                             double alpha) {
    const TileGrid grid = c.grid();
    const auto tiles = grid.tile_total(), elements = grid.element_total();
    if (8 * elements < kLargeResult || tiles < 2 || lives_there(a) || shares(spec, a, b) ||
        for_devices(spec, a, b, false) || !c.tiles().symmetry().none())
        return false;
    for (std::int64_t begin = 0, end = 0; begin < tiles; begin = end) {
        std::vector<ShapeEntry> entries;
        for (std::int64_t filled = 0; end < tiles && filled < elements / kRuns; ++end) {
            entries.push_back({TileOrdinal{end}, 0.0});
            filled += grid.tile_elements(TileOrdinal{end});
        }
        axpy(alpha, product(spec, a, b, Shape(grid, std::move(entries))), c);
    }
    return true;
}

void TensorWork::add_product(std::string_view spec, const RealOperand& a, const RealOperand& b, RealTensor& c,
                             double alpha) {
    if (add_in_runs(spec, a, b, c, alpha)) return;
    if (DryRun::current()) {
        RealTensor product = counted(spec, a, &b);
        c = shares(spec, a, b) ? add(1.0, product, 1.0, c) : std::move(product);
        return;
    }
    const double start = now_seconds();
    ContractOptions options;
    options.alpha = alpha;
    options.result_symmetry = c.tiles().symmetry();
    if (lives_there(a)) {
        options.beta = 1;
        return note(contract_into<double>(spec, a, b, c, home_of(*a.stored()), options), start);
    }
    const auto cores = cores_for(spec, a.shape(), &b.shape());
    if (shares(spec, a, b)) {
        auto result = shared_product(spec, a, b, cores, options);
        c = add(1.0, result.tensor, 1.0, c);
        note(std::move(result.report), start);
        return;
    }
    options.beta = 1;
    const auto run = [&](const Resources& here) { return contract_into<double>(spec, a, b, c, here, options); };
    note(for_devices(spec, a, b, false) ? on_devices(cores, run) : run(cores), start);
}

RealTensor TensorWork::lean_product(std::string_view spec, const RealOperand& a, const RealOperand& b) {
    if (DryRun::current()) return counted(spec, a, &b);
    const double start = now_seconds();
    auto cores = cores_for(spec, a.shape(), &b.shape());
    const auto grid = ContractionSpec(spec).result_grid(a.shape().grid(), b.shape().grid());
    cores.memory = kMadeTiles + 8 * grid.element_total() + 64 * grid.tile_total();
    for (const auto* x : {&a, &b})
        if (x->stored()) cores.memory += x->stored()->tile_bytes();
    const auto run = [&] {
        auto result = shared_product(spec, a, b, cores, {});
        note(std::move(result.report), start);
        return std::move(result.tensor);
    };
    try {
        return run();
    } catch (const BudgetError& e) {
        cores.memory = e.smallest_bytes() + kMadeTiles;  // a single tile is larger than the room
    }
    return run();
}

RealTensor TensorWork::permuted(std::string_view spec, const RealTensor& a) {
    if (DryRun::current()) return counted(spec, a, nullptr);
    const double start = now_seconds();
    auto result = contract(spec, a, cores_for(spec, a.shape(), nullptr));
    note(std::move(result.report), start);
    return std::move(result.tensor);
}

RealTensor to_tensor(const Matrix& m, const Tiling& rows, const Tiling& columns) {
    return RealTensor::generate(Shape::dense(TileGrid{rows, columns}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    for (std::int64_t i = 0; i < info.extents[0]; ++i)
                                        for (std::int64_t j = 0; j < info.extents[1]; ++j)
                                            out[i * info.extents[1] + j] = m(info.begin[0] + i, info.begin[1] + j);
                                });
}

Matrix to_matrix(const RealTensor& x) {
    const auto all = x.to_dense();
    return Eigen::Map<const Matrix>(all.data(), x.grid().tiling(0).extent(), x.grid().tiling(1).extent());
}

Tiling even_tiling(std::int64_t extent, std::int64_t target) {
    const auto tiles = std::max<std::int64_t>(1, (extent + target - 1) / target);
    std::vector<std::int64_t> sizes;
    for (std::int64_t t = 0; t < tiles; ++t) sizes.push_back(extent * (t + 1) / tiles - extent * t / tiles);
    return Tiling::from_sizes(sizes);
}

std::vector<std::pair<std::int64_t, std::int64_t>> runs_of_tiles(const Tiling& tiling, std::int64_t most) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    for (std::int64_t t = 0, filled = 0; t < tiling.tile_count(); ++t) {
        const auto size = tiling.size(TileIndex{t});
        if (out.empty() || filled + size > most) {
            out.emplace_back(t, t);
            filled = 0;
        }
        filled += size;
        out.back().second = t + 1;
    }
    return out;
}

Tiling part_of(const Tiling& tiling, std::int64_t first, std::int64_t last) {
    std::vector<std::int64_t> sizes;
    for (auto t = first; t < last; ++t) sizes.push_back(tiling.size(TileIndex{t}));
    return Tiling::from_sizes(sizes);
}

}  // namespace tessera::chem

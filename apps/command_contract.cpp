#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "gemm_rate.hpp"
#include "index/einsum_spec.hpp"
#include "probe/rates.hpp"
#include "report.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/index/automatic_tiling.hpp"
#include "tessera/io/file.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/npy.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    ContractionOptions contraction;
    std::string spec, a, b, out;
    std::vector<std::string> files;  // all operands, instead of --a and --b
    std::string tile = "auto";
    bool conjugate_a = false, conjugate_b = false;
    std::vector<int> conjugate;  // by number from 1
    std::string symmetry;
    bool fold = false;
};

bool is_npy(const std::string& path) { return path.ends_with(".npy"); }
bool is_hdf5(const std::string& path) { return path.ends_with(".h5") || path.ends_with(".hdf5"); }

using TilingOf = std::map<char, Tiling>;  // by label

/// The tiles of a dense array: those that its labels have elsewhere, or of the size that was asked for, or `automatic`.
TileGrid tiles_of(const Options& o, const std::string& labels, const TilingOf& known, const IndexVector& extents,
                  const TileGrid& automatic) {
    std::vector<Tiling> all;
    for (int d = 0; d < extents.size(); ++d) {
        const auto at =
            d < static_cast<int>(labels.size()) ? known.find(labels[static_cast<std::size_t>(d)]) : known.end();
        if (o.tile != "auto")
            all.push_back(Tiling::uniform(extents[d], std::stoll(o.tile)));
        else if (at != known.end() && at->second.extent() == extents[d])
            all.push_back(at->second);
        else
            all.push_back(automatic.tiling(d));
    }
    return TileGrid(std::move(all));
}

/// Dealt to the ranks that there are. What is wrong with a file is said of the operand that it is.
template <class Tiles>
AnyTensor read(const std::string& operand, const std::string& path, const Options& o, const Tiles& tiles) {
    try {
        return is_npy(path) ? read_npy_tensor(path, tiles, mpi_world()) : read_any(path, o.common.threads, mpi_world());
    } catch (const UserError& e) {
        throw UserError(fmt::format("{}: {}", operand, e.what()));
    }
}

void write(const std::string& path, const AnyTensor& tensor) {
    if (!is_npy(path)) return write_tensor(path, tensor);
    std::visit([&](const auto& t) { write_npy(path, t); }, tensor);
}

std::string scalar_name(const AnyTensor& t) {
    return std::string(std::visit(
        [](const auto& x) { return name(ScalarTraits<typename std::decay_t<decltype(x.tile(0))>::value_type>::kind); },
        t));
}

/// What the command line asks of the library.
struct Request {
    Resources here;
    ContractOptions what;
    PlanOptions how;
};

template <Scalar T>
using Tensors = std::vector<Tensor<T>>;

/// The plan, for a person.
void show_plan(const Options& o, const std::string& text) {
    if (o.contraction.explain && mpi_world().rank() == 0) fmt::print(o.common.json ? stderr : stdout, "{}", text);
    std::fflush(stdout);
}

/// The products of two that a plan has, at the rates of these cores: all ranks together. Memory counts where the tiles
/// do not fit the last cache. Nothing where devices do the work.
std::optional<Floor> floor_of(std::span<const PlannedContraction> steps, const Request& r, double gemm_gflops,
                              bool adds) {
    if (!r.here.devices.empty() || steps.empty()) return std::nullopt;
    std::int64_t most = 0;
    for (const auto& step : steps)
        most = std::max(most, step.counts().bytes_a + step.counts().bytes_b + step.counts().bytes_c);
    const int threads = resolve_threads(r.here.threads);
    Roofline mine{measure_tile_gflops(256, threads, 0.05)};
    if (most > cache_sizes().l3) measure_memory_rates(threads, mine);
    double rates[] = {mine.gemm_gflops, mine.read_gbs, mine.store_gbs, mine.copy_gbs};
    if (mpi_world().size() > 1) mpi_world().sum(std::span<double>(rates));
    Floor out{.rates = {std::max(rates[0], gemm_gflops), rates[1], rates[2], rates[3]}};
    for (const auto& step : steps) {
        const auto& n = step.counts();
        const bool last = &step == &steps.back();
        out.add(n.flops, step.plan().scalar,
                static_cast<double>(n.bytes_a + n.bytes_b + (adds && last ? n.bytes_c : 0)),
                static_cast<double>(n.bytes_c));
    }
    return out;
}

/// What there is to tell of a plan before it runs: the seconds that this takes are no work.
struct Shown {
    double gemm_gflops = 0;  // of OpenBLAS, where it was measured
    double pause = 0;
    std::optional<Floor> floor;
    void show(const Options& o, const Request& r, const std::string& text, std::span<const PlannedContraction> steps,
              bool adds) {
        if (!o.contraction.explain && !o.common.json) return;
        const double start = now_seconds();
        floor = floor_of(steps, r, gemm_gflops, adds);
        show_plan(o, text + (floor ? to_text(*floor) : ""));
        pause = now_seconds() - start;
    }
};

/// Three operands or more.
template <Scalar T>
Contraction<T> work_on_many(const std::string& spec, const Request& r, const Tensors<T>& operands,
                            std::optional<Tensor<T>> old, const Watch& watch, const Options& o, Shown& shown) {
    const std::vector<ContractOperand<T>> list(operands.begin(), operands.end());
    const auto planned =
        old ? plan_into(spec, list, *old, r.here, r.what, r.how) : plan(spec, list, r.here, r.what, r.how);
    shown.show(o, r, explain(planned), planned.steps(), old.has_value());
    Contraction<T> result;
    if (old) {
        result.report = execute_into(planned, list, *old, watch);
        result.tensor = std::move(*old);
    } else {
        result = execute(planned, list, watch);
    }
    result.report.plan_seconds += planned.seconds();
    return result;
}

template <Scalar T>
Contraction<T> work_on(const std::string& spec, const Request& r, const Tensors<T>& operands,
                       std::optional<Tensor<T>> old, const Watch& watch, const Options& o, Shown& shown) {
    if (operands.size() > 2) return work_on_many(spec, r, operands, std::move(old), watch, o, shown);
    const Tensor<T>& a = operands[0];
    const Tensor<T>* b = operands.size() > 1 ? &operands[1] : nullptr;
    Contraction<T> result;
    if (!b) {
        if (!old) return contract(spec, a, r.here, r.what);
        result.report = contract_into<T>(spec, a, *old, r.here, r.what);
        result.tensor = std::move(*old);
        return result;
    }
    const ContractionSpec parsed(spec);
    // A filter looks at the norms of diagonals and sums, which are known only when these are made.
    if (r.what.filter > 0 && (parsed.needs_reduction(0) || parsed.needs_reduction(1))) {
        require(!o.contraction.explain,
                "--explain: with --filter, spec '{}' has a plan only when its diagonals and "
                "sums are made",
                parsed.text());
        if (!old) return contract(spec, a, *b, r.here, r.what, r.how, watch);
        result.report = contract_into<T>(spec, a, *b, *old, r.here, r.what, r.how, watch);
        result.tensor = std::move(*old);
        return result;
    }
    const auto planned =
        old ? plan_into<T>(spec, a, *b, *old, r.here, r.what, r.how) : plan(spec, a, *b, r.here, r.what, r.how);
    shown.show(o, r, explain(planned), {&planned, 1}, old.has_value());
    if (old) {
        result.report = execute_into<T>(planned, a, *b, *old, watch);
        result.tensor = std::move(*old);
    } else {
        result = execute(planned, a, *b, watch);
    }
    result.report.plan_seconds = planned.seconds();
    return result;
}

template <Scalar T>
ContractionSummary work(const Options& o, const std::string& text, const Request& r, const Tensors<T>& operands,
                        std::optional<Tensor<T>> old, AnyTensor& out) {
    const bool first = mpi_world().rank() == 0;
    ContractionSummary s;
    s.spec = text;
    // As long as the work took, up to half a second: little work does not wait for its rate.
    const double gemm_before = o.common.json ? gemm_rate(mpi_world(), r.here, 0).best_gflops : 0;
    Contraction<T> result;
    {
        ProgressBar bar(s.spec, first && !o.common.quiet && !o.common.json);
        const Watch watch{[&](double done, double total) { bar.show(done, total); }};
        Shown shown;
        shown.gemm_gflops = gemm_before;
        const double start = now_seconds();
        result = work_on<T>(text, r, operands, std::move(old), watch, o, shown);
        s.seconds = now_seconds() - start - shown.pause;
        s.floor = shown.floor;
    }
    if (o.common.json)
        s.gemm_gflops = std::max(gemm_before, gemm_rate(mpi_world(), r.here, std::min(s.seconds, 0.5)).best_gflops);
    s.report = result.report;
    for (const auto& x : operands) {
        s.densities.push_back(x.shape().density());
        s.metadata_bytes += x.metadata_bytes();
    }
    s.density_c = result.tensor.shape().density();
    s.metadata_bytes += result.tensor.metadata_bytes();
    s.checksum = checksum(result.tensor);
    // The slow sum needs two whole operands: on one rank only; on many the bits are the same.
    const auto reduces = [&] {
        const ContractionSpec spec(text);
        return spec.needs_reduction(0) || spec.needs_reduction(1);
    };
    if (mpi_world().size() == 1 && operands.size() == 2 && o.contraction.beta == 0 && o.contraction.filter == 0 &&
        !reduces()) {
        VerifyOptions v;
        v.tiles = o.contraction.check;
        v.alpha = r.what.alpha;
        v.conjugate_a = r.what.conjugates(0);
        v.conjugate_b = r.what.conjugates(1);
        v.threads = o.common.threads;
        s.checked = verify_sample<T>(text, operands[0], operands[1], result.tensor, v);
        const double allowed = std::is_same_v<RealOf<T>, float> ? 1e-3 : 1e-10;
        if (s.checked.max_relative_error > allowed)
            throw CheckFailed(
                fmt::format("{}: a sampled element is off by {:.2e} relative to the slow sum; nothing was written",
                            s.spec, s.checked.max_relative_error));
    }
    out = std::move(result.tensor);
    return s;
}

/// The files of all operands.
std::vector<std::string> files_of(const Options& o) {
    require(o.files.empty() || (o.a.empty() && o.b.empty()),
            "operand {} is given, and --a or --b: name all of them in one way", o.files.empty() ? "" : o.files[0]);
    if (!o.files.empty()) return o.files;
    require(!o.a.empty(), "no operand: give a file for each behind the spec, or --a and --b");
    std::vector<std::string> out{o.a};
    if (!o.b.empty()) out.push_back(o.b);
    return out;
}

void check_options(const Options& o, const EinsumSpec& spec, const std::vector<std::string>& files) {
    const auto count = static_cast<std::size_t>(spec.count());
    require(count > 1 || o.contraction.where.devices == "none",
            "--devices {}: spec '{}' has one operand, which the cores work on", o.contraction.where.devices,
            spec.text());
    require(o.tile == "auto" || std::any_of(files.begin(), files.end(), is_npy),
            "--tile {} is for .npy operands; {} already has its tiles, as the file says", o.tile, files[0]);
    require(count != 2 || files.size() != 1, "spec '{}' has two operands: {}", spec.text(),
            o.files.empty() ? "give the second one with --b" : "give a file for each");
    require(count != 1 || files.size() != 2, "spec '{}' has one operand, but {} is given too", spec.text(),
            files.size() > 1 ? files[1] : "");
    require(count == files.size(), "spec '{}' has {} operands, but {} {} given", spec.text(), count, files.size(),
            files.size() == 1 ? "file is" : "files are");
    require(!o.out.empty() || o.contraction.beta == 0, "--beta {} adds to the tensor in --out, which is not given",
            o.contraction.beta);
    if (count == 1) {
        require(!o.contraction.explain, "--explain: spec '{}' has one operand, so there is no plan to explain",
                spec.text());
        require(o.contraction.how.algorithm == "auto",
                "--algorithm {}: spec '{}' has one operand, so there is none to choose", o.contraction.how.algorithm,
                spec.text());
        require(o.contraction.where.machine.empty(), "--machine {}: spec '{}' has one operand, so there is no plan",
                o.contraction.where.machine, spec.text());
        require(!o.conjugate_b, "--conjugate-b: spec '{}' has one operand", spec.text());
    }
    for (const int n : o.conjugate)
        require(n >= 1 && n <= spec.count(), "--conjugate {}: spec '{}' has {} operand{}", n, spec.text(), count,
                count == 1 ? "" : "s");
    if (o.out.empty()) return;
    require(is_npy(o.out) || is_hdf5(o.out), "--out {}: the name must end in .h5, .hdf5 or .npy", o.out);
    if (mpi_world().rank() == 0) require_writable(o.out);
}

const Shape& shape_of(const AnyTensor& t) {
    return std::visit([](const auto& x) -> const Shape& { return x.shape(); }, t);
}

void run(const Options& o) {
    const auto files = files_of(o);
    check_options(o, EinsumSpec(o.spec), files);
    Request request{resources_of(o.contraction.where, o.common), contract_options_of(o.contraction), {}};
    request.how = plan_options_of(o.contraction.how, mpi_world().size(), !request.here.devices.empty());
    request.what.conjugate_a = o.conjugate_a;
    request.what.conjugate_b = o.conjugate_b;
    for (const int n : o.conjugate) request.what.conjugate.push_back(n - 1);
    request.what.result_symmetry = o.symmetry;
    request.what.fold = o.fold;

    // Dense arrays come last: they take the tiles that other operands have.
    const auto count = static_cast<int>(files.size());
    std::vector<AnyTensor> operands(files.size());
    std::vector<IndexVector> extents;
    std::vector<const TileGrid*> grids;
    const EinsumSpec given(o.spec);
    TilingOf known;
    for (const bool dense : {false, true})
        for (int n = 0; n < count; ++n) {
            const auto& file = files[static_cast<std::size_t>(n)];
            const auto& labels = given.operands[static_cast<std::size_t>(n)];
            if (is_npy(file) != dense) continue;
            auto& x = operands[static_cast<std::size_t>(n)];
            x = read(operand_name(n, count), file, o, [&](const IndexVector& e) {
                return tiles_of(o, given.has_ellipsis() ? "" : labels, known, e, automatic_grid(o.spec, n, e));
            });
            const auto& grid = shape_of(x).grid();
            if (!given.has_ellipsis())
                for (int d = 0; d < std::min(grid.rank(), static_cast<int>(labels.size())); ++d)
                    known.emplace(labels[static_cast<std::size_t>(d)], grid.tiling(d));
        }
    for (int n = 0; n < count; ++n) {
        const auto& x = operands[static_cast<std::size_t>(n)];
        require(operands[0].index() == x.index(), "{} ({}) holds {}, {} ({}) holds {}: they must be the same",
                operand_name(0, count), files[0], scalar_name(operands[0]), operand_name(n, count),
                files[static_cast<std::size_t>(n)], scalar_name(x));
        extents.push_back(shape_of(x).grid().extents());
    }
    for (const auto& x : operands) grids.push_back(&shape_of(x).grid());
    const EinsumSpec spec(o.spec, extents);
    const TileGrid grid = result_grid(spec.operands, spec.result, grids);
    std::optional<AnyTensor> old;
    if (o.contraction.beta != 0)
        old = read("C", o.out, o, [&](const IndexVector& e) {
            return tiles_of(o, spec.result, known, e, automatic_grid("...", 0, e));
        });
    if (old)
        require(operands[0].index() == old->index(), "A ({}) holds {}, C ({}) holds {}: they must be the same",
                files[0], scalar_name(operands[0]), o.out, scalar_name(*old));
    if (is_npy(o.out) && 16.0 * static_cast<double>(grid.element_total()) > static_cast<double>(memory_bytes()))
        throw MachineError(
            fmt::format("--out {}: the result as a dense array has {} elements, more than this machine holds; "
                        "write a .h5 file",
                        o.out, grid.element_total()));
    AnyTensor result;
    const auto summary = std::visit(
        [&](const auto& x) {
            using T = typename std::decay_t<decltype(x.tile(0))>::value_type;
            std::optional<Tensor<T>> c;
            if (old) c = std::get<Tensor<T>>(std::move(*old));
            Tensors<T> all;
            for (auto& operand : operands) all.push_back(std::move(std::get<Tensor<T>>(operand)));
            return work<T>(o, spec.text(), request, all, std::move(c), result);
        },
        operands[0]);
    if (!o.out.empty()) write(o.out, result);
    if (mpi_world().rank() != 0) return;
    if (o.common.json)
        print_json(to_json(summary));
    else if (!o.common.quiet) {
        fmt::print("{}", to_text(summary));
        if (!o.out.empty()) fmt::print("written     {}\n", one_line(o.out));
    }
}

}  // namespace

Action add_contract(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("contract", "contract stored tensors");
    command
        .add_option("spec", o->spec,
                    "einsum as NumPy reads it, as in 'pcd,cdab->pab' (after --, when it begins with a dash)")
        .required();
    command.add_option("operands", o->files, "a file for each operand (.h5, or dense .npy)");
    command.add_option("--a", o->a, "one or two operands: the first one");
    command.add_option("--b", o->b, "the second one");
    command
        .add_option("--out", o->out,
                    "where the result goes (.h5, .hdf5 or .npy); with --beta, C is read from there first")
        .check(check_name);
    command.add_option("--tile", o->tile, "tile size for .npy operands, or auto: by spec and extents")
        .check([](const std::string& text) -> std::string {
            const bool digits = !text.empty() && text.size() < 13 && text.find_first_not_of("0123456789") == text.npos;
            if (text == "auto" || (digits && std::stoll(text) > 0)) return {};
            return fmt::format("'{}' is neither auto nor a number from 1 on", one_line(text));
        })
        .show_default();
    command.add_flag("--conjugate-a", o->conjugate_a, "use the complex conjugate of A");
    command.add_flag("--conjugate-b", o->conjugate_b, "use the complex conjugate of B");
    command.add_option("--conjugate", o->conjugate, "use the complex conjugate of these operands, by number from 1")
        .delimiter(',')
        .repeatable();
    command
        .add_option("--symmetry", o->symmetry,
                    "of the result, as ij=ji or ijab=-jiab,ijab=-ijba: one of the tiles that follow from each other "
                    "is computed")
        .check(check_word);
    command.add_flag("--fold", o->fold, "take sums over indices that both operands may exchange over c <= d alone");
    add_contraction(command, o->contraction);
    add_common(command, o->common);
    command.footer("Example: tessera contract 'ik,kj->ij' --a A.h5 --b B.h5 --out C.h5 --filter 1e-8 --explain");
    return [o] { run(*o); };
}

}  // namespace tessera::app

#include "command.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "device/discovery.hpp"
#include "device/sharing.hpp"

namespace tessera::app {

std::string check_word(const std::string& text) { return text.empty() ? "'' says nothing" : ""; }
std::string check_name(const std::string& text) { return text.empty() ? "'' is no name of a file" : ""; }

namespace {

std::string check_bytes(const std::string& text) { return text.empty() ? "'' is no number of bytes, as 16GiB is" : ""; }

std::int64_t read_bytes(const char* option, const std::string& text) {
    try {
        return parse_bytes(text);
    } catch (const UserError& e) {
        throw UserError(fmt::format("{}: {}", option, e.what()));
    }
}

}  // namespace

std::int64_t process_peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return std::int64_t{1024} * usage.ru_maxrss;
}

void add_devices(Command command, WhereOptions& where) {
    command
        .add_option("--devices", where.devices,
                    "GPUs to use: none, 0, 0,0 or all (ranks that see the same ones share them out)")
        .show_default();
}

void add_memory(Command command, WhereOptions& where, const std::string& help) {
    command.add_option("--memory", where.memory, help).check(check_bytes);
    command
        .add_option("--device-memory", where.device_memory,
                    "hard budget of each device, as in 16GiB, or auto (default: what is free there)")
        .check(check_bytes);
}

Budgets budgets_of(const WhereOptions& where, bool devices, const char* devices_option) {
    Budgets out;
    if (!where.memory.empty()) out.host = read_bytes("--memory", where.memory);
    if (where.device_memory.empty()) {
        if (devices && out.host > 0) {
            if (mpi_world().rank() == 0)
                fmt::print(stderr,
                           "tessera: warning: --memory {} is taken as that of each device; it will be the host's from "
                           "the next release on: write --device-memory {} (and --device-memory auto for a budget of "
                           "the host alone)\n",
                           where.memory, where.memory);
            out.device = std::exchange(out.host, 0);
        }
        return out;
    }
    require(devices, "--device-memory {}: there are no devices; give {}", where.device_memory, devices_option);
    if (where.device_memory != "auto") out.device = read_bytes("--device-memory", where.device_memory);
    return out;
}

Resources resources_of(const WhereOptions& where, const CommonOptions& common) {
    Resources out;
    if (mpi_world().size() > 1) out.communicator = &mpi_world();
    out.threads = common.threads;
    out.devices = parse_devices(where.devices);
    const auto budgets = budgets_of(where, !out.devices.empty());
    out.memory = budgets.host;
    out.device_memory = budgets.device;
    out.machine = where.machine;
    return out;
}

void add_how(Command command, HowOptions& how) {
    command
        .add_option("--algorithm", how.algorithm,
                    "auto, stationary_b, outer_product, split_k, replicate_b or split_grid")
        .show_default();
    command
        .add_option("--blocks", how.blocks,
                    "device blocks: auto, columns, patches (of rows and columns) or worst_fit (published)")
        .show_default();
    command
        .add_option("--deal", how.deal,
                    "columns of stationary_b to ranks: auto, mirrored (by flops, published) or place (patches)")
        .show_default();
    command
        .add_option("--grid", how.grid,
                    "ranks as PxQ, of stationary_b, outer_product and split_grid (default: from the shapes)")
        .check(check_word);
    constexpr const char* group = "How devices cut their work (computed where not given; never changes a result)";
    const auto number = [&](const char* option, auto& to, const char* help) {
        using Value = typename std::decay_t<decltype(to)>::value_type;
        command
            .add_option_function<Value>(
                option, [&to](const Value& x) { to = x; }, help)
            .group(group);
    };
    auto& p = how.parameters;
    number("--block-share", p.block_share, "share of a device's memory for one block of C, as in 0.5");
    number("--chunk-share", p.chunk_share, "share of it for one chunk of A and B, as in 0.25");
    command
        .add_option_function<std::string>(
            "--block",
            [&p](const std::string& text) {
                const auto [rows, cols] = parse_grid(text, "--block");
                p.block_rows = rows;
                p.block_cols = cols;
            },
            "tile rows x tile columns of C in a block at most, as in 12x20")
        .group(group);
    number("--depth", p.depth, "places along k in a chunk at most (worst_fit: tiles of each row of A)");
    number("--lookahead", p.lookahead, "chunks that come while one is worked on");
}

PlanOptions plan_options_of(const HowOptions& how, int ranks, bool devices) {
    PlanOptions out;
    out.algorithm = parse_algorithm(how.algorithm);
    out.deal = parse_deal(how.deal);
    require(out.deal == Deal::automatic || out.algorithm == Algorithm::automatic ||
                out.algorithm == Algorithm::stationary_b,
            "--deal {}: of stationary_b, not of {}", how.deal, how.algorithm);
    require(out.deal != Deal::place || ranks > 1, "--deal {}: columns are dealt to ranks, and there is one", how.deal);
    out.blocks = parse_blocks(how.blocks);
    require(out.blocks == Blocks::automatic || devices, "--blocks {}: there are no devices, and only they have blocks",
            how.blocks);
    require(
        !how.parameters.any() || devices,
        "--block-share, --chunk-share, --block, --depth, --lookahead: there are no devices, and only they have blocks");
    out.parameters = how.parameters;
    if (!how.grid.empty()) {
        std::tie(out.grid_rows, out.grid_cols) = parse_grid(how.grid);
        require(static_cast<std::int64_t>(out.grid_rows) * out.grid_cols == ranks, "--grid {} for {} rank{}", how.grid,
                ranks, ranks == 1 ? "" : "s");
    }
    return out;
}

void add_contraction(Command command, ContractionOptions& o) {
    command.add_option("--alpha", o.alpha, "scale the product").show_default();
    command.add_option("--beta", o.beta, "add this much of the C that is there").show_default();
    command
        .add_option("--filter", o.filter,
                    "drop result tiles whose norm is below this, skip products that cannot matter")
        .show_default();
    add_devices(command, o.where);
    add_memory(command, o.where, "hard budget of a rank's tiles on the host, as in 16GiB (default: what is there)");
    command
        .add_option("--machine", o.where.machine,
                    "plan with the rates of this machine file (default: round figures of usual hardware)")
        .check(check_name);
    add_how(command, o.how);
    command.add_option("--check", o.check, "result tiles to hold against the slow reference")
        .show_default()
        .check(between(0, 1000000));
    command.add_flag("--explain", o.explain, "print the plan first");
}

ContractOptions contract_options_of(const ContractionOptions& o) {
    require(std::isfinite(o.alpha), "--alpha {} is not finite", o.alpha);
    require(std::isfinite(o.beta), "--beta {} is not finite", o.beta);
    require(std::isfinite(o.filter) && o.filter >= 0, "--filter {} is not a finite number >= 0", o.filter);
    ContractOptions out;
    out.alpha = o.alpha;
    out.beta = o.beta;
    out.filter = o.filter;
    return out;
}

std::vector<std::string> split(const std::string& text, char mark) {
    std::vector<std::string> out(1);
    for (const char c : text)
        if (c == mark)
            out.emplace_back();
        else
            out.back() += c;
    return out;
}

std::vector<int> parse_devices(const std::string& text) {
    std::vector<int> out;
    if (text == "none") return out;
    const int there = device::count();
    const auto none_here = [&] {
        return BackendUnavailable(
            fmt::format("--devices {}: {}; use --devices none for the cores", text, device::why_none()));
    };
    if (text == "all") {
        if (there == 0) throw none_here();
        return share_of_devices(mpi_world());
    }
    const auto words = split(text, ',');
    for (const auto& word : words) {
        require(!word.empty() && word.find_first_not_of("0123456789") == std::string::npos,
                "--devices {}: none, all, or numbers as in 0 or 0,0", text);
        int number = std::numeric_limits<int>::max();  // what does not fit is no device either
        std::from_chars(word.data(), word.data() + word.size(), number);
        out.push_back(number);
    }
    if (there == 0) throw none_here();
    for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] >= there)
            throw BackendUnavailable(
                fmt::format("--devices {}: there is no device {}, but {} numbered from 0; use "
                            "--devices none for the cores",
                            text, words[i], there));
    return out;
}

std::pair<int, int> parse_grid(const std::string& text, const char* option) {
    int p = 0, q = 0;
    const auto* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, p);
    if (first.ec == std::errc{} && first.ptr != end && *first.ptr == 'x') {
        const auto second = std::from_chars(first.ptr + 1, end, q);
        if (second.ec == std::errc{} && second.ptr == end && p >= 1 && q >= 1) return {p, q};
    }
    user_error("{} {}: two positive numbers as in 4x9", option, text);
}

ProgressBar::ProgressBar(const std::string& what, bool wanted)
    : what_(what), on_(wanted && isatty(STDERR_FILENO)), start_(now_seconds()) {}

ProgressBar::~ProgressBar() {
    if (on_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double done, double total) {
    const double now = now_seconds();
    if (!on_ || now - last_ < 0.1 || total <= 0) return;
    last_ = now;
    const double share = std::min(1.0, done / total);
    constexpr int width = 40;
    const int full = static_cast<int>(share * width);
    const double left = share > 0 ? (now - start_) * (1 - share) / share : 0;
    fmt::print(stderr, "\r\033[K{} [{}{}] {:3.0f} %  {} left", what_, std::string(static_cast<std::size_t>(full), '#'),
               std::string(static_cast<std::size_t>(width - full), '.'), 100 * share, format_seconds(left));
    std::fflush(stderr);
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace tessera::app

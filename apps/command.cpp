#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "execute/device/device_share.hpp"
#include "kernels/cuda/device.hpp"

namespace tessera::app {

void add_common(CLI::App& command, CommonOptions& options) {
    command.add_option("--threads", options.threads, "threads to use (default: all cores)")->check(CLI::Range(1, 4096));
    command.add_flag("--quiet", options.quiet, "no progress, no messages but warnings");
    command.add_flag("--json", options.json, "one JSON object on stdout, nothing else there");
}

std::string check_name(const std::string& text) { return text.empty() ? "'' is no name of a file" : ""; }

void add_memory(CLI::App& command, std::string& memory, const std::string& help) {
    command.add_option("--memory", memory, help)->check([](const std::string& text) {
        return text.empty() ? std::string("'' is no number of bytes, as 16GiB is") : std::string();
    });
}

void add_contraction(CLI::App& command, ContractionOptions& o) {
    command.add_option("--alpha", o.alpha, "scale the product")->capture_default_str();
    command.add_option("--beta", o.beta, "add this much of the C that is there")->capture_default_str();
    command
        .add_option("--filter", o.filter,
                    "drop result tiles whose norm is below this, skip products that cannot matter")
        ->capture_default_str();
    command
        .add_option("--devices", o.devices,
                    "GPUs to use: none, 0, 0,0 or all (ranks that see the same ones share them out)")
        ->capture_default_str();
    add_memory(command, o.memory,
               "hard budget, as in 16GiB: of each device, without devices of a rank's tiles (default: what is there)");
    command.add_option("--algorithm", o.algorithm, "auto, stationary_b, outer_product, split_k or replicate_b")
        ->capture_default_str();
    command.add_option("--blocks", o.blocks, "device blocks: auto, columns, patches or worst_fit")
        ->capture_default_str();
    command.add_option("--grid", o.grid, "ranks as PxQ (default: from the problem)");
    add_parameters(command, o.parameters);
    command.add_option("--check", o.check, "result tiles to hold against the slow reference")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
    command.add_flag("--explain", o.explain, "print the plan first");
}

void add_parameters(CLI::App& command, PlanParameters& p) {
    constexpr const char* group = "How devices cut their work (computed where not given; never changes a result)";
    const auto number = [&](const char* option, auto& to, const char* help) {
        using Value = typename std::decay_t<decltype(to)>::value_type;
        command
            .add_option_function<Value>(
                option, [&to](const Value& x) { to = x; }, help)
            ->group(group);
    };
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
        ->group(group);
    number("--depth", p.depth, "places along k in a chunk at most (worst_fit: tiles of each row of A)");
    number("--lookahead", p.lookahead, "chunks that come while one is worked on");
}

std::vector<int> parse_devices(const std::string& text) {
    std::vector<int> out;
    std::vector<std::string> words;
    if (text == "none") return out;
    const int there = kernels::cuda::device_count();
    const auto none_here = [&] {
        return BackendUnavailable(
            fmt::format("--devices {}: {}; use --devices none for the cores", text, kernels::cuda::why_no_device()));
    };
    if (text == "all") {
        if (there == 0) throw none_here();
        return share_of_devices(mpi_world());
    }
    std::size_t at = 0;
    while (at <= text.size()) {
        const auto end = std::min(text.find(',', at), text.size());
        const std::string word = text.substr(at, end - at);
        require(!word.empty() && word.find_first_not_of("0123456789") == std::string::npos,
                "--devices {}: none, all, or numbers as in 0 or 0,0", text);
        int number = std::numeric_limits<int>::max();  // what does not fit is no device either
        std::from_chars(word.data(), word.data() + word.size(), number);
        out.push_back(number);
        words.push_back(word);
        at = end + 1;
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

ContractOptions library_options(const ContractionOptions& o, const CommonOptions& common) {
    require(std::isfinite(o.alpha), "--alpha {} is not finite", o.alpha);
    require(std::isfinite(o.beta), "--beta {} is not finite", o.beta);
    require(std::isfinite(o.filter) && o.filter >= 0, "--filter {} is not a finite number >= 0", o.filter);
    require(o.blocks == "auto" || o.blocks == "columns" || o.blocks == "patches" || o.blocks == "worst_fit",
            "--blocks {}: one of auto, columns, patches, worst_fit", o.blocks);
    const std::int64_t memory = o.memory.empty() ? 0 : parse_bytes(o.memory);
    ContractOptions out;
    out.alpha = o.alpha;
    out.beta = o.beta;
    out.filter = o.filter;
    out.devices = parse_devices(o.devices);
    (out.devices.empty() ? out.memory : out.device_memory) = memory;
    out.threads = common.threads;
    out.algorithm = o.algorithm;
    require(o.blocks == "auto" || !out.devices.empty(), "--blocks {}: only devices have blocks; give --devices",
            o.blocks);
    out.blocks = o.blocks;
    require(!o.parameters.any() || !out.devices.empty(),
            "--block-share, --chunk-share, --block, --depth, --lookahead: only devices have blocks; give --devices");
    out.parameters = o.parameters;
    const int ranks = mpi_world().size();
    if (!o.grid.empty()) {
        const auto [p, q] = parse_grid(o.grid);
        require(static_cast<std::int64_t>(p) * q == ranks, "--grid {} for {} rank{}", o.grid, ranks,
                ranks == 1 ? "" : "s");
        out.grid_rows = p;
        out.grid_cols = q;
    }
    if (ranks > 1) out.communicator = &mpi_world();
    return out;
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

void print_json(const nlohmann::json& object) {
    std::fputs((object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n").c_str(), stdout);
    if (std::fflush(stdout) != 0) throw MachineError("stdout cannot be written");
}

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace tessera::app

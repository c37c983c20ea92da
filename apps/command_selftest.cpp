#include <fmt/format.h>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "device/discovery.hpp"
#include "device/host_device.hpp"
#include "device/open_devices.hpp"
#include "machine/device_layout.hpp"
#include "probe/device_pairs.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    std::string devices = "all";
    int played = 0, megabytes = 64;
};

struct Opened {
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::string> names;
    std::vector<int> ids;  // empty: played
};

Opened open(const Options& o) {
    Opened out;
    const std::int64_t arena = device_check_arena(std::int64_t{o.megabytes} << 20), budget = 2 * arena;
    if (o.played > 0) {
        for (int d = 0; d < o.played; ++d) {
            out.devices.push_back(make_host_device({arena, device_reserve_bytes(budget), ScalarKind::f64, 0, 0}));
            out.names.push_back(fmt::format("played {}", d));
        }
        return out;
    }
    out.ids = parse_devices(o.devices);
    require(!out.ids.empty(), "--devices {}: there is nothing to test", o.devices);
    const std::vector<std::int64_t> arenas(out.ids.size(), arena);
    out.devices = open_devices(out.ids, arenas, budget, ScalarKind::f64);
    for (const int d : out.ids) out.names.push_back(fmt::format("{} {}", d, device::info(d).name));
    return out;
}

/// Whether copies go straight from one to the other.
bool straight(const Opened& opened, const DevicePairCheck& pair) {
    if (opened.ids.empty()) return true;
    return device::reaches(opened.ids[static_cast<std::size_t>(pair.to)],
                           opened.ids[static_cast<std::size_t>(pair.from)]);
}

std::string matrix_of(const Opened& opened, const DevicesCheck& checked) {
    const auto n = opened.devices.size();
    std::vector<std::string> cells(n * n, "-");
    bool any = false;
    for (const auto& p : checked.pairs) {
        const bool way = straight(opened, p);
        any |= !way;
        cells[static_cast<std::size_t>(p.from) * n + static_cast<std::size_t>(p.to)] =
            p.right ? fmt::format("{:.1f}{}", p.bytes_per_second * 1e-9, way ? "" : "*") : "WRONG";
    }
    std::string out = "GB/s from (row) to (column)" + std::string(any ? "; * by way of the host\n" : "\n") + "      ";
    for (std::size_t d = 0; d < n; ++d) out += fmt::format("{:>8}", d);
    for (std::size_t from = 0; from < n; ++from) {
        out += fmt::format("\n{:>6}", from);
        for (std::size_t to = 0; to < n; ++to) out += fmt::format("{:>8}", cells[from * n + to]);
    }
    return out + "\n";
}

void run(const Options& o) {
    require(mpi_world().size() == 1, "selftest: of one process, this is one of {} ranks", mpi_world().size());
    const auto opened = open(o);
    ProgressBar bar("pairs of devices", !o.common.quiet && !o.common.json);
    const auto checked = check_devices(opened.devices, std::int64_t{o.megabytes} << 20, 40,
                                       [&](int done, int of) { bar.show(done, of); });
    if (o.common.json) {
        nlohmann::json devices = nlohmann::json::array(), pairs = nlohmann::json::array();
        for (std::size_t d = 0; d < opened.devices.size(); ++d)
            devices.push_back({{"name", opened.names[d]},
                               {"copies_right", checked.devices[d].copies_right},
                               {"products_right", checked.devices[d].products_right},
                               {"host_to_device", checked.devices[d].from_host},
                               {"device_to_host", checked.devices[d].to_host}});
        for (const auto& p : checked.pairs)
            pairs.push_back({{"from", p.from},
                             {"to", p.to},
                             {"right", p.right},
                             {"bytes_per_second", p.bytes_per_second},
                             {"straight", straight(opened, p)}});
        print_json({{"devices", devices},
                    {"pairs", pairs},
                    {"right", checked.right()},
                    {"seconds", checked.seconds},
                    {"played", opened.ids.empty()},
                    {"commit", bench::build_commit()}});
    } else if (!o.common.quiet) {
        for (std::size_t d = 0; d < opened.devices.size(); ++d)
            fmt::print("device {:<28} from the host {:>6.1f} GB/s, to it {:>6.1f} GB/s; copies {}, products {}\n",
                       opened.names[d], checked.devices[d].from_host * 1e-9, checked.devices[d].to_host * 1e-9,
                       checked.devices[d].copies_right ? "right" : "WRONG",
                       checked.devices[d].products_right ? "right" : "WRONG");
        if (opened.devices.size() > 1) fmt::print("{}", matrix_of(opened, checked));
        fmt::print("{} in {}\n", checked.right() ? "all right" : "NOT right", format_seconds(checked.seconds));
    }
    if (!checked.right()) throw CheckFailed("selftest: a device copies or multiplies wrongly, see above");
}

}  // namespace

Action add_selftest(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("selftest", "check every GPU and every pair of them: bits and rates");
    command.add_option("--devices", o->devices, "GPUs to test: all, or numbers as in 0,1; 0,0 takes one twice")
        .show_default();
    command.add_option("--played", o->played, "instead: so many devices that host threads play, to try the test itself")
        .check(between(1, 64))
        .excludes("--devices");
    command.add_option("--megabytes", o->megabytes, "of each copy, MiB").show_default().check(between(1, 4096));
    add_common(command, o->common);
    command.footer(
        "Exit code 4 where bits differ, 3 where there is no device. A minute at most.\n"
        "Example: tessera selftest --devices all");
    return [o] { run(*o); };
}

}  // namespace tessera::app

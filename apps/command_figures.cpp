#include <fmt/format.h>

#include <filesystem>
#include <span>

#include "base/check.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "figures.hpp"
#include "io/file.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    std::string out;
    std::vector<std::string> only;
    bool list = false;
};

void write_text(const std::filesystem::path& path, const std::string& text) {
    write_file(path.string(), std::as_bytes(std::span(text)));
}

/// The folder there, and a file in it possible: known before minutes of work.
void prepare_folder(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    require(!error, "--out {}: {}", folder, error.message());
    require(std::filesystem::is_directory(folder), "--out {}: is no folder", folder);
    require_writable((std::filesystem::path(folder) / "index.html").string());
}

nlohmann::json json_of(const Figure& f) {
    nlohmann::json printed = nlohmann::json::array();
    for (const auto& p : f.printed)
        printed.push_back({{"what", p.what},
                           {"unit", p.unit},
                           {"published", p.published},
                           {"ours", p.ours},
                           {"error", p.ours / p.published - 1},
                           {"where", p.where}});
    nlohmann::json lines = nlohmann::json::array();
    for (const auto& line : f.plot.lines) {
        nlohmann::json points = nlohmann::json::array();
        for (const auto& p : line.points) points.push_back({p.x, p.y});
        lines.push_back({{"name", line.name}, {"published", line.marks_alone}, {"points", points}});
    }
    return {{"id", f.id},     {"source", f.source},   {"printed", printed},
            {"lines", lines}, {"refused", f.refused}, {"commands", f.commands}};
}

void run(const Options& o) {
    if (o.list) {
        for (const auto& [id, source] : known_figures()) fmt::print("{:<14}{}\n", id, source);
        return;
    }
    require(!o.out.empty(), "figures: --out is required: the folder that takes index.html, pictures and tables");
    prepare_folder(o.out);
    const bool tell = !o.common.quiet && !o.common.json;
    const auto figures = draw_figures(o.only, [&](int number, int of, const std::string& command) {
        if (tell) fmt::print(stderr, "{:>3} of {}  {}\n", number, of, command);
    });
    const std::filesystem::path folder(o.out);
    nlohmann::json all = nlohmann::json::array();
    for (const auto& f : figures) {
        if (!f.plot.lines.empty()) write_text(folder / (f.id + ".svg"), to_svg(f.plot));
        write_text(folder / (f.id + ".csv"), to_csv(f));
        all.push_back(json_of(f));
    }
    write_text(folder / "index.html", to_page(figures, bench::build_commit()));
    if (o.common.json) return print_json({{"out", o.out}, {"commit", bench::build_commit()}, {"figures", all}});
    if (o.common.quiet) return;
    for (const auto& f : figures) {
        fmt::print("{}: {}\n", f.id, f.source);
        for (const auto& p : f.printed)
            fmt::print("  {:<74} {:<7} {:>9.3g} {:>9.3g}  {:+.0f} %\n", p.what, p.unit, p.published, p.ours,
                       100 * (p.ours / p.published - 1));
    }
    fmt::print("{}\n", (folder / "index.html").string());
}

}  // namespace

Action add_figures(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("figures", "draw the figures of published papers by simulation");
    command.add_option("--out", o->out, "folder for index.html, and a picture and a table of each figure");
    command.add_option("--only", o->only, "these figures, as in scala-2,ipdps-6 (default: all)").delimiter(',');
    command.add_flag("--list", o->list, "print the names of the figures");
    add_common(command, o->common);
    command.footer(
        "Herault et al., ScalA 2019 and IPDPS 2021, on machines/summit.json; Sivkov et al. 2019 on pizdaint.json.\n"
        "All of them take some minutes.\n"
        "Example: tessera figures --out figures --only ipdps-6,ipdps-7");
    return [o] { run(*o); };
}

}  // namespace tessera::app

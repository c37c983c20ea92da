#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "io/sparsity_picture.hpp"
#include "planning.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/show.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    std::string what, png;
};

nlohmann::json shape_json(const Shape& shape) {
    nlohmann::json tilings = nlohmann::json::array();
    for (const auto& t : shape.grid().tilings()) tilings.push_back(t.sizes());
    return {{"rank", shape.grid().rank()}, {"tilings", tilings},
            {"tiles", shape.tile_count()}, {"tiles_total", shape.grid().tile_total()},
            {"density", shape.density()},  {"norm", shape.norm()}};
}

void show_file(const Options& o) {
    const auto info = describe(o.what);
    std::error_code ignored;
    require(o.png.empty() || !std::filesystem::equivalent(o.what, o.png, ignored), "--png {} is the tensor file itself",
            o.png);
    if (!o.png.empty()) write_sparsity_png(o.png, info.shape);
    if (o.common.json) {
        auto j = shape_json(info.shape);
        j.update({{"path", info.path},
                  {"scalar", name(info.scalar)},
                  {"tile_bytes", info.tile_bytes},
                  {"file_bytes", info.file_bytes},
                  {"checksum", info.checksum ? nlohmann::json(hex(*info.checksum)) : nlohmann::json()}});
        return print_json(j);
    }
    if (!o.common.quiet) fmt::print("{}", describe_text(info));
}

/// Pictures beside each other, on white.
Image beside(const std::vector<Image>& images) {
    constexpr int gap = 24;
    const Color white{255, 255, 255};
    int width = -gap, height = 0;
    for (const auto& i : images) width += i.width() + gap, height = std::max(height, i.height());
    Image all(width, height, white);
    int left = 0;
    for (const auto& i : images) {
        const int top = (height - i.height()) / 2;
        for (int y = 0; y < i.height(); ++y)
            for (int x = 0; x < i.width(); ++x) all.at(left + x, top + y) = i.at(x, y);
        left += i.width() + gap;
    }
    return all;
}

void show_problem(const Options& o) {
    const Problem problem = problem_of(o.what, o.common);
    std::vector<std::pair<const char*, const Shape*>> shapes{{"a", &problem.a}, {"b", &problem.b}};
    if (problem.c) shapes.emplace_back("c", &*problem.c);
    if (!o.png.empty()) {
        std::vector<Image> images;
        PictureOptions picture;
        picture.limit = 640;
        for (const auto& [label, shape] : shapes) images.push_back(draw_sparsity(*shape, picture));
        write_png(o.png, beside(images));
    }
    nlohmann::json j = {{"problem", problem.name}, {"spec", problem.spec}};
    for (const auto& [label, shape] : shapes) j[label] = shape_json(*shape);
    if (o.common.json) return print_json(j);
    if (o.common.quiet) return;
    fmt::print("{}: {}\n", problem.name, problem.spec);
    for (const auto& [label, shape] : shapes) {
        fmt::print("{}  {} of {} tiles, {:.2f} % dense, {}\n", label, format_count(shape->tile_count()),
                   format_count(shape->grid().tile_total()), 100 * shape->density(),
                   format_bytes(shape->elements() * 8));
        for (const auto& t : shape->grid().tilings()) fmt::print("     {}\n", to_string(t));
    }
}

}  // namespace

Action add_show(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("show", "tilings, density and norms of a stored tensor or a problem");
    command.add_option("what", o->what, "a tensor file (.h5), or a problem as `run` takes it").required();
    command.add_option("--png", o->png, "draw the block sparsity into this file").check(check_name);
    add_common(command, o->common);
    command.footer("Example: tessera show R.h5 --png R.png\n         tessera show alkane:30:v3:min --png alkane.png");
    return [o] {
        require(o->png.empty() || o->png.ends_with(".png"), "--png {}: the name of a picture ends in .png", o->png);
        const bool problem = o->what.find(':') != std::string::npos && !std::filesystem::exists(o->what);
        if (problem)
            show_problem(*o);
        else
            show_file(*o);
    };
}

}  // namespace tessera::app

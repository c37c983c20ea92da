#include <fmt/format.h>

#include "command.hpp"
#include "io/sparsity_picture.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/show.hpp"

namespace tessera::app {

Action add_show(CLI::App& app) {
    struct Options {
        CommonOptions common;
        std::string path, png;
    };
    auto o = std::make_shared<Options>();
    auto* command = app.add_subcommand("show", "tilings, density and norms of a stored tensor");
    command->add_option("file", o->path, "a tensor file (.h5)")->required();
    command->add_option("--png", o->png, "draw the block sparsity into this file");
    add_common(*command, o->common);
    command->footer("Example: tessera show R.h5 --png R.png");
    return [o] {
        const auto info = describe(o->path);
        if (!o->png.empty()) write_sparsity_png(o->png, info.shape);
        if (o->common.json) {
            nlohmann::json tilings = nlohmann::json::array();
            for (const auto& t : info.shape.grid().tilings()) tilings.push_back(t.sizes());
            return print_json({{"path", info.path},
                               {"scalar", name(info.scalar)},
                               {"rank", info.shape.grid().rank()},
                               {"tilings", tilings},
                               {"tiles", info.shape.tile_count()},
                               {"tiles_total", info.shape.grid().tile_total()},
                               {"density", info.shape.density()},
                               {"norm", info.shape.norm()},
                               {"tile_bytes", info.tile_bytes},
                               {"file_bytes", info.file_bytes},
                               {"checksum", info.checksum ? nlohmann::json(hex(*info.checksum)) : nlohmann::json()}});
        }
        if (!o->common.quiet) fmt::print("{}", describe_text(info));
    };
}

}  // namespace tessera::app

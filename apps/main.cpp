// The command line: one subcommand a file.

#include <string_view>

#include "command.hpp"
#include "tessera/io/hdf5.hpp"
#include "version.hpp"

int main(int argc, char** argv) {
    using namespace tessera;
    if (argc > 1 && std::string_view(argv[1]) == "bench") return app::start_bench(argv);
    hdf5_without_exit_handler();
    const app::AboutProgram about{
        "tessera", "Tessera contracts block-sparse tensors.\n",
        "Example: tessera run alkane:8:v3:min --explain\nEvery subcommand has --help with an example.",
        app::version_text};
    return app::run_commands(
        about,
        {app::add_info, app::add_contract, app::add_run, app::add_plan, app::add_simulate, app::add_tune,
         app::add_figures, app::add_energy, app::add_optimise, app::add_show, app::add_selftest, app::add_bench},
        argc, argv);
}

// tessera-bench, which `tessera bench` starts: one subcommand a table.

#include "commands.hpp"

int main(int argc, char** argv) {
    using namespace tessera;
    const app::AboutProgram about{"tessera bench", "The benchmark tables.\n",
                                  "Example: tessera bench sparse --peers --json"};
    return app::run_commands(
        about,
        {app::add_contractions, app::add_dense, app::add_grouped, app::add_latency, app::add_rectangular, app::add_run,
         app::add_sign, app::add_sparse, app::add_threads, app::add_transpose, app::add_triples},
        argc, argv);
}

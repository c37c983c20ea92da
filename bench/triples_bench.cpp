// The triples table by itself: triples_bench [--sizes A,B] [--variants fused,...] [--threads N] [--device D].
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench_triples.hpp"
#include "tessera/base/error.hpp"

int main(int argc, char** argv) {
    tessera::bench::TriplesOptions options;
    std::string output;
    CLI::App app{"the fused CCSD(T) contractions at the published sizes"};
    app.add_option("--sizes", options.sizes)->delimiter(',');
    app.add_option("--variants", options.variants)->delimiter(',');
    app.add_option("--threads", options.threads);
    app.add_option("--device", options.device);
    app.add_option("--repeats", options.repeats);
    app.add_option("--output", output, "also write the JSON here");
    CLI11_PARSE(app, argc, argv);
    try {
        nlohmann::json report;
        tessera::bench::bench_triples(options, report);
        if (!output.empty()) std::ofstream(output) << report.dump(1) << '\n';
        std::puts(report.dump(1).c_str());
        return 0;
    } catch (const tessera::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return e.exit_code();
    }
}

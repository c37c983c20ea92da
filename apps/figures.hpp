#pragma once
// Figures and tables of published papers as the simulator draws them, with the printed points beside.

#include <functional>
#include <string>
#include <vector>

#include "svg_plot.hpp"

namespace tessera::app {

struct PrintedPoint {
    std::string what, unit;
    double published = 0, ours = 0;
    std::string where;  // it is printed
};

struct Figure {
    std::string id;      // as in --only, and of its files
    std::string source;  // "IPDPS 2021, Fig. 6"
    Plot plot;           // without lines: a table alone
    std::vector<PrintedPoint> printed;
    std::vector<std::string> notes;     // what differs from the published run
    std::vector<std::string> commands;  // that simulate its points
    std::vector<std::string> refused;   // points that cannot be planned, and why
};

/// Ids and sources of all figures.
std::vector<std::pair<std::string, std::string>> known_figures();

/// Those that are asked for, in the order of the papers; `only` empty: all. Each case is planned and simulated once;
/// on_case is told before: number, of how many, command.
std::vector<Figure> draw_figures(const std::vector<std::string>& only,
                                 const std::function<void(int, int, const std::string&)>& on_case);

/// A line for each point: figure, line, x, y, whose.
std::string to_csv(const Figure& figure);
/// The page that shows them all; pictures are ID.svg, data ID.csv beside it.
std::string to_page(const std::vector<Figure>& figures, const std::string& commit);

}  // namespace tessera::app

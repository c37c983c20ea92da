#pragma once
// Lines and points over two axes, as an SVG file.

#include <string>
#include <vector>

namespace tessera::app {

struct PlotPoint {
    double x = 0, y = 0;
};
struct PlotLine {
    std::string name;
    std::vector<PlotPoint> points;
    bool marks_alone = false;  // points of somebody else: no line through them
};
struct Plot {
    std::string title, x_label, y_label;
    bool log_x = false, log_y = false;
    std::vector<PlotLine> lines;
};

/// Points that are not finite, or not positive on a logarithmic axis, are left out.
std::string to_svg(const Plot& plot);

}  // namespace tessera::app

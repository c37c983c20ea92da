#include "svg_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tessera::app {

namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 70, kRight = 190, kTop = 40, kBottom = 56;
constexpr std::array kColours = {"#1b6ca8", "#c8553d", "#3d8361", "#8e5ea2",
                                 "#b8860b", "#555555", "#0097a7", "#ad1457"};

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '&') {
            out += "&amp;";
        } else if (c == '<') {
            out += "&lt;";
        } else if (c == '>') {
            out += "&gt;";
        } else {
            out += c;
        }
    }
    return out;
}

/// From values to places along an axis of the picture.
class Axis {
  public:
    Axis(bool log, double from, double to) : log_(log), from_(from), to_(to) {}

    bool takes(double x) const { return std::isfinite(x) && (!log_ || x > 0); }
    void see(double x) {
        if (!takes(x)) return;
        least_ = seen_ ? std::min(least_, x) : x;
        most_ = seen_ ? std::max(most_, x) : x;
        seen_ = true;
    }
    /// Round ends around all that was seen, and ticks between them.
    void settle() {
        if (!seen_) least_ = log_ ? 1 : 0, most_ = log_ ? 10 : 1;
        if (log_) {
            for (double decade = std::pow(10, std::floor(std::log10(least_))); decade <= most_ * 1.0001; decade *= 10)
                for (const double step : {1.0, 2.0, 5.0}) ticks_.push_back(step * decade);
            const auto first = std::upper_bound(ticks_.begin(), ticks_.end(), least_ * 1.0001);
            least_ = first == ticks_.begin() ? least_ : *(first - 1);
            const auto last = std::lower_bound(ticks_.begin(), ticks_.end(), most_ * 0.9999);
            most_ = last == ticks_.end() ? most_ : *last;
        } else {
            least_ = std::min(0.0, least_);
            if (most_ <= least_) most_ = least_ + 1;
            const double rough = (most_ - least_) / 6, decade = std::pow(10, std::floor(std::log10(rough)));
            const double step = rough > 5 * decade ? 10 * decade : rough > 2 * decade ? 5 * decade : 2 * decade;
            most_ = std::ceil(most_ / step - 1e-9) * step;
            for (double at = least_; at <= most_ + step / 2; at += step) ticks_.push_back(at);
        }
    }
    double place(double x) const {
        const auto of = [&](double value) { return log_ ? std::log(value) : value; };
        const double width = of(most_) - of(least_);
        return from_ + (width > 0 ? (of(x) - of(least_)) / width : 0.5) * (to_ - from_);
    }
    std::vector<double> ticks() const {
        std::vector<double> out;
        for (const double t : ticks_)
            if (t >= least_ * (1 - 1e-9) && t <= most_ * (1 + 1e-9)) out.push_back(t);
        return out;
    }

  private:
    bool log_, seen_ = false;
    double from_, to_, least_ = 0, most_ = 1;
    std::vector<double> ticks_;
};

std::string number(double x) {
    if (x == 0) return "0";
    if (std::abs(x) >= 1e6 || std::abs(x) < 1e-3) return fmt::format("{:.3g}", x);
    return fmt::format("{:g}", x);
}

}  // namespace

std::string to_svg(const Plot& plot) {
    Axis x(plot.log_x, kLeft, kWidth - kRight), y(plot.log_y, kHeight - kBottom, kTop);
    for (const auto& line : plot.lines)
        for (const auto& p : line.points) {
            if (!x.takes(p.x) || !y.takes(p.y)) continue;
            x.see(p.x);
            y.see(p.y);
        }
    x.settle();
    y.settle();
    auto out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"22\" font-size=\"14\">{3}</text>\n",
        kWidth, kHeight, kLeft, escaped(plot.title));
    for (const double t : x.ticks())
        out += fmt::format(
            "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#dddddd\"/>"
            "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
            x.place(t), kTop, kHeight - kBottom, kHeight - kBottom + 18, number(t));
    for (const double t : y.ticks())
        out += fmt::format(
            "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#dddddd\"/>"
            "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
            kLeft, kWidth - kRight, y.place(t), kLeft - 6, y.place(t) + 4, number(t));
    out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444444\"/>\n", kLeft,
                       kTop, kWidth - kRight - kLeft, kHeight - kBottom - kTop);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + kWidth - kRight) / 2,
                       kHeight - 14, escaped(plot.x_label));
    out += fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                       (kTop + kHeight - kBottom) / 2, escaped(plot.y_label));
    for (std::size_t i = 0; i < plot.lines.size(); ++i) {
        const auto& line = plot.lines[i];
        const char* colour = kColours[i % kColours.size()];
        std::string path, marks;
        for (const auto& p : line.points) {
            if (!x.takes(p.x) || !y.takes(p.y)) continue;
            const double px = x.place(p.x), py = y.place(p.y);
            path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", px, py);
            marks += line.marks_alone
                         ? fmt::format("<path d=\"M{:.1f} {:.1f}l6 6m0 -6l-6 6\" stroke=\"{}\" stroke-width=\"2\"/>",
                                       px - 3, py - 3, colour)
                         : fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", px, py, colour);
        }
        if (!line.marks_alone)
            out += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path,
                               colour);
        out += marks + "\n";
        const double at = kTop + 12 + 18.0 * static_cast<double>(i);
        out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{} {}</text>\n", kWidth - kRight + 10, at, colour,
                           line.marks_alone ? "x" : "o", escaped(line.name));
    }
    return out + "</svg>\n";
}

}  // namespace tessera::app

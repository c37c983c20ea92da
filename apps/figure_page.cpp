#include <fmt/format.h>

#include <cmath>

#include "figures.hpp"

namespace tessera::app {

namespace {

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return out;
}

std::string figure_of(double x) {
    if (x == 0) return "0";
    if (std::abs(x) >= 1000) return fmt::format("{:.0f}", x);
    return fmt::format("{:.3g}", x);
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + "\"";
}

}  // namespace

std::string to_csv(const Figure& figure) {
    std::string out = "figure,line,x,y,whose\n";
    for (const auto& line : figure.plot.lines)
        for (const auto& p : line.points)
            out += fmt::format("{},{},{:.10g},{:.10g},{}\n", figure.id, quoted(line.name), p.x, p.y,
                               line.marks_alone ? "published" : "simulated");
    for (const auto& p : figure.printed) {
        out += fmt::format("{},{},,{:.10g},printed\n", figure.id, quoted(p.what), p.published);
        out += fmt::format("{},{},,{:.10g},ours\n", figure.id, quoted(p.what), p.ours);
    }
    return out;
}

std::string to_page(const std::vector<Figure>& figures, const std::string& commit) {
    auto out = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Published figures, simulated</title>\n"
        "<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 "
        "1em}}table{{border-collapse:collapse}}"
        "td,th{{border:1px solid #ccc;padding:.2em .6em;text-align:left}}td.n{{text-align:right}}"
        "code{{font-size:85%}}</style></head><body>\n<h1>Published figures, simulated</h1>\n"
        "<p>Drawn by <code>tessera figures</code>, commit {}. A line is simulated; a cross is printed in the paper's "
        "text. What a paper shows as a curve alone is not copied here. Error: ours over the printed figure, less "
        "one.</p>\n",
        escaped(commit));
    for (const auto& f : figures) {
        out += fmt::format("<h2 id=\"{0}\">{1}</h2>\n", f.id, escaped(f.source));
        if (!f.plot.lines.empty())
            out += fmt::format("<p><img src=\"{0}.svg\" alt=\"{1}\"></p>\n", f.id, escaped(f.plot.title));
        if (!f.printed.empty()) {
            out += "<table><tr><th></th><th>unit</th><th>printed</th><th>ours</th><th>error</th><th>where</th></tr>\n";
            for (const auto& p : f.printed)
                out += fmt::format(
                    "<tr><td>{}</td><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{:+.0f} %</td>"
                    "<td>{}</td></tr>\n",
                    escaped(p.what), escaped(p.unit), figure_of(p.published), figure_of(p.ours),
                    100 * (p.ours / p.published - 1), escaped(p.where));
            out += "</table>\n";
        }
        for (const auto& note : f.notes) out += "<p>" + escaped(note) + "</p>\n";
        for (const auto& refused : f.refused) out += "<p>Left out: " + escaped(refused) + "</p>\n";
        if (!f.commands.empty()) {
            out += "<details><summary>commands</summary><pre>";
            for (const auto& c : f.commands) out += escaped(c) + "\n";
            out += "</pre></details>\n";
        }
        out += fmt::format("<p><a href=\"{0}.csv\">{0}.csv</a></p>\n", f.id);
    }
    return out + "</body></html>\n";
}

}  // namespace tessera::app

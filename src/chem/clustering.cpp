#include "chem/clustering.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.hpp"

namespace tessera::chem {

namespace {

/// The group whose centre is nearest; the lowest one of those equally near.
std::int64_t nearest(const Point& p, const std::vector<Point>& centres) {
    std::int64_t best = 0;
    for (std::size_t c = 1; c < centres.size(); ++c)
        if (distance(p, centres[c]) < distance(p, centres[static_cast<std::size_t>(best)]) - 1e-9)
            best = static_cast<std::int64_t>(c);
    return best;
}

std::vector<Point> mean(const std::vector<Point>& points, const std::vector<std::int64_t>& group, std::size_t groups) {
    std::vector<Point> centres(groups, Point{0, 0, 0});
    std::vector<double> count(groups, 0);
    for (std::size_t i = 0; i < points.size(); ++i) {
        for (int x = 0; x < 3; ++x) centres[group[i]][x] += points[i][x];
        count[group[i]] += 1;
    }
    for (std::size_t g = 0; g < groups; ++g)
        for (int x = 0; x < 3; ++x) centres[g][x] /= std::max(1.0, count[g]);
    return centres;
}

}  // namespace

std::vector<std::int64_t> cluster(const std::vector<Point>& points, std::int64_t groups) {
    const auto n = points.size();
    require(groups >= 1 && n >= 1, "clustering: {} points into {} groups", n, groups);
    const auto k = std::min(n, static_cast<std::size_t>(groups));
    // Beginnings: a fixed first point, then always the point farthest from those taken. No chance in it.
    std::vector<Point> centres{points[0]};
    for (std::size_t i = 1; i < n; ++i)
        if (points[i] < centres[0]) centres[0] = points[i];
    std::vector<double> away(n, std::numeric_limits<double>::infinity());
    while (centres.size() < k) {
        for (std::size_t i = 0; i < n; ++i) away[i] = std::min(away[i], distance(points[i], centres.back()));
        centres.push_back(points[static_cast<std::size_t>(std::max_element(away.begin(), away.end()) - away.begin())]);
    }
    std::vector<std::int64_t> group(n, 0);
    for (int sweep = 0; sweep < 200; ++sweep) {
        std::vector<std::int64_t> next(n);
        for (std::size_t i = 0; i < n; ++i) next[i] = nearest(points[i], centres);
        if (sweep > 0 && next == group) break;
        group = std::move(next);
        centres = mean(points, group, centres.size());
    }
    // Numbered along the longest side of the box; groups that lost all their points go.
    int axis = 0;
    double longest = -1;
    for (int x = 0; x < 3; ++x) {
        const auto [low, high] =
            std::minmax_element(points.begin(), points.end(), [x](auto& a, auto& b) { return a[x] < b[x]; });
        if ((*high)[x] - (*low)[x] > longest + 1e-6) {
            longest = (*high)[x] - (*low)[x];
            axis = x;
        }
    }
    std::vector<std::int64_t> order;
    for (std::size_t g = 0; g < centres.size(); ++g)
        if (std::find(group.begin(), group.end(), static_cast<std::int64_t>(g)) != group.end())
            order.push_back(static_cast<std::int64_t>(g));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return centres[a][axis] < centres[b][axis]; });
    std::vector<std::int64_t> number(centres.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<std::int64_t>(i);
    for (auto& g : group) g = number[g];
    return group;
}

}  // namespace tessera::chem

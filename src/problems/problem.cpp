// The text of a problem: taken apart, checked, and handed to its family.
#include "tessera/problems/problem.hpp"

#include <charconv>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "problems/families.hpp"
#include "shape/product_shape.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/problems/insulator.hpp"

namespace tessera {

namespace {

constexpr const char* kForms =
    "dense:M,N,K,t  blocks:nb,bs,occ[,seed]  synthetic:M,N,K,density[,lo,hi[,seed]]  alkane:n:v1|v2|v3|O,A[:min]  "
    "purify:n[,tile,bandwidth,gap[,seed]]";

constexpr std::int64_t kLargestTile = std::int64_t{1} << 40;

/// For messages: one line, not endless, whatever the user wrote.
std::string quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, 60)) out += (c >= ' ' && c <= '~') ? c : '?';
    return out + (text.size() > 60 ? "...'" : "'");
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

/// The arguments of one problem; every complaint names the problem, the argument and its value.
class Arguments {
  public:
    Arguments(std::string_view problem, std::vector<std::string_view> values)
        : problem_(problem), values_(std::move(values)) {}

    std::size_t count() const { return values_.size(); }

    template <class... Args>
    void check(bool ok, fmt::format_string<Args...> text, Args&&... args) const {
        if (!ok) [[unlikely]]
            user_error("problem {}: {}; the forms are: {}", quoted(problem_),
                       fmt::format(text, std::forward<Args>(args)...), kForms);
    }

    std::int64_t whole(std::size_t i, const char* what, std::int64_t least, std::int64_t most) const {
        const std::string_view v = values_[i];
        std::int64_t x = 0;
        const auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), x);
        const bool all = end == v.data() + v.size();
        check(!v.empty(), "{} is missing", what);
        check(!(all && error == std::errc::result_out_of_range), "{} is {}, which does not fit in 64 bits", what,
              quoted(v));
        check(all && error == std::errc{}, "{} is {}, which is not a whole number (digits only)", what, quoted(v));
        check(x >= least && x <= most, "{} is {}, must be {}..{}", what, x, least, most);
        return x;
    }

    double fraction(std::size_t i, const char* what) const { return number(i, what, 0, 1); }

    double number(std::size_t i, const char* what, double least, double most) const {
        const std::string_view v = values_[i];
        double x = 0;
        const auto [end, error] = std::from_chars(v.data(), v.data() + v.size(), x);
        check(!v.empty(), "{} is missing", what);
        check(error == std::errc{} && end == v.data() + v.size() && std::isfinite(x), "{} is {}, which is not a number",
              what, quoted(v));
        check(x >= least && x <= most, "{} is {}, must be {}..{}", what, x, least, most);
        return x + 0.0;  // -0 is 0
    }

    /// The three matrices' elements, and the flops of the full product, fit in 64 bits.
    void check_sizes(std::int64_t m, std::int64_t n, std::int64_t k) const {
        std::int64_t all = 0;
        const bool over = __builtin_mul_overflow(m, n, &all) || __builtin_mul_overflow(all, k, &all) ||
                          __builtin_mul_overflow(all, std::int64_t{2}, &all);
        check(!over, "2 x {} x {} x {} flops do not fit in 64 bits", m, n, k);
    }

    void check_tiles(std::int64_t rows, std::int64_t columns, const char* what) const {
        std::int64_t all = 0;
        check(!__builtin_mul_overflow(rows, columns, &all) && all <= kMostTiles,
              "{} would have {} x {} tiles, more than {}; take fewer, larger tiles", what, rows, columns, kMostTiles);
    }

  private:
    std::string_view problem_;
    std::vector<std::string_view> values_;
};

std::int64_t tiles_of(std::int64_t extent, std::int64_t tile) { return extent / tile + (extent % tile != 0 ? 1 : 0); }

Problem dense_from(const Arguments& a) {
    a.check(a.count() == 4, "dense takes 4 numbers (M,N,K,t), not {}", a.count());
    const std::int64_t m = a.whole(0, "M", 1, INT64_MAX), n = a.whole(1, "N", 1, INT64_MAX);
    const std::int64_t k = a.whole(2, "K", 1, INT64_MAX), t = a.whole(3, "t", 1, INT64_MAX);
    a.check_sizes(m, n, k);
    a.check_tiles(tiles_of(m, t), tiles_of(k, t), "A");
    a.check_tiles(tiles_of(k, t), tiles_of(n, t), "B");
    a.check_tiles(tiles_of(m, t), tiles_of(n, t), "C");
    require_products_fit(
        "mk,kn->mn",
        static_cast<double>(tiles_of(m, t)) * static_cast<double>(tiles_of(n, t)) * static_cast<double>(tiles_of(k, t)),
        memory_bytes());
    return make_dense(m, n, k, t);
}

Problem blocks_from(const Arguments& a) {
    a.check(a.count() == 3 || a.count() == 4, "blocks takes 3 or 4 numbers (nb,bs,occ[,seed]), not {}", a.count());
    const std::int64_t nb = a.whole(0, "nb", 1, INT64_MAX), bs = a.whole(1, "bs", 1, INT64_MAX);
    const double occupancy = a.fraction(2, "occ");
    const std::int64_t seed = a.count() == 4 ? a.whole(3, "seed", 0, INT64_MAX) : 1;
    a.check_tiles(nb, nb, "each matrix");
    std::int64_t extent = 0;
    a.check(!__builtin_mul_overflow(nb, bs, &extent), "nb x bs = {} x {} does not fit in 64 bits", nb, bs);
    a.check_sizes(extent, extent, extent);
    // About so many; known before the shapes of a hopeless case are made.
    const auto side = static_cast<double>(nb);
    require_products_fit("mk,kn->mn", 0.9 * side * side * side * occupancy * occupancy, memory_bytes());
    return make_blocks(nb, bs, occupancy, static_cast<std::uint64_t>(seed));
}

Problem synthetic_from(const Arguments& a) {
    a.check(a.count() == 4 || a.count() == 6 || a.count() == 7,
            "synthetic takes 4, 6 or 7 numbers (M,N,K,density[,lo,hi[,seed]]), not {}", a.count());
    const std::int64_t m = a.whole(0, "M", 1, INT64_MAX), n = a.whole(1, "N", 1, INT64_MAX);
    const std::int64_t k = a.whole(2, "K", 1, INT64_MAX);
    const double density = a.fraction(3, "density");
    const std::int64_t lo = a.count() >= 6 ? a.whole(4, "lo", 1, kLargestTile) : 512;
    const std::int64_t hi = a.count() >= 6 ? a.whole(5, "hi", 1, kLargestTile) : 2048;
    const std::int64_t seed = a.count() == 7 ? a.whole(6, "seed", 0, INT64_MAX) : 1;
    a.check(lo <= hi, "lo is {} and hi is {}, lo must not be above hi", lo, hi);
    a.check_sizes(m, n, k);
    a.check_tiles(tiles_of(m, lo), tiles_of(k, lo), "A");
    a.check_tiles(tiles_of(k, lo), tiles_of(n, lo), "B");
    a.check_tiles(tiles_of(m, lo), tiles_of(n, lo), "C");
    return make_synthetic(m, n, k, density, lo, hi, static_cast<std::uint64_t>(seed));
}

Problem alkane_from(std::string_view text, std::string_view rest) {
    const auto parts = split(rest, ':');
    const Arguments a(text, parts);
    a.check(parts.size() == 2 || parts.size() == 3, "alkane takes n, a tiling and perhaps min (n:v1|v2|v3|O,A[:min])");
    const std::int64_t n = a.whole(0, "n", 1, kMostCarbons);
    auto tiling = published_tiling(parts[1], n);
    if (const auto numbers = split(parts[1], ','); !tiling && numbers.size() == 2) {
        const Arguments clusters(text, numbers);
        const auto o = clusters.whole(0, "O, the number of clusters of occupied orbitals,", 1, 3 * n + 1);
        const auto c = clusters.whole(1, "A, the number of clusters of atomic orbitals,", 1, n);
        tiling = AlkaneTiling{fmt::format("{},{}", o, c), o, c};
    }
    a.check(tiling.has_value(), "the tiling is {}, must be v1, v2, v3 or two numbers of clusters (O,A)",
            quoted(parts[1]));
    a.check(parts.size() == 2 || parts[2] == "min", "after the tiling stands {}, must be min or nothing",
            quoted(parts.back()));
    return make_alkane(n, *tiling, parts.size() == 3);
}

}  // namespace

Problem make_problem(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view family = text.substr(0, colon);
    const std::string_view rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
    if (family == "alkane") return alkane_from(text, rest);
    const Arguments arguments(text, split(rest, ','));
    if (family == "dense") return dense_from(arguments);
    if (family == "blocks") return blocks_from(arguments);
    if (family == "synthetic") return synthetic_from(arguments);
    if (is_insulator(text))
        user_error("problem {}: is no contraction; `tessera run` makes its density matrix", quoted(text));
    user_error("problem {}: {} is no family of problems; the forms are: {}", quoted(text), quoted(family), kForms);
}

bool is_insulator(std::string_view text) { return text.substr(0, text.find(':')) == "purify"; }

Insulator make_insulator(std::string_view text) {
    const std::size_t colon = text.find(':');
    const Arguments a(text, split(colon == std::string_view::npos ? "" : text.substr(colon + 1), ','));
    a.check(is_insulator(text), "is no model of an insulator");
    a.check(a.count() == 1 || a.count() == 4 || a.count() == 5,
            "purify takes 1, 4 or 5 numbers (n[,tile,bandwidth,gap[,seed]]), not {}", a.count());
    Insulator out;
    out.states = a.whole(0, "n", 2, INT64_C(100'000'000));
    if (a.count() > 1) {
        out.tile = a.whole(1, "tile", 1, kLargestTile);
        out.bandwidth = a.whole(2, "bandwidth", 0, out.states - 1);
        out.gap = a.number(3, "gap", 1e-6, 2);
    }
    if (a.count() > 4) out.seed = static_cast<std::uint64_t>(a.whole(4, "seed", 0, INT64_MAX));
    out.bandwidth = std::min(out.bandwidth, out.states - 1);
    const std::int64_t reach = out.bandwidth / out.tile + 2;
    std::int64_t tiles = 0;
    a.check(!__builtin_mul_overflow(tiles_of(out.states, out.tile), 2 * reach, &tiles) && tiles <= kMostTiles,
            "F would have more than {} tiles; take fewer, larger tiles", kMostTiles);
    out.name = fmt::format("purify:{},{},{},{}{}", out.states, out.tile, out.bandwidth, out.gap,
                           out.seed == 1 ? "" : fmt::format(",{}", out.seed));
    return out;
}

}  // namespace tessera

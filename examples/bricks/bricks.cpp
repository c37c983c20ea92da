// The triples of a code that NWChem's TCE generates: bricks of tiles of 16 to 40 orbitals, some of them partial, into
// each of which eighteen kinds of calls (sd_t_d1_1 to 9, sd_t_d2_1 to 9) add the product of two tiles, one for each
// tile of the summed index. The calls are kept, and a brick is one launch on device 0; where there is no device, one
// call on the cores.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <tessera/device/triples.hpp>
#include <tessera/tessera.hpp>

namespace {

using namespace tessera;
using kernels::BlockExtents;

constexpr std::string_view kLetters = "kjicba";

/// An array of the host, and where there is one its copy on the device.
class Array {
  public:
    Array(std::int64_t size, std::uint64_t seed, bool device)
        : here_(Tensor<double>::random(Shape::dense(TileGrid{Tiling{size}}), seed)) {
        if (device) there_ = to_devices(here_, {0});
    }
    const double* host() const { return here_.tile(0).data(); }
    const double* device() const { return static_cast<const double*>(there_->device_tile(0)); }

  private:
    Tensor<double> here_;
    std::optional<Tensor<double>> there_;
};

/// The calls for one brick t3[k, j, i, c, b, a], k fastest.
class Brick {
  public:
    Brick(const BlockExtents& extents, bool device) : extents_(extents), device_(device) {}
    /// sd_t_d1_n and sd_t_d2_n: `sum` is the length of a tile of the summed index. Both tiles are dense, first index of
    /// the table's names fastest.
    void d1(int n, const Array& t2, const Array& v2, std::int64_t sum) {
        add(kernels::kOccupiedPatterns[n - 1], t2, v2, sum);
    }
    void d2(int n, const Array& t2, const Array& v2, std::int64_t sum) {
        add(kernels::kVirtualPatterns[n - 1], t2, v2, sum);
    }

    /// On the device, or on the cores.
    std::vector<double> compute() const {
        std::int64_t volume = 1;
        for (const auto e : extents_) volume *= e;
        std::vector<double> t3(static_cast<std::size_t>(volume));
        if (!device_) {
            kernels::fused_contract(extents_, on_host_, {t3.data(), kernels::packed_strides(extents_), false});
            return t3;
        }
        auto there = Tensor<double>::random(Shape::dense(TileGrid{Tiling{volume}}), 1, 0, Placement::on_devices({0}));
        const device::Triples triples(
            extents_, on_device_,
            {static_cast<double*>(there.device_tile(0)), kernels::packed_strides(extents_), false});
        triples.run(device_stream(0));
        there.tiles_changed();
        return to_host(there).to_dense();
    }
    /// One element, by the loop written plainly.
    double element(const BlockExtents& at) const { return kernels::ref::fused_element(on_host_, at); }

  private:
    void add(const kernels::TermPattern& p, const Array& t2, const Array& v2, std::int64_t sum) {
        on_host_.push_back(kernels::make_term(p.factor, p.t2, t2.host(), p.v2, v2.host(), extents_, sum));
        if (device_)
            on_device_.push_back(kernels::make_term(p.factor, p.t2, t2.device(), p.v2, v2.device(), extents_, sum));
    }
    BlockExtents extents_;
    bool device_;
    std::vector<kernels::FusedTerm> on_host_, on_device_;
};

std::int64_t size_of(const char* letters, const BlockExtents& extents, std::int64_t sum) {
    std::int64_t size = 1;
    for (; *letters; ++letters) {
        const auto n = kLetters.find(*letters);
        size *= n == std::string_view::npos ? sum : extents[n];
    }
    return size;
}

/// A brick with these tiles; the summed indices have two tiles each, the second a partial one. Whether it is right.
bool check(const BlockExtents& extents, std::int64_t tile, bool device, std::mt19937& random) {
    Brick brick(extents, device);
    std::vector<std::pair<Array, Array>> operands;
    operands.reserve(36);
    std::uint64_t seed = 1;
    for (const auto sum : {tile, tile / 3 + 1})
        for (int n = 1; n <= 9; ++n)
            for (const bool occupied : {true, false}) {
                const auto& p = (occupied ? kernels::kOccupiedPatterns : kernels::kVirtualPatterns)[n - 1];
                operands.emplace_back(Array(size_of(p.t2, extents, sum), seed, device),
                                      Array(size_of(p.v2, extents, sum), seed + 1, device));
                seed += 2;
                (occupied ? brick.d1(n, operands.back().first, operands.back().second, sum)
                          : brick.d2(n, operands.back().first, operands.back().second, sum));
            }
    const auto t3 = brick.compute();
    const auto strides = kernels::packed_strides(extents);
    double off = 0, largest = 0;
    for (int sample = 0; sample < 2000; ++sample) {
        BlockExtents at{};
        std::int64_t place = 0;
        for (int d = 0; d < 6; ++d) {
            at[d] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extents[d]));
            place += at[d] * strides[d];
        }
        const double expected = brick.element(at);
        largest = std::max(largest, std::abs(expected));
        off = std::max(off, std::abs(expected - t3[static_cast<std::size_t>(place)]));
    }
    const bool right = off <= 1e-13 * largest;
    std::printf("tiles of %2lld: %2lld %2lld %2lld %2lld %2lld %2lld, 36 calls in one: %s\n",
                static_cast<long long>(tile), static_cast<long long>(extents[0]), static_cast<long long>(extents[1]),
                static_cast<long long>(extents[2]), static_cast<long long>(extents[3]),
                static_cast<long long>(extents[4]), static_cast<long long>(extents[5]),
                right ? "as the plain loops" : "DIFFERS");
    return right;
}

}  // namespace

int main() try {
    bool device = true;
    try {
        device_stream(0);
    } catch (const BackendUnavailable& e) {
        std::printf("on the cores: %s\n", e.what());
        device = false;
    }
    std::mt19937 random(7);
    bool right = true;
    // 16 whole; on the cores larger ones would take long.
    const std::vector<std::int64_t> tiles =
        device ? std::vector<std::int64_t>{16, 20, 24, 31, 40} : std::vector<std::int64_t>{16, 20};
    for (const auto tile : tiles) {
        if (tile <= 24) right &= check({tile, tile, tile, tile, tile, tile}, tile, device, random);
        BlockExtents partial{};  // the last tiles of a range are shorter
        for (auto& e : partial)
            e = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(std::min<std::int64_t>(tile, 24)));
        partial[0] = tile;
        right &= check(partial, tile, device, random);
    }
    return right ? 0 : 1;
} catch (const Error& e) {
    std::printf("%s\n", e.what());
    return 1;
}

#include "chem/tensor_work.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::chem {

void TensorWork::note(ContractReport report, double start) {
    seconds_ += now_seconds() - start;
    flops_ += report.flops;
    ++count_;
    last_ = std::move(report);
}

RealTensor TensorWork::product(std::string_view spec, const RealOperand& a, const RealOperand& b, double alpha) {
    const double start = now_seconds();
    ContractOptions options;
    options.alpha = alpha;
    options.threads = threads_;
    auto result = contract<double>(spec, a, b, options);
    note(std::move(result.report), start);
    return std::move(result.tensor);
}

void TensorWork::add_product(std::string_view spec, const RealOperand& a, const RealOperand& b, RealTensor& c,
                             double alpha) {
    const double start = now_seconds();
    ContractOptions options;
    options.alpha = alpha;
    options.beta = 1;
    options.threads = threads_;
    note(contract_into<double>(spec, a, b, c, options), start);
}

RealTensor TensorWork::lean_product(std::string_view spec, const RealOperand& a, const RealOperand& b) {
    const double start = now_seconds();
    ContractOptions options;
    options.threads = threads_;
    constexpr std::int64_t kRoom = 96 << 20;
    const auto grid = ContractionSpec(spec).result_grid(a.shape().grid(), b.shape().grid());
    options.memory = kRoom + 8 * grid.element_total() + 64 * grid.tile_total();
    for (const auto* x : {&a, &b})
        if (x->stored()) options.memory += x->stored()->tile_bytes();
    try {
        auto result = contract<double>(spec, a, b, options);
        note(std::move(result.report), start);
        return std::move(result.tensor);
    } catch (const BudgetError& e) {
        // A single tile is larger than the room.
        options.memory = e.smallest_bytes() + kRoom;
        auto result = contract<double>(spec, a, b, options);
        note(std::move(result.report), start);
        return std::move(result.tensor);
    }
}

RealTensor TensorWork::permuted(std::string_view spec, const RealTensor& a) {
    const double start = now_seconds();
    ContractOptions options;
    options.threads = threads_;
    auto result = contract(spec, a, options);
    note(std::move(result.report), start);
    return std::move(result.tensor);
}

RealTensor to_tensor(const Matrix& m, const Tiling& rows, const Tiling& columns) {
    return RealTensor::generate(Shape::dense(TileGrid{rows, columns}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    for (std::int64_t i = 0; i < info.extents[0]; ++i)
                                        for (std::int64_t j = 0; j < info.extents[1]; ++j)
                                            out[i * info.extents[1] + j] = m(info.begin[0] + i, info.begin[1] + j);
                                });
}

Tiling even_tiling(std::int64_t extent, std::int64_t target) {
    const auto tiles = std::max<std::int64_t>(1, (extent + target - 1) / target);
    std::vector<std::int64_t> sizes;
    for (std::int64_t t = 0; t < tiles; ++t) sizes.push_back(extent * (t + 1) / tiles - extent * t / tiles);
    return Tiling::from_sizes(sizes);
}

}  // namespace tessera::chem

// Contractions in a dry run: the memory that the same call would hold, without its work.
#include <algorithm>

#include "base/parallel.hpp"
#include "chem/tensor_work.hpp"
#include "storage/buffer.hpp"
#include "storage/dry_run.hpp"
#include "tensor/exchange.hpp"

namespace tessera::chem {

namespace {

std::int64_t bytes_of(const RealOperand* x) { return x && x->stored() ? x->stored()->tile_bytes() : 0; }

/// Tiles made on demand: room for a few, and for the largest one on each thread twice; never more than all of them.
std::int64_t made_bytes(const RealOperand* x, int threads) {
    if (!x || !x->made()) return 0;
    std::int64_t all = 0, largest = 0;
    for (std::int64_t s = 0; s < x->shape().tile_count(); ++s) {
        const auto bytes = 8 * x->shape().grid().tile_elements(x->shape().tile(s));
        all += bytes;
        largest = std::max(largest, bytes);
    }
    return std::min(all, kMadeTiles + 2 * threads * largest);
}

}  // namespace

bool TensorWork::shares(std::string_view spec, const RealOperand& a, const RealOperand& b) const {
    return workers_.rank_count() > 1 && work_of(spec, a.shape(), &b.shape()) >= workers_.share_from;
}

RealTensor TensorWork::counted(std::string_view spec, const RealOperand& a, const RealOperand* b, const Shape* only) {
    const ContractionSpec parsed(spec);
    const TileGrid grid =
        b ? parsed.result_grid(a.shape().grid(), b->shape().grid()) : parsed.result_grid(a.shape().grid());
    const int team = threads_for(spec, a.shape(), b ? &b->shape() : nullptr, resolve_threads(threads_));
    most_threads_ = std::max(most_threads_, team);
    const auto result = [&] { return RealTensor::generate(only ? *only : Shape::dense(grid), {}); };
    const Buffer made(made_bytes(&a, team) + made_bytes(b, team));
    if (!b || !shares(spec, a, *b)) return result();
    // What this rank was dealt of the operands and of the result, and what it gets of the smaller operand; then the
    // whole result as an array, which comes in batches: two on their way, one passed on.
    const auto of_a = bytes_of(&a), of_b = bytes_of(b), of_c = 8 * grid.element_total();
    const Buffer dealt((of_a + of_b + of_c) / workers_.rank_count() + std::min(of_a, of_b));
    const DryArray all(of_c), batches(3 * std::min(of_c, kBatchBytes));
    return result();
}

}  // namespace tessera::chem

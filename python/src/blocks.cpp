// The contraction of two lists of blocks whose places are known, for who holds blocks of their own (symmray).

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "module.hpp"
#include "python_array.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/planned_contraction.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

/// Blocks of this many bytes on average are handed over where they were computed; smaller ones, which cost less to copy
/// than to own, in arrays of their own.
constexpr std::int64_t kLargeBlock = 16 << 10;
/// Below this many flops other Python threads wait.
constexpr double kShortWork = 1e5;
/// Fewer bytes are copied sooner than another thread wakes.
constexpr std::int64_t kShortCopy = 512 << 10;

using Sizes = std::vector<std::vector<std::int64_t>>;
using Numbers = std::vector<std::int64_t>;

/// Where the blocks of an operand belong: the shape, and for each of its slots the number of the block.
struct Side {
    Shape shape;
    std::vector<std::size_t> block;

    Side(const Sizes& tilings, const Numbers& ordinals) : block(ordinals.size()) {
        std::vector<Tiling> indices;
        for (const auto& sizes : tilings) indices.push_back(Tiling::from_sizes(sizes));
        std::iota(block.begin(), block.end(), std::size_t{0});
        std::sort(block.begin(), block.end(), [&](auto a, auto b) { return ordinals[a] < ordinals[b]; });
        std::vector<ShapeEntry> entries;
        for (const auto i : block) entries.push_back({TileOrdinal{ordinals[i]}, 0});
        shape = Shape(TileGrid(std::move(indices)), std::move(entries));
    }

    std::vector<PythonArray> arrays(const nb::list& blocks, const char* name) const {
        if (blocks.size() != block.size())
            throw UserError(std::string(name) + " has " + std::to_string(blocks.size()) + " blocks for " +
                            std::to_string(block.size()) + " places");
        std::vector<PythonArray> out;
        out.reserve(block.size());
        for (std::size_t slot = 0; slot < block.size(); ++slot) {
            out.emplace_back(nb::object(blocks[block[slot]]), name);
            const auto& x = out.back();
            const auto wanted = shape.grid().tile_extents(shape.tile(static_cast<std::int64_t>(slot)));
            if (!(x.extents == wanted))
                throw UserError(std::string(name) + " has a block of shape " + to_string(x.extents) +
                                ", its place one of " + to_string(wanted));
        }
        return out;
    }

    template <Scalar T>
    Tensor<T> tensor(const std::vector<PythonArray>& arrays, int threads) const {
        return Tensor<T>::generate(
            shape,
            [&](const TileInfo& info, std::span<T> tile) {
                const auto slot = static_cast<std::size_t>(*shape.find(info.tile));
                copy_array<T>(arrays[slot].view<const T>(), {tile.data(), info.extents});
            },
            shape.elements() * static_cast<std::int64_t>(sizeof(T)) < kShortCopy ? 1 : threads);
    }
};

class BlockContraction {
  public:
    BlockContraction(std::string spec, const Sizes& tilings_a, const Numbers& ordinals_a, const Sizes& tilings_b,
                     const Numbers& ordinals_b, int threads)
        : spec_(std::move(spec)), a_(tilings_a, ordinals_a), b_(tilings_b, ordinals_b), threads_(threads) {}

    /// Of the result's blocks, in their order.
    Numbers ordinals() {
        const auto all =
            with_scalar(any_plan(), [&](auto type) { return planned<decltype(type)>().plan().c.ordinals(); });
        return {all.begin(), all.end()};
    }

    nb::list operator()(const nb::list& blocks_a, const nb::list& blocks_b) {
        auto x = a_.arrays(blocks_a, "A"), y = b_.arrays(blocks_b, "B");
        std::optional<ScalarKind> kind;
        for (const auto* side : {&x, &y})
            for (const auto& block : *side) kind = kind ? common_kind(*kind, block.kind()) : block.kind();
        for (auto* side : {&x, &y})
            for (auto& block : *side)
                if (block.kind() != *kind) block = std::move(block).as(*kind);
        return with_scalar(kind.value_or(ScalarKind::f64), [&](auto type) {
            using T = decltype(type);
            const PlannedContraction plan = planned<T>();
            auto result = [&] {
                std::optional<nb::gil_scoped_release> others_run;
                if (plan.counts().flops > kShortWork) others_run.emplace();
                const Tensor<T> p = a_.tensor<T>(x, threads_), q = b_.tensor<T>(y, threads_);
                return execute<T>(plan, p, q).tensor;
            }();
            if (!std::ranges::equal(result.shape().ordinals(), plan.plan().c.ordinals()))
                throw UserError("the result has other blocks than were planned");
            return handed_over<T>(std::move(result));
        });
    }

  private:
    ScalarKind any_plan() const {
        for (std::size_t k = 0; k < plans_.size(); ++k)
            if (plans_[k]) return static_cast<ScalarKind>(k);
        return ScalarKind::f64;
    }
    template <Scalar T>
    const PlannedContraction& planned() {
        auto& known = plans_[static_cast<std::size_t>(ScalarTraits<T>::kind)];
        if (!known) {
            Resources here;
            here.threads = threads_;
            known = plan<T>(spec_, OperandShape(a_.shape), OperandShape(b_.shape), here);
        }
        return *known;
    }

    template <Scalar T>
    static nb::list handed_over(Tensor<T> tensor) {
        nb::list out;
        const auto count = tensor.tile_count();
        if (count == 0) return out;
        if (tensor.tile_bytes() / count < kLargeBlock) {
            for (std::int64_t slot = 0; slot < count; ++slot) {
                const auto tile = tensor.tile(slot);
                const auto copy = PythonArray::result(
                    empty_array(tensor.grid().tile_extents(tensor.shape().tile(slot)), ScalarTraits<T>::kind),
                    "a copy");
                std::copy(tile.begin(), tile.end(), copy.template view<T>().data);
                out.append(copy.object());
            }
            return out;
        }
        // The arrays are all that is left of the tensor, so they may be written to.
        auto* kept = new Tensor<T>(std::move(tensor));
        const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Tensor<T>*>(p); });
        for (std::int64_t slot = 0; slot < count; ++slot) {
            const auto extents = kept->grid().tile_extents(kept->shape().tile(slot));
            std::array<std::size_t, kMaxRank> shape{};
            std::copy(extents.begin(), extents.end(), shape.begin());
            auto* elements = const_cast<T*>(kept->tile(slot).data());
            out.append(
                nb::ndarray<nb::numpy, T>(elements, static_cast<std::size_t>(extents.size()), shape.data(), owner));
        }
        return out;
    }

    std::string spec_;
    Side a_, b_;
    int threads_;
    std::array<std::optional<PlannedContraction>, 4> plans_;  // by scalar kind
};

}  // namespace

void bind_blocks(nb::module_& module) {
    nb::class_<BlockContraction>(module, "BlockContraction")
        .def(nb::init<std::string, const Sizes&, const Numbers&, const Sizes&, const Numbers&, int>(), "spec"_a,
             "tilings_a"_a, "ordinals_a"_a, "tilings_b"_a, "ordinals_b"_a, "threads"_a)
        .def_prop_ro("ordinals", &BlockContraction::ordinals)
        .def("__call__", &BlockContraction::operator(), "blocks_a"_a, "blocks_b"_a);
}

}  // namespace tessera::python

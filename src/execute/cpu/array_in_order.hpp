#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <span>

#include "execute/cpu/array_product.hpp"
#include "storage/buffer.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::arrays {

/// Arrays whose neighbours in memory belong to other points of the batch are put in order first: that reads and writes
/// them once along memory, instead of a line for each element.
template <Scalar T>
class InOrder {
  public:
    explicit InOrder(const ArrayProduct<T>& p) : given_(p), ordered_(p) {
        ArrayLabels* const groups[3][3] = {{&ordered_.batch, &ordered_.m, &ordered_.k},
                                           {&ordered_.batch, &ordered_.k, &ordered_.n},
                                           {&ordered_.batch, &ordered_.m, &ordered_.n}};
        for (int o = 0; o < 3; ++o) {
            if (!is_mixed(p, o) || (o == 2 && (p.alpha != T(1) || p.beta != T(0)))) continue;
            Copy& copy = copies_[o];
            for (const auto* group : groups[o])
                for (int i = 0; i < group->count; ++i) {
                    copy.extents.push_back(group->label[i].extent);
                    copy.strides.push_back(group->label[i].stride[o]);
                }
            const auto packed = row_major_strides(copy.extents);
            int at = 0;
            for (auto* group : groups[o])
                for (int i = 0; i < group->count; ++i) group->label[i].stride[o] = packed[at++];
            copy.bytes = static_cast<std::int64_t>(sizeof(T)) * copy.extents.product();
        }
    }
    std::int64_t bytes() const { return copies_[0].bytes + copies_[1].bytes + copies_[2].bytes; }
    const ArrayProduct<T>& product() const { return ordered_; }

    /// Makes the copies of A and B, and room for C.
    void fill(int threads) {
        for (int o = 0; o < 3; ++o) {
            Copy& copy = copies_[o];
            if (copy.bytes == 0) continue;
            copy.memory = Buffer(copy.bytes, nullptr, "array in order");
            T* const to = reinterpret_cast<T*>(copy.memory.data());
            if (o < 2) copy_all(copy, o == 0 ? given_.a : given_.b, to, span_of(copy.strides), {}, threads);
            if (o == 0) ordered_.a = to;
            if (o == 1) ordered_.b = to;
            if (o == 2) ordered_.c = to;
        }
    }
    /// Takes the result to its place.
    void give_back(int threads) const {
        if (copies_[2].bytes > 0) copy_all(copies_[2], ordered_.c, given_.c, {}, span_of(copies_[2].strides), threads);
    }

  private:
    struct Copy {
        IndexVector extents, strides;
        std::int64_t bytes = 0;  // 0: the array is taken as it lies
        Buffer memory;
    };

    static std::span<const std::int64_t> span_of(const IndexVector& v) {
        return {v.begin(), static_cast<std::size_t>(v.size())};
    }
    static bool is_mixed(const ArrayProduct<T>& p, int o) {
        constexpr std::int64_t kLeast = 4;  // points beside each other that are worth it
        std::int64_t step_batch = INT64_MAX, step_others = INT64_MAX, beside = 1;
        for (const auto* group : {&p.batch, &p.m, &p.n, &p.k})
            for (int i = 0; i < group->count; ++i) {
                const auto& label = group->label[i];
                if (label.extent == 1 || (group == (o == 0 ? &p.n : o == 1 ? &p.m : &p.k))) continue;
                if (label.stride[o] <= 0) return false;  // repeated or walked backwards: as it lies
                if (group == &p.batch && label.stride[o] < step_batch) {
                    step_batch = label.stride[o];
                    beside = label.extent;
                }
                if (group != &p.batch) step_others = std::min(step_others, label.stride[o]);
            }
        return step_batch < step_others && step_others != INT64_MAX && beside >= kLeast;
    }
    static void copy_all(const Copy& copy, const T* from, T* to, std::span<const std::int64_t> from_strides,
                         std::span<const std::int64_t> to_strides, int threads) {
        std::array<int, kMaxRank> same;
        std::iota(same.begin(), same.end(), 0);
        const auto plan =
            kernels::plan_transpose(span_of(copy.extents), {same.data(), static_cast<std::size_t>(copy.extents.size())},
                                    static_cast<int>(sizeof(T)), from_strides, to_strides);
        kernels::TransposeArguments<T> arguments;
        arguments.threads = threads;
        kernels::transpose<T>(plan, from, to, arguments);
    }

    const ArrayProduct<T>& given_;
    ArrayProduct<T> ordered_;
    std::array<Copy, 3> copies_;
};

}  // namespace tessera::arrays

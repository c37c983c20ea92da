#pragma once
// What operations on two tensors ask of them, and sums over tiles that all ranks share.

#include <cstring>
#include <optional>

#include "base/check.hpp"
#include "comm/same_on_all.hpp"
#include "tensor/tensor_impl.hpp"

namespace tessera {

template <Scalar T>
void require_same_grid(const char* operation, const Tensor<T>& x, const Tensor<T>& y) {
    require(x.rank() == y.rank(), "{}: tensors of rank {} and {}", operation, x.rank(), y.rank());
    for (int d = 0; d < x.rank(); ++d)
        require(x.grid().tiling(d) == y.grid().tiling(d), "{}: index {} is {} in one tensor and {} in the other: {}",
                operation, d, to_string(x.grid().tiling(d)), to_string(y.grid().tiling(d)),
                first_difference(x.grid().tiling(d), y.grid().tiling(d)));
}

/// A tensor as another one is dealt, or in another way on its ranks: itself, or a copy on its way there.
template <Scalar T>
class DealtLike {
  public:
    DealtLike(const char* operation, const Tensor<T>& x, const Tensor<T>& like)
        : DealtLike(operation, x, like, like.distribution()) {}
    DealtLike(const char* operation, const Tensor<T>& x, const Tensor<T>& like, const Distribution& wanted) : x_(&x) {
        require(same_ranks(x.communicator(), like.communicator()),
                "{}: tensors on different communicators, of {} and {} ranks", operation, x.communicator().size(),
                like.communicator().size());
        if (x.communicator().size() > 1 && !(x.distribution() == wanted)) {
            moved_ = redistribute(x, wanted);
            x_ = &*moved_;
        }
    }
    DealtLike(const DealtLike&) = delete;
    DealtLike& operator=(const DealtLike&) = delete;
    const Tensor<T>& operator*() const { return *x_; }

  private:
    const Tensor<T>* x_;
    std::optional<Tensor<T>> moved_;
};

/// One number per tile, zeros for other ranks': becomes everyone's, and their sum in canonical order, on every rank.
template <Scalar T>
T sum_of_tiles(Communicator& ranks, std::vector<T> partial) {
    if (ranks.size() > 1) {  // exact as doubles
        std::vector<double> values(partial.size() * (is_complex<T> ? 2 : 1));
        auto* reals = reinterpret_cast<RealOf<T>*>(partial.data());
        std::copy_n(reals, values.size(), values.begin());
        ranks.sum(values);
        for (std::size_t i = 0; i < values.size(); ++i) reals[i] = static_cast<RealOf<T>>(values[i]);
    }
    T sum{};
    for (const T& p : partial) sum += p;
    return sum;
}

}  // namespace tessera

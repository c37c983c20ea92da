#pragma once
// Contractions of dense arrays where they lie: no tiling to choose, no copy of an operand, the result in place.

#include <concepts>
#include <string_view>
#include <type_traits>

#include "tessera/base/api.hpp"
#include "tessera/contract/contract_options.hpp"
#include "tessera/tensor/array.hpp"

namespace TESSERA_API tessera {

/// c = alpha a b + beta c. All that can be wrong is said before c is touched. Where the result holds NaN or infinity,
/// or the machine fails, c is left unspecified, and the message says so.
template <Scalar T>
TESSERA_API ContractReport contract_arrays(std::string_view spec, const ArrayView<const T>& a,
                                           const ArrayView<const T>& b, const ArrayView<T>& c,
                                           const Resources& here = {}, const ContractOptions& options = {});

template <class A, class T>
concept ReadsAs = std::same_as<std::remove_const_t<A>, T>;

/// The same under the name that tensors have: contract_into("pcd,cdab->pab", a, b, c).
template <class A, class B, Scalar T>
requires ReadsAs<A, T> && ReadsAs<B, T> ContractReport contract_into(std::string_view spec, const ArrayView<A>& a,
                                                                     const ArrayView<B>& b, const ArrayView<T>& c,
                                                                     const Resources& here = {},
                                                                     const ContractOptions& options = {}) {
    return contract_arrays<T>(spec, a, b, c, here, options);
}

template <Scalar T>
struct ArrayContraction {
    Array<T> array;
    ContractReport report;
};

/// The extents that the result of a spec has.
TESSERA_API IndexVector result_extents(std::string_view spec, const IndexVector& a, const IndexVector& b);

/// Into a new array.
template <class A, class B>
requires ReadsAs<B, std::remove_const_t<A>> && Scalar<std::remove_const_t<A>> ArrayContraction<std::remove_const_t<A>>
contract(std::string_view spec, const ArrayView<A>& a, const ArrayView<B>& b, const Resources& here = {},
         const ContractOptions& options = {}) {
    ArrayContraction<std::remove_const_t<A>> out;
    out.array = Array<std::remove_const_t<A>>(result_extents(spec, a.extents, b.extents));
    out.report = contract_arrays<std::remove_const_t<A>>(spec, a, b, out.array.view(), here, options);
    return out;
}

}  // namespace tessera

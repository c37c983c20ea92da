#pragma once
// Contractions of dense arrays where they lie: no tiling to choose, no copy of an operand, the result in place.

#include <concepts>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/contract/contract_options.hpp"
#include "tessera/tensor/array.hpp"

namespace TESSERA_API tessera {

template <class A, class T>
concept ReadsAs = std::same_as<std::remove_const_t<A>, T>;

/// A list of arrays: contract_into("ij,jk,kl->il", operands(a, b, c), result).
template <Scalar T, class... More>
requires(ReadsAs<More, T>&&...) std::vector<ArrayView<const T>> operands(const ArrayView<const T>& a,
                                                                         const ArrayView<More>&... more) {
    return {a, more...};
}
template <Scalar T, class... More>
requires(ReadsAs<More, T>&&...) std::vector<ArrayView<const T>> operands(const ArrayView<T>& a,
                                                                         const ArrayView<More>&... more) {
    return {a, more...};
}

/// c = alpha (the einsum) + beta c, of any number of arrays, two at a time. What is in between is in arrays of its own,
/// which count in the memory budget. All that can be wrong is said before c is touched. Where the result holds NaN or
/// infinity, or the machine fails, c is left unspecified, and the message says so.
template <Scalar T>
TESSERA_API ContractReport contract_arrays(std::string_view spec, const std::vector<ArrayView<const T>>& operands,
                                           const ArrayView<T>& c, const Resources& here = {},
                                           const ContractOptions& options = {});

/// The same under the name that tensors have: contract_into("pcd,cdab->pab", a, b, c).
template <Scalar T>
ContractReport contract_into(std::string_view spec, const std::vector<ArrayView<const T>>& operands,
                             const ArrayView<T>& c, const Resources& here = {}, const ContractOptions& options = {}) {
    return contract_arrays<T>(spec, operands, c, here, options);
}
template <class A, class B, Scalar T>
requires ReadsAs<A, T> && ReadsAs<B, T> ContractReport contract_into(std::string_view spec, const ArrayView<A>& a,
                                                                     const ArrayView<B>& b, const ArrayView<T>& c,
                                                                     const Resources& here = {},
                                                                     const ContractOptions& options = {}) {
    return contract_arrays<T>(spec, {a, b}, c, here, options);
}

template <Scalar T>
struct ArrayContraction {
    Array<T> array;
    ContractReport report;
};

/// The extents that the result of a spec has.
TESSERA_API IndexVector result_extents(std::string_view spec, const std::vector<IndexVector>& operands);
TESSERA_API IndexVector result_extents(std::string_view spec, const IndexVector& a, const IndexVector& b);

/// Into a new array.
template <Scalar T>
ArrayContraction<T> contract(std::string_view spec, const std::vector<ArrayView<const T>>& operands,
                             const Resources& here = {}, const ContractOptions& options = {}) {
    std::vector<IndexVector> extents;
    for (const auto& x : operands) extents.push_back(x.extents);
    ArrayContraction<T> out;
    out.array = Array<T>(result_extents(spec, extents));
    out.report = contract_arrays<T>(spec, operands, out.array.view(), here, options);
    return out;
}
template <class A, class B>
requires ReadsAs<B, std::remove_const_t<A>> && Scalar<std::remove_const_t<A>> ArrayContraction<std::remove_const_t<A>>
contract(std::string_view spec, const ArrayView<A>& a, const ArrayView<B>& b, const Resources& here = {},
         const ContractOptions& options = {}) {
    return contract(spec, std::vector<ArrayView<const std::remove_const_t<A>>>{a, b}, here, options);
}

}  // namespace tessera

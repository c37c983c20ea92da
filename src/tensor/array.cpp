#include "tessera/tensor/array.hpp"

#include <complex>

#include "storage/buffer.hpp"

namespace tessera {

template <Scalar T>
struct Array<T>::Memory {
    Buffer buffer;
};

template <Scalar T>
Array<T>::Array() = default;
template <Scalar T>
Array<T>::Array(const IndexVector& extents)
    : memory_(new Memory{Buffer(extents.product() * static_cast<std::int64_t>(sizeof(T)), nullptr, "array")}),
      data_(reinterpret_cast<T*>(memory_->buffer.data())),
      extents_(extents) {}
template <Scalar T>
Array<T>::Array(Array&&) noexcept = default;
template <Scalar T>
Array<T>& Array<T>::operator=(Array&&) noexcept = default;
template <Scalar T>
Array<T>::~Array() = default;

template class Array<float>;
template class Array<double>;
template class Array<std::complex<float>>;
template class Array<std::complex<double>>;

}  // namespace tessera

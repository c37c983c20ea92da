#pragma once
// NumPy's arrays, and whatever else has Python's buffer interface, as views: any strides, nothing copied.

#include <nanobind/nanobind.h>

#include <algorithm>
#include <string>

#include "tessera/base/scalar.hpp"
#include "tessera/index/index_vector.hpp"
#include "tessera/tensor/array.hpp"

namespace tessera::python {

namespace nb = nanobind;

/// Keeps the array, and holds its memory where it is, as long as this lives.
class PythonArray {
  public:
    /// UserError, naming the argument, for what is no array of one of the four element types. An operand whose elements
    /// are in foreign byte order or lie between the places of their type (fields of records) is copied first.
    PythonArray(nb::object object, std::string name);
    /// One that is written to.
    static PythonArray result(nb::object object, std::string name);
    ~PythonArray();
    PythonArray(PythonArray&&) noexcept;
    PythonArray& operator=(PythonArray&&) noexcept;

    const nb::object& object() const { return object_; }
    const std::string& name() const { return name_; }
    ScalarKind kind() const { return kind_; }
    IndexVector extents, strides;  // in elements
    template <class T>
    ArrayView<T> view() const {
        return {static_cast<T*>(data_), extents, strides};
    }
    /// Itself, or a copy where the elements are of another kind.
    PythonArray as(ScalarKind kind) &&;

  private:
    PythonArray(nb::object object, std::string name, bool writable);
    bool take_plain(bool writable);
    bool take(bool writable);
    void release() noexcept;
    nb::object object_;
    std::string name_;
    Py_buffer buffer_{};
    void* data_ = nullptr;
    ScalarKind kind_ = ScalarKind::f64;
};

/// What holds every number of both.
ScalarKind common_kind(ScalarKind a, ScalarKind b);
/// A new, uninitialised, row-major NumPy array.
nb::object empty_array(const IndexVector& extents, ScalarKind kind);
/// "float64 array of shape (3, 4)", "list"
std::string described(nb::handle object);

/// Element by element, runs that are contiguous on both sides at once.
template <class T>
void copy_strided(const T* from, const std::int64_t* from_strides, T* to, const std::int64_t* to_strides,
                  const std::int64_t* extents, int rank) {
    if (rank == 0) {
        *to = *from;
    } else if (rank == 1 && from_strides[0] == 1 && to_strides[0] == 1) {
        std::copy_n(from, extents[0], to);
    } else {
        for (std::int64_t i = 0; i < extents[0]; ++i)
            copy_strided(from + i * from_strides[0], from_strides + 1, to + i * to_strides[0], to_strides + 1,
                         extents + 1, rank - 1);
    }
}
template <class T>
void copy_array(const ArrayView<const T>& from, const ArrayView<T>& to) {
    if (from.extents.product() > 0)
        copy_strided(from.data, from.strides.begin(), to.data, to.strides.begin(), to.extents.begin(), to.rank());
}

/// Calls f(T{}) with the type of this kind.
template <class F>
decltype(auto) with_scalar(ScalarKind kind, F&& f) {
    switch (kind) {
        case ScalarKind::f32:
            return f(float{});
        case ScalarKind::f64:
            return f(double{});
        case ScalarKind::c64:
            return f(std::complex<float>{});
        default:
            return f(std::complex<double>{});
    }
}

}  // namespace tessera::python

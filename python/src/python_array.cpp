#include "python_array.hpp"

// The layout of arrays alone: none of its functions.
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/ndarraytypes.h>

#include <string_view>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::python {

namespace {

/// Never destroyed: Python may be gone by then.
struct NumPy {
    nb::object array, empty, ndarray, dtype[4];
};
const NumPy& numpy() {
    static const NumPy* const it = [] {
        const nb::object module = nb::module_::import_("numpy");
        auto* n = new NumPy{module.attr("array"), module.attr("empty"), module.attr("ndarray"), {}};
        for (int k = 0; k < 4; ++k) {
            const auto text = name(static_cast<ScalarKind>(k));
            n->dtype[k] = module.attr("dtype")(nb::str(text.data(), text.size()));
        }
        return n;
    }();
    return *it;
}

[[noreturn]] void refuse(const std::string& name, nb::handle object) {
    throw UserError(name + " is a " + described(object) +
                    "; an array of float32, float64, complex64 or complex128 is needed");
}

}  // namespace

std::string described(nb::handle object) {
    const auto text = [](nb::handle h) {
        const nb::object str = nb::steal(PyObject_Str(h.ptr()));
        if (!str.is_valid()) nb::raise_python_error();
        return std::string(nb::borrow<nb::str>(str).c_str());
    };
    if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "shape")) return text(object.type().attr("__name__"));
    return text(object.attr("dtype")) + " array of shape " + text(object.attr("shape"));
}

ScalarKind common_kind(ScalarKind a, ScalarKind b) {
    if (a == b) return a;
    const auto wide = [](ScalarKind k) { return k == ScalarKind::f64 || k == ScalarKind::c128; };
    const auto complex = [](ScalarKind k) { return k == ScalarKind::c64 || k == ScalarKind::c128; };
    if (complex(a) || complex(b)) return wide(a) || wide(b) ? ScalarKind::c128 : ScalarKind::c64;
    return ScalarKind::f64;
}

nb::object empty_array(const IndexVector& extents, ScalarKind kind) {
    nb::object shape = nb::steal(PyTuple_New(extents.size()));
    if (!shape.is_valid()) nb::raise_python_error();
    for (int d = 0; d < extents.size(); ++d) PyTuple_SET_ITEM(shape.ptr(), d, PyLong_FromLongLong(extents[d]));
    PyObject* const arguments[] = {shape.ptr(), numpy().dtype[static_cast<int>(kind)].ptr()};
    nb::object array = nb::steal(PyObject_Vectorcall(numpy().empty.ptr(), arguments, 2, nullptr));
    if (!array.is_valid()) nb::raise_python_error();
    return array;
}

PythonArray::PythonArray(nb::object object, std::string name)
    : PythonArray(std::move(object), std::move(name), false) {}

PythonArray PythonArray::result(nb::object object, std::string name) {
    return PythonArray(std::move(object), std::move(name), true);
}

PythonArray::PythonArray(nb::object object, std::string name, bool writable)
    : object_(std::move(object)), name_(std::move(name)) {
    if (take(writable)) return;
    if (writable)
        throw UserError(name_ + ": its elements are in foreign byte order or lie between the places of their type");
    release();
    const nb::object native = object_.attr("dtype").attr("newbyteorder")("=");
    object_ = numpy().array(object_, nb::arg("dtype") = native, nb::arg("order") = "C");
    if (!take(false)) refuse(name_, object_);
}

/// What nearly every operand is: NumPy's own array of a native type, read without asking for a buffer.
bool PythonArray::take_plain(bool writable) {
    const auto& np = numpy();
    if (Py_TYPE(object_.ptr()) != reinterpret_cast<PyTypeObject*>(np.ndarray.ptr())) return false;
    const auto* array = reinterpret_cast<const PyArrayObject*>(object_.ptr());
    const auto* type = reinterpret_cast<const PyObject*>(PyArray_DESCR(array));
    int kind = 0;
    while (kind < 4 && np.dtype[kind].ptr() != type) ++kind;
    const int rank = PyArray_NDIM(array), wanted = NPY_ARRAY_ALIGNED | (writable ? NPY_ARRAY_WRITEABLE : 0);
    if (kind == 4 || rank > kMaxRank || (PyArray_FLAGS(array) & wanted) != wanted) return false;
    kind_ = static_cast<ScalarKind>(kind);
    const auto size = bytes_of(kind_);
    extents = strides = IndexVector::filled(rank, 0);
    for (int d = 0; d < rank; ++d) {
        extents[d] = PyArray_DIM(array, d);
        const auto stride = PyArray_STRIDE(array, d);
        if (extents[d] > 1 && stride % size != 0) return false;
        strides[d] = stride / size;
    }
    data_ = PyArray_DATA(array);
    return true;
}

/// False where only a copy can be worked on.
bool PythonArray::take(bool writable) {
    if (take_plain(writable)) return true;
    if (PyObject_GetBuffer(object_.ptr(), &buffer_, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0) {
        buffer_.obj = nullptr;
        PyErr_Clear();
        if (writable && PyObject_CheckBuffer(object_.ptr()) &&
            PyObject_GetBuffer(object_.ptr(), &buffer_, PyBUF_RECORDS_RO) == 0) {
            release();
            throw UserError(name_ + " is read-only");
        }
        PyErr_Clear();
        refuse(name_, object_);
    }
    std::string_view format = buffer_.format ? buffer_.format : "B";
    bool foreign = false;
    if (!format.empty() && std::string_view("@=<>!").find(format[0]) != std::string_view::npos) {
        foreign = format[0] == '>' || format[0] == '!';  // this code runs on little-endian machines alone
        format.remove_prefix(1);
    }
    if (format == "f")
        kind_ = ScalarKind::f32;
    else if (format == "d")
        kind_ = ScalarKind::f64;
    else if (format == "Zf" || format == "F")
        kind_ = ScalarKind::c64;
    else if (format == "Zd" || format == "D")
        kind_ = ScalarKind::c128;
    else {
        release();
        refuse(name_, object_);
    }
    if (buffer_.ndim > kMaxRank) {
        const int rank = buffer_.ndim;
        release();
        throw UserError(name_ + " has " + std::to_string(rank) + " indices, at most " + std::to_string(kMaxRank) +
                        " are possible");
    }
    const auto size = bytes_of(kind_);
    const auto alignment = kind_ == ScalarKind::f32 || kind_ == ScalarKind::c64 ? 4 : 8;
    data_ = buffer_.buf;
    extents = IndexVector::filled(buffer_.ndim, 0);
    strides = extents;
    bool between = reinterpret_cast<std::uintptr_t>(data_) % alignment != 0;
    for (int d = 0; d < buffer_.ndim; ++d) {
        extents[d] = buffer_.shape[d];
        between = between || (extents[d] > 1 && buffer_.strides[d] % size != 0);
        strides[d] = buffer_.strides[d] / size;
    }
    return !foreign && !between;
}

PythonArray PythonArray::as(ScalarKind kind) && {
    if (kind == kind_) return std::move(*this);
    const nb::object wanted = numpy().dtype[static_cast<int>(kind)];
    return {numpy().array(object_, nb::arg("dtype") = wanted), name_};
}

void PythonArray::release() noexcept {
    if (buffer_.obj) PyBuffer_Release(&buffer_);
    buffer_.obj = nullptr;
}
PythonArray::~PythonArray() { release(); }
// Extents and strides are copied when the buffer is taken: the buffer may move.
PythonArray::PythonArray(PythonArray&& other) noexcept
    : extents(other.extents),
      strides(other.strides),
      object_(std::move(other.object_)),
      name_(std::move(other.name_)),
      buffer_(other.buffer_),
      data_(other.data_),
      kind_(other.kind_) {
    other.buffer_.obj = nullptr;
}
PythonArray& PythonArray::operator=(PythonArray&& other) noexcept {
    if (this != &other) {
        release();
        extents = other.extents;
        strides = other.strides;
        object_ = std::move(other.object_);
        name_ = std::move(other.name_);
        buffer_ = other.buffer_;
        data_ = other.data_;
        kind_ = other.kind_;
        other.buffer_.obj = nullptr;
    }
    return *this;
}

}  // namespace tessera::python

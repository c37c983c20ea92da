// Tensors in the memory of devices, and arrays that are there: those of CuPy, PyTorch and others, by DLPack.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "module.hpp"
#include "python_array.hpp"
#include "python_tensor.hpp"
#include "tessera/tensor/dlpack.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

constexpr char kFresh[] = "dltensor", kUsed[] = "used_dltensor";  // names that DLPack gives to capsules

template <class F>
auto on_stored(const PythonTensor& x, F&& f) {
    return std::visit(std::forward<F>(f), *x.get());
}

/// A capsule that still has its array when it ends takes it along.
void drop(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, kFresh) == 0) return;
    auto* array = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, kFresh));
    if (array->deleter) array->deleter(array);
}

nb::object to_capsule(const PythonTensor& x, std::int64_t slot) {
    auto* array = on_stored(x, [&](const auto& t) {
        if (slot < 0 || slot >= t.tile_count()) throw UserError("there is no tile " + std::to_string(slot));
        const nb::gil_scoped_release others_run;
        return to_dlpack(t, slot);
    });
    nb::object capsule = nb::steal(PyCapsule_New(array, kFresh, drop));
    if (!capsule.is_valid()) {
        array->deleter(array);
        nb::raise_python_error();
    }
    return capsule;
}

std::optional<ScalarKind> kind_of(const dlpack::DataType& type) {
    if (type.lanes != 1) return std::nullopt;
    const auto is = [&](int code, int bits) { return type.code == code && type.bits == bits; };
    if (is(dlpack::real, 32)) return ScalarKind::f32;
    if (is(dlpack::real, 64)) return ScalarKind::f64;
    if (is(dlpack::complex, 64)) return ScalarKind::c64;
    if (is(dlpack::complex, 128)) return ScalarKind::c128;
    return std::nullopt;
}

/// One tile where the array lies; or, with tilings, a copy in tiles on the same device.
PythonTensor from_capsule(nb::handle capsule, const std::optional<std::vector<std::vector<std::int64_t>>>& tilings) {
    if (PyCapsule_IsValid(capsule.ptr(), kFresh) == 0)
        throw UserError("its __dlpack__() gives no array of DLPack, or one that was taken before");
    auto* array = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
    const auto kind = kind_of(array->array.type);
    if (!kind) throw UserError("its elements are not float32, float64, complex64 or complex128");
    if (array->array.rank > kMaxRank)
        throw UserError("it has " + std::to_string(array->array.rank) + " indices, at most " +
                        std::to_string(kMaxRank) + " are possible");
    auto made = with_scalar(*kind, [&](auto type) {
        using T = decltype(type);
        const nb::gil_scoped_release others_run;
        if (!tilings) return PythonTensor(from_dlpack<T>(array));
        std::vector<Tiling> indices;
        for (const auto& sizes : *tilings) indices.push_back(Tiling::from_sizes(sizes));
        return PythonTensor(from_dlpack<T>(array, TileGrid(std::move(indices))));
    });
    PyCapsule_SetName(capsule.ptr(), kUsed);  // the tensor has it now
    return made;
}

}  // namespace

void bind_devices(nb::module_& module) {
    module.def("to_capsule", &to_capsule, "tensor"_a, "slot"_a);
    module.def("from_capsule", &from_capsule, "capsule"_a, "tilings"_a.none());
    module.def(
        "to_devices",
        [](const PythonTensor& x, const std::vector<int>& ids, std::int64_t memory) {
            return on_stored(x, [&](const auto& t) {
                const nb::gil_scoped_release others_run;
                return PythonTensor(to_devices(t, ids, memory));
            });
        },
        "tensor"_a, "devices"_a, "memory"_a);
    module.def(
        "to_host",
        [](const PythonTensor& x) {
            return on_stored(x, [&](const auto& t) {
                const nb::gil_scoped_release others_run;
                return PythonTensor(to_host(t));
            });
        },
        "tensor"_a);
    module.def(
        "devices_of",
        [](const PythonTensor& x) { return on_stored(x, [](const auto& t) { return t.placement().devices; }); },
        "tensor"_a);
    module.def(
        "device_of",
        [](const PythonTensor& x, std::int64_t slot) {
            return on_stored(x, [&](const auto& t) { return t.device(slot); });
        },
        "tensor"_a, "slot"_a, "The device that stores a tile; -1: the host does.");
    module.def(
        "device_stream", [](int device) { return reinterpret_cast<std::uintptr_t>(device_stream(device)); },
        "device"_a);
    module.def(
        "synchronize",
        [](int device) {
            const nb::gil_scoped_release others_run;
            synchronize(device);
        },
        "device"_a);
    module.def("device_memory_in_use", &device_memory_in_use, "device"_a);
}

}  // namespace tessera::python

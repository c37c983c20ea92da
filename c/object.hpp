#pragma once
// What the handles of tessera.h point to, and how exceptions become codes.

#include <complex>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/contract/batch.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/tensor/builder.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tessera.h"

namespace tessera::c {

/// The first word of every object: a handle of another kind, or of an object that is gone, is told from a right one.
enum class Kind : std::uint64_t {
    communicator = 0x7465'7373'6572'6100,
    tensor,
    builder,
    plan,
    batch,
};

struct Object {
    explicit Object(Kind is) : kind(is) {}
    Object(const Object&) = delete;
    ~Object() { *const_cast<volatile Kind*>(&kind) = Kind{}; }
    Kind kind;
};

}  // namespace tessera::c

struct tessera_comm_object : tessera::c::Object {
    static constexpr auto of = tessera::c::Kind::communicator;
    static constexpr const char* called = "communicator";
    tessera_comm_object() : Object(of) {}
    std::unique_ptr<tessera::Communicator> own;
    tessera::Communicator* ranks = nullptr;
};

struct tessera_tensor_object : tessera::c::Object {
    static constexpr auto of = tessera::c::Kind::tensor;
    static constexpr const char* called = "tensor";
    using Any = std::variant<tessera::Tensor<float>, tessera::Tensor<double>, tessera::Tensor<std::complex<float>>,
                             tessera::Tensor<std::complex<double>>>;
    explicit tessera_tensor_object(Any tensor) : Object(of), any(std::move(tensor)) {}
    Any any;
};

struct tessera_builder_object : tessera::c::Object {
    static constexpr auto of = tessera::c::Kind::builder;
    static constexpr const char* called = "builder";
    using Any = std::variant<tessera::TensorBuilder<float>, tessera::TensorBuilder<double>,
                             tessera::TensorBuilder<std::complex<float>>, tessera::TensorBuilder<std::complex<double>>>;
    explicit tessera_builder_object(Any builder) : Object(of), any(std::move(builder)) {}
    Any any;
    std::mutex mutex;
    std::set<std::int64_t> put;  // ordinals of tiles
};

struct tessera_plan_object : tessera::c::Object {
    static constexpr auto of = tessera::c::Kind::plan;
    static constexpr const char* called = "plan";
    tessera_plan_object(tessera::PlannedContraction what, std::size_t type)
        : Object(of), planned(std::move(what)), scalar(type) {}
    tessera::PlannedContraction planned;
    std::size_t scalar;
    std::string text, json;
};

struct tessera_batch_object : tessera::c::Object {
    static constexpr auto of = tessera::c::Kind::batch;
    static constexpr const char* called = "batch";
    using Any =
        std::variant<tessera::ContractionBatch<float>, tessera::ContractionBatch<double>,
                     tessera::ContractionBatch<std::complex<float>>, tessera::ContractionBatch<std::complex<double>>>;
    explicit tessera_batch_object(Any batch) : Object(of), any(std::move(batch)) {}
    Any any;
};

namespace tessera::c {

/// Notes the exception that is in flight for this thread, and returns its code.
int failed() noexcept;

/// Runs the work; no exception leaves.
template <class Work>
int guarded(const Work& work) noexcept {
    try {
        work();
        return TESSERA_SUCCESS;
    } catch (...) {
        return failed();
    }
}

[[noreturn]] inline void refuse(const std::string& text) { throw UserError(text); }

/// The pointer as it is, or a UserError naming the argument.
template <class T>
T* given(T* pointer, const char* argument) {
    if (!pointer) refuse(std::string(argument) + " is a null pointer");
    return pointer;
}

/// The object of a handle.
template <class T>
T& object(T* handle, const char* argument) {
    given(handle, argument);
    if (handle->kind != T::of)
        refuse(std::string(argument) + " is no " + T::called + ": it is of another kind, or destroyed");
    return *handle;
}
inline tessera_tensor_object::Any& any(tessera_tensor handle, const char* argument) {
    return object(handle, argument).any;
}

/// What was made, as a handle.
template <class T>
void give(T** out, std::unique_ptr<T> made) {
    *out = made.release();
}
template <Scalar T>
void give(tessera_tensor* out, Tensor<T> tensor) {
    give(out, std::make_unique<tessera_tensor_object>(std::move(tensor)));
}

/// The tensor of another handle, of the same type as the first.
template <Scalar T>
Tensor<T>& of_type(tessera_tensor handle, const char* argument) {
    auto* tensor = std::get_if<Tensor<T>>(&any(handle, argument));
    if (!tensor) {
        const auto is =
            std::visit([](const auto& t) { return name(ScalarTraits<OperandValue<std::decay_t<decltype(t)>>>::kind); },
                       any(handle, argument));
        refuse(std::string(argument) + " has elements of type " + std::string(is) + ", the first tensor of " +
               std::string(name(ScalarTraits<T>::kind)));
    }
    return *tensor;
}

/// Calls work with a value-initialised scalar of this type.
template <class Work>
decltype(auto) with_type(int type, const Work& work) {
    switch (type) {
        case TESSERA_FLOAT32:
            return work(float());
        case TESSERA_FLOAT64:
            return work(double());
        case TESSERA_COMPLEX64:
            return work(std::complex<float>());
        case TESSERA_COMPLEX128:
            return work(std::complex<double>());
        default:
            refuse("type " + std::to_string(type) +
                   " is none of 0 (float32), 1 (float64), 2 (complex64), 3 (complex128)");
    }
}

/// A number of type T; a real tensor takes no imaginary part.
template <Scalar T>
T number(const double value[2], const char* argument) {
    given(value, argument);
    if constexpr (is_complex<T>) {
        return T(static_cast<RealOf<T>>(value[0]), static_cast<RealOf<T>>(value[1]));
    } else {
        if (value[1] != 0)
            refuse(std::string(argument) + " has an imaginary part, " + std::to_string(value[1]) +
                   ", and the tensor is real");
        return static_cast<T>(value[0]);
    }
}
template <Scalar T>
void number_out(double out[2], T value) {
    out[0] = static_cast<double>(std::real(value));
    out[1] = static_cast<double>(std::imag(value));
}

TileGrid grid_of(const tessera_grid* grid);
Placement placement_of(const tessera_placement* placement, const TileGrid& grid);
Communicator& ranks_of(tessera_comm comm);
Distribution distribution_of(int ranks, const TileGrid& grid, const std::int32_t* const* maps,
                             const std::int32_t* sides);
IndexVector coordinates_of(const TileGrid& grid, const std::int64_t* coordinates);

}  // namespace tessera::c

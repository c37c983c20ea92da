#pragma once
// What the handles of tapp.h point to, and how failures become codes.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tapp.h"
#include "tessera/index/index_vector.hpp"

namespace tessera::tapp {

/// The first word of every object: a handle of another kind, or of an object that is gone, is told from a right one.
enum class Kind : std::uint64_t {
    handle = 0x7461'7070'6861'6e64,
    executor,
    status,
    tensor_info,
    product,
};

struct Object {
    explicit Object(Kind is) : kind(is) {}
    ~Object() { *const_cast<volatile Kind*>(&kind) = Kind{}; }
    Kind kind;
};

struct Handle : Object {
    static constexpr Kind of = Kind::handle;
    Handle() : Object(of) {}
};

struct Executor : Object {
    static constexpr Kind of = Kind::executor;
    Executor() : Object(of) {}
    int threads = 0;
    std::int64_t memory = 0;
};

struct Status : Object {
    static constexpr Kind of = Kind::status;
    Status() : Object(of) {}
    double flops = 0, seconds = 0;
};

struct TensorInfo : Object {
    static constexpr Kind of = Kind::tensor_info;
    TensorInfo() : Object(of) {}
    TAPP_datatype type = TAPP_F32;
    IndexVector extents, strides;
};

/// A refusal with its code; the message is for TAPP_explain_error.
struct Refusal {
    TAPP_error code;
    std::string text;
};

/// The object, or a Refusal naming what it was to be.
template <class T>
T& object(std::intptr_t handle, const char* what) {
    auto* it = reinterpret_cast<T*>(handle);
    if (!it || it->kind != T::of)
        throw Refusal{TAPP_TESSERA_ARGUMENT,
                      std::string(what) + " is no such object: it was not made, or is destroyed"};
    return *it;
}
inline void not_null(const void* pointer, const char* what) {
    if (!pointer) throw Refusal{TAPP_TESSERA_ARGUMENT, std::string(what) + " is a null pointer"};
}

/// Notes the text for this thread and returns the code.
TAPP_error refused(TAPP_error code, const std::string& text) noexcept;
/// The same for the exception that is in flight.
TAPP_error refused() noexcept;

/// Runs the work; no exception leaves.
template <class Work>
TAPP_error guarded(const Work& work) noexcept {
    try {
        work();
        return 0;
    } catch (...) {
        return refused();
    }
}

}  // namespace tessera::tapp

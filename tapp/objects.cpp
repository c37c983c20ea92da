// Handles, executors, statuses, tensor infos, attributes and errors of TAPP.

#include "objects.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "tessera/base/error.hpp"

namespace tessera::tapp {

namespace {

struct LastFailure {
    TAPP_error code = 0;
    std::string text;
};
thread_local LastFailure last_failure;

const char* general(TAPP_error error) {
    switch (error) {
        case 0:
            return "success";
        case TAPP_TESSERA_EXTENTS_A_B:
            return "an index has one extent in A and another in B";
        case TAPP_TESSERA_EXTENTS_A_D:
            return "an index has one extent in A and another in D";
        case TAPP_TESSERA_EXTENTS_B_D:
            return "an index has one extent in B and another in D";
        case TAPP_TESSERA_INDEX_OF_D_ALONE:
            return "an index of D is in neither A nor B";
        case TAPP_TESSERA_MODES_C_D:
            return "C and D have different numbers of modes";
        case TAPP_TESSERA_INDICES_C_D:
            return "C and D have different indices";
        case TAPP_TESSERA_EXTENTS_C_D:
            return "C and D have different extents";
        case TAPP_TESSERA_D_OVERLAPS_ITSELF:
            return "elements of D overlap";
        case TAPP_TESSERA_EXTENTS_A:
            return "an index has two extents in A";
        case TAPP_TESSERA_EXTENTS_B:
            return "an index has two extents in B";
        case TAPP_TESSERA_EXTENTS_D:
            return "an index has two extents in D";
        case TAPP_TESSERA_C_IS_MISSING:
            return "C is a null pointer, beta is not zero, and C's strides are not D's";
        case TAPP_TESSERA_MODES:
            return "a number of modes is negative or more than 16";
        case TAPP_TESSERA_EXTENT:
            return "an extent is negative";
        case TAPP_TESSERA_TYPE:
            return "a data type or precision is unknown, or a complex tensor goes into a real one";
        case TAPP_TESSERA_ARGUMENT:
            return "an argument is a null pointer, an object of another kind, or a value that is unknown";
        case TAPP_TESSERA_INPUT:
            return "the operands share memory with D, or the result holds NaN or infinity";
        case TAPP_TESSERA_MACHINE:
            return "the machine cannot do it: there is no memory";
        case TAPP_TESSERA_INTERNAL:
            return "a bug of the library";
        default:
            return "no error of this library has this code";
    }
}

void check_modes(int nmode) {
    if (nmode < 0 || nmode > kMaxRank)
        throw Refusal{TAPP_TESSERA_MODES, std::to_string(nmode) + " modes: a tensor has 0 to 16"};
}

IndexVector checked_extents(int nmode, const std::int64_t* extents) {
    if (nmode > 0) not_null(extents, "extents");
    IndexVector out;
    for (int i = 0; i < nmode; ++i) {
        if (extents[i] < 0)
            throw Refusal{TAPP_TESSERA_EXTENT,
                          "mode " + std::to_string(i) + " has extent " + std::to_string(extents[i])};
        out.push_back(extents[i]);
    }
    return out;
}

IndexVector copied(int nmode, const std::int64_t* values, const char* what) {
    if (nmode > 0) not_null(values, what);
    return nmode > 0 ? IndexVector(std::span<const std::int64_t>(values, static_cast<std::size_t>(nmode)))
                     : IndexVector();
}

[[noreturn]] void unknown_key(TAPP_key key) {
    throw Refusal{TAPP_TESSERA_ARGUMENT, "the object has no attribute with key " + std::to_string(key)};
}

template <class T>
TAPP_error create(std::intptr_t* out, const char* what) {
    return guarded([&] {
        not_null(out, what);
        *out = reinterpret_cast<std::intptr_t>(new T);
    });
}

template <class T>
TAPP_error destroy(std::intptr_t handle, const char* what) {
    return guarded([&] { delete &object<T>(handle, what); });
}

/// The kind of any object.
Kind kind_of(TAPP_attr attr) {
    not_null(reinterpret_cast<const void*>(attr), "attr");
    return reinterpret_cast<const Object*>(attr)->kind;
}

}  // namespace

TAPP_error refused(TAPP_error code, const std::string& text) noexcept {
    try {
        last_failure = {code, text};
    } catch (...) {
        last_failure.code = 0;  // the general text will do
    }
    return code;
}

TAPP_error refused() noexcept {
    try {
        throw;
    } catch (const Refusal& e) {
        return refused(e.code, e.text);
    } catch (const UserError& e) {
        return refused(TAPP_TESSERA_INPUT, e.what());
    } catch (const MachineError& e) {
        return refused(TAPP_TESSERA_MACHINE, e.what());
    } catch (const std::bad_alloc&) {
        return refused(TAPP_TESSERA_MACHINE, "there is no memory left");
    } catch (const std::exception& e) {
        return refused(TAPP_TESSERA_INTERNAL, e.what());
    } catch (...) {
        return refused(TAPP_TESSERA_INTERNAL, "an exception of no known type");
    }
}

}  // namespace tessera::tapp

using namespace tessera;
using namespace tessera::tapp;

bool TAPP_check_success(TAPP_error error) { return error == 0; }

size_t TAPP_explain_error(TAPP_error error, size_t maxlen, char* message) {
    const char* text = error != 0 && last_failure.code == error ? last_failure.text.c_str() : general(error);
    const auto length = std::strlen(text);
    if (maxlen == 0 || !message) return length;
    const auto written = std::min(length, maxlen - 1);
    std::memcpy(message, text, written);
    message[written] = '\0';
    return written;
}

TAPP_error TAPP_create_handle(TAPP_handle* handle) { return create<Handle>(handle, "handle"); }
TAPP_error TAPP_destroy_handle(TAPP_handle handle) { return destroy<Handle>(handle, "handle"); }
TAPP_error TAPP_create_executor(TAPP_executor* exec) { return create<Executor>(exec, "exec"); }
TAPP_error TAPP_destroy_executor(TAPP_executor exec) { return destroy<Executor>(exec, "exec"); }
TAPP_error TAPP_destroy_status(TAPP_status status) { return destroy<Status>(status, "status"); }

TAPP_error TAPP_attr_set(TAPP_attr attr, TAPP_key key, void* value) {
    return guarded([&] {
        if (kind_of(attr) != Kind::executor) unknown_key(key);
        auto& exec = object<Executor>(attr, "attr");
        not_null(value, "value");
        const auto not_negative = [&](auto n) {
            if (n < 0)
                throw Refusal{TAPP_TESSERA_ARGUMENT,
                              "attribute " + std::to_string(key) + " of an executor is to be " + std::to_string(n)};
            return n;
        };
        if (key == TAPP_TESSERA_THREADS)
            exec.threads = not_negative(*static_cast<const int*>(value));
        else if (key == TAPP_TESSERA_MEMORY)
            exec.memory = not_negative(*static_cast<const std::int64_t*>(value));
        else
            unknown_key(key);
    });
}

TAPP_error TAPP_attr_get(TAPP_attr attr, TAPP_key key, void** value) {
    return guarded([&] {
        not_null(value, "value");
        const auto kind = kind_of(attr);
        if (kind == Kind::executor && key == TAPP_TESSERA_THREADS)
            *value = &object<Executor>(attr, "attr").threads;
        else if (kind == Kind::executor && key == TAPP_TESSERA_MEMORY)
            *value = &object<Executor>(attr, "attr").memory;
        else if (kind == Kind::status && key == TAPP_TESSERA_FLOPS)
            *value = &object<Status>(attr, "attr").flops;
        else if (kind == Kind::status && key == TAPP_TESSERA_SECONDS)
            *value = &object<Status>(attr, "attr").seconds;
        else
            unknown_key(key);
    });
}

TAPP_error TAPP_attr_clear(TAPP_attr attr, TAPP_key key) {
    std::int64_t none = 0;  // read as an int too
    return TAPP_attr_set(attr, key, &none);
}

TAPP_error TAPP_create_tensor_info(TAPP_tensor_info* info, TAPP_datatype type, int nmode, const int64_t* extents,
                                   const int64_t* strides) {
    return guarded([&] {
        not_null(info, "info");
        if (type < TAPP_F32 || type > TAPP_BF16)
            throw Refusal{TAPP_TESSERA_TYPE, "data type " + std::to_string(type) + " is unknown"};
        check_modes(nmode);
        auto made = std::make_unique<TensorInfo>();
        made->type = type;
        made->extents = checked_extents(nmode, extents);
        made->strides = copied(nmode, strides, "strides");
        *info = reinterpret_cast<std::intptr_t>(made.release());
    });
}

TAPP_error TAPP_destroy_tensor_info(TAPP_tensor_info info) { return destroy<TensorInfo>(info, "info"); }

int TAPP_get_nmodes(TAPP_tensor_info info) {
    int modes = -1;
    guarded([&] { modes = object<TensorInfo>(info, "info").extents.size(); });
    return modes;
}

TAPP_error TAPP_set_nmodes(TAPP_tensor_info info, int nmodes) {
    return guarded([&] {
        auto& it = object<TensorInfo>(info, "info");
        check_modes(nmodes);
        IndexVector extents = IndexVector::filled(nmodes, 1), strides = IndexVector::filled(nmodes, 0);
        for (int i = 0; i < std::min(nmodes, it.extents.size()); ++i) {
            extents[i] = it.extents[i];
            strides[i] = it.strides[i];
        }
        it.extents = extents;
        it.strides = strides;
    });
}

void TAPP_get_extents(TAPP_tensor_info info, int64_t* extents) {
    guarded([&] {
        const auto& it = object<TensorInfo>(info, "info");
        if (!it.extents.empty()) not_null(extents, "extents");
        std::copy(it.extents.begin(), it.extents.end(), extents);
    });
}

TAPP_error TAPP_set_extents(TAPP_tensor_info info, const int64_t* extents) {
    return guarded([&] {
        auto& it = object<TensorInfo>(info, "info");
        it.extents = checked_extents(it.extents.size(), extents);
    });
}

void TAPP_get_strides(TAPP_tensor_info info, int64_t* strides) {
    guarded([&] {
        const auto& it = object<TensorInfo>(info, "info");
        if (!it.strides.empty()) not_null(strides, "strides");
        std::copy(it.strides.begin(), it.strides.end(), strides);
    });
}

TAPP_error TAPP_set_strides(TAPP_tensor_info info, const int64_t* strides) {
    return guarded([&] {
        auto& it = object<TensorInfo>(info, "info");
        it.strides = copied(it.extents.size(), strides, "strides");
    });
}

#pragma once
// Arrays of other libraries (CuPy, PyTorch, NumPy) as tensors, and tiles as their arrays, without a copy: DLPack,
// version 0.8, whose structures are declared here as it lays them out.

#include <cstdint>
#include <type_traits>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

namespace dlpack {

enum DeviceType : std::int32_t { cpu = 1, gpu = 2, pinned = 3 };  // kDLCPU, kDLCUDA, kDLCUDAHost
enum TypeCode : std::uint8_t { real = 2, complex = 5 };

struct Device {
    std::int32_t type = cpu, id = 0;
};
struct DataType {
    std::uint8_t code = real, bits = 64;
    std::uint16_t lanes = 1;
};
/// DLTensor: strides in elements, null where the array is row-major without gaps.
struct Array {
    void* data = nullptr;
    Device device;
    std::int32_t rank = 0;
    DataType type;
    std::int64_t* extents = nullptr;
    std::int64_t* strides = nullptr;
    std::uint64_t byte_offset = 0;
};
/// DLManagedTensor: whoever has it calls deleter(self) once, when the array is no longer used.
struct Managed {
    Array array;
    void* context = nullptr;
    void (*deleter)(Managed* self) = nullptr;
};

}  // namespace dlpack

/// One nonzero tile as an array, in the memory where it is; the array owns the tensor: move it in to copy nothing. What
/// was begun on the tile's device is over when it returns.
template <Scalar T>
TESSERA_API dlpack::Managed* to_dlpack(Tensor<T> x, std::int64_t slot = 0);

/// The array as a tensor of one tile, which takes it over: its deleter is called when the tensor ends. An array on a
/// device whose elements lie row-major without gaps is not copied (its norm is taken when shape() is asked); others
/// are. What makes the array must be over. UserError where it holds other elements than T, and then the array is still
/// the caller's.
template <Scalar T>
TESSERA_API Tensor<T> from_dlpack(dlpack::Managed* array);
/// The same cut into tiles: copied.
template <Scalar T>
TESSERA_API Tensor<T> from_dlpack(dlpack::Managed* array, const TileGrid& grid);

}  // namespace tessera

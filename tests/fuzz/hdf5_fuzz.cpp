// A tensor file changed by another program is either a tensor that can be written and read again, or a UserError of one
// line. The input decides on the changes, made through HDF5 itself: HDF5 1.10 does not survive arbitrary bytes in its
// own structures, so those are left to the tests that flip and cut bytes of real files.
#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "io/hdf5_layout.hpp"
#include "tessera/base/error.hpp"
#include "tessera/io/hdf5.hpp"

using namespace tessera;

namespace {

void need(bool ok) {
    if (!ok) std::abort();
}

/// A folder in memory where there is one; gone when the process ends.
struct Folder {
    Folder() {
        std::string pattern =
            std::filesystem::exists("/dev/shm") ? "/dev/shm/tessera-fuzz-XXXXXX" : "/tmp/tessera-fuzz-XXXXXX";
        need(::mkdtemp(pattern.data()) != nullptr);
        path = pattern;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

template <Scalar T>
Tensor<T> sample(FuzzedDataProvider& input) {
    std::vector<Tiling> tilings;
    for (int d = input.ConsumeIntegralInRange(0, 3); d > 0; --d) {
        std::vector<std::int64_t> sizes;
        for (int n = input.ConsumeIntegralInRange(0, 3); n > 0; --n)
            sizes.push_back(input.ConsumeIntegralInRange(1, 4));
        tilings.push_back(Tiling::from_sizes(sizes));
    }
    const TileGrid grid(tilings);
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (input.ConsumeBool()) entries.push_back({TileOrdinal{o}, 1.0});
    return Tensor<T>::random(Shape(grid, entries), 3);
}

const char* const kDatasets[] = {"tilings/0",   "tilings/1",     "tilings/2", "shape/ordinals",
                                 "shape/norms", "tiles/offsets", "tiles/data"};
const char* const kAttributes[] = {"format", "version", "scalar", "rank", "checksum", "writer"};
const char* const kWords[] = {"float32",        "float64", "complex64",       "complex128",
                              "tessera-tensor", "",        "0123456789abcdef"};

std::int64_t interesting(FuzzedDataProvider& input) {
    const std::int64_t values[] = {
        0, 1, -1, 2, 3, 16, 17, INT64_MAX, INT64_MIN, std::int64_t{1} << 32, std::int64_t{1} << 62};
    return input.ConsumeBool() ? input.PickValueInArray(values) : input.ConsumeIntegral<std::int64_t>();
}

void change_attribute(hid_t file, FuzzedDataProvider& input) {
    H5Handle group(H5Gopen2(file, "tessera", H5P_DEFAULT));
    const char* name = input.PickValueInArray(kAttributes);
    if (!group.ok()) return;
    H5Adelete(group, name);
    H5Handle space(H5Screate(H5S_SCALAR));
    switch (input.ConsumeIntegralInRange(0, 4)) {
        case 0: {
            const std::int64_t value = interesting(input);
            H5Handle at(H5Acreate2(group, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
            H5Awrite(at, H5T_NATIVE_INT64, &value);
            break;
        }
        case 1: {
            const std::string word =
                input.ConsumeBool() ? input.PickValueInArray(kWords) : input.ConsumeRandomLengthString(40);
            const char* chars = word.c_str();
            H5Handle type(H5Tcopy(H5T_C_S1));
            H5Tset_size(type, H5T_VARIABLE);
            H5Handle at(H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
            H5Awrite(at, type, &chars);
            break;
        }
        case 2: {
            std::string word = input.ConsumeRandomLengthString(40);
            word.resize(std::max<std::size_t>(1, word.size()));
            H5Handle type(H5Tcopy(H5T_C_S1));
            H5Tset_size(type, word.size());
            H5Handle at(H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
            H5Awrite(at, type, word.data());
            break;
        }
        case 3: {
            const hsize_t size = input.ConsumeIntegralInRange<hsize_t>(0, 3);
            H5Handle many(H5Screate_simple(1, &size, nullptr));
            H5Handle at(H5Acreate2(group, name, H5T_STD_I8LE, many, H5P_DEFAULT, H5P_DEFAULT));
            break;
        }
        default:
            break;  // it is gone
    }
}

void overwrite(hid_t file, FuzzedDataProvider& input) {
    H5Handle set(H5Dopen2(file, input.PickValueInArray(kDatasets), H5P_DEFAULT));
    if (!set.ok()) return;
    H5Handle space(H5Dget_space(set)), type(H5Dget_type(set));
    const auto count = static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space)));
    if (count == 0 || count > 4096) return;
    std::vector<unsigned char> bytes(count * H5Tget_size(type));
    H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
    const std::size_t at = input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() / 8) * 8;
    const std::int64_t value = interesting(input);
    for (std::size_t i = 0; i < 8 && at + i < bytes.size(); ++i)
        bytes[at + i] = static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i));
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

void replace(hid_t file, FuzzedDataProvider& input) {
    const char* name = input.PickValueInArray(kDatasets);
    H5Ldelete(file, name, H5P_DEFAULT);
    const hid_t plain[] = {H5T_STD_I64LE, H5T_STD_U64BE, H5T_STD_I8LE, H5T_IEEE_F64LE, H5T_IEEE_F32BE, H5T_STD_B64LE};
    const int kind = input.ConsumeIntegralInRange(0, 9);
    H5Handle type = kind < 6 ? H5Handle(H5Tcopy(plain[kind])) : h5_element_type(static_cast<ScalarKind>(kind - 6));
    const hsize_t sizes[] = {0, 1, 2, 3, 5, 9, 100, hsize_t{1} << 31, hsize_t{1} << 58};
    hsize_t dims[2] = {input.PickValueInArray(sizes), 1};
    H5Handle space(H5Screate_simple(input.ConsumeIntegralInRange(1, 2), dims, nullptr)),
        creation(H5Pcreate(H5P_DATASET_CREATE));
    const bool fill = dims[0] <= 100 && input.ConsumeBool();
    if (input.ConsumeIntegralInRange(0, 7) == 0) H5Pset_layout(creation, H5D_COMPACT);
    H5Handle set(H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    const std::vector<unsigned char> bytes(2 * 100 * 16, input.ConsumeIntegral<unsigned char>());
    if (fill && set.ok()) H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

void change(const std::string& path, FuzzedDataProvider& input) {
    const H5Quiet quiet;
    H5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
    need(file.ok());
    for (int n = input.ConsumeIntegralInRange(0, 4); n > 0; --n) switch (input.ConsumeIntegralInRange(0, 4)) {
            case 0:
                change_attribute(file, input);
                break;
            case 1:
                replace(file, input);
                break;
            case 2:
                H5Ldelete(file, input.PickValueInArray(kDatasets), H5P_DEFAULT);
                break;
            default:
                overwrite(file, input);
                break;
        }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Folder folder;
    static const std::string path = folder.path / "t.h5", again = folder.path / "u.h5";
    FuzzedDataProvider input(data, size);
    switch (input.ConsumeIntegralInRange(0, 3)) {
        case 0:
            write_tensor(path, sample<float>(input));
            break;
        case 1:
            write_tensor(path, sample<double>(input));
            break;
        case 2:
            write_tensor(path, sample<std::complex<float>>(input));
            break;
        default:
            write_tensor(path, sample<std::complex<double>>(input));
            break;
    }
    change(path, input);
    bool described = false;
    try {
        const auto info = describe(path);
        described = true;
        need(info.tile_bytes <= info.file_bytes);
        const AnyTensor tensor = read_any(path);
        write_tensor(again, tensor);
        need(std::visit(
            [&]<class T>(const Tensor<T>& t) {
                return info.scalar == ScalarTraits<T>::kind && read_tensor<T>(again) == t;
            },
            tensor));
    } catch (const UserError& e) {
        need(std::string(e.what()).find('\n') == std::string::npos);
        need(std::string(e.what()).find(path) != std::string::npos);
        if (!described) {  // what is wrong without the tiles is wrong with them
            try {
                read_any(path);
                need(false);
            } catch (const UserError&) {
            }
        }
    }
    return 0;
}

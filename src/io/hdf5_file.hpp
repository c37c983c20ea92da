#pragma once
// An HDF5 file with groups, attributes of the group /tessera and dense datasets: what tensor files and files of named
// arrays are made of. Whoever uses it holds h5_mutex() and an H5Quiet.

#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.hpp"
#include "io/hdf5_layout.hpp"
#include "tessera/base/api.hpp"
#include "tessera/base/error.hpp"

namespace TESSERA_API tessera {

using H5Extents = std::vector<std::int64_t>;

/// Creates groups, attributes and datasets in the unfinished file; any failure is the machine's.
class H5Writer {
  public:
    explicit H5Writer(AtomicFile& out);
    H5Handle group(const char* name);
    void attribute(hid_t of, const char* name, std::string_view text);
    void attribute(hid_t of, const char* name, std::int64_t value);
    void attribute(hid_t of, const char* name, double value);

    /// Contiguous; without contents where none are given.
    H5Handle dataset(const std::string& name, hid_t file_type, const H5Extents& extents, hid_t memory_type = -1,
                     const void* contents = nullptr);
    /// Where in the file its elements go; it must have some.
    std::int64_t place(hid_t dataset);
    H5Handle integers(const std::string& name, const H5Extents& extents, std::span<const std::int64_t> values) {
        return dataset(name, H5T_STD_I64LE, extents, H5T_NATIVE_INT64, values.data());
    }
    H5Handle reals(const std::string& name, const H5Extents& extents, std::span<const double> values) {
        return dataset(name, H5T_IEEE_F64LE, extents, H5T_NATIVE_DOUBLE, values.data());
    }
    void integers(const std::string& name, std::span<const std::int64_t> values) {
        integers(name, {static_cast<std::int64_t>(values.size())}, values);
    }
    void close() { check(file_.close()); }

  private:
    void attribute(hid_t of, const char* name, hid_t file_type, hid_t memory_type, const void* value);
    void check(bool ok);
    H5Handle need(hid_t id);
    AtomicFile& out_;
    H5Handle file_, group_creation_, dataset_creation_;
};

/// The file that `in` holds, for reading. UserError where it is none of HDF5.
H5Handle open_h5(const InputFile& in);

/// Checked access to such a file: a UserError for whatever is missing or not as it should be. Nothing is allocated that
/// the file cannot fill.
class H5Reader {
  public:
    /// `what` the file should be: "tensor".
    H5Reader(const InputFile& in, std::string what);
    void require_group(const char* name) const;

    /// Attributes of the group /tessera. UserError when it is missing, unless `absent` is given.
    std::string text(const char* name, const char* absent = nullptr) const;
    std::int64_t integer(const char* name) const;
    double real(const char* name) const;

    /// Datasets of one dimension.
    std::vector<std::int64_t> integers(const std::string& name) const;
    std::vector<double> reals(const std::string& name) const;
    /// Those of exactly these extents, with their attribute `checksum`.
    struct Summed {
        std::vector<double> values;
        std::string checksum;
    };
    Summed reals(const std::string& name, const H5Extents& extents) const;
    /// Size and place of a dataset of exactly this element type.
    std::pair<std::int64_t, std::int64_t> elements(const std::string& name, ScalarKind kind) const;

  private:
    struct Data {
        H5Handle id;
        H5Extents extents;
        std::int64_t size = 0, at = 0;
    };
    bool links_here(const std::string& name) const;
    H5Handle attribute(const char* name, bool optional) const;
    H5Handle attribute_of(hid_t object, const std::string& shown, const char* name) const;
    std::string text_of(hid_t attribute, const std::string& shown) const;
    Data dataset(const std::string& name, int dimensions = 1) const;
    std::vector<double> read_reals(const Data& set, const std::string& name) const;

    const InputFile& in_;
    std::string what_;
    H5Handle file_;
};

/// Puts the file's name in front of what is wrong with it.
template <class Body>
auto naming(const std::string& path, Body&& body) {
    try {
        return body();
    } catch (const UserError& e) {
        throw UserError(path + ": " + e.what());
    } catch (const std::bad_alloc&) {
        throw MachineError(path + ": not enough memory to read it");
    }
}

}  // namespace tessera

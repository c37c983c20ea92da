#pragma once
// Files of named dense arrays with attributes: HDF5 that h5py reads as it is (docs/FILE_FORMAT.md). Each array carries
// a checksum, and a file appears whole or not at all.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

struct NamedArray {
    std::string name;  // "t1", or "group/name" of a group that is made
    std::vector<std::int64_t> extents;
    std::variant<std::span<const double>, std::span<const std::int64_t>> values;
};
using NamedValue = std::pair<std::string, std::variant<std::string, std::int64_t, double>>;

/// `format`, `version` and the attributes are those of the group /tessera. Texts are not empty.
void write_arrays(const std::string& path, const std::string& format, std::int64_t version,
                  const std::vector<NamedValue>& attributes, const std::vector<NamedArray>& arrays);

/// Such a file, open. UserErrors name the file and say what is wrong with it.
class ArrayFile {
  public:
    /// `what` it should be, for messages: "checkpoint".
    ArrayFile(const std::string& path, const std::string& what);
    ~ArrayFile();
    ArrayFile(const ArrayFile&) = delete;
    ArrayFile& operator=(const ArrayFile&) = delete;

    std::string text(const char* name) const;
    std::int64_t integer(const char* name) const;
    double real(const char* name) const;
    /// An array of exactly these extents, as its checksum says.
    std::vector<double> reals(const std::string& name, const std::vector<std::int64_t>& extents) const;
    std::vector<std::int64_t> integers(const std::string& name) const;

  private:
    struct Open;
    template <class Read>
    auto read(const Read& read) const;
    std::unique_ptr<Open> open_;
};

}  // namespace tessera

#pragma once
// HDF5 files of other programs: attributes of any group, numbers of datasets in any layout, a run at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// Such a file, open. UserErrors name the file and say what is wrong with it.
class ForeignFile {
  public:
    /// `what` it should be, for messages: "TREXIO file".
    ForeignFile(const std::string& path, const std::string& what);
    ~ForeignFile();
    ForeignFile(const ForeignFile&) = delete;
    ForeignFile& operator=(const ForeignFile&) = delete;

    /// Whether there is a group or a dataset of this name.
    bool has(const std::string& name) const;
    /// Attributes of a group; nothing where there is none.
    std::optional<std::int64_t> integer(const std::string& group, const std::string& name) const;
    std::optional<double> real(const std::string& group, const std::string& name) const;

    /// How long a dataset is in each dimension. What it stores must be able to hold that many elements.
    std::vector<std::int64_t> extents(const std::string& dataset) const;
    /// `out.size()` elements of a dataset of one dimension, from `first` on.
    void read(const std::string& dataset, std::int64_t first, std::span<double> out) const;
    void read(const std::string& dataset, std::int64_t first, std::span<std::int64_t> out) const;
    /// The whole of a dataset that has exactly these extents.
    std::vector<double> reals(const std::string& dataset, const std::vector<std::int64_t>& extents) const;

  private:
    struct Open;
    template <class Body>
    auto locked(const Body& body) const;
    std::unique_ptr<Open> open_;
};

}  // namespace tessera

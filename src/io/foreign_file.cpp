#include "io/foreign_file.hpp"

#include "base/check.hpp"
#include "io/hdf5_file.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMostPacked = 1100;  // elements' bytes for one that is stored: deflate reaches 1032

template <class T>
void check_type(hid_t set, const std::string& name) {
    const H5Handle type(H5Dget_type(set));
    const bool wants_reals = std::is_same_v<T, double>;
    const auto found = H5Tget_class(type);
    require((wants_reals ? found == H5T_FLOAT : found == H5T_INTEGER) && H5Tget_size(type) <= 8,
            "dataset {} holds no {} of at most 8 bytes", name, wants_reals ? "reals" : "integers");
}

template <class T>
hid_t memory_type() {
    return std::is_same_v<T, double> ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64;
}

}  // namespace

struct ForeignFile::Open {
    Open(const std::string& path, std::string kind) : in(path), what(std::move(kind)) {}

    bool has(const std::string& name) const {
        for (std::size_t at = 0; at != std::string::npos;) {  // each group on the way there
            at = name.find('/', at + 1);
            const htri_t there = H5Lexists(file, name.substr(0, at).c_str(), H5P_DEFAULT);
            require(there >= 0, "corrupted: HDF5 cannot look for {}: {}", name, h5_reason());
            if (there == 0) return false;
        }
        return true;
    }

    H5Handle attribute(const std::string& group, const std::string& name) const {
        if (!has(group)) return H5Handle();
        const H5Handle object(H5Oopen(file, group.c_str(), H5P_DEFAULT));
        require(object.ok(), "{} cannot be opened: {}", group, h5_reason());
        if (H5Aexists(object, name.c_str()) <= 0) return H5Handle();
        H5Handle at(H5Aopen(object, name.c_str(), H5P_DEFAULT));
        require(at.ok(), "attribute {}/{}: {}", group, name, h5_reason());
        const H5Handle space(H5Aget_space(at));
        require(space.ok() && H5Sget_simple_extent_npoints(space) == 1, "attribute {}/{} is not a single value", group,
                name);
        return at;
    }

    template <class T>
    std::optional<T> number(const std::string& group, const std::string& name) const {
        const H5Handle at = attribute(group, name);
        if (!at.ok()) return std::nullopt;
        const H5Handle type(H5Aget_type(at));
        const bool real = std::is_same_v<T, double>;
        require(type.ok() && H5Tget_class(type) == (real ? H5T_FLOAT : H5T_INTEGER), "attribute {}/{} is no {}", group,
                name, real ? "real number" : "integer");
        T value{};
        require(H5Aread(at, memory_type<T>(), &value) >= 0, "attribute {}/{}: {}", group, name, h5_reason());
        return value;
    }

    H5Handle dataset(const std::string& name) const {
        require(has(name), "not a {} with {}: there is none", what, name);
        H5Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT));
        require(set.ok(), "dataset {} cannot be opened: {}", name, h5_reason());
        return set;
    }

    H5Extents extents(hid_t set, const std::string& name) const {
        const H5Handle space(H5Dget_space(set)), type(H5Dget_type(set));
        require(space.ok() && type.ok() && H5Sget_simple_extent_type(space) == H5S_SIMPLE,
                "dataset {} is no array of numbers", name);
        std::vector<hsize_t> sizes(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
        require(H5Sget_simple_extent_dims(space, sizes.data(), nullptr) >= 0, "dataset {}: {}", name, h5_reason());
        const auto element = H5Tget_size(type);
        const auto most = static_cast<hsize_t>(in.bytes()) * kMostPacked / (element > 0 ? element : 1);
        hsize_t count = 1;
        for (const auto size : sizes) {
            require(size == 0 || count <= most / size,
                    "truncated or corrupted: dataset {} claims {} elements of {} bytes, the file has {} bytes", name,
                    fmt::join(sizes, " x "), element, in.bytes());
            count *= size;
        }
        return {sizes.begin(), sizes.end()};
    }

    template <class T>
    void read(const std::string& name, std::int64_t first, std::span<T> out) const {
        if (out.empty()) return;
        const H5Handle set = dataset(name);
        check_type<T>(set, name);
        const auto all = extents(set, name);
        const auto count = static_cast<std::int64_t>(out.size());
        require(all.size() == 1, "dataset {} has {} dimensions, must have 1", name, all.size());
        require(first >= 0 && count <= all[0] - first, "dataset {} ends at {}, elements up to {} are needed", name,
                all[0], first + count);
        const H5Handle space(H5Dget_space(set));
        const hsize_t start[1] = {static_cast<hsize_t>(first)}, size[1] = {static_cast<hsize_t>(count)};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, size, nullptr);
        const H5Handle memory(H5Screate_simple(1, size, nullptr));
        require(H5Dread(set, memory_type<T>(), memory, space, H5P_DEFAULT, out.data()) >= 0, "dataset {}: {}", name,
                h5_reason());
    }

    InputFile in;
    std::string what;
    H5Handle file;
};

template <class Body>
auto ForeignFile::locked(const Body& body) const {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    return naming(open_->in.path(), body);
}

ForeignFile::ForeignFile(const std::string& path, const std::string& what) : open_(std::make_unique<Open>(path, what)) {
    locked([&] { open_->file = open_h5(open_->in); });
}

ForeignFile::~ForeignFile() {
    const std::lock_guard lock(h5_mutex());
    open_.reset();
}

bool ForeignFile::has(const std::string& name) const {
    return locked([&] { return open_->has(name); });
}

std::optional<std::int64_t> ForeignFile::integer(const std::string& group, const std::string& name) const {
    return locked([&] { return open_->number<std::int64_t>(group, name); });
}

std::optional<double> ForeignFile::real(const std::string& group, const std::string& name) const {
    return locked([&] { return open_->number<double>(group, name); });
}

std::vector<std::int64_t> ForeignFile::extents(const std::string& dataset) const {
    return locked([&] { return open_->extents(open_->dataset(dataset), dataset); });
}

void ForeignFile::read(const std::string& dataset, std::int64_t first, std::span<double> out) const {
    locked([&] { open_->read(dataset, first, out); });
}

void ForeignFile::read(const std::string& dataset, std::int64_t first, std::span<std::int64_t> out) const {
    locked([&] { open_->read(dataset, first, out); });
}

std::vector<double> ForeignFile::reals(const std::string& dataset, const std::vector<std::int64_t>& extents) const {
    return locked([&] {
        const H5Handle set = open_->dataset(dataset);
        check_type<double>(set, dataset);
        const auto found = open_->extents(set, dataset);
        require(found == extents, "dataset {} has extents {}, must have {}", dataset, fmt::join(found, " x "),
                fmt::join(extents, " x "));
        std::size_t count = 1;
        for (const auto n : extents) count *= static_cast<std::size_t>(n);
        std::vector<double> values(count);
        if (count > 0)
            require(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0,
                    "dataset {}: {}", dataset, h5_reason());
        return values;
    });
}

}  // namespace tessera

#include "io/hdf5_file.hpp"

#include <unistd.h>

#include "base/check.hpp"

namespace tessera {

H5Writer::H5Writer(AtomicFile& out) : out_(out) {
    H5Handle creation(H5Pcreate(H5P_FILE_CREATE)), access(H5Pcreate(H5P_FILE_ACCESS));
    // Times would make equal contents unequal files; format 1.8 protects every header with a checksum.
    H5Pset_obj_track_times(creation, false);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    h5_plain_access(access);
    file_ = need(H5Fcreate(out.working_path().c_str(), H5F_ACC_TRUNC, creation, access));
    group_creation_ = H5Handle(H5Pcreate(H5P_GROUP_CREATE));
    H5Pset_obj_track_times(group_creation_, false);
    dataset_creation_ = H5Handle(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_obj_track_times(dataset_creation_, false);
    H5Pset_layout(dataset_creation_, H5D_CONTIGUOUS);
    H5Pset_alloc_time(dataset_creation_, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(dataset_creation_, H5D_FILL_TIME_NEVER);
}

void H5Writer::check(bool ok) {
    if (!ok) out_.fail("HDF5: " + h5_reason());
}

H5Handle H5Writer::need(hid_t id) {
    check(id >= 0);
    return H5Handle(id);
}

H5Handle H5Writer::group(const char* name) {
    return need(H5Gcreate2(file_, name, H5P_DEFAULT, group_creation_, H5P_DEFAULT));
}

void H5Writer::attribute(hid_t of, const char* name, hid_t file_type, hid_t memory_type, const void* value) {
    H5Handle space(H5Screate(H5S_SCALAR));
    H5Handle at = need(H5Acreate2(of, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT));
    check(H5Awrite(at, memory_type, value) >= 0);
}

void H5Writer::attribute(hid_t of, const char* name, std::string_view text) {
    H5Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, text.size());
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    attribute(of, name, type, type, text.data());
}

void H5Writer::attribute(hid_t of, const char* name, std::int64_t value) {
    attribute(of, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void H5Writer::attribute(hid_t of, const char* name, double value) {
    attribute(of, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

H5Handle H5Writer::dataset(const std::string& name, hid_t file_type, const H5Extents& extents, hid_t memory_type,
                           const void* contents) {
    const std::vector<hsize_t> sizes(extents.begin(), extents.end());
    H5Handle space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
    H5Handle set = need(H5Dcreate2(file_, name.c_str(), file_type, space, H5P_DEFAULT, dataset_creation_, H5P_DEFAULT));
    if (contents && H5Sget_simple_extent_npoints(space) > 0)
        check(H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, contents) >= 0);
    return set;
}

std::int64_t H5Writer::place(hid_t dataset) {
    const haddr_t at = H5Dget_offset(dataset);
    check(at != HADDR_UNDEF);
    return static_cast<std::int64_t>(at);
}

namespace {

constexpr std::size_t kLongestText = 200;

std::string_view class_name(hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
            return "integers";
        case H5T_FLOAT:
            return H5Tget_order(type) == H5T_ORDER_BE ? "big-endian reals" : "reals";
        case H5T_STRING:
            return "strings";
        case H5T_COMPOUND:
            return "compounds";
        default:
            return "elements";
    }
}

}  // namespace

H5Handle open_h5(const InputFile& in) {
    // Through the descriptor we hold: a file renamed over the path in the meantime is another file.
    std::string path = fmt::format("/proc/self/fd/{}", in.descriptor());
    if (::access(path.c_str(), R_OK) != 0) path = in.path();
    require(in.bytes() > 0, "the file is empty");
    require(H5Fis_hdf5(path.c_str()) > 0, "not an HDF5 file");
    const H5Handle access(H5Pcreate(H5P_FILE_ACCESS));
    h5_plain_access(access);
    H5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
    require(file.ok(), "truncated or corrupted: HDF5 cannot open it: {}", h5_reason());
    return file;
}

H5Reader::H5Reader(const InputFile& in, std::string what) : in_(in), what_(std::move(what)), file_(open_h5(in)) {}

void H5Reader::require_group(const char* name) const {
    require(links_here(name), "not a Tessera {}: it has no group '{}'", what_, name);
    const H5Handle group(H5Gopen2(file_, name, H5P_DEFAULT));
    require(group.ok(), "not a Tessera {}: '{}' is not a group that can be read: {}", what_, name, h5_reason());
}

std::string H5Reader::text(const char* name, const char* absent) const {
    const H5Handle at = attribute(name, absent != nullptr);
    if (!at.ok()) return absent;
    return text_of(at, fmt::format("tessera/{}", name));
}

std::string H5Reader::text_of(hid_t at, const std::string& shown) const {
    const H5Handle type(H5Aget_type(at));
    require(type.ok() && H5Tget_class(type) == H5T_STRING, "attribute {} is not a string", shown);
    std::string value;
    if (H5Tis_variable_str(type) > 0) {  // as h5py writes strings
        const H5Handle memory(H5Tcopy(H5T_C_S1));
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        char* chars = nullptr;
        require(H5Aread(at, memory, &chars) >= 0, "attribute {}: {}", shown, h5_reason());
        if (chars) value = chars;
        H5free_memory(chars);
    } else {
        const std::size_t size = H5Tget_size(type);
        require(size <= kLongestText, "attribute {} has {} bytes, at most {} are allowed", shown, size, kLongestText);
        value.resize(size);
        require(H5Aread(at, type, value.data()) >= 0, "attribute {}: {}", shown, h5_reason());
        value.resize(std::min(value.size(), value.find('\0')));
    }
    require(value.size() <= kLongestText, "attribute {} has {} bytes, at most {} are allowed", shown, value.size(),
            kLongestText);
    for (char c : value)  // it may be shown: one line of plain text
        require(static_cast<unsigned char>(c) >= 32 && c != 127, "attribute {} is not plain text", shown);
    return value;
}

std::int64_t H5Reader::integer(const char* name) const {
    const H5Handle at = attribute(name, false);
    const H5Handle type(H5Aget_type(at));
    require(type.ok() && H5Tget_class(type) == H5T_INTEGER, "attribute tessera/{} is not an integer", name);
    std::int64_t value = 0;
    require(H5Aread(at, H5T_NATIVE_INT64, &value) >= 0, "attribute tessera/{}: {}", name, h5_reason());
    return value;
}

double H5Reader::real(const char* name) const {
    const H5Handle at = attribute(name, false);
    const H5Handle type(H5Aget_type(at));
    require(type.ok() && H5Tget_class(type) == H5T_FLOAT, "attribute tessera/{} is not a real number", name);
    double value = 0;
    require(H5Aread(at, H5T_NATIVE_DOUBLE, &value) >= 0, "attribute tessera/{}: {}", name, h5_reason());
    return value;
}

std::vector<std::int64_t> H5Reader::integers(const std::string& name) const {
    const Data set = dataset(name);
    const H5Handle type(H5Dget_type(set.id));
    require(H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) <= 8,
            "dataset {} holds {} of {} bytes; integers are needed", name, class_name(type), H5Tget_size(type));
    std::vector<std::int64_t> values(static_cast<std::size_t>(set.size));
    if (set.size > 0)
        require(H5Dread(set.id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "dataset {}: {}",
                name, h5_reason());
    return values;
}

std::vector<double> H5Reader::read_reals(const Data& set, const std::string& name) const {
    const H5Handle type(H5Dget_type(set.id));
    require(H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) <= 8,
            "dataset {} holds {} of {} bytes; float64 is needed", name, class_name(type), H5Tget_size(type));
    std::vector<double> values(static_cast<std::size_t>(set.size));
    if (set.size > 0)
        require(H5Dread(set.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "dataset {}: {}",
                name, h5_reason());
    return values;
}

std::vector<double> H5Reader::reals(const std::string& name) const { return read_reals(dataset(name), name); }

H5Reader::Summed H5Reader::reals(const std::string& name, const H5Extents& extents) const {
    const Data set = dataset(name, static_cast<int>(extents.size()));
    require(set.extents == extents, "dataset {} has extents {}, must have {}", name, fmt::join(set.extents, " x "),
            fmt::join(extents, " x "));
    const std::string shown = name + "/checksum";
    return {read_reals(set, name), text_of(attribute_of(set.id, shown, "checksum"), shown)};
}

std::pair<std::int64_t, std::int64_t> H5Reader::elements(const std::string& name, ScalarKind kind) const {
    const Data set = dataset(name);
    const H5Handle type(H5Dget_type(set.id));
    require(H5Tequal(type, h5_element_type(kind)) > 0,
            "dataset {} holds {} of {} bytes; the file says its tensor is {} (little-endian{})", name, class_name(type),
            H5Tget_size(type), tessera::name(kind),
            bytes_of(kind) == 16 || kind == ScalarKind::c64 ? ", a compound of r and i" : "");
    return {set.size, set.at};
}

/// True for a thing that lies in this file; links that lead elsewhere do not count.
bool H5Reader::links_here(const std::string& name) const {
    const htri_t there = H5Lexists(file_, name.c_str(), H5P_DEFAULT);
    require(there >= 0, "corrupted: HDF5 cannot look for {}: {}", name, h5_reason());
    H5L_info_t info{};
    return there > 0 && H5Lget_info(file_, name.c_str(), &info, H5P_DEFAULT) >= 0 && info.type == H5L_TYPE_HARD;
}

H5Handle H5Reader::attribute(const char* name, bool optional) const {
    const H5Handle group(H5Gopen2(file_, "tessera", H5P_DEFAULT));
    if (optional && !(H5Aexists(group, name) > 0)) return H5Handle();
    return attribute_of(group, fmt::format("tessera/{}", name), name);
}

H5Handle H5Reader::attribute_of(hid_t object, const std::string& shown, const char* name) const {
    require(H5Aexists(object, name) > 0, "not a Tessera {}: attribute {} is missing", what_, shown);
    H5Handle at(H5Aopen(object, name, H5P_DEFAULT));
    require(at.ok(), "attribute {}: {}", shown, h5_reason());
    const H5Handle space(H5Aget_space(at));
    require(space.ok() && H5Sget_simple_extent_type(space) != H5S_NULL && H5Sget_simple_extent_npoints(space) == 1,
            "attribute {} is not a single value", shown);
    return at;
}

/// A dataset whose bytes all lie in this file.
H5Reader::Data H5Reader::dataset(const std::string& name, int dimensions) const {
    require(links_here(name), "dataset {} is missing (links do not count)", name);
    Data set{H5Handle(H5Dopen2(file_, name.c_str(), H5P_DEFAULT)), {}};
    require(set.id.ok(), "dataset {} cannot be opened: {}", name, h5_reason());
    const H5Handle space(H5Dget_space(set.id)), type(H5Dget_type(set.id)), creation(H5Dget_create_plist(set.id));
    require(space.ok() && type.ok() && creation.ok(), "dataset {}: {}", name, h5_reason());
    require(H5Sget_simple_extent_type(space) == H5S_SIMPLE && H5Sget_simple_extent_ndims(space) == dimensions,
            "dataset {} has {} dimensions, must have {}", name, H5Sget_simple_extent_ndims(space), dimensions);
    std::vector<hsize_t> extents(static_cast<std::size_t>(dimensions));
    require(H5Sget_simple_extent_dims(space, extents.data(), nullptr) == dimensions, "dataset {}: {}", name,
            h5_reason());
    set.extents.assign(extents.begin(), extents.end());
    require(H5Pget_layout(creation) == H5D_CONTIGUOUS && H5Pget_external_count(creation) == 0,
            "dataset {} is chunked, compressed, compact or elsewhere; it must be contiguous in this file "
            "(h5repack -f NONE -l CONTI rewrites it)",
            name);
    const auto count = static_cast<hsize_t>(H5Sget_simple_extent_npoints(space));
    if (count == 0) return set;
    const haddr_t at = H5Dget_offset(set.id);
    const auto file_bytes = static_cast<haddr_t>(in_.bytes());
    const std::size_t element = H5Tget_size(type);
    require(element > 0 && at != HADDR_UNDEF && at <= file_bytes && count <= (file_bytes - at) / element,
            "truncated or corrupted: dataset {} claims {} elements of {} bytes, the file has {} bytes", name, count,
            element, in_.bytes());
    set.size = static_cast<std::int64_t>(count);
    set.at = static_cast<std::int64_t>(at);
    return set;
}

}  // namespace tessera

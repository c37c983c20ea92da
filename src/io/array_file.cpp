#include "io/array_file.hpp"

#include <optional>

#include "base/check.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {
namespace {

/// Of the bytes of its elements; the extents are among the headers, which HDF5 sums itself.
template <class T>
std::string sum_of(std::span<const T> values) {
    return fmt::format("{:016x}", hash_bytes(0, values.data(), static_cast<std::int64_t>(values.size_bytes())));
}

}  // namespace

void write_arrays(const std::string& path, const std::string& format, std::int64_t version,
                  const std::vector<NamedValue>& attributes, const std::vector<NamedArray>& arrays) {
    AtomicFile out(path);
    {
        const std::lock_guard lock(h5_mutex());
        const H5Quiet quiet;
        // Space for everything now: a full disk is found before gigabytes are written.
        std::int64_t bytes = 16384;
        for (const auto& a : arrays)
            bytes +=
                1024 + std::visit([](const auto& v) { return static_cast<std::int64_t>(v.size_bytes()); }, a.values);
        H5Writer writer(out);
        out.reserve(bytes);
        {
            const H5Handle about = writer.group("tessera");
            writer.attribute(about, "format", format);
            writer.attribute(about, "version", version);
            writer.attribute(about, "writer", "Tessera " TESSERA_VERSION);
            for (const auto& [name, value] : attributes)
                std::visit([&](const auto& v) { writer.attribute(about, name.c_str(), v); }, value);
        }
        std::string group;
        for (const auto& a : arrays) {
            if (const auto slash = a.name.find('/'); slash != std::string::npos && a.name.substr(0, slash) != group)
                writer.group((group = a.name.substr(0, slash)).c_str());
            const H5Handle set = std::visit(
                [&](const auto& values) {
                    if constexpr (std::is_same_v<decltype(values), const std::span<const double>&>)
                        return writer.reals(a.name, a.extents, values);
                    else
                        return writer.integers(a.name, a.extents, values);
                },
                a.values);
            writer.attribute(set, "checksum", std::visit([](const auto& v) { return sum_of(v); }, a.values));
        }
        writer.close();
    }
    out.commit();
}

struct ArrayFile::Open {
    InputFile in;
    std::optional<H5Reader> reader;
};

ArrayFile::ArrayFile(const std::string& path, const std::string& what)
    : open_(std::make_unique<Open>(InputFile(path), std::nullopt)) {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    naming(path, [&] { open_->reader.emplace(open_->in, what).require_group("tessera"); });
}

ArrayFile::~ArrayFile() {
    const std::lock_guard lock(h5_mutex());
    open_.reset();
}

template <class Read>
auto ArrayFile::read(const Read& read) const {
    const std::lock_guard lock(h5_mutex());
    const H5Quiet quiet;
    return naming(open_->in.path(), [&] { return read(*open_->reader); });
}

std::string ArrayFile::text(const char* name) const {
    return read([&](const H5Reader& from) { return from.text(name); });
}

std::int64_t ArrayFile::integer(const char* name) const {
    return read([&](const H5Reader& from) { return from.integer(name); });
}

double ArrayFile::real(const char* name) const {
    return read([&](const H5Reader& from) { return from.real(name); });
}

std::vector<double> ArrayFile::reals(const std::string& name, const std::vector<std::int64_t>& extents) const {
    return read([&](const H5Reader& from) {
        auto [values, expected] = from.reals(name, extents);
        const auto found = sum_of(std::span<const double>(values));
        require(found == expected, "corrupted: dataset {} has the checksum {}, its contents {}", name, expected, found);
        return std::move(values);
    });
}

std::vector<std::int64_t> ArrayFile::integers(const std::string& name) const {
    return read([&](const H5Reader& from) { return from.integers(name); });
}

}  // namespace tessera

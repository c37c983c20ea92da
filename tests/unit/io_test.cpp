// Files: round trips, writes that appear whole or not at all, and every kind of bad file with its message.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "io/file.hpp"
#include "io/hdf5_layout.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/npy.hpp"
#include "tessera/io/show.hpp"

// HDF5 1.10 loses memory of its own over files whose headers fail their checksums; under LeakSanitizer that is not
// ours.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

/// A folder of its own for each test.
class Io : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tessera-io-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { fs::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    Strings listing() const {
        Strings names;
        for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        return names;
    }
    fs::path folder_;
};

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// HDF5 1.10 loses memory over some corrupted files and complains of that when the process ends.
[[maybe_unused]] const bool quiet_exit = (hdf5_without_exit_handler(), true);

void put(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out << bytes;
}

/// The message of the error of this type that the call must end with; one line, with the file's name.
template <class E, class Call>
std::string message_of(const std::string& path, Call&& call) {
    try {
        call();
    } catch (const E& e) {
        const std::string text = e.what();
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        EXPECT_NE(text.find(path), std::string::npos) << text;
        return text;
    } catch (const std::exception& e) {
        ADD_FAILURE() << "another kind of error: " << e.what();
        return "";
    }
    ADD_FAILURE() << "no error";
    return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// Every third tile, of ragged sizes, for a rank.
Shape sample_shape(int rank, int keep = 3) {
    std::vector<Tiling> tilings;
    for (int d = 0; d < rank; ++d) tilings.push_back(d % 2 ? Tiling{3, 1} : Tiling{2, 1, 4});
    TileGrid grid(tilings);
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (mix64(o) % keep == 0 || rank == 0) entries.push_back({TileOrdinal{o}, 2.0});
    return Shape(grid, std::move(entries));
}

template <class T>
class IoTyped : public Io {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(IoTyped, Types);

TYPED_TEST(IoTyped, TensorsComeBackBitForBit) {
    using T = TypeParam;
    const auto file = this->path("t.h5");
    for (int rank = 0; rank <= 5; ++rank) {
        const auto t = Tensor<T>::random(sample_shape(rank), 7 + rank);
        write_tensor(file, t);
        EXPECT_TRUE(read_tensor<T>(file) == t) << rank;
        EXPECT_TRUE(read_tensor<T>(file, 1).shape() == t.shape()) << rank;
        const AnyTensor any = read_any(file);
        ASSERT_TRUE(std::holds_alternative<Tensor<T>>(any));
        EXPECT_TRUE(std::get<Tensor<T>>(any) == t);
        const auto info = describe(file);
        EXPECT_EQ(info.scalar, ScalarTraits<T>::kind);
        EXPECT_TRUE(info.shape == t.shape());
        EXPECT_EQ(info.checksum, checksum(t));
        EXPECT_EQ(info.file_bytes, static_cast<std::int64_t>(fs::file_size(file)));
        EXPECT_EQ(info.tile_bytes, t.shape().elements() * static_cast<std::int64_t>(sizeof(T)));
        EXPECT_EQ(info.version, 1);
        const auto bytes = contents(file);
        write_tensor(file, AnyTensor(t));
        EXPECT_EQ(contents(file), bytes) << "equal tensors make equal files";
    }
    EXPECT_EQ(this->listing(), Strings{"t.h5"});
}

TYPED_TEST(IoTyped, TensorsWithoutTilesOrElements) {
    using T = TypeParam;
    const auto file = this->path("t.h5");
    for (const TileGrid& grid : {TileGrid{}, TileGrid{Tiling{}}, TileGrid{Tiling{2, 2}, Tiling{}, Tiling{5}},
                                 TileGrid{Tiling{2, 2}, Tiling{3}}}) {
        const Tensor<T> t{Shape(grid)};
        write_tensor(file, t);
        EXPECT_TRUE(read_tensor<T>(file) == t);
        EXPECT_TRUE(describe(file).shape.grid() == grid);
    }
}

TYPED_TEST(IoTyped, NpyComesBackBitForBit) {
    using T = TypeParam;
    const auto file = this->path("a.npy");
    for (const IndexVector& extents :
         {IndexVector{}, IndexVector{5}, IndexVector{2, 3}, IndexVector{3, 0, 2}, IndexVector{2, 3, 1, 4, 2}}) {
        std::vector<T> data(static_cast<std::size_t>(extents.product()));
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(static_cast<RealOf<T>>(i) + 0.5f);
        write_npy<T>(file, extents, data);
        const auto any = read_npy(file);
        ASSERT_TRUE(std::holds_alternative<NpyArray<T>>(any));
        EXPECT_EQ(std::get<NpyArray<T>>(any).extents, extents);
        EXPECT_EQ(std::get<NpyArray<T>>(any).data, data);
        EXPECT_EQ((fs::file_size(file) - data.size() * sizeof(T)) % 64, 0u) << "aligned as NumPy asks";
    }
}

TEST_F(Io, ManySmallTilesNeedMoreThanOneCallToTheSystem) {
    const auto t = Tensor<double>::random(Shape::dense(TileGrid{Tiling::uniform(300, 3), Tiling::uniform(400, 4)}), 3);
    ASSERT_EQ(t.tile_count(), 10000);
    write_tensor(path("t.h5"), t);
    EXPECT_TRUE(read_tensor<double>(path("t.h5")) == t);
}

// ---- writing: whole or not at all

TEST_F(Io, AFailedWriteLeavesTheOldFileAndNothingElse) {
    const auto small = Tensor<double>::random(sample_shape(2), 1);
    const auto large = Tensor<double>::random(Shape::dense(TileGrid{Tiling::uniform(400, 50), Tiling{400}}), 2);
    const auto file = path("t.h5");
    write_tensor(file, small);
    // A limit on file sizes stands in for a full disk: the same calls fail at the same places.
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    for (const rlim_t limit : {0, 700, 3000, 100000, 1000000}) {
        rlimit tight{limit, old.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &tight);
        const auto text = message_of<MachineError>(file, [&] { write_tensor(file, large); });
        const std::vector<double> dense(200000, 1.0);
        const auto npy =
            message_of<MachineError>(path("a.npy"), [&] { write_npy<double>(path("a.npy"), {200000}, dense); });
        ::setrlimit(RLIMIT_FSIZE, &old);
        EXPECT_HAS(text, "cannot write");
        EXPECT_HAS(npy, "File too large");
        EXPECT_EQ(listing(), Strings{"t.h5"});
        EXPECT_TRUE(read_tensor<double>(file) == small);
    }
    ::signal(SIGXFSZ, handler);
    write_tensor(file, large);
    EXPECT_TRUE(read_tensor<double>(file) == large);
}

TEST_F(Io, AKilledWriteLeavesTheOldFile) {
    const auto small = Tensor<double>::random(sample_shape(2), 1);
    const auto file = path("t.h5");
    write_tensor(file, small);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        AtomicFile out(file);
        const char bytes[] = "half a file";
        out.write_at(0, bytes, sizeof bytes);
        ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(read_tensor<double>(file) == small);
    // Where the file system can keep a file without a name, not even a trace is left.
    const int nameless = ::open(folder_.c_str(), O_TMPFILE | O_RDWR, 0600);
    if (nameless >= 0) {
        ::close(nameless);
        EXPECT_EQ(listing(), Strings{"t.h5"});
    }
}

TEST_F(Io, PathsThatCannotBeWritten) {
    const auto t = Tensor<double>::random(sample_shape(1), 1);
    const auto refused = [&](const std::string& file) {
        const auto before = message_of<UserError>(file, [&] { require_writable(file); });
        EXPECT_EQ(before, message_of<UserError>(file, [&] { write_tensor(file, t); }));
        return before;
    };
    EXPECT_HAS(refused(path("no/such/t.h5")), "folder " + path("no/such") + ": No such file or directory");
    EXPECT_HAS(refused(folder_.string()), "it is a folder");
    EXPECT_HAS(refused("/dev/null"), "it is not a regular file");
    EXPECT_HAS(refused(path(std::string(300, 'x'))), "a file name may have 255 bytes, this one has 300");
    put(path("file"), "x");
    EXPECT_HAS(refused(path("file/t.h5")), "is not a folder");
    EXPECT_THROW(require_writable(""), UserError);
    fs::create_directory(folder_ / "locked");
    fs::permissions(folder_ / "locked", fs::perms::owner_read | fs::perms::owner_exec);
    if (::geteuid() != 0) {  // root may write anywhere
        const auto text = message_of<MachineError>(path("locked"), [&] { write_tensor(path("locked/t.h5"), t); });
        EXPECT_HAS(text, "Permission denied");
    }
}

TEST_F(Io, LinksAndPermissionsOfAnOldFileStay) {
    const auto t = Tensor<double>::random(sample_shape(2), 1);
    write_tensor(path("real.h5"), t);
    fs::permissions(path("real.h5"), fs::perms::owner_read | fs::perms::owner_write);
    fs::create_symlink("real.h5", path("link.h5"));
    const auto u = Tensor<double>::random(sample_shape(2), 2);
    write_tensor(path("link.h5"), u);
    EXPECT_TRUE(fs::is_symlink(path("link.h5")));
    EXPECT_TRUE(read_tensor<double>(path("real.h5")) == u);
    EXPECT_EQ(fs::status(path("real.h5")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_EQ(listing(), (Strings{"link.h5", "real.h5"}));
}

// ---- reading: bad files

class BadTensor : public Io {
  protected:
    void SetUp() override {
        Io::SetUp();
        file_ = path("t.h5");
        const TileGrid grid{Tiling{2, 1, 4}, Tiling{3, 1}};
        tensor_ = Tensor<double>::random(
            Shape(grid, {{TileOrdinal{0}, 2}, {TileOrdinal{1}, 2}, {TileOrdinal{3}, 2}, {TileOrdinal{4}, 2}}), 5);
        write_tensor(file_, tensor_);
    }
    std::string refused() {
        const auto text = message_of<UserError>(file_, [&] { read_any(file_); });
        EXPECT_EQ(text, message_of<UserError>(file_, [&] { read_tensor<double>(file_); }));
        return text;
    }
    /// As above for what is known without the tiles.
    std::string refused_early() {
        const auto text = refused();
        EXPECT_EQ(text, message_of<UserError>(file_, [&] { describe(file_); }));
        return text;
    }
    /// Changes the file through HDF5, as another program would.
    template <class Change>
    void change(Change&& how) {
        write_tensor(file_, tensor_);
        const H5Quiet quiet;
        H5Handle file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        ASSERT_TRUE(file.ok());
        how(static_cast<hid_t>(file));
    }
    template <class T>
    static void set(hid_t file, const char* name, std::size_t at, T value) {
        H5Handle data(H5Dopen2(file, name, H5P_DEFAULT));
        const hid_t type = std::is_same_v<T, double> ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64;
        H5Handle space(H5Dget_space(data));
        std::vector<T> all(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
        H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data());
        all.at(at) = value;
        ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, all.data()), 0);
    }
    static void replace(hid_t file, const char* name, hid_t type, std::vector<hsize_t> dims, hid_t creation = 0) {
        H5Ldelete(file, name, H5P_DEFAULT);
        H5Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
        H5Handle data(H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT));
        ASSERT_TRUE(data.ok());
    }
    static void set_attribute(hid_t file, const char* name, std::int64_t value) {
        H5Handle group(H5Gopen2(file, "tessera", H5P_DEFAULT));
        H5Adelete(group, name);
        H5Handle space(H5Screate(H5S_SCALAR));
        H5Handle at(H5Acreate2(group, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT));
        H5Awrite(at, H5T_NATIVE_INT64, &value);
    }
    static void set_attribute(hid_t file, const char* name, const char* value) {  // of variable length, as h5py does
        H5Handle group(H5Gopen2(file, "tessera", H5P_DEFAULT));
        H5Adelete(group, name);
        H5Handle space(H5Screate(H5S_SCALAR)), type(H5Tcopy(H5T_C_S1));
        H5Tset_size(type, H5T_VARIABLE);
        H5Handle at(H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
        H5Awrite(at, type, &value);
    }
    std::string file_;
    Tensor<double> tensor_;
};

TEST_F(BadTensor, MissingFolderEmptyForeign) {
    file_ = path("none.h5");
    EXPECT_EQ(refused_early(), "cannot read " + file_ + ": No such file or directory");
    file_ = folder_.string();
    EXPECT_EQ(refused_early(), "cannot read " + file_ + ": it is a folder");
    file_ = path("empty.h5");
    put(file_, "");
    EXPECT_EQ(refused_early(), file_ + ": the file is empty");
    put(file_, "just some text, long enough for a header");
    EXPECT_EQ(refused_early(), file_ + ": not an HDF5 file");
    file_ = path("pipe");
    ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
    EXPECT_EQ(refused_early(), "cannot read " + file_ + ": it is not a regular file");
    file_ = path("foreign.h5");
    { const H5Handle foreign(H5Fcreate(file_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); }
    EXPECT_EQ(refused_early(), file_ + ": not a Tessera tensor: it has no group 'tessera'");
}

TEST_F(BadTensor, TruncatedAnywhere) {
    const auto bytes = contents(file_);
    for (std::size_t n = 1; n < bytes.size(); n += n < 2048 ? 7 : 61) {
        put(file_, bytes.substr(0, n));
        const auto text = refused_early();
        EXPECT_TRUE(text.find("truncated") != std::string::npos || text.find("not an HDF5 file") != std::string::npos)
            << n << " bytes: " << text;
    }
}

TEST_F(BadTensor, AnyFlippedByteIsFoundOrHarmless) {
    // HDF5's headers carry checksums of their own, ours covers tilings, tiles and elements, norms are compared.
    const auto bytes = contents(file_);
    int found = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        auto bad = bytes;
        bad[at] = static_cast<char>(bad[at] ^ (at % 2 ? 0x01 : 0x80));
        put(file_, bad);
        try {
            EXPECT_TRUE(std::get<Tensor<double>>(read_any(file_, 1)) == tensor_) << "byte " << at;
        } catch (const UserError&) {
            ++found;
        }
    }
    EXPECT_GT(found, static_cast<int>(bytes.size() / 3));  // the rest is padding, or the lowest bits of norms
}

TEST_F(BadTensor, WrongAttributes) {
    change([](hid_t f) { set_attribute(f, "version", std::int64_t{3}); });
    EXPECT_EQ(refused_early(), file_ + ": written in file format 3; this Tessera reads formats up to 2");
    change([](hid_t f) { set_attribute(f, "version", std::int64_t{2}); });
    EXPECT_HAS(refused_early(), "attribute tessera/symmetry is missing");
    change([](hid_t f) {
        set_attribute(f, "version", std::int64_t{2});
        set_attribute(f, "symmetry", "ij=jk");
    });
    EXPECT_HAS(refused_early(), "symmetry 'ij=jk': the right side does not have the indices of the left");
    change([](hid_t f) { set_attribute(f, "version", std::int64_t{-3}); });
    EXPECT_EQ(refused_early(), file_ + ": file format -3 does not exist");
    change([](hid_t f) { set_attribute(f, "rank", std::int64_t{17}); });
    EXPECT_EQ(refused_early(), file_ + ": rank 17 is outside 0..16");
    change([](hid_t f) { set_attribute(f, "rank", std::int64_t{3}); });
    EXPECT_EQ(refused_early(), file_ + ": dataset tilings/2 is missing (links do not count)");
    change([](hid_t f) { set_attribute(f, "rank", "two"); });
    EXPECT_EQ(refused_early(), file_ + ": attribute tessera/rank is not an integer");
    change([](hid_t f) { set_attribute(f, "scalar", "float16"); });
    EXPECT_HAS(refused_early(), "scalar type 'float16' is not one of float32, float64");
    change([](hid_t f) { set_attribute(f, "scalar", "float\n64"); });
    EXPECT_HAS(refused_early(), "attribute tessera/scalar is not plain text");
    change([](hid_t f) { set_attribute(f, "scalar", std::int64_t{64}); });
    EXPECT_HAS(refused_early(), "attribute tessera/scalar is not a string");
    change([](hid_t f) { set_attribute(f, "format", "other-tensor"); });
    EXPECT_HAS(refused_early(), "not a Tessera tensor: its format is 'other-tensor', not 'tessera-tensor'");
    change([](hid_t f) { set_attribute(f, "checksum", "123"); });
    EXPECT_HAS(refused_early(), "checksum '123' is not 16 hexadecimal digits");
    change([](hid_t f) { set_attribute(f, "writer", std::string(500, 'x').c_str()); });
    EXPECT_HAS(refused_early(), "attribute tessera/writer has 500 bytes, at most 200 are allowed");
    change([](hid_t f) { H5Adelete(H5Handle(H5Gopen2(f, "tessera", H5P_DEFAULT)), "version"); });
    EXPECT_HAS(refused_early(), "attribute tessera/version is missing");
}

TEST_F(BadTensor, CorruptedContents) {
    change([](hid_t f) { set_attribute(f, "checksum", "00000000000000ff"); });
    EXPECT_HAS(refused(), "corrupted: its checksum is 00000000000000ff, that of its contents ");
    change([](hid_t f) { set(f, "tiles/data", 3, 1e-9); });
    EXPECT_HAS(refused(), "corrupted: ");
    change([](hid_t f) { set(f, "tiles/data", 0, std::nan("")); });
    EXPECT_HAS(refused(), "a norm needs finite numbers");
    change([](hid_t f) { set(f, "tiles/data", 1, std::numeric_limits<double>::infinity()); });
    EXPECT_HAS(refused(), "a norm needs finite numbers");
    change([](hid_t f) { set(f, "shape/norms", 1, 77.0); });
    EXPECT_HAS(refused(), "has norm 77 in shape/norms, ");
    change([](hid_t f) { set(f, "shape/norms", 1, std::nan("")); });
    EXPECT_HAS(refused_early(), "has norm nan; a finite number >= 0 is needed");
    change([](hid_t f) { set(f, "shape/norms", 0, -1.0); });
    EXPECT_HAS(refused_early(), "has norm -1");
    change([](hid_t f) { set(f, "shape/ordinals", 0, std::int64_t{5000}); });
    EXPECT_HAS(refused_early(), "tile number 5000 is outside 0..5");
    change([](hid_t f) { set(f, "shape/ordinals", 0, std::int64_t{-1}); });
    EXPECT_HAS(refused_early(), "tile number -1 is outside 0..5");
    change([](hid_t f) { set(f, "shape/ordinals", 0, std::int64_t{5}); });
    EXPECT_HAS(refused_early(), "not sorted");
    change([](hid_t f) { set(f, "tiles/offsets", 1, std::int64_t{1} << 60); });
    EXPECT_HAS(refused_early(), "dataset tiles/offsets: number 1 is 1152921504606846976, the tilings make it ");
    change([](hid_t f) { set(f, "tiles/offsets", 0, std::int64_t{-8}); });
    EXPECT_HAS(refused_early(), "dataset tiles/offsets: number 0 is -8, the tilings make it 0");
    change([](hid_t f) { set(f, "tilings/0", 0, std::int64_t{0}); });
    EXPECT_HAS(refused_early(), "dataset tilings/0: tiling: tile 0 has size 0");
    change([](hid_t f) { set(f, "tilings/0", 1, INT64_MAX); });
    EXPECT_HAS(refused_early(), "does not fit in 64 bits");
    change([](hid_t f) { set(f, "tilings/0", 1, std::int64_t{1} << 40); });
    EXPECT_HAS(refused_early(), "dataset tiles/offsets: ");
}

TEST_F(BadTensor, DatasetsOfAnotherKind) {
    change([](hid_t f) { H5Ldelete(f, "tiles/data", H5P_DEFAULT); });
    EXPECT_HAS(refused_early(), "dataset tiles/data is missing");
    change([](hid_t f) { replace(f, "tiles/data", H5T_IEEE_F64LE, {4, 4}); });
    EXPECT_HAS(refused_early(), "dataset tiles/data has 2 dimensions, must have 1");
    change([](hid_t f) { replace(f, "shape/norms", H5T_STD_I64LE, {0}); });
    EXPECT_HAS(refused_early(), "dataset shape/norms holds integers of 8 bytes; float64 is needed");
    change([](hid_t f) { replace(f, "shape/ordinals", H5T_IEEE_F32LE, {0}); });
    EXPECT_HAS(refused_early(), "dataset shape/ordinals holds reals of 4 bytes; integers are needed");
    change([](hid_t f) { replace(f, "tiles/data", H5T_IEEE_F64BE, {0}); });
    EXPECT_HAS(refused_early(), "holds big-endian reals of 8 bytes; the file says its tensor is float64");
    change([](hid_t f) { replace(f, "tiles/data", h5_element_type(ScalarKind::c64), {0}); });
    EXPECT_HAS(refused_early(), "holds compounds of 8 bytes; the file says its tensor is float64");
    change([](hid_t f) {
        const H5Handle chunked(H5Pcreate(H5P_DATASET_CREATE));
        const hsize_t chunk = 1024;
        H5Pset_chunk(chunked, 1, &chunk);
        replace(f, "tiles/data", H5T_IEEE_F64LE, {hsize_t{1} << 40}, chunked);
    });
    EXPECT_HAS(refused_early(), "it must be contiguous in this file (h5repack -f NONE -l CONTI rewrites it)");
    // Terabytes that are claimed but not there.
    change([](hid_t f) { replace(f, "tiles/data", H5T_IEEE_F64LE, {hsize_t{1} << 40}); });
    EXPECT_HAS(refused_early(), "dataset tiles/data claims 1099511627776 elements of 8 bytes, the file has ");
    change([](hid_t f) { replace(f, "tilings/1", H5T_STD_I64LE, {hsize_t{1} << 58}); });
    EXPECT_HAS(refused_early(), "dataset tilings/1 claims 288230376151711744 elements of 8 bytes");
    // Elements that lie in another file.
    put(path("other.bin"), std::string(4096, 'x'));
    change([&](hid_t f) {
        const H5Handle external(H5Pcreate(H5P_DATASET_CREATE));
        H5Pset_external(external, path("other.bin").c_str(), 0, 4096);
        replace(f, "tiles/data", H5T_IEEE_F64LE, {8}, external);
    });
    EXPECT_HAS(refused_early(), "it must be contiguous in this file");
    change([&](hid_t f) {
        H5Ldelete(f, "tiles/data", H5P_DEFAULT);
        H5Lcreate_external("other.h5", "/x", f, "tiles/data", H5P_DEFAULT, H5P_DEFAULT);
    });
    EXPECT_HAS(refused_early(), "dataset tiles/data is missing");
    change([&](hid_t f) {
        H5Ldelete(f, "shape", H5P_DEFAULT);
        H5Lcreate_soft("/nowhere", f, "shape", H5P_DEFAULT, H5P_DEFAULT);
    });
    EXPECT_HAS(refused_early(), "it has no group 'shape'");
}

TEST_F(BadTensor, TheScalarTypeMustBeTheOneAskedFor) {
    const auto text = message_of<UserError>(file_, [&] { read_tensor<float>(file_); });
    EXPECT_EQ(text, file_ + ": holds float64, but float32 was asked for");
}

TEST_F(BadTensor, OthersMayLeaveOutChecksumAndWriter) {
    change([](hid_t f) {
        H5Handle group(H5Gopen2(f, "tessera", H5P_DEFAULT));
        H5Adelete(group, "checksum");
        H5Adelete(group, "writer");
    });
    EXPECT_TRUE(read_tensor<double>(file_) == tensor_);
    EXPECT_EQ(describe(file_).checksum, std::nullopt);
    EXPECT_HAS(describe_text(describe(file_)), "checksum   none");
}

TEST_F(BadTensor, Hdf5StaysSilentAndTheCallersSettingStays) {
    H5E_auto2_t before = nullptr, after = nullptr;
    void *data = nullptr, *data_after = nullptr;
    H5Eget_auto2(H5E_DEFAULT, &before, &data);
    ::testing::internal::CaptureStderr();
    put(file_, contents(file_).substr(0, 900));
    EXPECT_THROW(read_any(file_), UserError);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    H5Eget_auto2(H5E_DEFAULT, &after, &data_after);
    EXPECT_EQ(before, after);
}

// ---- .npy

/// A .npy file of this version with this dictionary.
std::string npy(int major, std::string header, const std::string& data, int minor = 0) {
    std::string start = "\x93NUMPY";
    start += static_cast<char>(major);
    start += static_cast<char>(minor);
    header += '\n';
    for (std::size_t b = 0; b < (major > 1 ? 4u : 2u); ++b) start += static_cast<char>(header.size() >> (8 * b) & 255);
    return start + header + data;
}

template <class T>
std::string bytes_of_values(std::initializer_list<T> values) {
    return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST_F(Io, NpyVersionsAndOrders) {
    const auto file = path("a.npy");
    const auto data = bytes_of_values<double>({1, 2, 3, 4, 5, 6});
    for (int version : {1, 2, 3}) {
        put(file, npy(version, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }   ", data));
        EXPECT_EQ(std::get<NpyArray<double>>(read_npy(file)).data, (std::vector<double>{1, 2, 3, 4, 5, 6}));
    }
    put(file, npy(1, "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"<f8\"}", data));
    EXPECT_EQ(std::get<NpyArray<double>>(read_npy(file)).data, (std::vector<double>{1, 3, 5, 2, 4, 6}));
    put(file, npy(1, "{'shape':(2,1,3),'fortran_order':True,'descr':'<f4'}", data.substr(0, 24)));
    EXPECT_EQ(std::get<NpyArray<float>>(read_npy(file)).extents, (IndexVector{2, 1, 3}));
    put(file, npy(1, "{'shape':(9223372036854775807,2,0,9),'fortran_order':True,'descr':'<f8'}", ""));
    EXPECT_TRUE(std::get<NpyArray<double>>(read_npy(file)).data.empty());
}

TEST_F(Io, BadNpyFiles) {
    const auto file = path("a.npy");
    const auto refused = [&](const std::string& bytes) {
        put(file, bytes);
        return message_of<UserError>(file, [&] { read_npy(file); });
    };
    const auto with = [&](const std::string& descr, const std::string& shape, std::size_t bytes = 0) {
        return refused(npy(1, "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }",
                           std::string(bytes, '\0')));
    };
    EXPECT_HAS(message_of<UserError>("none.npy", [] { read_npy("none.npy"); }), "No such file");
    EXPECT_HAS(refused(""), "not a .npy file: it has 0 bytes");
    EXPECT_HAS(refused("\x89HDF\r\n and more"), "does not begin with \\x93NUMPY");
    EXPECT_HAS(refused(npy(4, "{}", "")), ".npy version 4.0 is not one of 1.0, 2.0, 3.0");
    EXPECT_HAS(refused(npy(1, "{}", "", 7)), ".npy version 1.7");
    EXPECT_HAS(refused(std::string("\x93NUMPY\1\0\xff\xff{'descr", 16)), "a header of 65535 bytes in a file of 16");
    EXPECT_HAS(refused(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{'d", 15)), "a header of 4294967295 bytes");
    EXPECT_HAS(refused(npy(2, std::string(70000, ' '), "")), "at most 65536 are allowed");
    EXPECT_HAS(with("'<i8'", "(2,)", 16), "its elements are int64 ('<i8'); little-endian float32");
    EXPECT_HAS(with("'>f8'", "(2,)", 16), "its elements are big-endian float64 ('>f8')");
    EXPECT_HAS(with("'|O'", "(2,)", 16), "Python objects");
    EXPECT_HAS(with("'<U7'", "(2,)", 16), "its elements are '<U7'");
    EXPECT_HAS(with("[('x', '<f8')]", "(2,)", 16), "its elements are records");
    EXPECT_HAS(with("'<f8'", "(2, 3)", 40), "truncated: (2, 3) float64 elements need 48 bytes, the file has 40");
    EXPECT_HAS(with("'<f8'", "(2, 3)", 50), "2 bytes after its array of (2, 3) float64 elements");
    EXPECT_HAS(with("'<f8'", "(4294967296, 4294967296)"), "4294967296 x 4294967296 does not fit in 64 bits");
    EXPECT_HAS(with("'<f8'", "(3, 99999999999999999999)"),
               "index 1 has extent 99999999999999999999, outside 0..9223372036854775807");
    EXPECT_HAS(with("'<c16'", "(1152921504606846975,)"), "does not fit in 64 bits");
    EXPECT_HAS(with("'<f8'", "(-2,)"), "index 0 has extent -2, outside 0..");
    EXPECT_HAS(with("'<f8'", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "more than 16 indices");
    EXPECT_HAS(refused(npy(1, "{'descr': '<f8', 'shape': (2,)}", "")), "'fortran_order' is missing");
    EXPECT_HAS(refused(npy(1, "{'descr': '<f8', 'descr': '<f4'}", "")), "'descr' stands twice");
    EXPECT_HAS(refused(npy(1, "{'colour': 1}", "")), "unknown key 'colour'");
    EXPECT_HAS(refused(npy(1, "{'descr: 1}", "")), "a quote is not closed");
    EXPECT_HAS(refused(npy(1, "{'fortran_order': Maybe}", "")), "True or False expected at 'Maybe}");
    EXPECT_HAS(refused(npy(1, "[1, 2]", "")), "'{' expected at '[1, 2]");
    EXPECT_HAS(refused(npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()} import os", "")),
               "'import os?' after its dictionary");
    EXPECT_THROW(write_npy<double>(file, IndexVector{2, 2}, std::vector<double>(3)), UserError);
}

// ---- text

TEST_F(Io, ShowFitsTheTerminalAndNamesTheNumbers) {
    TensorFileInfo info;
    info.path = path(std::string(150, 'p') + ".h5");
    info.writer = "Tessera 0.1.0";
    info.version = 1;
    std::vector<ShapeEntry> entries;
    TileGrid grid{Tiling::uniform(100, 7), Tiling::uniform(200, 10), Tiling{3, 4}};
    for (int i = 0; i < 300; ++i) entries.push_back({TileOrdinal{i}, std::pow(10.0, -i / 20)});
    info.shape = Shape(grid, entries);
    const auto text = describe_text(info);
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    EXPECT_EQ(begin, text.size()) << "ends with a newline";
    for (const char* part : {"index 2    7 in 2 tiles of 3..4", "300 of 600 tiles", "float64 tensor of rank 3", "%"})
        EXPECT_HAS(text, part);
    EXPECT_HAS(describe_text(TensorFileInfo{}), "scalar (rank 0)");
}

}  // namespace
}  // namespace tessera

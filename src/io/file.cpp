#include "io/file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kCallBytes = std::int64_t{1} << 30;  // Linux moves a little under 2 GiB per call

/// Where the bytes will really go: a symbolic link stays one, and the file it names is made or replaced.
std::string final_target(const std::string& path) {
    namespace fs = std::filesystem;
    constexpr int kMostLinks = 40;  // as the system allows
    fs::path at = path;
    std::error_code ec;
    for (int links = 0; fs::is_symlink(fs::symlink_status(at, ec)); ++links) {
        require(links < kMostLinks, "cannot write {}: more than {} symbolic links in a row", path, kMostLinks);
        const fs::path next = fs::read_symlink(at, ec);
        if (ec) break;
        at = next.is_absolute() ? next : at.parent_path() / next;
    }
    return at.string();
}

std::string folder_of(const std::string& path) {
    const auto parent = std::filesystem::path(path).parent_path().string();
    return parent.empty() ? "." : parent;
}

/// What the folder and whatever stands at the path have against a new file there.
void check_target(const std::string& path, const std::string& target) {
    require(!path.empty(), "cannot write a file without a name");
    require(target.back() != '/', "cannot write {}: it names a folder", path);
    const std::string folder = folder_of(target);
    struct stat info {};
    require(::stat(folder.c_str(), &info) == 0, "cannot write {}: folder {}: {}", path, folder, std::strerror(errno));
    require(S_ISDIR(info.st_mode), "cannot write {}: {} is not a folder", path, folder);
    const auto name = std::filesystem::path(target).filename().string();
    require(name.size() <= NAME_MAX, "cannot write {}: a file name may have {} bytes, this one has {}", path, NAME_MAX,
            name.size());
    if (::stat(target.c_str(), &info) == 0) {
        require(!S_ISDIR(info.st_mode), "cannot write {}: it is a folder", path);
        require(S_ISREG(info.st_mode), "cannot write {}: it is not a regular file", path);
    }
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
        throw MachineError(fmt::format("cannot write {}: folder {}: {}", path, folder, std::strerror(errno)));
}

/// A name nobody else has: the process, a count, and the time.
std::string temporary_name(const std::string& folder) {
    static std::atomic<unsigned> count{0};
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return fmt::format("{}/.tessera-{}-{}-{:x}.tmp", folder, ::getpid(), count++, now.tv_nsec);
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

FileDescriptor::~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
}

InputFile::InputFile(const std::string& path) : path_(path) {
    // O_NONBLOCK: opening a pipe must not wait for a writer; it is refused below.
    fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    require(fd_.get() >= 0, "cannot read {}: {}", path, std::strerror(errno));
    struct stat info {};
    require(::fstat(fd_.get(), &info) == 0, "cannot read {}: {}", path, std::strerror(errno));
    require(!S_ISDIR(info.st_mode), "cannot read {}: it is a folder", path);
    require(S_ISREG(info.st_mode), "cannot read {}: it is not a regular file", path);
    bytes_ = info.st_size;
}

void InputFile::read_at(std::int64_t offset, void* data, std::int64_t bytes) const {
    auto* to = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t got = ::pread(fd_.get(), to, static_cast<std::size_t>(std::min(bytes, kCallBytes)), offset);
        if (got < 0) {
            if (errno == EINTR) continue;
            throw MachineError(fmt::format("cannot read {}: {}", path_, std::strerror(errno)));
        }
        require(got > 0, "{}: truncated: ends at byte {}, {} more were expected", path_, offset, bytes);
        to += got, offset += got, bytes -= got;
    }
}

void require_writable(const std::string& path) {
    try {
        const AtomicFile file(path);  // gone again at once
    } catch (const MachineError& e) {
        throw UserError(e.what());
    }
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(final_target(path)) {
    check_target(path_, target_);
    folder_ = folder_of(target_);
    int fd = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (fd >= 0) {
        fd_ = FileDescriptor(fd);
        working_path_ = fmt::format("/proc/self/fd/{}", fd);
        if (::access(working_path_.c_str(), W_OK) == 0) return;  // not where /proc is missing
    }
    for (int attempt = 0; attempt < 100; ++attempt) {
        temporary_ = temporary_name(folder_);
        fd = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) {
        temporary_.clear();
        fail_errno(errno);
    }
    fd_ = FileDescriptor(fd);
    working_path_ = temporary_;
}

AtomicFile::~AtomicFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& reason) const {
    throw MachineError(fmt::format("cannot write {}: {}", path_, reason));
}

void AtomicFile::fail_errno(int error) const { fail(std::strerror(error)); }

void AtomicFile::reserve(std::int64_t bytes) {
    if (bytes <= 0) return;
    int result;
    do result = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, bytes);
    while (result != 0 && errno == EINTR);
    // Some file systems cannot promise space; then a full disk shows when it is met.
    if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        fail(fmt::format("{} bytes: {}", bytes, std::strerror(errno)));
}

void AtomicFile::write_at(std::int64_t offset, const void* data, std::int64_t bytes) {
    write_at(offset, {iovec{const_cast<void*>(data), static_cast<std::size_t>(bytes)}});
}

void AtomicFile::write_at(std::int64_t offset, std::vector<iovec> pieces) {
    std::size_t first = 0;
    while (first < pieces.size()) {
        if (pieces[first].iov_len == 0) {
            ++first;
            continue;
        }
        // A call takes a limited number of pieces and bytes.
        std::size_t count = 0;
        std::int64_t bytes = 0;
        while (first + count < pieces.size() && count < IOV_MAX && bytes < kCallBytes) {
            bytes += static_cast<std::int64_t>(pieces[first + count].iov_len);
            ++count;
        }
        const ssize_t put = ::pwritev(fd_.get(), &pieces[first], static_cast<int>(count), offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) fail_errno(put < 0 ? errno : ENOSPC);
        offset += put;
        for (auto left = static_cast<std::size_t>(put); left > 0;) {
            iovec& piece = pieces[first];
            const std::size_t step = std::min(left, piece.iov_len);
            piece.iov_base = static_cast<char*>(piece.iov_base) + step;
            piece.iov_len -= step;
            left -= step;
            if (piece.iov_len == 0) ++first;
        }
    }
}

void AtomicFile::sync() {
    if (::fsync(fd_.get()) != 0) fail_errno(errno);
}

void AtomicFile::give_name() {
    if (!temporary_.empty()) return;
    const std::string name = temporary_name(folder_);
    if (::linkat(AT_FDCWD, working_path_.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) fail_errno(errno);
    temporary_ = name;
}

void AtomicFile::commit() {
    struct stat old {};
    if (::stat(target_.c_str(), &old) == 0) (void)::fchmod(fd_.get(), old.st_mode & 07777);  // best effort
    sync();
    // A nameless file can be linked but cannot replace another: it gets a name for the moment before the rename.
    give_name();
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_errno(errno);
    temporary_.clear();
    // The rename itself reaches the disk with the folder; some file systems refuse this, and it is only durability.
    const FileDescriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.get() >= 0) (void)::fsync(folder.get());
}

void write_file(const std::string& path, std::span<const std::byte> contents) {
    AtomicFile file(path);
    file.reserve(static_cast<std::int64_t>(contents.size()));
    file.write_at(0, contents.data(), static_cast<std::int64_t>(contents.size()));
    file.commit();
}

}  // namespace tessera

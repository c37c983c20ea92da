#pragma once
// Files as io needs them: positioned reads with exact errors, and writes that appear whole or not at all.

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/io/file.hpp"

namespace TESSERA_API tessera {

/// A file descriptor that closes itself.
class FileDescriptor {
  public:
    explicit FileDescriptor(int fd = -1) : fd_(fd) {}
    FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    FileDescriptor& operator=(FileDescriptor&& other) noexcept;
    ~FileDescriptor();
    int get() const { return fd_; }

  private:
    int fd_;
};

/// A regular file, open for reading from several threads.
class InputFile {
  public:
    /// UserError when there is no such file or it may not be read.
    explicit InputFile(const std::string& path);
    /// One that is open.
    InputFile(const std::string& path, FileDescriptor open) : path_(path), fd_(std::move(open)) {}
    const std::string& path() const { return path_; }
    std::int64_t bytes() const { return bytes_; }
    int descriptor() const { return fd_.get(); }
    /// Exactly these bytes, or a UserError (the file ends before) or MachineError (the disk fails).
    void read_at(std::int64_t offset, void* data, std::int64_t bytes) const;

  private:
    std::string path_;
    FileDescriptor fd_;
    std::int64_t bytes_ = 0;
};

/// A file being written. It has no name until commit() where the system can do that (O_TMPFILE), else a hidden
/// temporary one: a failed or killed write leaves the old file.
class AtomicFile {
  public:
    explicit AtomicFile(const std::string& path);
    /// A part in another process's unfinished file, by its descriptor: written here, committed there.
    AtomicFile(const std::string& path, FileDescriptor part) : path_(path), fd_(std::move(part)) {}
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile();

    /// A name under which a library can open the unfinished file.
    const std::string& working_path() const { return working_path_; }
    /// Takes disk space now, so that a full disk is known before the work.
    void reserve(std::int64_t bytes);
    void write_at(std::int64_t offset, const void* data, std::int64_t bytes);
    /// Pieces back to back in the file, from wherever they lie in memory.
    void write_at(std::int64_t offset, std::vector<iovec> pieces);
    void sync();
    /// To disk (fsync), then under its name in one step.
    void commit();
    int descriptor() const { return fd_.get(); }
    bool has_name() const { return !temporary_.empty(); }
    const std::string& name() const { return temporary_; }
    /// Gives a nameless file a hidden temporary name, by which other processes find it.
    void give_name();
    /// The error to throw when another library failed to write to working_path().
    [[noreturn]] void fail(const std::string& reason) const;

  private:
    [[noreturn]] void fail_errno(int error) const;
    std::string path_, target_, folder_, working_path_, temporary_;  // temporary_: empty while the file has no name
    FileDescriptor fd_;
};

/// The whole of a small file in one go, atomically.
void write_file(const std::string& path, std::span<const std::byte> contents);

}  // namespace tessera

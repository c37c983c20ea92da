#pragma once
// Pieces of one buffer, handed out round and round: freed in any order, used again in the order they were taken.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

namespace tessera {

class StagingRing {
  public:
    static constexpr std::int64_t kAlignment = 256;
    explicit StagingRing(std::int64_t bytes) : bytes_(bytes) {}
    std::int64_t bytes() const { return bytes_; }

    /// Offset of a free piece, if there is one now.
    std::optional<std::int64_t> try_take(std::int64_t bytes);
    /// Waits for one; nothing when `stop` says so.
    std::optional<std::int64_t> take(std::int64_t bytes, const std::function<bool()>& stop);
    void give(std::int64_t offset);

  private:
    struct Piece {
        std::int64_t offset, end;
        bool free;
    };
    std::optional<std::int64_t> find(std::int64_t bytes);
    std::int64_t bytes_;
    std::mutex mutex_;
    std::condition_variable given_;
    std::deque<Piece> pieces_;
};

}  // namespace tessera

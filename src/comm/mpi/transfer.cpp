#include "comm/mpi/transfer.hpp"

#include <cstring>

#include "base/check.hpp"
#include "storage/buffer.hpp"

namespace tessera {

void check_mpi(int code, const char* what) {
    if (code == MPI_SUCCESS) [[likely]]
        return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw MachineError(fmt::format("MPI: {}: {}", what, text));
}

namespace {

/// Pieces shorter than this on average are copied into one block: describing them to MPI costs more than the copy.
constexpr std::int64_t kCopyBelow = 1024;

/// Pieces without the empty ones, and neighbours joined.
std::vector<MessagePiece> joined(std::span<const MessagePiece> pieces) {
    std::vector<MessagePiece> out;
    out.reserve(pieces.size());
    for (const auto& piece : pieces) {
        require(piece.bytes >= 0 && (piece.bytes == 0 || piece.data), "message: a piece of {} bytes at {}", piece.bytes,
                static_cast<const void*>(piece.data));
        if (piece.bytes == 0) continue;
        if (!out.empty() && static_cast<char*>(out.back().data) + out.back().bytes == piece.data)
            out.back().bytes += piece.bytes;
        else
            out.push_back(piece);
    }
    return out;
}

/// Cuts a list of pieces into lists of `limit` bytes each.
class PartCutter {
  public:
    explicit PartCutter(std::span<const MessagePiece> pieces) : pieces_(pieces) {}
    /// The next `limit` bytes or what is left; empty at the end.
    std::vector<MessagePiece> next(std::int64_t limit) {
        std::vector<MessagePiece> part;
        while (limit > 0 && at_ < pieces_.size()) {
            const auto& piece = pieces_[at_];
            const std::int64_t n = std::min(limit, piece.bytes - taken_);
            part.push_back({static_cast<char*>(piece.data) + taken_, n});
            limit -= n;
            taken_ += n;
            if (taken_ == piece.bytes) ++at_, taken_ = 0;
        }
        return part;
    }

  private:
    std::span<const MessagePiece> pieces_;
    std::size_t at_ = 0;
    std::int64_t taken_ = 0;  // of the piece at at_
};

class MpiTransfer final : public Transfer {
  public:
    MpiTransfer(MPI_Comm ranks, Way way, int peer, int tag, std::span<const MessagePiece> given, std::int64_t limit)
        : way_(way) {
        auto pieces = joined(given);
        for (const auto& piece : pieces) bytes_ += piece.bytes;
        limit_ = limit;
        if (pieces.size() > 1 && bytes_ / static_cast<std::int64_t>(pieces.size()) < kCopyBelow) {
            block_ = Buffer(bytes_, nullptr, "message");
            if (way == Way::send) {
                copy(pieces, true);
                pieces.clear();
            } else {
                scattered_ = std::move(pieces);
            }
            pieces.assign(1, {block_.data(), bytes_});
        }
        PartCutter cutter(pieces);
        const std::int64_t parts = bytes_ == 0 ? 1 : (bytes_ + limit - 1) / limit;
        requests_.reserve(static_cast<std::size_t>(parts));
        for (std::int64_t p = 0; p < parts; ++p) start(ranks, peer, tag, cutter.next(limit));
    }
    MpiTransfer(const MpiTransfer&) = delete;
    MpiTransfer& operator=(const MpiTransfer&) = delete;

    ~MpiTransfer() override {
        // Only on the way out of a failure: MPI must not write to memory that is about to go.
        for (std::size_t i = first_; i < requests_.size(); ++i) {
            if (requests_[i] == MPI_REQUEST_NULL) continue;
            if (way_ == Way::receive) MPI_Cancel(&requests_[i]);
            MPI_Request_free(&requests_[i]);
        }
    }

    bool done() override {
        for (; first_ < requests_.size(); ++first_) {
            int flag = 0;
            MPI_Status status;
            check_mpi(MPI_Test(&requests_[first_], &flag, &status), "message");
            if (!flag) return false;
            if (way_ == Way::receive) count(status);
        }
        if (!scattered_.empty()) {
            copy(scattered_, false);
            scattered_.clear();
        }
        return true;
    }

  private:
    void start(MPI_Comm ranks, int peer, int tag, const std::vector<MessagePiece>& part) {
        requests_.push_back(MPI_REQUEST_NULL);
        MPI_Request* request = &requests_.back();
        if (part.size() <= 1) {
            const int count = part.empty() ? 0 : static_cast<int>(part[0].bytes);
            post(ranks, peer, tag, part.empty() ? nullptr : part[0].data, count, MPI_BYTE, request);
            return;
        }
        std::vector<int> lengths;
        std::vector<MPI_Aint> places;
        lengths.reserve(part.size());
        places.reserve(part.size());
        for (const auto& piece : part) {
            lengths.push_back(static_cast<int>(piece.bytes));
            places.emplace_back();
            check_mpi(MPI_Get_address(piece.data, &places.back()), "message");
        }
        MPI_Datatype type;
        check_mpi(
            MPI_Type_create_hindexed(static_cast<int>(part.size()), lengths.data(), places.data(), MPI_BYTE, &type),
            "message");
        check_mpi(MPI_Type_commit(&type), "message");
        post(ranks, peer, tag, MPI_BOTTOM, 1, type, request);
        check_mpi(MPI_Type_free(&type), "message");  // in effect once the transfer is over
    }

    void post(MPI_Comm ranks, int peer, int tag, void* data, int count, MPI_Datatype type, MPI_Request* request) const {
        if (way_ == Way::send)
            check_mpi(MPI_Isend(data, count, type, peer, tag, ranks, request), "send");
        else
            check_mpi(MPI_Irecv(data, count, type, peer, tag, ranks, request), "receive");
    }

    /// A message shorter than its place would leave old bytes behind it.
    void count(const MPI_Status& status) const {
        int got = 0;
        check_mpi(MPI_Get_count(&status, MPI_BYTE, &got), "receive");
        const auto before = static_cast<std::int64_t>(first_) * limit_;
        const std::int64_t expected = std::min(limit_, bytes_ - before);
        ensure(got == expected, "a message of {} bytes came from rank {} where {} were expected", got,
               status.MPI_SOURCE, expected);
    }

    /// Between pieces and the block.
    void copy(std::span<const MessagePiece> pieces, bool into_block) {
        std::byte* at = block_.data();
        for (const auto& piece : pieces) {
            const auto n = static_cast<std::size_t>(piece.bytes);
            if (into_block)
                std::memcpy(at, piece.data, n);
            else
                std::memcpy(piece.data, at, n);
            at += n;
        }
    }

    Way way_;
    std::int64_t bytes_ = 0, limit_ = 0;
    Buffer block_;                         // of many small pieces
    std::vector<MessagePiece> scattered_;  // where a received block goes
    std::vector<MPI_Request> requests_;
    std::size_t first_ = 0;  // request that is not over
};

}  // namespace

std::unique_ptr<Transfer> start_transfer(MPI_Comm ranks, Way way, int peer, int tag,
                                         std::span<const MessagePiece> pieces, std::int64_t limit) {
    return std::make_unique<MpiTransfer>(ranks, way, peer, tag, pieces, limit);
}

}  // namespace tessera

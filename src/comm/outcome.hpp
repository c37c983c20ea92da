#pragma once
// Work that one rank does for all: all of them learn whether it failed, and fail alike.

#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "tessera/base/api.hpp"
#include "tessera/comm/communicator.hpp"

namespace TESSERA_API tessera {

/// Tells everyone what the root's error was (code 0: none) and throws it everywhere.
inline void share_outcome(Communicator& ranks, int root, int code, const std::string& message) {
    std::vector<std::byte> bytes(1 + message.size());
    bytes[0] = static_cast<std::byte>(code);
    if (!message.empty()) std::memcpy(bytes.data() + 1, message.data(), message.size());
    ranks.broadcast(bytes, root);
    const std::string text(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
    switch (static_cast<int>(bytes[0])) {
        case 0:
            return;
        case 2:
            throw UserError(text);
        case 3:
            throw MachineError(text);
        default:
            throw InternalError(text);
    }
}

/// Exit code and message of what the work threw; 0 where it did not. What is not Tessera's comes from a caller's code
/// (a generator) and keeps its own words.
template <class Work>
std::pair<int, std::string> outcome_of(Work&& work) {
    try {
        work();
    } catch (const Error& e) {
        return {e.exit_code(), e.what()};
    } catch (const std::bad_alloc&) {
        return {3, "out of memory"};
    } catch (const std::exception& e) {
        return {70, e.what()};
    }
    return {0, ""};
}

/// What went wrong so far on the rank that does the work; the first error counts.
class Outcome {
  public:
    /// Does it unless something has gone wrong before.
    template <class Work>
    void attempt(Work&& work) {
        if (code_ == 0) std::tie(code_, message_) = outcome_of(work);
    }
    bool failed() const { return code_ != 0; }
    /// Collective: throws on every rank what went wrong on the root.
    void share(Communicator& ranks, int root) const { share_outcome(ranks, root, code_, message_); }
    /// Collective: throws on every rank what went wrong on the first rank on which something did.
    void share_all(Communicator& ranks) const {
        std::vector<std::int64_t> failed(static_cast<std::size_t>(ranks.size()));
        failed[static_cast<std::size_t>(ranks.rank())] = code_ != 0;
        ranks.sum(std::span<std::int64_t>(failed));
        for (int root = 0; root < ranks.size(); ++root)
            if (failed[static_cast<std::size_t>(root)]) share_outcome(ranks, root, code_, message_);
    }

  private:
    int code_ = 0;
    std::string message_;
};

}  // namespace tessera

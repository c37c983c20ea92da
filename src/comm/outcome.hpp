#pragma once
// Work that one rank does for all: all of them learn whether it failed, and fail alike.

#include <cstring>
#include <string>
#include <type_traits>

#include "base/check.hpp"
#include "tessera/comm/communicator.hpp"

namespace tessera {

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

/// What went wrong so far on the rank that does the work; the first error counts.
class Outcome {
  public:
    /// Does it unless something has gone wrong before.
    template <class Work>
    void attempt(Work&& work) {
        if (code_ != 0) return;
        try {
            work();
        } catch (const Error& e) {
            code_ = e.exit_code();
            message_ = e.what();
        } catch (const std::bad_alloc&) {
            code_ = 3;
            message_ = "out of memory";
        } catch (const std::exception& e) {
            code_ = 70;
            message_ = std::string("internal: ") + e.what();
        }
    }
    bool failed() const { return code_ != 0; }
    /// Collective: throws on every rank what went wrong on the root.
    void share(Communicator& ranks, int root) const { share_outcome(ranks, root, code_, message_); }

  private:
    int code_ = 0;
    std::string message_;
};

}  // namespace tessera

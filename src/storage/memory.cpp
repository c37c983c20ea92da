#include "tessera/storage/memory.hpp"

#include <mutex>
#include <vector>

#include "base/page_pool.hpp"
#include "storage/release.hpp"

namespace tessera {

std::int64_t kept_memory() { return PagePool::instance().kept(); }
namespace {
struct Keepers {
    std::mutex mutex;
    std::vector<void (*)() noexcept> list;
    static Keepers& instance() {
        static auto* keepers = new Keepers;
        return *keepers;
    }
};
}  // namespace

void on_release_memory(void (*give_back)() noexcept) {
    auto& keepers = Keepers::instance();
    const std::lock_guard lock(keepers.mutex);
    keepers.list.push_back(give_back);
}

void release_memory() noexcept {
    {
        auto& keepers = Keepers::instance();
        const std::lock_guard lock(keepers.mutex);
        for (const auto give_back : keepers.list) give_back();
    }
    PagePool::instance().release();
}

}  // namespace tessera

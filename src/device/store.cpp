#include "device/store.hpp"

#include <map>
#include <mutex>

#include "base/check.hpp"
#include "device/discovery.hpp"

namespace tessera {

namespace {

struct Stores {
    std::mutex mutex;
    std::map<int, std::unique_ptr<DeviceStore>> opened;
    std::vector<std::unique_ptr<DeviceStore>> stand_ins;
    bool in_use = false;
    /// Never destroyed: tensors of static storage may outlive it, and the driver may be gone.
    static Stores& instance() {
        static auto& stores = *new Stores;
        return stores;
    }
};

}  // namespace

DeviceStore& device_store(int device) {
    auto& s = Stores::instance();
    const std::lock_guard lock(s.mutex);
    if (s.in_use) {
        if (device < 0 || device >= static_cast<int>(s.stand_ins.size()))
            throw BackendUnavailable(fmt::format("there is no device {} among {}", device, s.stand_ins.size()));
        return *s.stand_ins[static_cast<std::size_t>(device)];
    }
    auto& store = s.opened[device];
    if (!store) {
        (void)device::info(device);  // throws, and says why
        store = open_store(device);
    }
    return *store;
}

StandInStores::StandInStores(std::vector<std::unique_ptr<DeviceStore>> stores) {
    auto& s = Stores::instance();
    const std::lock_guard lock(s.mutex);
    ensure(!s.in_use, "stand-ins of devices are in use");
    s.stand_ins = std::move(stores);
    s.in_use = true;
}

StandInStores::~StandInStores() {
    auto& s = Stores::instance();
    const std::lock_guard lock(s.mutex);
    s.stand_ins.clear();
    s.in_use = false;
}

bool StandInStores::in_use() {
    auto& s = Stores::instance();
    const std::lock_guard lock(s.mutex);
    return s.in_use;
}

}  // namespace tessera

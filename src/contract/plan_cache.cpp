#include "contract/plan_cache.hpp"

#include <algorithm>
#include <bit>

#include "base/hash.hpp"
#include "storage/release.hpp"

namespace tessera {

namespace {

/// Minus zero is another factor than zero.
bool same_bits(std::complex<double> x, std::complex<double> y) {
    const auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
    return bits(x.real()) == bits(y.real()) && bits(x.imag()) == bits(y.imag());
}

bool same_tiles(const std::optional<Shape>& kept, const Shape* now) {
    return kept.has_value() == (now != nullptr) && (!now || kept->same_tiles(*now));
}

const Shape* shape_of(const OperandShape* x) { return x ? x->shape : nullptr; }

}  // namespace

bool PlanKey::complete() const {
    const auto on_host = [](const OperandShape* x) { return !x || x->devices.empty(); };
    const bool hosts = on_host(&a) && on_host(&b) && on_host(c) && here.devices.empty() && here.device_memory == 0;
    return (hosts || resident()) && options.filter == 0 && options.bounds.empty() && ranks.size() == 1 &&
           here.machine.empty();
}

bool PlanKey::resident() const {
    const auto there = [&](const OperandShape* x) {
        return !x || (x->devices == a.devices && std::ranges::all_of(x->homes, [](auto home) { return home == 0; }));
    };
    return a.devices.size() == 1 && there(&a) && there(&b) && there(c) &&
           (here.devices.empty() || here.devices == a.devices);
}

std::uint64_t PlanKey::hash() const {
    std::uint64_t h = spec.size();
    for (const char letter : spec) h = (h ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    const auto add = [&](std::uint64_t x) { h = combine(h, x); };
    add(a.shape->tiles_hash());
    add(b.shape->tiles_hash());
    add(c ? c->shape->tiles_hash() : 0);
    add(options.result_shape ? options.result_shape->tiles_hash() : 0);
    for (const auto& factor : {options.alpha, options.beta}) {
        add(std::bit_cast<std::uint64_t>(factor.real()));
        add(std::bit_cast<std::uint64_t>(factor.imag()));
    }
    add(static_cast<std::uint64_t>(scalar) | static_cast<std::uint64_t>(options.conjugates(0)) << 8 |
        static_cast<std::uint64_t>(options.conjugates(1)) << 9 | static_cast<std::uint64_t>(options.strict) << 10 |
        static_cast<std::uint64_t>(how.algorithm) << 16 | static_cast<std::uint64_t>(a.source) << 24 |
        static_cast<std::uint64_t>(b.source) << 28 | static_cast<std::uint64_t>(here.threads) << 32);
    add(static_cast<std::uint64_t>(here.memory));
    add(options.result_symmetry.elements().size() << 1 | static_cast<std::uint64_t>(options.fold));
    return h;
}

bool PlanCache::Entry::is(const PlanKey& key) const {
    const auto& p = planned.impl();
    const auto &was = p.options, &now = key.options;
    return spec == key.spec && p.plan.scalar == key.scalar && p.ranks == &key.ranks &&
           p.here.communicator == key.here.communicator && p.here.threads == key.here.threads &&
           p.here.memory == key.here.memory && p.here.devices == key.a.devices &&
           p.here.device_memory == key.here.device_memory && was.result_on_devices == now.result_on_devices &&
           source_a == key.a.source && source_b == key.b.source && same_bits(was.alpha, now.alpha) &&
           same_bits(was.beta, now.beta) && was.conjugates(0) == now.conjugates(0) &&
           was.conjugates(1) == now.conjugates(1) && was.result_distribution == now.result_distribution &&
           was.result_symmetry == now.result_symmetry && was.fold == now.fold && was.strict == now.strict &&
           p.how == key.how && p.shape_a().same_tiles(*key.a.shape) && p.shape_b().same_tiles(*key.b.shape) &&
           same_tiles(c, shape_of(key.c)) && same_tiles(given, now.result_shape);
}

PlanCache& PlanCache::instance() {
    static PlanCache* const cache = [] {
        const KeptPlans usual;
        auto* made = new PlanCache(usual.most_plans, usual.most_bytes);  // stays, as pools do
        on_release_memory([]() noexcept { instance().clear(); });
        return made;
    }();
    return *cache;
}

std::optional<PlannedContraction> PlanCache::find(const PlanKey& key) {
    const auto hash = key.hash();
    std::shared_ptr<const Entry> entry;
    {
        const std::lock_guard lock(mutex_);
        const auto at = by_hash_.find(hash);
        if (at == by_hash_.end()) return std::nullopt;
        entries_.splice(entries_.begin(), entries_, at->second);
        entry = *at->second;
    }
    if (!entry->is(key)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    ++now_.found;
    return entry->planned;
}

void PlanCache::keep(const PlanKey& key, const PlannedContraction& planned) {
    const auto& p = planned.impl();
    const auto copy = [](const Shape* shape) { return shape ? std::optional(*shape) : std::nullopt; };
    auto entry = std::make_shared<Entry>(Entry{key.hash(), std::string(key.spec), key.a.source, key.b.source,
                                               copy(shape_of(key.c)), copy(key.options.result_shape), planned, 0});
    const auto bytes = [](const std::optional<Shape>& shape) { return shape ? shape->metadata_bytes() : 0; };
    entry->bytes = static_cast<std::int64_t>(sizeof(Entry) + sizeof(PlannedContraction::Impl)) +
                   p.plan.metadata_bytes() + bytes(p.original_a) + bytes(p.original_b) + bytes(entry->c) +
                   bytes(entry->given) + (p.layouts ? p.layouts->bytes() : 0) +
                   (p.result_places ? p.result_places->bytes() : 0);
    Entries gone;  // given up outside of the lock
    const std::lock_guard lock(mutex_);
    ++now_.made;
    if (entry->bytes > now_.most_bytes) return;
    const auto drop = [&](Entries::iterator at) {
        now_.bytes -= (*at)->bytes;
        --now_.plans;
        by_hash_.erase((*at)->hash);
        gone.splice(gone.begin(), entries_, at);
    };
    if (const auto same = by_hash_.find(entry->hash); same != by_hash_.end()) drop(same->second);
    while (now_.plans >= now_.most_plans || now_.bytes + entry->bytes > now_.most_bytes)
        drop(std::prev(entries_.end()));
    now_.bytes += entry->bytes;
    ++now_.plans;
    entries_.push_front(entry);
    by_hash_.emplace(entry->hash, entries_.begin());
}

void PlanCache::clear() noexcept {
    Entries gone;
    const std::lock_guard lock(mutex_);
    gone.swap(entries_);
    by_hash_.clear();
    now_.plans = now_.bytes = 0;
}

KeptPlans PlanCache::kept() const {
    const std::lock_guard lock(mutex_);
    return now_;
}

KeptPlans kept_plans() { return PlanCache::instance().kept(); }

}  // namespace tessera

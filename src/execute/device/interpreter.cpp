#include "execute/device/interpreter.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "execute/device/pieces.hpp"
#include "plan/lane_of.hpp"

namespace tessera {

namespace {
constexpr std::int64_t kElement[] = {4, 8, 8, 16};
constexpr std::int64_t kMostOutBytes = std::int64_t{384} << 20;
}  // namespace

template <Scalar T>
DeviceInterpreter<T>::DeviceInterpreter(std::span<const std::unique_ptr<Device>> devices, const Plan& plan, int rank,
                                        const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                                        const ExecuteOptions<T>& options, const DeviceOptions& device_options)
    : plan_(plan),
      rank_(rank),
      c_(c),
      options_(options),
      device_options_(device_options),
      spec_(plan.spec),
      labels_(spec_),
      tiles_a_(plan.a, plan.views_a, spec_.a(), labels_.m, labels_.k, labels_.batch, sizeof(T)),
      tiles_b_(plan.b, plan.views_b, spec_.b(), labels_.k, labels_.n, labels_.batch, sizeof(T)),
      tiles_c_(plan.c, {}, spec_.c(), labels_.m, labels_.n, labels_.batch, sizeof(T)),
      host_(plan, rank, a, b, c, options),
      progress_(options.progress, plan.rank_counts.at(static_cast<std::size_t>(rank)).flops),
      scheduler_(plan, rank, static_cast<int>(devices.size()), [this](std::int32_t s) { host_ready(s); }),
      board_(plan.ranks > 1 ? plan.steps.size() : 0) {
    static_assert(sizeof(T) == kElement[static_cast<int>(ScalarTraits<T>::kind)]);
    ensure(plan.scalar == ScalarTraits<T>::kind, "a plan for {} is run with {}", name(plan.scalar),
           name(ScalarTraits<T>::kind));
    ensure(static_cast<int>(devices.size()) == plan.devices_per_rank, "a plan for {} devices is run on {}",
           plan.devices_per_rank, devices.size());
    for (const auto& d : devices) {
        auto& e = *entries_.emplace_back(std::make_unique<Entry>());
        e.device = d.get();
        for (int l = 0; l < kLaneCount; ++l) {
            e.streams[l] = std::make_unique<StreamQueue>(*d, static_cast<Lane>(l));
            e.waited[l].assign(devices.size() * kLaneCount, 0);
        }
    }
    find_fused_sums();
    make_rings();
    if (device_options.trace) device_spans_.resize(plan.steps.size());
}

template <Scalar T>
DeviceInterpreter<T>::~DeviceInterpreter() {
    shut_down();
}

/// A sum that arrives once and is then complete is finished on arrival, while it is in the caches.
template <Scalar T>
void DeviceInterpreter<T>::find_fused_sums() {
    std::vector<std::uint8_t> stores(plan_.sums.size()), others(plan_.sums.size());
    fused_.assign(plan_.sums.size(), 0);
    written_.assign(plan_.sums.size(), 0);
    for (const auto& s : plan_.steps) {
        if (s.rank != rank_) continue;
        if ((s.kind == StepKind::store && s.peer >= 0) || (s.kind == StepKind::merge && s.device >= 0)) continue;
        if (s.kind == StepKind::store || s.kind == StepKind::merge || s.kind == StepKind::receive_sums) {
            auto& count = s.kind == StepKind::store ? stores : others;
            for (auto m = s.begin; m < s.end; ++m) {
                auto& n = count[plan_.moves[m].to];
                n = static_cast<std::uint8_t>(std::min(2, n + 1));
                written_[plan_.moves[m].to] = 1;
            }
        }
        if (s.kind == StepKind::compute && s.device < 0)
            for (auto i = s.begin; i < s.end; ++i)
                written_[static_cast<std::size_t>(plan_.chains[static_cast<std::size_t>(i)].sum)] = 1;
        if (s.kind == StepKind::finish)
            for (auto f = s.begin; f < s.end; ++f) fused_[plan_.finish_sums[f]] = 1;
    }
    for (std::size_t i = 0; i < plan_.sums.size(); ++i) fused_[i] = fused_[i] && stores[i] == 1 && others[i] == 0;
}

template <Scalar T>
int DeviceInterpreter<T>::workers() const {
    return resolve_threads(device_options_.threads > 0 ? device_options_.threads : plan_.threads);
}

template <Scalar T>
void DeviceInterpreter<T>::make_rings() {
    const auto share =
        device_options_.staging_bytes / static_cast<std::int64_t>(std::max<std::size_t>(1, entries_.size()));
    const auto pin = [&](Entry& e, Staging& s, std::int64_t bytes) {
        bytes = align_up(bytes, StagingRing::kAlignment);
        s.memory = e.device->pinned(bytes);
        s.ring.emplace(bytes);
        pinned_bytes_ += bytes;
    };
    for (std::size_t d = 0; d < entries_.size(); ++d) {
        auto& e = *entries_[d];
        std::int64_t loads = 0, stores = 0, largest_in = 0, largest_out = 0;
        for (const auto& s : plan_.steps) {
            if (s.rank != rank_ || s.device != static_cast<int>(d)) continue;
            if (s.kind == StepKind::load)
                for (auto i = s.begin; i < s.end; ++i) {
                    const auto& arrival = plan_.arrivals[i];
                    loads += arrival.bytes;
                    largest_in = std::max(largest_in, largest_piece(tiles(arrival.operand)[arrival.slot], sizeof(T)));
                }
            if (s.kind == StepKind::store && s.peer < 0)
                for (auto i = s.begin; i < s.end; ++i) {
                    const auto& l = tiles_c_[plan_.sums[plan_.moves[i].from].c];
                    stores += l.bytes;
                    largest_out =
                        std::max(largest_out, cut_at_rows(plan_.moves[i]) ? largest_piece(l, sizeof(T)) : l.bytes);
                }
        }
        largest_in = std::max(largest_in, std::min(kPieceBytes, loads));
        largest_out = std::max(largest_out, std::min(kPieceBytes, stores));
        if (loads > 0) pin(e, e.in, std::max(largest_in, std::min(loads, std::max(share * 2 / 5, 3 * largest_in))));
        // A piece stays in the ring until one worker has unpacked it (a tile that is handed over: finished it).
        const auto at_work = std::min(kMostOutBytes / static_cast<std::int64_t>(entries_.size()),
                                      static_cast<std::int64_t>(workers() + 4) * largest_out);
        if (stores > 0)
            pin(e, e.out, std::max(largest_out, std::min(stores, std::max({share * 3 / 5, 3 * largest_out, at_work}))));
        pin(e, e.images, e.device->reserve_bytes() / StagingRing::kAlignment * StagingRing::kAlignment);
    }
}

template <Scalar T>
template <class Body>
void DeviceInterpreter<T>::guarded(Body&& body) {
    try {
        body();
    } catch (...) {
        scheduler_.fail(std::current_exception());
    }
}

template <Scalar T>
void DeviceInterpreter<T>::start_threads() {
    watching_ = true;
    watcher_ = std::thread([this] { watch(); });
    std::array<bool, kLaneCount> none{};
    std::vector<std::array<bool, kLaneCount>> used(entries_.size(), none);
    for (const auto& s : plan_.steps) {
        const auto lane = lane_of(s);
        if (s.rank == rank_ && lane) used[static_cast<std::size_t>(s.device)][static_cast<int>(*lane)] = true;
    }
    const auto lane = [&](int d, Lane l, void (DeviceInterpreter::*body)(int)) {
        if (!used[static_cast<std::size_t>(d)][static_cast<int>(l)]) return;
        lanes_.emplace_back([this, d, body] { guarded([&] { (this->*body)(d); }); });
    };
    for (int d = 0; d < static_cast<int>(entries_.size()); ++d) {
        lane(d, Lane::load, &DeviceInterpreter::load_lane);
        lane(d, Lane::make, &DeviceInterpreter::make_lane);
        lane(d, Lane::compute, &DeviceInterpreter::compute_lane);
        lane(d, Lane::store, &DeviceInterpreter::store_lane);
        lane(d, Lane::copy, &DeviceInterpreter::copy_lane);
    }
}

/// Looks at the streams in turn: what was reached frees staging memory, starts unpacking, and lets host steps go on.
template <Scalar T>
void DeviceInterpreter<T>::watch() {
    guarded([&] {
        while (watching_ && !scheduler_.failed()) {
            bool any = false;
            for (const auto& e : entries_)
                for (const auto& s : e->streams) any |= s->poll(device_options_.trace);
            if (messages_) any |= poll_messages();
            if (!any) std::this_thread::sleep_for(std::chrono::microseconds(10));
        }
    });
    if (scheduler_.failed()) board_.fail();  // the thread that moves messages sees this
}

template <Scalar T>
DeviceExecuteCounts DeviceInterpreter<T>::run() {
    start_ = now_seconds();
    try {
        pool_.emplace(workers(), [this](std::exception_ptr e) { scheduler_.fail(std::move(e)); });
        start_messages();
        start_threads();
        scheduler_.start();
    } catch (...) {
        scheduler_.fail(std::current_exception());
        board_.fail();
    }
    std::exception_ptr failure;
    try {
        if (messages_) messages_->move_by_caller();
        scheduler_.wait();
    } catch (...) {
        failure = std::current_exception();
    }
    if (messages_ && failure) board_.fail();
    shut_down();
    if (failure) std::rethrow_exception(failure);
    progress_.end();

    DeviceExecuteCounts counts;
    if (messages_) {
        messages_->finish();
        messages_->count(counts.host);
    }
    counts.host.made_tiles = host_.made_tiles();
    counts.host.arena_bytes = host_.arena_bytes();
    counts.pinned_bytes = pinned_bytes_;
    for (const auto& e : entries_) {
        auto& r = counts.devices.emplace_back(e->run);
        r.descriptor_bytes = e->descriptor_bytes;
        r.launches = e->launches;
        r.high_water = e->device->high_water();
    }
    if (device_options_.trace) counts.trace = trace();
    return counts;
}

/// After this no thread and no copy touches anything of ours.
template <Scalar T>
void DeviceInterpreter<T>::shut_down() noexcept {
    for (auto& t : lanes_)
        if (t.joinable()) t.join();
    watching_ = false;
    if (watcher_.joinable()) watcher_.join();
    if (pool_) pool_->stop();
    for (const auto& e : entries_)
        if (e->device) e->device->drain();
}

template <Scalar T>
void DeviceInterpreter<T>::begin_step(int d, Lane lane, std::int32_t step) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto own = stream_of(d, lane);
    auto& waited = e.waited[static_cast<int>(lane)];
    for (const auto& p : scheduler_.waits(step)) {
        if (p.stream == own || waited[static_cast<std::size_t>(p.stream)] >= p.ticket) continue;
        stream(p.stream).hold(*e.device, lane, p.ticket);
        waited[static_cast<std::size_t>(p.stream)] = p.ticket;
    }
    if (device_options_.trace)
        e.streams[static_cast<int>(lane)]->mark(
            [this, step](double t) { device_spans_[static_cast<std::size_t>(step)].start = t - start_; });
}

template <Scalar T>
void DeviceInterpreter<T>::end_step(int d, Lane lane, std::int32_t step, std::int64_t bytes, double flops,
                                    const std::function<void()>& reached) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto ticket = e.streams[static_cast<int>(lane)]->mark([this, d, lane, step, bytes, flops, reached](double t) {
        if (device_options_.trace) {
            auto& span = device_spans_[static_cast<std::size_t>(step)];
            span = {stream_of(d, lane), step,       plan_.steps[static_cast<std::size_t>(step)].kind,
                    span.start,         t - start_, flops > 0 ? flops : static_cast<double>(bytes)};
        }
        if (flops > 0) progress_.add(flops);
        if (reached)
            reached();
        else
            scheduler_.done(step);
    });
    scheduler_.issued(step, {stream_of(d, lane), ticket});
}

template <Scalar T>
void DeviceInterpreter<T>::note_host(std::int32_t step, StepKind kind, int thread, double begin, double amount) {
    const std::lock_guard lock(host_spans_mutex_);
    host_spans_.push_back({thread, step, kind, begin - start_, now_seconds() - start_, amount});
}

template <Scalar T>
Trace DeviceInterpreter<T>::trace() const {
    Trace out;
    std::map<std::pair<int, int>, std::int32_t> lanes;  // kind and number
    const auto line = [&](LaneKind kind, int index) {
        const auto [at, fresh] = lanes.try_emplace({static_cast<int>(kind), index}, static_cast<int>(out.lanes.size()));
        if (fresh) out.lanes.push_back({rank_, kind, index});
        return at->second;
    };
    for (auto span : device_spans_) {
        if (span.end <= 0) continue;
        span.lane = line(trace_line(static_cast<Lane>(span.lane % kLaneCount)), span.lane / kLaneCount);
        out.spans.push_back(span);
    }
    for (auto span : host_spans_) {
        span.lane = line(LaneKind::core, span.lane);
        out.spans.push_back(span);
    }
    return out;
}

// Host steps ---------------------------------------------------------------------------------------------------------

template <Scalar T>
void DeviceInterpreter<T>::host_ready(std::int32_t step) {
    const auto& s = plan_.steps[static_cast<std::size_t>(step)];
    std::vector<WorkerPool::Task> tasks;
    switch (s.kind) {
        case StepKind::make:
            for (auto i = s.begin; i < s.end; ++i)
                tasks.emplace_back([this, i](Scratch&) { host_.make(plan_.arrivals[static_cast<std::size_t>(i)]); });
            break;
        case StepKind::compute:
            // Result tiles that no product reaches: the planner leaves them to the host.
            for (auto i = s.begin; i < s.end; ++i) {
                const auto& chain = plan_.chains[static_cast<std::size_t>(i)];
                if (chain.products != 0) {
                    scheduler_.fail(std::make_exception_ptr(InternalError(
                        fmt::format("internal: step {} multiplies on the host of a rank with devices", step))));
                    return;
                }
                tasks.emplace_back([this, &chain](Scratch&) {
                    const auto slot = plan_.sums[static_cast<std::size_t>(chain.sum)].c;
                    host_.zero(slot, host_.sum(chain.sum));
                    if (chain.finishes) host_.finish(slot);
                });
            }
            break;
        case StepKind::merge:
            // One after another: they are a tree.
            tasks.emplace_back([this, &s](Scratch&) {
                for (auto i = s.begin; i < s.end; ++i) host_.merge(plan_.moves[static_cast<std::size_t>(i)]);
            });
            break;
        case StepKind::finish:
            for (auto i = s.begin; i < s.end; ++i) {
                const auto sum = plan_.finish_sums[static_cast<std::size_t>(i)];
                if (fused_[static_cast<std::size_t>(sum)]) continue;
                tasks.emplace_back([this, sum](Scratch&) {
                    const auto slot = plan_.sums[static_cast<std::size_t>(sum)].c;
                    if (!written_[static_cast<std::size_t>(sum)]) host_.zero(slot, host_.result(slot));
                    host_.finish(slot);
                });
            }
            break;
        case StepKind::send:
        case StepKind::receive:
        case StepKind::send_sums:
        case StepKind::receive_sums: {
            for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
                board_.mark(plan_.dependencies[static_cast<std::size_t>(d)]);
            const std::lock_guard lock(messages_mutex_);
            open_messages_.push_back(step);
            return;
        }
        default:
            scheduler_.fail(std::make_exception_ptr(
                InternalError(fmt::format("internal: step {} ({}) has no place beside devices", step, name(s.kind)))));
            return;
    }
    host_work(step, std::move(tasks));
}

template <Scalar T>
void DeviceInterpreter<T>::host_work(std::int32_t step, std::vector<WorkerPool::Task> tasks) {
    if (tasks.empty()) {
        scheduler_.done(step);
        return;
    }
    const auto open = std::make_shared<std::atomic<std::int64_t>>(static_cast<std::int64_t>(tasks.size()));
    const auto kind = plan_.steps[static_cast<std::size_t>(step)].kind;
    // Making takes long, and is mostly ahead of time: tiles that are packed or unpacked meanwhile go before it.
    const auto submit = kind == StepKind::make ? &WorkerPool::submit_later : &WorkerPool::submit;
    for (auto& task : tasks)
        ((*pool_).*submit)([this, step, kind, open, task = std::move(task)](Scratch& scratch) {
            const double begin = device_options_.trace ? now_seconds() : 0;
            task(scratch);
            if (device_options_.trace) note_host(step, kind, scratch.thread, begin, 0);
            if (open->fetch_sub(1) == 1) scheduler_.done(step);
        });
}

// Messages between ranks: moved by the thread that also serves plans without devices.

template <Scalar T>
void DeviceInterpreter<T>::start_messages() {
    if (plan_.ranks == 1) return;
    ensure(device_options_.ranks && device_options_.ranks->size() == plan_.ranks, "a plan of {} ranks on {}",
           plan_.ranks, device_options_.ranks ? device_options_.ranks->size() : 1);
    messages_.emplace(plan_, *device_options_.ranks, board_);
    messages_->start(
        [this](std::int32_t step) { return host_.message_pieces(plan_.steps[static_cast<std::size_t>(step)]); });
}

template <Scalar T>
bool DeviceInterpreter<T>::poll_messages() {
    if (board_.failed()) {
        messages_->finish();  // throws what failed
        return false;
    }
    std::vector<std::int32_t> over;
    {
        const std::lock_guard lock(messages_mutex_);
        std::erase_if(open_messages_, [&](std::int32_t step) {
            if (!board_.done(step)) return false;
            over.push_back(step);
            return true;
        });
    }
    for (const auto step : over) scheduler_.done(step);
    return !over.empty();
}

// ------------------------------------------------------------------------------------------------------------------

template class DeviceInterpreter<float>;
template class DeviceInterpreter<double>;
template class DeviceInterpreter<std::complex<float>>;
template class DeviceInterpreter<std::complex<double>>;

}  // namespace tessera

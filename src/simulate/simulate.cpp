#include "tessera/simulate/simulate.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

#include "base/check.hpp"
#include "plan/lane_of.hpp"
#include "simulate/network.hpp"
#include "simulate/shared_links.hpp"
#include "simulate/step_costs.hpp"

namespace tessera {

namespace {

bool on_threads(const PlanStep& s) {
    switch (s.kind) {
        case StepKind::compute:
        case StepKind::make:
            return s.device < 0;
        case StepKind::merge:
        case StepKind::finish:
            return s.device < 0;
        default:
            return false;
    }
}

bool is_send(StepKind k) { return k == StepKind::send || k == StepKind::send_sums; }
bool is_receive(StepKind k) { return k == StepKind::receive || k == StepKind::receive_sums; }

class Simulator {
  public:
    Simulator(const Plan& plan, const MachineModel& machine, const SimulateOptions& options);
    Simulation run();

  private:
    enum class What : std::uint8_t { part_over, step_over, flow_starts, flows_change, link_idle, receiving, received };
    struct Event {
        double time;
        std::int64_t order;  // of two events at one time the one posted first
        What what;
        std::int32_t id;     // step, rank or link
        std::int32_t extra;  // thread; version of a rank's flows
        bool operator<(const Event& o) const { return std::tie(time, order) > std::tie(o.time, o.order); }
    };
    struct Waiting {
        std::int32_t step;
        std::int64_t next;  // item
        bool operator<(const Waiting& o) const { return step > o.step; }
    };
    /// A rank's threads, its shared links, and what is going on there now.
    struct RankState {
        std::vector<std::int32_t> idle_threads;  // the lowest number last
        std::vector<Waiting> queue;              // a heap: first steps first
        double thread_seconds = 0;
        int transfers = 0, works = 0;
        double since = 0, transfer_seconds = 0, hidden_seconds = 0;
        SharedLinks links;
        std::int32_t flow_version = 0;
    };

    void index_steps();
    void match_messages();
    void post(double time, What what, std::int32_t id, std::int32_t extra = 0) {
        events_.push({time, posted_++, what, id, extra});
    }
    void ready(std::int32_t step);
    void complete(std::int32_t step) { over_.push_back(step); }
    void settle();
    void dispatch_threads(int rank);
    void start_stream(std::size_t stream);
    void begin_flow(std::int32_t step);
    void begin_work(std::int32_t step, double seconds);
    /// GPUs of a rank that several of its devices stand for; 0: each device is one.
    int shared_gpus() const {
        const int each = machine_.devices_per_gpu;
        return each > 1 ? (plan_.devices_per_rank + each - 1) / each : 0;
    }
    /// GPUs whose arithmetic several streams share: those of several devices, and, where devices make tiles beside
    /// their products, every one; 0: none.
    int arithmetic_gpus() const;
    void flows_changed(int rank);
    void start_messages();
    void account(int rank, int transfers, int works);
    double part_seconds(const PlanStep& step, std::int64_t begin, std::int64_t end) const;
    void handle(const Event& e);
    std::size_t device_of(const PlanStep& s) const;
    std::size_t stream_of(const PlanStep& s) const;
    void span(TraceLane lane, std::int32_t step, double start, double end, double amount);
    Simulation result();

    const Plan& plan_;
    const MachineModel& machine_;
    StepCosts costs_;
    Network network_;
    bool trace_;
    int threads_;
    int arithmetic_gpus_;
    GemmModel thread_gemm_;
    double now_ = 0;
    std::int64_t posted_ = 0, left_ = 0;
    std::priority_queue<Event> events_;
    std::vector<std::int32_t> waiting_;  // per step: steps it still waits for; once ready, parts under way
    std::vector<std::uint8_t> ready_;
    std::vector<std::int64_t> first_next_;  // per step + 1, into next_
    std::vector<std::int32_t> next_;
    std::vector<std::int32_t> partner_;  // per step: the send of a receive and the other way round
    std::vector<std::int64_t> first_of_stream_, at_of_stream_;
    std::vector<std::int32_t> stream_steps_;
    std::vector<std::uint8_t> stream_busy_;
    std::vector<double> started_;  // per stream: its present step
    /// How many streams of a device work now, since when any has, and how long it has worked in all.
    struct DeviceState {
        int works = 0;
        double since = 0, seconds = 0;
    };
    std::vector<DeviceState> devices_;
    std::vector<RankState> ranks_;
    std::vector<double> rank_end_;
    std::vector<std::int32_t> over_, have_work_;
    std::map<std::tuple<std::int32_t, LaneKind, std::int32_t>, std::int32_t> lane_ids_;
    Trace out_;
};

Simulator::Simulator(const Plan& plan, const MachineModel& machine, const SimulateOptions& options)
    : plan_(plan),
      machine_(machine),
      costs_(plan),
      network_(machine, plan.ranks),
      trace_(options.trace),
      threads_(std::max(1, plan.threads)),
      arithmetic_gpus_(arithmetic_gpus()),
      thread_gemm_(machine.gemm),
      left_(static_cast<std::int64_t>(plan.steps.size())) {
    thread_gemm_.flops_per_second /= threads_;
    // Devices that are one GPU have its link and its arithmetic together.
    const int gpus = shared_gpus();
    const auto host = [&](const LinkModel& own) {
        const double of_gpus = gpus * own.bytes_per_second, of_rank = machine.host_link_bytes_per_second;
        return of_gpus > 0 && (of_rank <= 0 || of_gpus < of_rank) ? of_gpus : of_rank;
    };
    const double far = machine.far_link_bytes_per_second;
    RankState state{
        {}, {}, 0,
        0,  0,  0,
        0,  0,  SharedLinks({host(machine.host_to_device), host(machine.device_to_host), far, far}, arithmetic_gpus_),
        0};
    for (int t = threads_; t-- > 0;) state.idle_threads.push_back(t);
    ranks_.assign(static_cast<std::size_t>(plan.ranks), state);
    rank_end_.resize(ranks_.size());
    index_steps();
    match_messages();
}

int Simulator::arithmetic_gpus() const {
    if (shared_gpus() > 0) return shared_gpus();
    const bool make = std::ranges::any_of(plan_.steps, [](const PlanStep& s) { return lane_of(s) == Lane::make; });
    return make && plan_.devices_per_rank <= SharedLinks::kMostGpus ? plan_.devices_per_rank : 0;
}

std::size_t Simulator::device_of(const PlanStep& s) const {
    return static_cast<std::size_t>(s.rank) * static_cast<std::size_t>(plan_.devices_per_rank) +
           static_cast<std::size_t>(s.device);
}

std::size_t Simulator::stream_of(const PlanStep& s) const {
    return device_of(s) * kLaneCount + static_cast<std::size_t>(*lane_of(s));
}

void Simulator::index_steps() {
    const auto n = plan_.steps.size();
    waiting_.resize(n);
    ready_.resize(n);
    first_next_.assign(n + 1, 0);
    const auto streams =
        static_cast<std::size_t>(plan_.ranks) * static_cast<std::size_t>(plan_.devices_per_rank) * kLaneCount;
    first_of_stream_.assign(streams + 1, 0);
    for (std::size_t i = 0; i < n; ++i) {
        const auto& s = plan_.steps[i];
        waiting_[i] = s.dependencies;
        for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
            ++first_next_[plan_.dependencies[d] + 1];
        if (lane_of(s)) ++first_of_stream_[stream_of(s) + 1];
    }
    for (std::size_t i = 0; i < n; ++i) first_next_[i + 1] += first_next_[i];
    for (std::size_t i = 0; i < streams; ++i) first_of_stream_[i + 1] += first_of_stream_[i];
    next_.resize(static_cast<std::size_t>(first_next_[n]));
    stream_steps_.resize(static_cast<std::size_t>(first_of_stream_[streams]));
    auto next = first_next_;
    at_of_stream_ = first_of_stream_;
    for (std::size_t i = 0; i < n; ++i) {
        const auto& s = plan_.steps[i];
        for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
            next_[next[plan_.dependencies[d]]++] = static_cast<std::int32_t>(i);
        if (lane_of(s)) stream_steps_[at_of_stream_[stream_of(s)]++] = static_cast<std::int32_t>(i);
    }
    at_of_stream_.assign(first_of_stream_.begin(), first_of_stream_.end() - 1);
    stream_busy_.resize(streams);
    started_.resize(streams);
    devices_.resize(streams / kLaneCount);
}

void Simulator::match_messages() {
    std::vector<std::int32_t> sends, receives;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
        if (is_send(plan_.steps[i].kind)) sends.push_back(static_cast<std::int32_t>(i));
        if (is_receive(plan_.steps[i].kind)) receives.push_back(static_cast<std::int32_t>(i));
    }
    if (sends.empty() && receives.empty()) return;
    // Sums and tiles are numbered apart, so a key says which; an empty message is told by its ranks.
    const auto key = [&](std::int32_t step) {
        const auto& s = plan_.steps[step];
        const bool sums = s.kind == StepKind::send_sums || s.kind == StepKind::receive_sums, send = is_send(s.kind);
        return std::tuple(sums, s.begin, s.end, send ? s.rank : s.peer, send ? s.peer : s.rank);
    };
    const auto less = [&](std::int32_t x, std::int32_t y) { return key(x) < key(y); };
    std::stable_sort(sends.begin(), sends.end(), less);
    std::stable_sort(receives.begin(), receives.end(), less);
    ensure(sends.size() == receives.size(), "{} sends and {} receives", sends.size(), receives.size());
    partner_.resize(plan_.steps.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
        ensure(key(sends[i]) == key(receives[i]), "send {} has no receive", sends[i]);
        partner_[sends[i]] = receives[i];
        partner_[receives[i]] = sends[i];
    }
}

void Simulator::span(TraceLane lane, std::int32_t step, double start, double end, double amount) {
    if (!trace_) return;
    const auto [it, fresh] =
        lane_ids_.try_emplace({lane.rank, lane.kind, lane.index}, static_cast<std::int32_t>(out_.lanes.size()));
    if (fresh) out_.lanes.push_back(lane);
    out_.spans.push_back({it->second, step, plan_.steps[step].kind, start, end, amount});
}

/// Time with transfers under way on a rank, and how much of it the rank also worked.
void Simulator::account(int rank, int transfers, int works) {
    auto& r = ranks_[rank];
    if (r.transfers > 0) {
        r.transfer_seconds += now_ - r.since;
        if (r.works > 0) r.hidden_seconds += now_ - r.since;
    }
    r.since = now_;
    r.transfers += transfers;
    r.works += works;
}

void Simulator::ready(std::int32_t step) {
    const auto& s = plan_.steps[step];
    ready_[step] = 1;
    if (s.kind == StepKind::join || s.kind == StepKind::evict || s.begin == s.end) {
        if (!lane_of(s) && !is_send(s.kind) && !is_receive(s.kind)) return complete(step);
    }
    if (on_threads(s)) {
        auto& r = ranks_[s.rank];
        r.queue.push_back({step, s.begin});
        std::push_heap(r.queue.begin(), r.queue.end());
        waiting_[step] = 1;  // held until its last item is taken
        have_work_.push_back(s.rank);
    } else if (lane_of(s)) {
        start_stream(stream_of(s));
    } else {
        ensure(is_send(s.kind) || is_receive(s.kind), "step {}: {} on rank {} without a device", step, name(s.kind),
               s.rank);
        if (!ready_[partner_[step]]) return;
        const bool send = is_send(s.kind);
        const auto from = send ? step : partner_[step], to = send ? partner_[step] : step;
        network_.post(from, to, plan_.steps[from].rank, plan_.steps[to].rank, costs_.bytes(s), s.end - s.begin);
    }
}

/// Seconds of one thread for some items of a step.
double Simulator::part_seconds(const PlanStep& s, std::int64_t begin, std::int64_t end) const {
    if (s.kind == StepKind::compute) return costs_.compute(s, thread_gemm_).seconds;
    double bytes = 0;
    for (auto i = begin; i < end; ++i) bytes += costs_.item_bytes(s, i);
    // A merge reads two tiles and writes one; a finish reads and writes.
    const bool make = s.kind == StepKind::make;
    const double rate = make ? machine_.make_bytes_per_second : machine_.copy_bytes_per_second;
    const double passes = make ? 1 : s.kind == StepKind::merge ? 3 : 2;
    return rate > 0 ? passes * bytes * threads_ / rate : 0;
}

/// Idle threads take items of the first step that is ready; a compute step is one item.
void Simulator::dispatch_threads(int rank) {
    auto& r = ranks_[rank];
    while (!r.idle_threads.empty() && !r.queue.empty()) {
        auto& w = r.queue.front();
        const auto step = w.step;
        const auto& s = plan_.steps[step];
        const auto items = s.end - s.begin;
        const auto share = s.kind == StepKind::compute ? items : std::max<std::int64_t>(1, items / (4 * threads_));
        const auto begin = w.next, end = std::min(s.end, begin + share);
        w.next = end;
        ++waiting_[step];
        if (end == s.end) {
            --waiting_[step];
            std::pop_heap(r.queue.begin(), r.queue.end());
            r.queue.pop_back();
        }
        const int thread = r.idle_threads.back();
        r.idle_threads.pop_back();
        const double seconds = part_seconds(s, begin, end);
        r.thread_seconds += seconds;
        account(rank, 0, 1);
        if (trace_) {
            double amount = 0;
            if (s.kind == StepKind::compute)
                amount = costs_.compute(s, thread_gemm_).flops;
            else
                for (auto i = begin; i < end; ++i) amount += costs_.item_bytes(s, i);
            span({rank, LaneKind::core, thread}, step, now_, now_ + seconds, amount);
        }
        post(now_ + seconds, What::part_over, step, thread);
    }
}

void Simulator::start_stream(std::size_t stream) {
    if (stream_busy_[stream] || at_of_stream_[stream] == first_of_stream_[stream + 1]) return;
    const auto step = stream_steps_[at_of_stream_[stream]];
    if (!ready_[step]) return;
    const auto& s = plan_.steps[step];
    ++at_of_stream_[stream];
    stream_busy_[stream] = 1;
    started_[stream] = now_;
    const bool transfer = is_transfer(*lane_of(s));
    account(s.rank, transfer, !transfer);
    if (!transfer && devices_[device_of(s)].works++ == 0) devices_[device_of(s)].since = now_;
    if (s.kind == StepKind::compute) {
        begin_work(step, costs_.compute(s, machine_.device.gemm).seconds);
    } else if (s.kind == StepKind::finish || s.kind == StepKind::merge) {
        const double rate = machine_.device.make_bytes_per_second;
        begin_work(step, rate > 0 ? costs_.bytes(s) / rate : 0);
    } else if (s.kind == StepKind::make) {
        const double rate = machine_.device.make_bytes_per_second;
        begin_work(step, rate > 0 ? costs_.bytes(s) / rate : 0);
    } else {
        const auto& link = s.kind == StepKind::load                  ? machine_.host_to_device
                           : s.kind == StepKind::store && s.peer < 0 ? machine_.device_to_host
                                                                     : machine_.device_to_device;
        post(now_ + link.latency, What::flow_starts, step);
    }
}

/// Seconds that a device needs for it alone; what runs on one GPU at a time shares its arithmetic evenly.
void Simulator::begin_work(std::int32_t step, double seconds) {
    const auto& s = plan_.steps[step];
    if (arithmetic_gpus_ == 0 || seconds <= 0)
        return post(now_ + machine_.device.launch_seconds + seconds, What::step_over, step);
    auto& shared = ranks_[s.rank].links;
    shared.add(now_, step, machine_.device.launch_seconds + seconds, 1,
               SharedLinks::gpu(s.device / std::max(1, machine_.devices_per_gpu)));
    flows_changed(s.rank);
}

void Simulator::begin_flow(std::int32_t step) {
    const auto& s = plan_.steps[step];
    const auto is_far = [&](int device) { return machine_.near_devices > 0 && device >= machine_.near_devices; };
    SharedLinks::Links links = 0;
    double rate = 0;
    if (s.kind == StepKind::load) {
        rate = machine_.host_to_device.bytes_per_second;
        links = SharedLinks::host_in;
        if (is_far(s.device)) links |= SharedLinks::far_in;
    } else if (s.kind == StepKind::store) {
        rate = machine_.device_to_host.bytes_per_second;
        links = SharedLinks::host_out;
        if (is_far(s.device)) links |= SharedLinks::far_out;
    } else {
        rate = machine_.device_to_device.bytes_per_second;
        if (is_far(s.device) != is_far(s.peer)) links = is_far(s.device) ? SharedLinks::far_in : SharedLinks::far_out;
    }
    const double bytes = costs_.bytes(s);
    auto& shared = ranks_[s.rank].links;
    shared.count(bytes, links);
    if (bytes > 0 && shared.limits(links)) {
        shared.add(now_, step, bytes, rate, links);
        flows_changed(s.rank);
    } else {
        post(now_ + (rate > 0 ? bytes / rate : 0), What::step_over, step);
    }
}

void Simulator::flows_changed(int rank) {
    auto& r = ranks_[rank];
    ++r.flow_version;
    if (r.links.next_end() < 1e299) post(r.links.next_end(), What::flows_change, rank, r.flow_version);
}

void Simulator::start_messages() {
    for (Network::Transfer t; network_.start_one(now_, t);) {
        const auto from = plan_.steps[t.send].rank, to = plan_.steps[t.receive].rank;
        account(from, 1, 0);
        post(t.out_end, What::link_idle, t.link, t.send);
        post(t.in_start, What::receiving, t.receive);
        post(t.in_end, What::received, t.receive);
        if (!trace_) continue;
        const double bytes = costs_.bytes(plan_.steps[t.send]);
        const int lane = network_.within_node(t.link) ? 1 : 0;
        span({from, LaneKind::send, lane}, t.send, t.out_start, t.out_end, bytes);
        span({to, LaneKind::receive, lane}, t.receive, t.in_start, t.in_free, bytes);
    }
}

void Simulator::handle(const Event& e) {
    switch (e.what) {
        case What::part_over: {
            const auto rank = plan_.steps[e.id].rank;
            account(rank, 0, -1);
            ranks_[rank].idle_threads.push_back(e.extra);
            have_work_.push_back(rank);
            if (--waiting_[e.id] == 0) complete(e.id);
            break;
        }
        case What::step_over: {
            const auto& s = plan_.steps[e.id];
            const auto stream = stream_of(s);
            const auto lane = *lane_of(s);
            const bool transfer = is_transfer(lane);
            account(s.rank, transfer ? -1 : 0, transfer ? 0 : -1);
            if (auto& d = devices_[device_of(s)]; !transfer && --d.works == 0) d.seconds += now_ - d.since;
            if (trace_) {
                const double amount =
                    s.kind == StepKind::compute ? costs_.compute(s, machine_.device.gemm).flops : costs_.bytes(s);
                span({s.rank, trace_line(lane), s.device}, e.id, started_[stream], now_, amount);
            }
            stream_busy_[stream] = 0;
            complete(e.id);
            settle();
            start_stream(stream);
            break;
        }
        case What::flow_starts:
            begin_flow(e.id);
            break;
        case What::flows_change: {
            auto& r = ranks_[e.id];
            if (e.extra != r.flow_version) break;
            for (auto step : r.links.take_finished(now_)) post(now_, What::step_over, step);
            flows_changed(e.id);
            break;
        }
        case What::link_idle:
            account(plan_.steps[e.extra].rank, -1, 0);
            network_.link_is_idle(e.id);
            complete(e.extra);
            break;
        case What::receiving:
            account(plan_.steps[e.id].rank, 1, 0);
            break;
        case What::received:
            account(plan_.steps[e.id].rank, -1, 0);
            complete(e.id);
            break;
    }
    settle();
    start_messages();
}

/// Steps that are over release those that waited for them, which may be over at once themselves.
void Simulator::settle() {
    while (!over_.empty()) {
        const auto step = over_.back();
        over_.pop_back();
        --left_;
        rank_end_[plan_.steps[step].rank] = now_;
        for (auto i = first_next_[step]; i < first_next_[step + 1]; ++i)
            if (--waiting_[next_[i]] == 0) ready(next_[i]);
    }
    // Only now, so that of all steps that became ready together the first ones get the threads.
    for (auto rank : have_work_) dispatch_threads(rank);
    have_work_.clear();
}

Simulation Simulator::run() {
    std::vector<std::int32_t> first;
    for (std::size_t i = 0; i < plan_.steps.size(); ++i)
        if (plan_.steps[i].dependencies == 0) first.push_back(static_cast<std::int32_t>(i));
    for (auto step : first) ready(step);
    settle();
    start_messages();
    while (!events_.empty()) {
        const auto e = events_.top();
        events_.pop();
        now_ = e.time;
        handle(e);
    }
    ensure(left_ == 0, "{} of {} steps wait for ever", left_, plan_.steps.size());
    return result();
}

Simulation Simulator::result() {
    Simulation out;
    for (double t : rank_end_) out.seconds = std::max(out.seconds, t);
    out.rank_seconds = rank_end_;
    const auto devices = devices_.size();
    double compute = 0, transfer = 0, hidden = 0, threads = 0, link = 0;
    for (const auto& d : devices_) compute += out.device_seconds.emplace_back(d.seconds);
    const int own_links = shared_gpus() > 0 ? shared_gpus() : plan_.devices_per_rank;
    const auto share = [&](const LinkModel& one,
                           double bytes) {  // of what the links of a rank's devices carry a second
        const double own = own_links * one.bytes_per_second, all = machine_.host_link_bytes_per_second;
        const double capacity = all > 0 && (own <= 0 || all < own) ? all : own;
        return capacity > 0 ? bytes / capacity : 0;
    };
    for (const auto& r : ranks_) {
        transfer += r.transfer_seconds;
        hidden += r.hidden_seconds;
        threads += r.thread_seconds;
        link += std::max(share(machine_.host_to_device, r.links.moved()[0]),
                         share(machine_.device_to_host, r.links.moved()[1]));
    }
    out.overlap = transfer > 0 ? hidden / transfer : 1;
    out.trace = std::move(out_);
    out.trace.ranks_per_node = std::max(1, machine_.ranks_per_node);
    if (out.seconds <= 0) return out;
    out.tflops = plan_.counts.flops / out.seconds * 1e-12;
    const double ranks = static_cast<double>(plan_.ranks);
    if (devices > 0) {
        out.tflops_per_device = out.tflops / static_cast<double>(devices);
        out.busy.device = compute / (out.seconds * static_cast<double>(devices));
    }
    out.busy.cores = threads / (out.seconds * ranks * threads_);
    out.busy.host_link = link / (out.seconds * ranks);
    for (int n = 0; n < network_.nodes(); ++n)
        out.busy.network += network_.busy_seconds(n) / (out.seconds * network_.nodes());
    return out;
}

}  // namespace

Simulation simulate(const Plan& plan, const MachineModel& machine, const SimulateOptions& options) {
    return Simulator(plan, machine, options).run();
}

}  // namespace tessera

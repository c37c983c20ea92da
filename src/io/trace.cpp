#include "io/trace.hpp"

#include <fmt/format.h>

#include <iterator>

#include "io/file.hpp"

namespace tessera {

namespace {

/// Lines of a rank stand in this order: network, devices with their links, threads.
int line_number(const TraceLane& lane) {
    switch (lane.kind) {
        case LaneKind::send:
            return 2 * lane.index;
        case LaneKind::receive:
            return 2 * lane.index + 1;
        case LaneKind::compute:
            return 100 + 5 * lane.index;
        case LaneKind::make:
            return 101 + 5 * lane.index;
        case LaneKind::load:
            return 102 + 5 * lane.index;
        case LaneKind::store:
            return 103 + 5 * lane.index;
        case LaneKind::copy:
            return 104 + 5 * lane.index;
        case LaneKind::core:
            break;
    }
    return 10000 + lane.index;
}

std::string line_name(const TraceLane& lane) {
    switch (lane.kind) {
        case LaneKind::send:
            return lane.index ? "within node, out" : "network, out";
        case LaneKind::receive:
            return lane.index ? "within node, in" : "network, in";
        case LaneKind::compute:
            return fmt::format("device {}", lane.index);
        case LaneKind::make:
            return fmt::format("device {} makes", lane.index);
        case LaneKind::load:
            return fmt::format("device {} from host", lane.index);
        case LaneKind::store:
            return fmt::format("device {} to host", lane.index);
        case LaneKind::copy:
            return fmt::format("device {} from device", lane.index);
        case LaneKind::core:
            break;
    }
    return fmt::format("thread {}", lane.index);
}

/// What a core does for a load is to bring tiles into the form that travels.
const char* span_name(const TraceSpan& span, const TraceLane& lane) {
    return lane.kind == LaneKind::core && span.kind == StepKind::load ? "pack" : name(span.kind);
}

class JsonFile {
  public:
    explicit JsonFile(const std::string& path) : file_(path) {}

    template <class... Args>
    void add(fmt::format_string<Args...> text, Args&&... args) {
        fmt::format_to(std::back_inserter(buffer_), text, std::forward<Args>(args)...);
        if (buffer_.size() > (1 << 20)) flush();
    }
    void commit() {
        flush();
        file_.commit();
    }

  private:
    void flush() {
        file_.write_at(written_, buffer_.data(), static_cast<std::int64_t>(buffer_.size()));
        written_ += static_cast<std::int64_t>(buffer_.size());
        buffer_.clear();
    }
    AtomicFile file_;
    std::string buffer_;
    std::int64_t written_ = 0;
};

}  // namespace

void write_chrome_trace(const Trace& trace, const std::string& path) {
    JsonFile out(path);
    out.add("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
    const char* comma = "\n";
    std::int32_t known = -1;
    for (const auto& lane : trace.lanes) known = std::max(known, lane.rank);
    std::vector<bool> named(static_cast<std::size_t>(known + 1));
    for (const auto& lane : trace.lanes) {
        if (!named[lane.rank]) {
            named[lane.rank] = true;
            out.add(
                "{}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"rank {}, node {}\"}}}}",
                comma, lane.rank, lane.rank, lane.rank / trace.ranks_per_node);
            out.add(",\n{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}}",
                    lane.rank, lane.rank);
            comma = ",\n";
        }
        const int line = line_number(lane);
        out.add("{}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}", comma,
                lane.rank, line, line_name(lane));
        out.add(
            ",\n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}",
            lane.rank, line, line);
    }
    for (const auto& s : trace.spans) {
        const auto& lane = trace.lanes[s.lane];
        out.add(
            "{}{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{\"step\":{}"
            ","
            "\"{}\":{:.0f}}}}}",
            comma, span_name(s, lane), lane.rank, line_number(lane), s.start * 1e6, (s.end - s.start) * 1e6, s.step,
            s.kind == StepKind::compute ? "flops" : "bytes", s.amount);
        comma = ",\n";
    }
    out.add("\n]}}\n");
    out.commit();
}

}  // namespace tessera

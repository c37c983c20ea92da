#include "tessera/plan/plan.hpp"

namespace tessera {

std::int64_t Plan::metadata_bytes() const {
    const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.capacity() * sizeof(v[0])); };
    return bytes(products) + bytes(places) + bytes(chains) + bytes(arrivals) + bytes(sums) + bytes(moves) +
           bytes(finish_sums) + bytes(steps) + bytes(dependencies) + bytes(skipped) + bytes(rank_counts) +
           bytes(device_counts) + a.metadata_bytes() + b.metadata_bytes() + c.metadata_bytes() +
           added.metadata_bytes() + views_a.bytes() + views_b.bytes();
}

const char* name(StepKind kind) {
    switch (kind) {
        case StepKind::make:
            return "make";
        case StepKind::send:
            return "send";
        case StepKind::receive:
            return "receive";
        case StepKind::load:
            return "load";
        case StepKind::copy:
            return "copy";
        case StepKind::evict:
            return "evict";
        case StepKind::compute:
            return "compute";
        case StepKind::store:
            return "store";
        case StepKind::send_sums:
            return "send sums";
        case StepKind::receive_sums:
            return "receive sums";
        case StepKind::merge:
            return "merge";
        case StepKind::finish:
            return "finish";
        case StepKind::join:
            return "join";
    }
    return "?";
}

const char* name(MemoryCase fits) {
    switch (fits) {
        case MemoryCase::all_fits:
            return "all fits";
        case MemoryCase::c_fits:
            return "C fits";
        case MemoryCase::b_fits:
            return "B columns fit";
        case MemoryCase::nothing_fits:
            return "nothing fits";
    }
    return "?";
}

}  // namespace tessera

#pragma once
// Host operands of a fused contraction mirrored on the device, for tests and benchmarks.

#include <span>
#include <vector>

#include "device/fused.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

/// Pointers are translated by where they fall in the mirrored memory.
class Mirror {
  public:
    Mirror() = default;
    explicit Mirror(const std::vector<std::vector<double>>& storage) {
        for (const auto& v : storage) add(v);
    }
    void add(const std::vector<double>& host) {
        DeviceBuffer buffer(host.size() * sizeof(double));
        copy_to_device(buffer.data(), host.data(), host.size() * sizeof(double));
        parts_.push_back({host.data(), host.size(), std::move(buffer)});
    }
    const double* operator()(const double* host) const {
        for (const Part& p : parts_)
            if (host >= p.host && host < p.host + p.count)
                return static_cast<const double*>(p.buffer.data()) + (host - p.host);
        throw InternalError("triples: a pointer outside the mirrored memory");
    }
    std::vector<FusedTerm> operator()(std::span<const FusedTerm> terms) const {
        std::vector<FusedTerm> list(terms.begin(), terms.end());
        for (FusedTerm& t : list) {
            t.a.data = (*this)(t.a.data);
            t.b.data = (*this)(t.b.data);
        }
        return list;
    }

  private:
    struct Part {
        const double* host;
        std::size_t count;
        DeviceBuffer buffer;
    };
    std::vector<Part> parts_;
};

}  // namespace tessera::kernels::cuda

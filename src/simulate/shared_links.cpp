#include "simulate/shared_links.hpp"

#include <algorithm>

namespace tessera {

bool SharedLinks::limits(Links links) const {
    for (std::size_t l = 0; l < capacity_.size(); ++l)
        if ((links >> l & 1) && capacity_[l] > 0) return true;
    return false;
}

void SharedLinks::count(double bytes, Links links) {
    for (std::size_t l = 0; l < moved_.size(); ++l)
        if (links >> l & 1) moved_[l] += bytes;
}

void SharedLinks::advance(double now) {
    for (auto& f : flows_) f.left -= f.rate * (now - now_);
    now_ = now;
}

void SharedLinks::add(double now, std::int32_t step, double bytes, double own_rate, Links links) {
    advance(now);
    flows_.push_back({step, links, bytes, own_rate > 0 ? own_rate : 1e30, 0});
    share();
}

/// Progressive filling: the link (or the transfer's own limit) that gives its transfers least decides theirs first.
void SharedLinks::share() {
    auto left = capacity_;
    const auto links = capacity_.size();
    std::vector<int> open(links);
    for (auto& f : flows_) {
        f.rate = -1;
        for (std::size_t l = 0; l < links; ++l) open[l] += static_cast<int>(f.links >> l & 1);
    }
    for (std::size_t settled = 0; settled < flows_.size();) {
        double least = 1e300;
        std::size_t tight = 0;
        for (std::size_t l = 0; l < links; ++l)
            if (capacity_[l] > 0 && open[l] > 0 && left[l] / open[l] < least) {
                least = left[l] / open[l];
                tight = l;
            }
        const auto settle = [&](Flow& f, double rate) {
            f.rate = rate;
            ++settled;
            for (std::size_t l = 0; l < links; ++l)
                if (f.links >> l & 1) {
                    left[l] = std::max(0.0, left[l] - rate);
                    --open[l];
                }
        };
        bool own = false;
        for (auto& f : flows_)
            if (f.rate < 0 && f.own_rate <= least) {
                settle(f, f.own_rate);
                own = true;
            }
        if (own) continue;
        for (auto& f : flows_)
            if (f.rate < 0 && (f.links >> tight & 1)) settle(f, least);
    }
    next_end_ = 1e300;
    for (const auto& f : flows_) next_end_ = std::min(next_end_, now_ + std::max(0.0, f.left) / f.rate);
}

std::vector<std::int32_t> SharedLinks::take_finished(double now) {
    advance(now);
    std::vector<std::int32_t> over;
    // What would take less than a nanosecond more is over: sums of rounded times never come out exactly.
    std::erase_if(flows_, [&](const Flow& f) {
        if (f.left > f.rate * 1e-9) return false;
        over.push_back(f.step);
        return true;
    });
    std::sort(over.begin(), over.end());
    share();
    return over;
}

}  // namespace tessera

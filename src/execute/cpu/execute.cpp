#include "execute/cpu/execute.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "execute/cpu/tile_layouts.hpp"
#include "execute/host_tiles.hpp"
#include "execute/messages.hpp"
#include "execute/progress.hpp"
#include "kernels/gemm.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {

namespace {

using kernels::Axes;
using kernels::MatrixLayout;

// What a core does at least, and what must be left for another thread to be worth waking.
constexpr double kFlopsPerSecond = 4e10, kBytesPerSecond = 1e10, kSecondsPerProduct = 3e-8;
constexpr double kSecondsPerThread = 5e-5;
constexpr std::int64_t kCacheBytes = 1 << 20;  // of all tiles: a second-level cache

std::int64_t slowest(const Axes& axes) { return axes.count ? axes.axis[0].extent : 1; }

/// A share of a group of indices: [begin, end) of `units` equal pieces of its slowest axis.
struct Share {
    std::int64_t begin, end, units;
    std::int64_t offset(const Axes& axes) const { return begin * (axes.axis[0].extent / units) * axes.axis[0].stride; }
    Axes of(Axes axes) const {
        axes.axis[0].extent = (end - begin) * (axes.axis[0].extent / units);
        return axes;
    }
};

template <Scalar T>
class Interpreter {
  public:
    Interpreter(const Plan& plan, Communicator& ranks, const TileSource<T>& a, const TileSource<T>& b,
                const TileSink<T>& c, const ExecuteOptions<T>& options)
        : plan_(plan),
          rank_(ranks.rank()),
          own_layouts_(options.layouts ? nullptr : std::make_unique<PlanLayouts>(plan)),
          layouts_(options.layouts ? *options.layouts : *own_layouts_),
          options_(options),
          in_cache_(plan.counts.bytes_a + plan.counts.bytes_b + plan.counts.bytes_c + plan.counts.arena_bytes <=
                    kCacheBytes),
          tiles_(plan, rank_, a, b, c, options),
          board_(plan.steps.size()),
          messages_(plan, ranks, board_),
          progress_(options.progress, plan.rank_counts[static_cast<std::size_t>(rank_)].flops) {
        for (std::size_t i = 0; i < plan.steps.size(); ++i) {
            const auto& s = plan.steps[i];
            if (s.rank != rank_ || is_message(s.kind)) continue;
            steps_.push_back(static_cast<std::int32_t>(i));
            seen_.push_back(s.first_dependency);
        }
        taken_.resize(steps_.size());
    }

    ExecuteCounts run() {
        messages_.start([&](std::int32_t step) { return tiles_.message_pieces(plan_.steps[step]); });
        const int threads = useful_threads();
        const auto work_all = [&] { parallel_region(threads, [&](int, int) { work(); }); };
        if (messages_.by_caller())
            beside_messages(work_all);
        else
            work_all();
        messages_.finish();
        ensure(first_ == steps_.size(), "only {} of {} steps ran", first_, steps_.size());
        progress_.end();
        ExecuteCounts out;
        out.threads = threads;
        out.made_tiles = tiles_.made_tiles();
        out.arena_bytes = tiles_.arena_bytes();
        messages_.count(out);
        out.waited_seconds = waited_.load() / threads;
        return out;
    }

  private:
    /// This thread has messages to move: the work gets another one.
    template <class Work>
    void beside_messages(const Work& work_all) {
        std::exception_ptr failure;
        std::thread worker([&] {
            try {
                work_all();
            } catch (...) {
                failure = std::current_exception();
                board_.fail();
            }
        });
        messages_.move_by_caller();
        worker.join();
        if (failure) std::rethrow_exception(failure);
    }

    /// No thread is woken for work that is done sooner without it: decided by what the plan counts.
    int useful_threads() const {
        const auto& n = plan_.rank_counts[static_cast<std::size_t>(rank_)];
        if (n.made_tiles > 0) return plan_.threads;  // who knows how long that takes
        const double seconds = n.flops / kFlopsPerSecond + static_cast<double>(n.products) * kSecondsPerProduct +
                               static_cast<double>(n.stored_c) / kBytesPerSecond;
        const double most = std::min(1 + seconds / kSecondsPerThread, static_cast<double>(steps_.size()));
        return std::clamp(static_cast<int>(std::min(most, 1e6)), 1, plan_.threads);
    }

    /// The first step not yet taken whose dependencies are done, of the next few; nothing when all are taken or
    /// something failed. The very first of them waits for steps that others have taken, or for messages: no deadlock.
    std::optional<std::size_t> take() {
        constexpr std::size_t kLookahead = 64;
        double message_since = 0;
        for (int idle = 0; !board_.failed(); ++idle) {
            {
                const std::lock_guard lock(taking_);
                while (first_ < steps_.size() && taken_[first_]) ++first_;
                if (first_ == steps_.size()) return std::nullopt;
                const auto end = std::min(steps_.size(), first_ + kLookahead);
                for (auto i = first_; i < end; ++i) {
                    if (taken_[i] || !is_ready(i)) continue;
                    taken_[i] = true;
                    if (message_since > 0) waited_.fetch_add(now_seconds() - message_since);
                    return i;
                }
                const bool message = is_message(plan_.steps[plan_.dependencies[seen_[first_]]].kind);
                if (message && message_since == 0) message_since = now_seconds();
            }
            StepBoard::pause(idle);
        }
        return std::nullopt;
    }

    /// Looks on from the dependency that was the last not to be done.
    bool is_ready(std::size_t i) {
        const auto& s = plan_.steps[steps_[i]];
        const auto end = s.first_dependency + s.dependencies;
        for (auto& d = seen_[i]; d < end; ++d)
            if (!board_.done(plan_.dependencies[d])) return false;
        return true;
    }

    void work() {
        kernels::GemmWorkspace workspace;
        Scratch scratch;
        try {
            while (const auto next = take()) {
                const auto i = *next;
                const auto& s = plan_.steps[steps_[i]];
                switch (s.kind) {
                    case StepKind::make:
                        for (auto t = s.begin; t < s.end; ++t) tiles_.make(plan_.arrivals[t]);
                        break;
                    case StepKind::compute:
                        compute(s, workspace, scratch);
                        break;
                    case StepKind::merge:
                        for (auto m = s.begin; m < s.end; ++m) tiles_.merge(plan_.moves[m]);
                        break;
                    case StepKind::finish:
                        for (auto f = s.begin; f < s.end; ++f) tiles_.finish(plan_.sums[plan_.finish_sums[f]].c);
                        break;
                    case StepKind::join:
                        break;
                    default:
                        ensure(false, "step {} ({}) is not for the host", steps_[i], name(s.kind));
                }
                board_.mark(steps_[i]);
            }
        } catch (...) {
            board_.fail();
            throw;
        }
    }

    struct Scratch {
        std::vector<kernels::Chain<T>> chains;
        std::vector<kernels::ChainLink<T>> links;
        std::vector<MatrixLayout> sliced;
    };

    void compute(const PlanStep& s, kernels::GemmWorkspace& workspace, Scratch& x) {
        x.chains.clear();
        x.links.clear();
        std::size_t links = 0, sliced = 0;
        for (auto i = s.begin; i < s.end; ++i) {
            const auto& ch = plan_.chains[i];
            const auto batch = static_cast<std::size_t>(layouts_.c[plan_.sums[ch.sum].c].batch.extent());
            links += static_cast<std::size_t>(ch.products) * batch;
            if (ch.parts > 1) sliced += 1 + 2 * static_cast<std::size_t>(ch.products);
        }
        x.chains.reserve(static_cast<std::size_t>(s.end - s.begin));
        x.links.reserve(links);  // chains point into it
        x.sliced.clear();
        x.sliced.reserve(sliced);
        double flops = 0;
        for (auto i = s.begin; i < s.end; ++i) flops += add_chain(plan_.chains[i], x);
        kernels::multiply_chains<T>(x.chains, {options_.conjugate_a, options_.conjugate_b, in_cache_}, workspace);
        for (auto i = s.begin; i < s.end; ++i)
            if (plan_.chains[i].finishes) tiles_.finish(plan_.sums[plan_.chains[i].sum].c);
        progress_.add(flops);
    }

    /// Whether a tile's elements are those of the one that is stored for it.
    static bool is_as_stored(const TileViews& views, std::int32_t slot) {
        return views.empty() || (views[slot].factor == 1 && !views[slot].conjugate);
    }
    static void set_view(const TileViews& views, std::int32_t slot, double& factor, bool& conjugate) {
        if (views.empty()) return;
        factor *= views[slot].factor;
        conjugate = views[slot].conjugate;
    }

    /// Element by element, where every index is one of the batch. False where the tiles are not walked alike.
    bool multiply_elements(const PlanChain& ch, const TileLayout& layout, T* c, double& flops) {
        if (!layouts_.all_batch) return false;
        const auto together = [](const kernels::Axes& axes) {
            return axes.count == 0 || (axes.count == 1 && axes.axis[0].stride == 1);
        };
        if (!together(layout.batch)) return false;
        for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
            const auto& product = plan_.products[p];
            if (!together(layouts_.a[product.a].batch) || !together(layouts_.b[product.b].batch)) return false;
            if (!is_as_stored(plan_.views_a, product.a) || !is_as_stored(plan_.views_b, product.b)) return false;
        }
        const auto points = layout.batch.extent(), begin = points * ch.part / ch.parts,
                   end = points * (ch.part + 1) / ch.parts;
        bool starts = ch.starts && !options_.resume;
        for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
            const auto& product = plan_.products[p];
            const auto at = plan_.places_of(p);
            tessera::multiply_elements(tiles_.tile(Operand::a, product.a, at.a) + begin,
                                       tiles_.tile(Operand::b, product.b, at.b) + begin, c + begin, end - begin,
                                       {starts, options_.conjugate_a, options_.conjugate_b});
            starts = false;
            flops += kFlopsPerMultiplyAdd<T> * static_cast<double>(end - begin);
        }
        return true;
    }

    double add_chain(const PlanChain& ch, Scratch& x) {
        const TileLayout& layout = layouts_.c[plan_.sums[ch.sum].c];
        T* c = tiles_.sum(ch.sum);
        if (double done = 0; ch.products > 0 && multiply_elements(ch, layout, c, done)) return done;
        const MatrixLayout* matrix_c = &layout.matrix;

        // A part of a tile is a share of its slowest row index, or of its slowest column index where that is longer.
        // Neighbouring indices may be fused in one operand and not in the other: count in the coarsest pieces.
        bool by_rows = true, cut = false;
        Share share{};
        if (ch.parts > 1) {
            auto rows = slowest(matrix_c->rows), cols = slowest(matrix_c->cols);
            for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
                rows = std::min(rows, slowest(layouts_.a[plan_.products[p].a].matrix.rows));
                cols = std::min(cols, slowest(layouts_.b[plan_.products[p].b].matrix.cols));
            }
            by_rows = rows >= cols || rows >= 32 * ch.parts;
            const auto units = by_rows ? rows : cols;
            share = {units * ch.part / ch.parts, units * (ch.part + 1) / ch.parts, units};
            if (share.begin == share.end) return 0;
            cut = units > 1;
        }
        if (cut) {
            x.sliced.push_back(*matrix_c);
            auto& group = by_rows ? x.sliced.back().rows : x.sliced.back().cols;
            c += share.offset(group);
            group = share.of(group);
            matrix_c = &x.sliced.back();
        }

        double flops = 0;
        const auto m = matrix_c->rows.extent(), n = matrix_c->cols.extent();
        const auto points = layout.batch.extent();
        const auto first_sliced = x.sliced.size();
        for (std::int64_t h = 0; h < points; ++h) {
            const auto first_link = x.links.size();
            for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
                const auto& product = plan_.products[p];
                const TileLayout &la = layouts_.a[product.a], &lb = layouts_.b[product.b];
                const auto at = plan_.places_of(p);
                kernels::ChainLink<T> link{tiles_.tile(Operand::a, product.a, at.a),
                                           tiles_.tile(Operand::b, product.b, at.b), &la.matrix, &lb.matrix};
                set_view(plan_.views_a, product.a, link.factor, link.conjugate_a);
                set_view(plan_.views_b, product.b, link.factor, link.conjugate_b);
                if (h > 0) {
                    link.a += la.batch.offset(h);
                    link.b += lb.batch.offset(h);
                }
                if (cut) {
                    const MatrixLayout& whole = by_rows ? la.matrix : lb.matrix;
                    if (h == 0) {
                        x.sliced.push_back(whole);
                        auto& group = by_rows ? x.sliced.back().rows : x.sliced.back().cols;
                        group = share.of(group);
                    }
                    const auto& part = x.sliced[first_sliced + static_cast<std::size_t>(p - ch.first_product)];
                    if (by_rows) {
                        link.a += share.offset(whole.rows);
                        link.a_layout = &part;
                    } else {
                        link.b += share.offset(whole.cols);
                        link.b_layout = &part;
                    }
                }
                flops +=
                    kFlopsPerMultiplyAdd<T> * static_cast<double>(m * n) * static_cast<double>(la.matrix.cols.extent());
                x.links.push_back(link);
            }
            x.chains.push_back({c + (h > 0 ? layout.batch.offset(h) : 0),
                                matrix_c,
                                {x.links.data() + first_link, x.links.size() - first_link},
                                ch.starts && !options_.resume});
        }
        return flops;
    }

    const Plan& plan_;
    const int rank_;
    const std::unique_ptr<const PlanLayouts> own_layouts_;
    const PlanLayouts& layouts_;
    const ExecuteOptions<T>& options_;
    const bool in_cache_;
    HostTiles<T> tiles_;
    StepBoard board_;
    Messages messages_;
    Progress progress_;
    std::vector<std::int32_t> steps_;  // of this rank, without messages
    std::mutex taking_;
    std::vector<bool> taken_;         // per place in steps_
    std::vector<std::int64_t> seen_;  // likewise: its first dependency that may not be done
    std::size_t first_ = 0;           // all before are taken
    std::atomic<double> waited_{0};
};

}  // namespace

template <Scalar T>
ExecuteCounts execute(const Plan& plan, Communicator& ranks, const TileSource<T>& a, const TileSource<T>& b,
                      const TileSink<T>& c, const ExecuteOptions<T>& options) {
    ensure(ranks.size() == plan.ranks, "a plan of {} ranks on {}", plan.ranks, ranks.size());
    return Interpreter<T>(plan, ranks, a, b, c, options).run();
}

#define TESSERA_INSTANTIATE(T)                                                                                \
    template ExecuteCounts execute<T>(const Plan&, Communicator&, const TileSource<T>&, const TileSource<T>&, \
                                      const TileSink<T>&, const ExecuteOptions<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

#include "execute/cpu/execute.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "execute/cpu/tile_layouts.hpp"
#include "kernels/gemm.hpp"
#include "kernels/tile_math.hpp"

namespace tessera {

namespace {

using kernels::Axes;
using kernels::MatrixLayout;

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
    Interpreter(const Plan& plan, const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                const ExecuteOptions<T>& options)
        : plan_(plan),
          spec_(plan.spec),
          labels_(spec_),
          layouts_a_(plan.a, spec_.a(), labels_.m, labels_.k, labels_.batch),
          layouts_b_(plan.b, spec_.b(), labels_.k, labels_.n, labels_.batch),
          layouts_c_(plan.c, spec_.c(), labels_.m, labels_.n, labels_.batch),
          a_(a),
          b_(b),
          c_(c),
          options_(options),
          arena_(plan.counts.arena_bytes, options.budget, "tiles made on demand"),
          done_(plan.steps.size()) {
        if (plan.source_a == SourceKind::host_made) place(Operand::a, made_a_, plan.a);
        if (plan.source_b == SourceKind::host_made) place(Operand::b, made_b_, plan.b);
        first_partial_.assign(plan.partials.empty() ? 0 : static_cast<std::size_t>(plan.c.tile_count()) + 1, 0);
        if (!plan.partials.empty()) {
            for (const auto& p : plan.partials) ++first_partial_[p.c + 1];
            for (std::size_t i = 1; i < first_partial_.size(); ++i) first_partial_[i] += first_partial_[i - 1];
        }
    }

    ExecuteCounts run() {
        parallel_region(plan_.threads, [&](int, int) { work(); });
        ensure(next_ >= plan_.steps.size(), "only {} of {} steps ran", next_.load(), plan_.steps.size());
        return {static_cast<std::int64_t>(plan_.made_tiles.size()), plan_.counts.arena_bytes};
    }

  private:
    /// Steps are taken in the plan's order, so whatever a step waits for has been taken by someone: no deadlock.
    void work() {
        kernels::GemmWorkspace workspace;
        Scratch scratch;
        try {
            for (;;) {
                const auto i = next_.fetch_add(1);
                if (i >= plan_.steps.size() || failed_) return;
                const auto& s = plan_.steps[i];
                for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
                    if (!wait_for(plan_.dependencies[d])) return;
                switch (s.kind) {
                    case StepKind::make:
                        make(s);
                        break;
                    case StepKind::compute:
                        compute(s, workspace, scratch);
                        break;
                    case StepKind::finish:
                        for (auto f = s.begin; f < s.end; ++f) finish(plan_.finish_tiles[f], true);
                        break;
                    case StepKind::join:
                        break;
                }
                done_[i].store(1, std::memory_order_release);
            }
        } catch (...) {
            failed_ = true;
            throw;
        }
    }

    bool wait_for(std::int32_t step) {
        for (int spins = 0; !done_[step].load(std::memory_order_acquire); ++spins) {
            if (failed_) return false;
            if (spins > 300)
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            else if (spins > 200)
                std::this_thread::yield();
        }
        return true;
    }

    struct Scratch {
        std::vector<kernels::Chain<T>> chains;
        std::vector<kernels::ChainLink<T>> links;
        std::vector<MatrixLayout> sliced;
    };

    void place(Operand o, std::vector<std::int64_t>& offsets, const Shape& shape) {
        offsets.assign(static_cast<std::size_t>(shape.tile_count()), -1);
        for (const auto& t : plan_.made_tiles)
            if (t.operand == o) offsets[t.slot] = t.offset;
    }
    T* in_arena(std::int64_t offset) { return reinterpret_cast<T*>(arena_.data() + offset); }
    const T* tile_a(std::int32_t slot) { return made_a_.empty() ? a_.stored(slot) : in_arena(made_a_[slot]); }
    const T* tile_b(std::int32_t slot) { return made_b_.empty() ? b_.stored(slot) : in_arena(made_b_[slot]); }

    void make(const PlanStep& s) {
        for (auto i = s.begin; i < s.end; ++i) {
            const auto& t = plan_.made_tiles[i];
            const auto& shape = t.operand == Operand::a ? plan_.a : plan_.b;
            const auto info = tile_info(shape.grid(), shape.tile(t.slot));
            (t.operand == Operand::a ? a_ : b_)
                .make(info, {in_arena(t.offset), static_cast<std::size_t>(info.extents.product())});
        }
    }

    void compute(const PlanStep& s, kernels::GemmWorkspace& workspace, Scratch& x) {
        x.chains.clear();
        x.links.clear();
        std::size_t links = 0, sliced = 0;
        for (auto i = s.begin; i < s.end; ++i) {
            const auto& ch = plan_.chains[i];
            const auto batch = static_cast<std::size_t>(layouts_c_[ch.c].batch.extent());
            links += static_cast<std::size_t>(ch.products) * batch;
            if (ch.parts > 1) sliced += 1 + 2 * static_cast<std::size_t>(ch.products);
        }
        x.links.reserve(links);  // chains point into it
        x.sliced.clear();
        x.sliced.reserve(sliced);
        double flops = 0;
        for (auto i = s.begin; i < s.end; ++i) flops += add_chain(plan_.chains[i], x);
        kernels::multiply_chains<T>(x.chains, {options_.conjugate_a, options_.conjugate_b}, workspace);
        for (auto i = s.begin; i < s.end; ++i)
            if (plan_.chains[i].finishes) finish(plan_.chains[i].c, false);
        report(flops);
    }

    double add_chain(const PlanChain& ch, Scratch& x) {
        const TileLayout& layout = layouts_c_[ch.c];
        T* c = ch.partial < 0 ? c_.tile(ch.c) : in_arena(plan_.partials[ch.partial].offset);
        const MatrixLayout* matrix_c = &layout.matrix;

        // A part of a tile is a share of its slowest row index, or of its slowest column index where that is longer.
        // Neighbouring indices may be fused in one operand and not in the other: count in the coarsest pieces.
        bool by_rows = true, cut = false;
        Share share{};
        if (ch.parts > 1) {
            auto rows = slowest(matrix_c->rows), cols = slowest(matrix_c->cols);
            for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
                rows = std::min(rows, slowest(layouts_a_[plan_.products[p].a].matrix.rows));
                cols = std::min(cols, slowest(layouts_b_[plan_.products[p].b].matrix.cols));
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
                const auto [slot_a, slot_b] = plan_.products[p];
                const TileLayout &la = layouts_a_[slot_a], &lb = layouts_b_[slot_b];
                kernels::ChainLink<T> link{tile_a(slot_a), tile_b(slot_b), &la.matrix, &lb.matrix};
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
                flops += 2.0 * static_cast<double>(m * n) * static_cast<double>(la.matrix.cols.extent());
                x.links.push_back(link);
            }
            x.chains.push_back({c + (h > 0 ? layout.batch.offset(h) : 0),
                                matrix_c,
                                {x.links.data() + first_link, x.links.size() - first_link},
                                ch.starts});
        }
        return flops * (is_complex<T> ? 4 : 1);
    }

    /// All products of the tile are in: join its partial sums, then C = alpha C + beta old, and the norm.
    void finish(std::int32_t slot, bool join) {
        T* c = c_.tile(slot);
        const auto n = plan_.c.grid().tile_elements(plan_.c.tile(slot));
        if (join && !plan_.partials.empty() && first_partial_[slot + 1] > first_partial_[slot]) {
            std::vector<T*> sums{c};
            for (auto p = first_partial_[slot]; p < first_partial_[slot + 1]; ++p)
                sums.push_back(in_arena(plan_.partials[p].offset));
            for (std::size_t stride = 1; stride < sums.size(); stride *= 2)
                for (std::size_t i = 0; i + stride < sums.size(); i += 2 * stride)
                    for (std::int64_t e = 0; e < n; ++e) sums[i][e] += sums[i + stride][e];
        }
        if (options_.alpha != T(1))
            for (std::int64_t e = 0; e < n; ++e) c[e] *= options_.alpha;
        if (options_.beta != T(0))
            if (const T* old = c_.old_tile ? c_.old_tile(slot) : nullptr)
                for (std::int64_t e = 0; e < n; ++e) c[e] += options_.beta * old[e];
        const double norm = tile_norm(c, n);
        require(std::isfinite(norm), "contraction '{}': result tile {} holds NaN or infinity", plan_.spec,
                to_string(plan_.c.grid().coordinates(plan_.c.tile(slot))));
        c_.finished(slot, norm);
    }

    void report(double flops) {
        if (!options_.progress) return;
        const std::unique_lock lock(progress_mutex_, std::try_to_lock);
        flops_done_.fetch_add(static_cast<std::int64_t>(flops));
        if (lock) options_.progress(static_cast<double>(flops_done_.load()), plan_.counts.flops);
    }

    const Plan& plan_;
    ContractionSpec spec_;
    MatrixLabels labels_;
    TileLayouts layouts_a_, layouts_b_, layouts_c_;
    const TileSource<T>&a_, &b_;
    const TileSink<T>& c_;
    const ExecuteOptions<T>& options_;
    Buffer arena_;
    std::vector<std::int64_t> made_a_, made_b_;  // arena offset by slot
    std::vector<std::int64_t> first_partial_;    // by result slot
    std::vector<std::atomic<std::uint8_t>> done_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> failed_{false};
    std::mutex progress_mutex_;
    std::atomic<std::int64_t> flops_done_{0};
};

}  // namespace

template <Scalar T>
ExecuteCounts execute(const Plan& plan, const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                      const ExecuteOptions<T>& options) {
    return Interpreter<T>(plan, a, b, c, options).run();
}

#define TESSERA_INSTANTIATE(T)                                                                                     \
    template ExecuteCounts execute<T>(const Plan&, const TileSource<T>&, const TileSource<T>&, const TileSink<T>&, \
                                      const ExecuteOptions<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

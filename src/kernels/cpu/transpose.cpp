// Runs a transpose plan on CPU threads: each block is permuted inside the cache, then leaves in whole lines.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "kernels/cpu/transpose_kernels.hpp"
#include "kernels/transpose_block.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels {

namespace {

using AxisOrder = std::array<int, kMaxTransposeRank>;

const cpu::TransposeKernels& kernels_for(Isa isa) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::avx512:
            return cpu::transpose_avx512;
        case Isa::avx2:
            return cpu::transpose_avx2;
#endif
        default:
            return cpu::transpose_scalar;
    }
}

/// What every thread shares: the axes in the orders they are walked.
struct Layout {
    const TransposePlan& plan;
    AxisOrder in_order{}, out_order{};
    AxisOrder loop{};  // axes with more than one block, fastest first
    int loops = 0;
    int run_axes = 0;    // out_order[0, run_axes) make the output run
    AxisOrder across{};  // block axes outside the output run, by input stride
    int across_axes = 0;
    AxisOrder rest{};  // micro: block axes outside the tile, by input stride
    int rest_axes = 0;

    explicit Layout(const TransposePlan& p) : plan(p) {
        sort_by_stride(p, &TransposeAxis::in_stride, in_order);
        sort_by_stride(p, &TransposeAxis::out_stride, out_order);
        run_axes = contiguous_run(p, &TransposeAxis::out_stride, out_order).axes;
        for (int i = 0; i < p.rank; ++i) {
            const int a = in_order[i];
            const bool in_run = std::find(&out_order[0], &out_order[run_axes], a) != &out_order[run_axes];
            if (!in_run && p.axis[a].block > 1) across[across_axes++] = a;
            const bool in_rows =
                std::find(&out_order[0], &out_order[p.tile_row_axes], a) != &out_order[p.tile_row_axes];
            if (!in_rows && i >= p.tile_column_axes && p.axis[a].block > 1) rest[rest_axes++] = a;
        }
        // The blocks that continue the output run come first: they complete the lines their neighbour began. Then those
        // that continue a cut index: the line they share is still in the cache.
        const int on = run_axes > 0 ? out_order[run_axes - 1] : 0;
        if (p.axis[on].block < p.axis[on].extent) loop[loops++] = on;
        for (const bool cut : {true, false})
            for (int i = 0; i < p.rank; ++i) {
                const auto& a = p.axis[out_order[i]];
                if (a.block < a.extent && (a.block > 1) == cut && out_order[i] != on) loop[loops++] = out_order[i];
            }
    }
};

/// One thread's walk over a range of blocks, with the offset tables of the current block shape.
class Worker {
  public:
    Worker(const Layout& layout, const cpu::TransposeKernels& kernels)
        : layout_(layout), plan_(layout.plan), kernels_(kernels), size_(plan_.element_bytes) {
        switch_ = size_ == 4 ? 0 : size_ == 8 ? 1 : 2;
    }

    /// Fills blocks straight into the output.
    void run_cached(const char* in, char* out, std::int64_t begin, std::int64_t end) {
        walk(begin, end, false, [&](std::int64_t in_at, std::int64_t out_at, std::int64_t ahead) {
            if (plan_.kernel != TransposeKernel::rows) return fill(in + in_at, out + out_at, ahead);
            for (std::size_t j = 0; j < out_across_.size(); ++j)
                std::memcpy(out + out_at + out_across_[j] * size_, in + in_at + in_across_[j] * size_,
                            static_cast<std::size_t>(run_ * size_));
        });
    }

    /// Fills one buffer while the other one leaves in whole lines. Where elements change on the way, emit(from, to,
    /// elements) changes them in the buffer, or on their way into it.
    template <class Emit>
    void run_streamed(const char* in, char* out, std::int64_t begin, std::int64_t end, bool changes, const Emit& emit) {
        int side = 0;
        const bool as_it_lies = plan_.kernel == TransposeKernel::rows && !changes;
        walk(begin, end, true, [&](std::int64_t in_at, std::int64_t out_at, std::int64_t ahead) {
            const char* from = in + in_at;
            if (!as_it_lies) {
                char* const place = buffer(side);
                from = place;
                side ^= 1;
                const bool rows = plan_.kernel == TransposeKernel::rows;
                if (!rows) fill(in + in_at, place, ahead);
                for (std::size_t j = 0; changes && j < to_across_.size(); ++j) {
                    char* const to = place + to_across_[j] * size_;
                    emit(rows ? in + in_at + in_across_[j] * size_ : to, to, run_);
                    if (rows) kernels_.drain(queue_, run_ * size_ / 64 + 1);
                }
            }
            finish();
            const auto& rows = as_it_lies ? in_across_bytes_ : to_across_bytes_;
            queue_ = {from,
                      out + out_at,
                      rows.data(),
                      out_across_bytes_.data(),
                      static_cast<std::int64_t>(rows.size()),
                      run_ * size_};
            queue_.parts = parts_for(rows.size());
            if (as_it_lies) {
                queue_.from_memory = true;
                queue_.fetched = fetched_;
                queue_.ahead = ahead;
            }
        });
        finish();
        write_parts();
        kernels_.fence();
    }

    /// emit(from, to, elements) for every output run.
    template <class Emit>
    void run_general(const char* in, char* out, std::int64_t begin, std::int64_t end, const Emit& emit) {
        walk(begin, end, true, [&](std::int64_t in_at, std::int64_t out_at, std::int64_t ahead) {
            const bool rows = plan_.kernel == TransposeKernel::rows;
            const char* from = rows ? in + in_at : buffer(0);
            if (!rows) fill(in + in_at, buffer(0), ahead);
            for (std::size_t j = 0; j < out_across_.size(); ++j)
                emit(from + (rows ? in_across_[j] : to_across_[j]) * size_, out + out_at + out_across_[j] * size_,
                     run_);
        });
    }

  private:
    template <class Block>
    void walk(std::int64_t begin, std::int64_t end, bool staged, const Block& block) {
        staged_ = staged;
        seek(begin);
        for (std::int64_t b = begin; b < end; ++b) {
            const std::int64_t in_at = in_at_ * size_, out_at = out_at_ * size_;
            shape_block();
            std::int64_t ahead = 0;
            if (b + 1 < end) {
                advance();
                ahead = in_at_ * size_ - in_at;
            }
            block(in_at, out_at, ahead);
        }
    }

    /// Where rows keep the part of a line that the next block completes. Rows shorter than a line gain nothing.
    cpu::LinePart* parts_for(std::size_t rows) {
        if (run_ * size_ < 64 || rows > 4096) return nullptr;
        if (parts_.size() < rows) parts_.resize(rows);
        return parts_.data();
    }

    void write_parts() {
        for (auto& part : parts_) {
            if (!part.end) continue;
            const auto kept = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(part.end) & 63) - part.begin;
            std::memcpy(part.end - kept, part.bytes + part.begin, static_cast<std::size_t>(kept));
            part.end = nullptr;
        }
    }

    void finish() {
        kernels_.drain(queue_, std::numeric_limits<std::int64_t>::max());
        fetched_ = std::max<std::int64_t>(0, queue_.fetched - queue_.rows);
    }

    void seek(std::int64_t block) {
        in_at_ = out_at_ = 0;
        for (int i = 0; i < layout_.loops; ++i) {
            const auto& a = plan_.axis[layout_.loop[i]];
            const std::int64_t segments = (a.extent + a.block - 1) / a.block;
            at_[i] = block % segments * a.block;
            block /= segments;
            in_at_ += at_[i] * a.in_stride;
            out_at_ += at_[i] * a.out_stride;
        }
    }

    void advance() {
        for (int i = 0; i < layout_.loops; ++i) {
            const auto& a = plan_.axis[layout_.loop[i]];
            const std::int64_t from = at_[i];
            at_[i] += a.block;
            const bool carry = at_[i] >= a.extent;
            if (carry) at_[i] = 0;
            in_at_ += (at_[i] - from) * a.in_stride;
            out_at_ += (at_[i] - from) * a.out_stride;
            if (!carry) return;
        }
    }

    /// Block extents at the current position; new tables when they differ from the last block's.
    void shape_block() {
        std::array<std::int64_t, kMaxTransposeRank> shape{};
        for (int i = 0; i < plan_.rank; ++i) shape[i] = plan_.axis[i].block;
        for (int i = 0; i < layout_.loops; ++i) {
            const int a = layout_.loop[i];
            shape[a] = std::min(plan_.axis[a].block, plan_.axis[a].extent - at_[i]);
        }
        if (shape == shape_) return;
        finish();  // the queue reads the tables
        shape_ = shape;
        run_ = 1;
        for (int i = 0; i < layout_.run_axes; ++i) run_ *= shape_[layout_.out_order[i]];
        set_target_strides();
        tabulate(layout_.across.data(), layout_.across_axes, in_strides_, in_across_);
        tabulate(layout_.across.data(), layout_.across_axes, out_strides_, out_across_);
        tabulate(layout_.across.data(), layout_.across_axes, to_strides_, to_across_);
        in_across_bytes_ = in_across_;
        out_across_bytes_ = out_across_;
        to_across_bytes_ = to_across_;
        for (auto* table : {&in_across_bytes_, &out_across_bytes_, &to_across_bytes_})
            for (auto& x : *table) x *= size_;
        if (plan_.kernel == TransposeKernel::rows) return;
        if (plan_.kernel == TransposeKernel::micro) {
            tabulate(layout_.out_order.data(), plan_.tile_row_axes, in_strides_, in_run_);
            tabulate(layout_.in_order.data(), plan_.tile_column_axes, to_strides_, to_columns_);
            tabulate(layout_.rest.data(), layout_.rest_axes, in_strides_, in_rest_);
            tabulate(layout_.rest.data(), layout_.rest_axes, to_strides_, to_rest_);
            return;
        }
        tabulate(layout_.out_order.data(), layout_.run_axes, in_strides_, in_run_);
        if (plan_.kernel == TransposeKernel::pieces) {
            piece_ = 1;
            for (int i = 0; i < layout_.run_axes; ++i) {
                const int a = layout_.out_order[i];
                if (in_strides_[a] != piece_) break;
                piece_ *= shape_[a];
                if (shape_[a] < plan_.axis[a].extent) break;
            }
            for (std::int64_t i = 0; i * piece_ < run_; ++i) in_run_[i] = in_run_[i * piece_] * size_;
        }
        tabulate_rows();
    }

    /// Strides inside the place a block is filled into: the output itself, or rows of the buffer, one per output run.
    void set_target_strides() {
        for (int i = 0; i < plan_.rank; ++i) {
            in_strides_[i] = plan_.axis[i].in_stride;
            out_strides_[i] = to_strides_[i] = plan_.axis[i].out_stride;
        }
        if (!staged_) return;
        // Whole lines, an odd number of them, so that columns do not share a cache set.
        const std::int64_t per_line = 64 / size_;
        std::int64_t step = ((run_ + per_line - 1) / per_line | 1) * per_line;
        for (int i = 0; i < layout_.across_axes; ++i) {
            to_strides_[layout_.across[i]] = step;
            step *= shape_[layout_.across[i]];
        }
        buffer_bytes_ = std::max(buffer_bytes_, step * size_);
    }

    using Strides = std::array<std::int64_t, kMaxTransposeRank>;

    /// Offsets of all positions of a group of axes, the first one fastest.
    void tabulate(const int* axes, int count, const Strides& strides, std::vector<std::int64_t>& table) const {
        table.assign(1, 0);
        for (int i = 0; i < count; ++i) {
            const std::int64_t step = strides[axes[i]], n = shape_[axes[i]];
            const std::size_t have = table.size();
            table.resize(have * static_cast<std::size_t>(n));
            for (std::size_t k = have; k < table.size(); ++k) table[k] = table[k - have] + step;
        }
    }

    /// Where the block's input runs begin: what is prefetched for the kernels that do not walk them in order.
    void tabulate_rows() {
        row_starts_.assign(1, 0);
        row_bytes_ = size_;
        bool contiguous = true;
        std::int64_t length = 1;
        for (int i = 0; i < plan_.rank; ++i) {
            const int a = layout_.in_order[i];
            if (contiguous && plan_.axis[a].in_stride == length) {
                length *= shape_[a];
                contiguous = shape_[a] == plan_.axis[a].extent;
                continue;
            }
            contiguous = false;
            const std::size_t have = row_starts_.size();
            row_starts_.resize(have * static_cast<std::size_t>(shape_[a]));
            for (std::size_t k = have; k < row_starts_.size(); ++k)
                row_starts_[k] = row_starts_[k - have] + plan_.axis[a].in_stride * size_;
        }
        row_bytes_ = length * size_;
    }

    void fill(const char* in, char* to, std::int64_t ahead) {
        if (plan_.kernel == TransposeKernel::micro) {
            const auto rows = static_cast<std::int64_t>(in_run_.size());
            const auto columns = static_cast<std::int64_t>(to_columns_.size());
            for (std::size_t k = 0; k < in_rest_.size(); ++k)
                kernels_.micro[switch_](in + in_rest_[k] * size_, in_run_.data(), rows, columns,
                                        to + to_rest_[k] * size_, to_columns_.data(), ahead, queue_);
            return;
        }
        const auto count = static_cast<std::int64_t>(in_across_.size());
        const std::int64_t lines = (row_bytes_ + 63) / 64;
        const std::int64_t all = lines * static_cast<std::int64_t>(row_starts_.size());
        std::int64_t row = 0, line = 0, done = 0;
        for (std::int64_t j = 0; j < count; ++j) {
            if (plan_.kernel == TransposeKernel::pieces)
                kernels_.pieces(in + in_across_[j] * size_, in_run_.data(), run_ / piece_, piece_ * size_,
                                to + to_across_[j] * size_);
            else
                kernels_.gather[switch_](in + in_across_[j] * size_, in_run_.data(), run_, to + to_across_[j] * size_);
            kernels_.drain(queue_, run_ * size_ / 64 + 1);
            if (ahead == 0) continue;
            for (const std::int64_t goal = all * (j + 1) / count; done < goal; ++done) {
                __builtin_prefetch(
                    reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(in) +
                                                  static_cast<std::uintptr_t>(ahead + row_starts_[row] + 64 * line)),
                    0, 2);
                if (++line == lines) {
                    line = 0;
                    ++row;
                }
            }
        }
    }

    /// One of two, each a whole number of lines and half a page apart, so that they do not share cache sets.
    char* buffer(int side) {
        const std::int64_t step = (buffer_bytes_ + 4095) / 4096 * 4096 + 2048;
        if (static_cast<std::int64_t>(storage_.size()) < 2 * step + 64) {
            finish();
            storage_ = std::vector<char>(static_cast<std::size_t>(2 * step + 64));
        }
        const auto at = reinterpret_cast<std::uintptr_t>(storage_.data());
        return storage_.data() + (64 - at % 64) % 64 + side * step;
    }

    const Layout& layout_;
    const TransposePlan& plan_;
    const cpu::TransposeKernels& kernels_;
    std::int64_t size_;
    int switch_ = 0;
    std::array<std::int64_t, kMaxTransposeRank> at_{}, shape_{};
    std::int64_t in_at_ = 0, out_at_ = 0;
    Strides in_strides_{}, out_strides_{}, to_strides_{};
    bool staged_ = false;
    std::int64_t run_ = 0, piece_ = 1, buffer_bytes_ = 0, row_bytes_ = 0;
    std::vector<std::int64_t> in_run_, in_across_, out_across_, to_across_, in_rest_, to_rest_, to_columns_,
        row_starts_;
    std::vector<std::int64_t> in_across_bytes_, out_across_bytes_, to_across_bytes_;
    cpu::StreamQueue queue_;
    std::int64_t fetched_ = 0;  // rows of the block to come that are on their way into the cache
    std::vector<cpu::LinePart> parts_;
    std::vector<char> storage_;
};

/// alpha * x, in the order of operations of ref/; complex without the detour for infinities. Times one is nothing: an
/// infinite element stays what it is.
template <Scalar T>
T times(T a, T b) {
    if (a == T(1)) return b;
    if constexpr (is_complex<T>)
        return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
    else
        return a * b;
}

template <Scalar T>
void combine(const T* in, T* out, std::int64_t n, T alpha, T beta, bool conjugate) {
    if (beta == T(0)) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = times(alpha, conjugate_if(in[i], conjugate));
    } else {
        for (std::int64_t i = 0; i < n; ++i)
            out[i] = times(alpha, conjugate_if(in[i], conjugate)) + times(beta, out[i]);
    }
}

/// For outputs without a contiguous index: the obvious loop, one slice of the slowest axis at a time.
template <Scalar T>
void transpose_strided(const TransposePlan& plan, const T* in, T* out, const TransposeArguments<T>& args,
                       std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, kMaxTransposeRank> at{};
    const auto& last = plan.axis[plan.rank - 1];
    for (std::int64_t slice = begin; slice < end; ++slice) {
        std::int64_t from = 0, to = 0;
        if (plan.rank > 1) {
            from = slice * plan.axis[0].in_stride;
            to = slice * plan.axis[0].out_stride;
        }
        const std::int64_t first = plan.rank > 1 ? 0 : slice, stop = plan.rank > 1 ? last.extent : slice + 1;
        at.fill(0);
        for (;;) {
            for (std::int64_t i = first; i < stop; ++i)
                combine(in + from + i * last.in_stride, out + to + i * last.out_stride, 1, args.alpha, args.beta,
                        args.conjugate);
            int d = plan.rank - 2;
            for (; d >= 1; --d) {
                const auto& a = plan.axis[d];
                from += a.in_stride;
                to += a.out_stride;
                if (++at[d] < a.extent) break;
                from -= a.in_stride * a.extent;
                to -= a.out_stride * a.extent;
                at[d] = 0;
            }
            if (d < 1) break;
        }
    }
}

void check_apart(const TransposePlan& plan, const void* in, const void* out) {
    const auto a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
    const auto a_end = a + static_cast<std::uintptr_t>(plan.in_span * plan.element_bytes);
    const auto b_end = b + static_cast<std::uintptr_t>(plan.out_span * plan.element_bytes);
    require(a_end <= b || b_end <= a, "transpose: input [{:#x}, {:#x}) and output [{:#x}, {:#x}) overlap", a, a_end, b,
            b_end);
}

/// Gives each thread ranges of consecutive blocks; start() makes what a thread walks them with.
template <class Start>
void share_blocks(std::int64_t blocks, int threads, const Start& start) {
    if (threads <= 1) {
        start()(std::int64_t{0}, blocks);
        return;
    }
    const std::int64_t chunk = std::max<std::int64_t>(1, blocks / (threads * std::int64_t{8}));
    std::atomic<std::int64_t> next{0};
    parallel_region(threads, [&](int, int) {
        auto walk = start();
        for (std::int64_t b = next.fetch_add(chunk); b < blocks; b = next.fetch_add(chunk))
            walk(b, std::min(b + chunk, blocks));
    });
}

}  // namespace

template <Scalar T>
void transpose(const TransposePlan& plan, const T* in, T* out, const TransposeArguments<T>& args) {
    require(plan.element_bytes == static_cast<int>(sizeof(T)) || plan.element_bytes == 0,
            "transpose: plan for elements of {} bytes, called with {}", plan.element_bytes, sizeof(T));
    if (plan.kernel == TransposeKernel::empty) return;
    require(in != nullptr && out != nullptr, "transpose: null {}", in == nullptr ? "input" : "output");
    for (const T* p : {in, static_cast<const T*>(out)}) {
        const auto address = reinterpret_cast<std::uintptr_t>(p);
        require(address % sizeof(RealOf<T>) == 0, "transpose: {} at address {:#x}, which is no multiple of {}",
                p == in ? "input" : "output", address, sizeof(RealOf<T>));
    }
    check_apart(plan, in, out);
    const Isa isa = std::min(args.isa.value_or(detected_isa()), detected_isa());
    const auto& kernels = kernels_for(isa);
    const int asked = resolve_threads(args.threads);  // also where one will do: a wrong number is told
    const int wanted = plan.team ? asked : 1;
    const int threads = static_cast<int>(std::min<std::int64_t>(wanted, plan.blocks));

    if (plan.kernel == TransposeKernel::strided) {
        share_blocks(plan.axis[0].extent, threads, [&] {
            return [&](std::int64_t begin, std::int64_t end) { transpose_strided(plan, in, out, args, begin, end); };
        });
        return;
    }
    const Layout layout(plan);
    const bool plain = args.alpha == T(1) && args.beta == T(0) && !(is_complex<T> && args.conjugate);
    const auto* from = reinterpret_cast<const char*>(in);
    auto* to = reinterpret_cast<char*>(out);
    share_blocks(plan.blocks, threads, [&] {
        return [&, worker = Worker(layout, kernels)](std::int64_t begin, std::int64_t end) mutable {
            const auto emit = [&](const char* a, char* b, std::int64_t n) {
                combine(reinterpret_cast<const T*>(a), reinterpret_cast<T*>(b), n, args.alpha, args.beta,
                        args.conjugate);
            };
            // What is added to has to be read: there is nothing to bypass.
            if (plan.stream && args.beta == T(0))
                worker.run_streamed(from, to, begin, end, !plain, emit);
            else if (plain)
                worker.run_cached(from, to, begin, end);
            else
                worker.run_general(from, to, begin, end, emit);
        };
    });
}

template <Scalar T>
void transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, const T* in, T* out,
               const TransposeArguments<T>& args) {
    transpose(plan_transpose(extents, permutation, sizeof(T)), in, out, args);
}

#define TESSERA_INSTANTIATE(T)                                                                    \
    template void transpose<T>(const TransposePlan&, const T*, T*, const TransposeArguments<T>&); \
    template void transpose<T>(std::span<const std::int64_t>, std::span<const int>, const T*, T*, \
                               const TransposeArguments<T>&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::kernels

#pragma once
// The tile product over one instruction set's kernels. Split in three: gemm_view (any tile seen as real matrices),
// gemm_packed (blocked for the caches) and gemm_direct (small tiles, no packing).

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cpu/gemm_table.hpp"
#include "kernels/gemm.hpp"
#include "storage/buffer.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::kernels::cpu {

/// multiply_chains on a given instruction set, which this processor must have.
template <Scalar T>
void multiply_chains(Isa isa, std::span<const Chain<T>> chains, GemmFlags flags, GemmWorkspace& workspace);

template <Scalar T>
void add_dots(Isa isa, const T* const (&a)[kDots], const T* const (&b)[kDots], std::int64_t k, std::int64_t step_a,
              std::int64_t step_b, GemmFlags flags, T (&sums)[kDots]);

/// One product as real matrices: a(m,k) and b(k,n); k counts real steps, two for each complex one.
template <class R>
struct RealLink {
    const R* a;
    const R* b;
    const Axes *a_m, *a_k;  // in reals
    const Axes *b_k, *b_n;  // in elements: the packing of B knows about complex
    std::int64_t k;
    R factor = 1;  // this and conjugation are seen to where B is packed
    bool conjugate_a = false, conjugate_b = false;
};

template <class R>
struct RealChain {
    R* c = nullptr;
    const Axes *c_m = nullptr, *c_n = nullptr;
    std::int64_t m = 0, n = 0;
    std::vector<RealLink<R>> links;
    bool overwrite = false;
    bool in_place = false;  // the kernels can update C where it lies:
    std::int64_t run = 1;   // panels are cut within so many neighbouring columns, which lie together
    bool* not_finite = nullptr;
};

/// Positions of a dimension that lie at a constant distance.
struct Run {
    std::int64_t first, count;    // positions
    std::int64_t offset, stride;  // in elements
    std::int64_t step = 1;        // from one position to the next
};
/// The runs of positions [begin, end), consecutive ones; `first` counts from begin.
void find_runs(const Axes& axes, std::int64_t begin, std::int64_t end, std::vector<Run>& runs);
/// The axis that walks memory element by element, where it is not the fastest one; -1: there is none.
int buried_unit(const Axes& axes);
/// The runs of positions [begin, end) along that axis, which step over the faster ones.
void find_unit_runs(const Axes& axes, int unit, std::int64_t begin, std::int64_t end, std::vector<Run>& runs);

/// One axis at most: position p lies at p * stride.
inline bool is_plain(const Axes& axes) { return axes.count <= 1; }
inline std::int64_t plain_stride(const Axes& axes) { return axes.count == 0 ? 0 : axes.axis[0].stride; }
inline bool is_unit(const Axes& axes) {
    return axes.count == 0 || (axes.count == 1 && (axes.axis[0].stride == 1 || axes.axis[0].extent == 1));
}
/// Distance of neighbours along the fastest axis (1 when there are no neighbours).
inline std::int64_t inner_stride(const Axes& axes) {
    return axes.count == 0 || axes.axis[axes.count - 1].extent == 1 ? 1 : axes.axis[axes.count - 1].stride;
}

/// `total` cut into `parts` pieces that differ by one at most.
struct EvenSplit {
    std::int64_t parts, base, larger;
    EvenSplit(std::int64_t total, std::int64_t n_parts)
        : parts(n_parts), base(n_parts == 1 ? total : total / n_parts), larger(total - base * n_parts) {}
    std::int64_t size(std::int64_t i) const { return base + (i < larger ? 1 : 0); }
    std::int64_t begin(std::int64_t i) const { return i * base + (i < larger ? i : larger); }
};
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Lines of memory to bring near while something else is computed, handed out a stretch at a time.
class Fetch {
  public:
    /// `rows` rows, each of `count` lines that lie `step` bytes apart.
    void set(const void* first, std::int64_t count, std::int64_t step, std::int64_t row_stride, std::int64_t rows) {
        row_ = static_cast<const char*>(first);
        count_ = count;
        step_ = step;
        stride_ = row_stride;
        rows_ = rows;
        at_ = 0;
    }
    void clear() { rows_ = 0; }
    std::int64_t step() const { return step_; }
    /// The next stretch of at most `lines` lines, or null when all is fetched.
    const char* next(std::int64_t lines) {
        if (rows_ <= 0) return nullptr;
        const char* p = row_ + at_ * step_;
        at_ += lines;
        if (at_ >= count_) {
            at_ = 0;
            row_ += stride_;
            --rows_;
        }
        return p;
    }

  private:
    const char* row_ = nullptr;
    std::int64_t count_ = 0, step_ = 0, stride_ = 0, rows_ = 0, at_ = 0;
};

inline constexpr std::int64_t kPanelBytes = std::int64_t{1} << 20;  // packed B, at most
inline constexpr std::int64_t kDepthBytes = 384 * 8;                // of k in a block, for one row of A
inline constexpr std::int64_t kStripBytes = kDepthBytes * kMaxStrip;
inline constexpr std::int64_t kShortRun = 4;       // rows of C in shorter runs are not worth a kernel call each
inline constexpr std::int64_t kMaxColumns = 2048;  // of a block
inline constexpr std::int64_t kCopyBytes = std::int64_t{2} << 20;  // part of a C whose layout needs a copy
static_assert(kCopyBytes >= kMaxColumns * kMaxStrip * 8);

/// Of packed B on this machine: what stays in its second-level cache. No bit of a result depends on it.
std::int64_t panel_bytes();

/// Memory of one thread that outlives a call; taken when it is first used: small tiles need none.
struct Scratch {
    char* panel() { return block(); }
    char* copy() { return block() + kPanelBytes; }
    char* strip() { return block() + kPanelBytes + kCopyBytes; }
    static constexpr std::int64_t kBytes = kPanelBytes + kCopyBytes + kStripBytes;
    char* block() {
        if (memory.bytes() == 0) take();
        return reinterpret_cast<char*>(memory.data());
    }
    void take();

    Buffer memory;
    std::vector<Run> runs[4];
};

/// The axes of one dimension, slowest in memory first: rows (and columns) may be visited in any order, and in this
/// one the tile is walked along memory.
struct AxisOrder {
    int count = 0;
    std::array<int, kMaxAxes> axis{};  // the old number of each
    bool changed = false;
    static AxisOrder of(const Axes& axes);
};
/// `axes`, which walks the same positions as `leader`, in the new order of leader's axes, neighbours fused. False: an
/// axis of it crosses leader's axes unevenly, and it cannot be cut to follow them.
bool reorder(const Axes& leader, const AxisOrder& order, const Axes& axes, Axes& out);

/// Sees chains of T as real chains, for vectors of so many reals; keeps the layouts it had to rewrite.
template <Scalar T>
class RealView {
  public:
    explicit RealView(int lanes) : lanes_(lanes) {}
    void assign(const Chain<T>& chain, RealChain<RealOf<T>>& out);

  private:
    /// Whose memory order rows and columns are visited in; null: as the axes are given.
    struct Leaders {
        const Axes *rows = nullptr, *cols = nullptr;
    };
    struct Key {
        const MatrixLayout* layout;
        const Axes *rows, *cols;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& k) const {
            const std::hash<const void*> hash;
            return (hash(k.layout) * 31 + hash(k.rows)) * 31 + hash(k.cols);
        }
    };

    /// The layout in the leaders' order; null: it cannot be.
    const MatrixLayout* ordered(const MatrixLayout* layout, const Leaders& leaders);
    bool all_follow(const Chain<T>& chain, const Leaders& leaders);
    const MatrixLayout* real_columns(const MatrixLayout* layout);
    /// Whether C, seen with these rows and columns, is better updated where it lies than copied.
    bool in_place(const Axes& rows, const Axes& cols, const Chain<T>& chain) const;
    /// Whether vectors that short runs of columns leave partly empty cost less than a copy of C.
    bool fills_vectors(std::int64_t run, const Chain<T>& chain) const;

    const int lanes_;
    std::unordered_map<const MatrixLayout*, std::unique_ptr<MatrixLayout>> real_;
    std::unordered_map<Key, std::unique_ptr<MatrixLayout>, Hash> ordered_;  // null: cannot be
};

/// Small tiles: kernels read the tiles where they lie. False: not for this chain, nothing was done.
/// `next` is the chain that will follow, or null: its first tiles are fetched.
template <class R>
bool multiply_direct(const KernelTable<R>& table, const RealChain<R>& chain, const RealChain<R>* next,
                     std::vector<Segment<R>>& segments);

/// The same for real tiles that are plain matrices and in the caches: straight from the links to the kernels.
template <class R>
class SmallProduct {
  public:
    explicit SmallProduct(const KernelTable<R>& table) : table_(table) {}
    /// False: not for this chain, nothing was done.
    bool multiply(const Chain<R>& chain);

  private:
    void look_at(const MatrixLayout& c);
    void look_at(const ChainLink<R>& link);

    const KernelTable<R>& table_;
    struct {  // of the C seen last
        const MatrixLayout* layout = nullptr;
        bool fits = false, transposed = false;
        std::int64_t m = 0, n = 0, row = 0;
        EvenSplit panels{0, 1}, strips{0, 1};
    } c_;
    struct {  // of the link seen last
        const MatrixLayout *a = nullptr, *b = nullptr;
        bool fits = false;
        std::int64_t k = 0, a_row = 0, a_k = 0, b_k = 0;
    } link_;
    std::vector<Segment<R>> segments_;
};

/// Any tiles, packed and blocked.
template <class R>
class PackedProduct {
  public:
    PackedProduct(const KernelTable<R>& table, Scratch& scratch, bool complex, GemmFlags flags)
        : table_(table), scratch_(scratch), complex_(complex), flags_(flags) {}
    void multiply(const RealChain<R>& chain, const RealChain<R>* next);

  private:
    struct Piece {  // part of a link's k range
        const RealLink<R>* link;
        std::int64_t begin, end, at;  // at: position within the block
        std::int64_t first_run, run_count;
        bool apart;  // the runs are of complex numbers
    };
    struct DepthBlock {
        std::int64_t first_piece, piece_count, k;
    };
    struct Panel {  // some vectors of columns, packed
        std::int64_t first, cols, width;
        std::int64_t c;  // where its columns begin in a row of C
        int vectors, last_lanes;
        R* packed;
    };
    struct Strip {
        std::int64_t first, rows;
        R* c;
        std::int64_t c_row;
    };

    void cut_depth(const RealChain<R>& chain);
    std::int64_t columns_per_block(const RealChain<R>& chain, std::int64_t depth, std::int64_t& grain) const;
    void cut_columns(const RealChain<R>& chain, std::int64_t n_begin, std::int64_t n, std::int64_t depth);
    void cut_rows(const Axes& rows, R* c, std::int64_t begin, std::int64_t end);
    void pack_columns(const RealChain<R>& chain, const DepthBlock& block, std::int64_t n_begin, std::int64_t n);
    void pack_tiles(const RealChain<R>& chain, const DepthBlock& block, std::int64_t n_begin, std::int64_t n);
    bool pack_across_runs(const RealChain<R>& chain, const Piece& piece, std::int64_t n_begin, std::int64_t n);
    void sweep(const RealChain<R>& chain, const DepthBlock& block, bool first, bool last);
    void place_rows(const Piece& piece, const Strip& strip);
    void fetch_strip(const DepthBlock& block, const Strip& strip);
    void fetch_columns(const RealLink<R>& link, std::int64_t begin, std::int64_t end, std::int64_t n_begin,
                       std::int64_t n);
    void fetch_rows(const RealLink<R>& link, std::int64_t begin, std::int64_t end);
    void copy_strip(const RealChain<R>& chain, const Strip& strip, bool store);
    void fetch_copy(const RealChain<R>& chain, const Panel& panel);

    const KernelTable<R>& table_;
    Scratch& scratch_;
    const bool complex_;
    const GemmFlags flags_;
    std::vector<Piece> pieces_;
    std::vector<Run> piece_runs_;   // of A along k, by piece
    std::vector<Run> c_next_rows_;  // of the next strip, likewise
    std::vector<Run> c_columns_;    // of the block, for a C that is copied
    std::vector<DepthBlock> blocks_;
    std::vector<Panel> panels_;
    std::int64_t widest_ = 1;      // vectors of a panel
    std::int64_t run_panels_ = 0;  // of each run of C's columns, where a block holds whole ones; else 0
    std::vector<Strip> strips_;
    std::vector<Segment<R>> segments_;
    std::vector<std::int64_t> segment_at_;
    Fetch next_rows_, next_columns_;
};

}  // namespace tessera::kernels::cpu

#pragma once
// Tile products on a CUDA device: one call computes a list of C tiles, each the sum over a chain of products
// A(m,k) B(k,n) of any sizes. Beside it, in the same manner: tiles made by the hash generator.
//
// A list is described on the host, packed into one image, copied to the device by the caller and run from there.
// Packing touches no device. Tiles are row-major with a leading dimension in elements; addresses are device addresses.
//
// Bits: an element of C is one chain of operations over ascending product and ascending k, four k at a time in double
// (the matrix instructions'), started from zero or from what C holds. Where a chain is cut into calls, the place in the
// list, the block shape and the number of multiprocessors never change it.

#include <cstdint>
#include <vector>

#include "device/cuda/names.hpp"
#include "tessera/base/scalar.hpp"

namespace tessera::kernels::cuda {

using DeviceAddress = std::uint64_t;

inline DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

/// Leading dimension of a tile with so many columns whose rows start at multiples of 16 bytes: full speed. Any leading
/// dimension and element-aligned address works.
constexpr std::int64_t padded_ld(std::int64_t columns, ScalarKind kind) {
    const std::int64_t unit = 16 / bytes_of(kind);
    return (columns + unit - 1) / unit * unit;
}

// Lists, as they lie in device memory --------------------------------------------------------------------------------

/// Flags of a product; conjugation is of the operand's elements, with or without transposing.
enum : std::uint32_t {
    kTransposeA = 1,  // A is stored k by m
    kTransposeB = 2,  // B is stored n by k
    kConjugateA = 4,
    kConjugateB = 8
};

struct GroupedProduct {
    DeviceAddress a = 0, b = 0;
    std::int32_t lda = 0, ldb = 0;  // of the matrices as stored
    std::int32_t k = 0;
    std::uint32_t flags = 0;
};

struct GroupedTile {
    DeviceAddress c = 0;
    std::int64_t first_product = 0;
    std::int32_t product_count = 0;
    std::int32_t m = 0, n = 0, ldc = 0;
    std::uint32_t resume = 0;  // start from what C holds instead of zero
    std::uint32_t unused = 0;
};

/// A thread block's share of a C tile: where it starts and how many pieces of 16 rows and 8 columns it has.
struct GroupedItem {
    std::int32_t tile = 0, row = 0, column = 0;
    std::uint16_t row_pieces = 0, column_pieces = 0;
};

/// hash_fill(state, scale, ...) of rows * columns elements, row after row (base/hash_fill.hpp): the same bits.
struct HashTile {
    DeviceAddress out = 0;
    std::uint64_t state = 0;
    double scale = 1;  // hash_scale(norm, elements), or 1
    std::int32_t rows = 0, columns = 0, ld = 0;
    std::uint32_t unused = 0;
};

/// Some rows of a tile that is to be made: one thread block's work.
struct RowsItem {
    std::int32_t tile = 0, row = 0, rows = 0, unused = 0;
};
inline constexpr std::int64_t kHashElements = 16384;  // per thread block, about

// Grouped products ---------------------------------------------------------------------------------------------------

/// What to launch for an image; a plain value, worth keeping when one image is run several times.
struct GroupedLaunch {
    static constexpr int kShapes = 5;
    ScalarKind kind = ScalarKind::f64;
    std::int64_t bytes = 0;                      // of the image
    std::int64_t tiles_at = 0, products_at = 0;  // byte offsets in it
    std::int64_t items_at[kShapes] = {};         // work items of each block shape
    std::int64_t item_count[kShapes] = {};
    double flops = 0;
};

/// For benchmarks and tests.
struct GroupedTuning {
    int shape = -1;        // 0 .. GroupedLaunch::kShapes - 1: this block shape for every tile; -1: chosen by size
    int blocks = 0;        // thread blocks; 0: as many as fit
    int shared_bytes = 0;  // as on a chip that gives a thread block no more; 0: what this one gives
};

class GroupedList {
  public:
    explicit GroupedList(ScalarKind kind) : kind_(kind) {}
    void clear();
    /// A C tile; the products added next are its chain, in this order. Tiles run in about the order they are added
    /// (short lists of large double ones: most work first): put neighbours that share operands next to each other.
    void add_tile(DeviceAddress c, std::int64_t m, std::int64_t n, std::int64_t ldc, bool resume);
    void add_product(DeviceAddress a, std::int64_t lda, DeviceAddress b, std::int64_t ldb, std::int64_t k,
                     std::uint32_t flags = 0);

    std::int64_t tile_count() const { return static_cast<std::int64_t>(tiles_.size()); }
    std::int64_t product_count() const { return static_cast<std::int64_t>(products_.size()); }
    /// Settles block shapes for a device with so many multiprocessors, and says how large the image is.
    GroupedLaunch plan(int multiprocessors, const GroupedTuning& tuning = {});
    /// The image of the last plan(), launch.bytes long, e.g. into pinned memory. Copy it to 16-byte aligned device
    /// memory.
    void write_image(void* to) const;

  private:
    ScalarKind kind_;
    std::vector<GroupedTile> tiles_;
    std::vector<GroupedProduct> products_;
    std::vector<GroupedItem> items_[GroupedLaunch::kShapes];
    GroupedLaunch launch_;
};

/// At most what one tile adds to an image; with kImageSlack per image, for budgets settled before addresses are known.
std::int64_t grouped_bytes_bound(std::int64_t m, std::int64_t n, std::int64_t products);
inline constexpr std::int64_t kGroupedHeaderBytes = 512;  // the queues' counters
inline constexpr std::int64_t kImageSlack = 4096;         // header and alignment of any list's image

/// Asynchronous. No two tiles of a list may overlap; one run of an image at a time (it holds the queue's counters).
void run_grouped(const GroupedLaunch& launch, void* image, StreamHandle stream = nullptr,
                 const GroupedTuning& tuning = {});

// The hash generator -------------------------------------------------------------------------------------------------

struct HashLaunch {
    ScalarKind kind = ScalarKind::f64;
    std::int64_t bytes = 0;
    std::int64_t tiles_at = 0, items_at = 0, item_count = 0;
};

class HashList {
  public:
    explicit HashList(ScalarKind kind) : kind_(kind) {}
    void clear() { tiles_.clear(); }
    void add(const HashTile& tile);
    HashLaunch plan();
    void write_image(void* to) const;

  private:
    ScalarKind kind_;
    std::vector<HashTile> tiles_;
    std::vector<RowsItem> items_;
    HashLaunch launch_;
};
std::int64_t hash_bytes_bound(std::int64_t rows, std::int64_t columns);

/// Makes the tiles; elements between columns and ld are left alone.
void run_hash(const HashLaunch& launch, void* image, StreamHandle stream = nullptr);

}  // namespace tessera::kernels::cuda

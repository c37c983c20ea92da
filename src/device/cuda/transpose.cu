// The transpose on a device, host side: which tables a shape gets, and which kernel runs them.

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "device/cuda/check.hpp"
#include "device/cuda/transpose.hpp"
#include "device/cuda/transpose_kernels.cuh"
#include "kernels/transpose_tiles.hpp"

namespace tessera::kernels::cuda {

namespace {

template <class T>
DeviceBuffer upload(const std::vector<T>& host) {
    DeviceBuffer b(host.size() * sizeof(T));
    if (!host.empty()) copy_to_device(b.data(), host.data(), host.size() * sizeof(T));
    return b;
}

/// Threads, elements per thread, stages. One thread block per multiprocessor is best: it leaves the first-level cache
/// to the copies that are on their way (docs/transpose.md).
struct Shape {
    int threads, elements, stages;
    bool operator==(const Shape&) const = default;
};
constexpr Shape best_shape(std::size_t word_bytes) { return word_bytes == 16 ? Shape{768, 8, 2} : Shape{1024, 8, 2}; }

/// TileTables in device memory.
struct DeviceTiles {
    TileTables host;
    bool wide_offsets;
    Shape shape;
    int waves = 1;          // blocks per resident one
    bool resonant = false;  // keep the grid whatever its factors
    DeviceBuffer in_offset, out_offset, store, load, in_coordinate, out_coordinate;

    DeviceTiles(TileTables tables, Shape s, bool wide) : host(std::move(tables)), wide_offsets(wide), shape(s) {
        if (host.tiles == 0) return;
        if (wide_offsets) {
            in_offset = upload(host.in_offset);
            out_offset = upload(host.out_offset);
        } else {
            in_offset = upload(std::vector<unsigned>(host.in_offset.begin(), host.in_offset.end()));
            out_offset = upload(std::vector<unsigned>(host.out_offset.begin(), host.out_offset.end()));
        }
        store = upload(host.store);
        load = upload(host.load);
        in_coordinate = upload(host.in_coordinate);
        out_coordinate = upload(host.out_coordinate);
        // The tables' text is on the device now; the plan and the counts are what the host still needs.
        for (auto* v : {&host.in_offset, &host.out_offset}) std::vector<std::int64_t>().swap(*v);
        for (auto* v : {&host.store, &host.load}) std::vector<std::uint16_t>().swap(*v);
        for (auto* v : {&host.in_coordinate, &host.out_coordinate}) std::vector<std::uint32_t>().swap(*v);
    }

    template <class Offset>
    Tiles<Offset> view() const {
        Tiles<Offset> t{};
        t.in_offset = static_cast<const Offset*>(in_offset.data());
        t.out_offset = static_cast<const Offset*>(out_offset.data());
        t.store = static_cast<const unsigned short*>(store.data());
        t.load = static_cast<const unsigned short*>(load.data());
        t.in_coordinate = static_cast<const unsigned*>(in_coordinate.data());
        t.out_coordinate = static_cast<const unsigned*>(out_coordinate.data());
        t.volume = host.volume;
        t.slots = host.slots;
        t.tiles = static_cast<unsigned>(host.tiles);
        t.loops = static_cast<int>(host.loops.size());
        for (int i = 0; i < t.loops; ++i) {
            const auto& l = host.loops[i];
            t.loop[i] = {l.period, l.count, l.block, l.extent, l.in_step, l.out_step};
        }
        return t;
    }
};

template <class Kernel, class Offset, class Word, class Out>
void launch_kernel(Kernel kernel, int threads, std::size_t shared, const DeviceTiles& tiles, const Tiles<Offset>& view,
                   const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    if (shared > 47 << 10)  // a kernel has a little of its own besides, and 48 KiB without asking
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
              "shared memory");
    int device = 0, processors = 0, resident = 0;
    check(cudaGetDevice(&device), "device");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared), "occupancy");
    auto grid = static_cast<unsigned>(
        std::min<std::int64_t>(tiles.host.tiles, std::int64_t{processors} * std::max(resident, 1) * tiles.waves));
    // A grid that shares a factor with the tiles along a cut axis would give some blocks all the ragged tiles.
    if (grid > 64 && grid < tiles.host.tiles && !tiles.resonant)
        while (std::gcd(std::int64_t{grid}, tiles.host.cut_tiles) != 1) --grid;
    kernel<<<grid, threads, shared, static_cast<cudaStream_t>(stream)>>>(view, in, out, emit);
    check(cudaGetLastError(), "transpose launch");
}

template <class Word, class Offset, int Threads, int Elements, int Stages, int InWord, int OutWord, class Out>
void launch_tile(const DeviceTiles& tiles, const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    launch_kernel(through_shared<Word, Offset, Threads, Elements, Stages, InWord, OutWord, Out>, Threads,
                  std::size_t{tiles.host.slots} * sizeof(Word) * Stages, tiles, tiles.view<Offset>(), in, out, emit,
                  stream);
}

template <class Word, Shape S, class Out>
bool launch_shape(const DeviceTiles& tiles, const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    if (tiles.shape != S) return false;
    constexpr int kWord = 16 / sizeof(Word);
    const auto go = [&]<int In, int Out_>(std::integer_sequence<int, In, Out_>) {
        launch_tile<Word, unsigned, S.threads, S.elements, S.stages, In, Out_>(tiles, in, out, emit, stream);
    };
    const bool in_words = tiles.host.in_word > 1, out_words = tiles.host.out_word > 1;
    if (in_words && out_words) go(std::integer_sequence<int, kWord, kWord>{});
    if (in_words && !out_words) go(std::integer_sequence<int, kWord, 1>{});
    if (!in_words && out_words) go(std::integer_sequence<int, 1, kWord>{});
    if (!in_words && !out_words) go(std::integer_sequence<int, 1, 1>{});
    return true;
}

template <class Word, class Out>
void launch(const DeviceTiles& tiles, const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    if (tiles.wide_offsets) {
        if (tiles.host.direct)
            launch_kernel(direct<Word, long long, 256, 8, Out>, 256, 0, tiles, tiles.view<long long>(), in, out, emit,
                          stream);
        else
            launch_tile<Word, long long, 256, 8, 1, 1, 1>(tiles, in, out, emit, stream);
        return;
    }
    if (tiles.host.direct) {
        launch_kernel(direct<Word, unsigned, 256, 8, Out>, 256, 0, tiles, tiles.view<unsigned>(), in, out, emit,
                      stream);
        return;
    }
    if (launch_shape<Word, best_shape(sizeof(Word))>(tiles, in, out, emit, stream)) return;
    if constexpr (std::is_same_v<Out, Move<Word>>) {  // for tuning
        if (launch_shape<Word, Shape{256, 8, 1}>(tiles, in, out, emit, stream)) return;
        if (launch_shape<Word, Shape{512, 8, 1}>(tiles, in, out, emit, stream)) return;
        if (launch_shape<Word, Shape{512, 16, 2}>(tiles, in, out, emit, stream)) return;
        if (sizeof(Word) < 16 && launch_shape<Word, Shape{768, 8, 2}>(tiles, in, out, emit, stream)) return;
        if (sizeof(Word) == 16 && launch_shape<Word, Shape{1024, 8, 2}>(tiles, in, out, emit, stream)) return;
    }
    throw UserError("transpose: tuning.threads " + std::to_string(tiles.shape.threads) + ", elements " +
                    std::to_string(tiles.shape.elements) + " and stages " + std::to_string(tiles.shape.stages) +
                    " are no shape that was compiled");
}

/// Elements of any type that are only moved.
void launch_move(const DeviceTiles& tiles, const void* in, void* out, StreamHandle stream) {
    const auto as = [&]<class Word>(Word) {
        launch(tiles, static_cast<const Word*>(in), static_cast<Word*>(out), Move<Word>{}, stream);
    };
    if (tiles.host.plan.element_bytes == 4) as(float{});
    if (tiles.host.plan.element_bytes == 8) as(double{});
    if (tiles.host.plan.element_bytes == 16) as(double2{});
}

template <Scalar T>
struct WordOf {
    using type = T;
};
template <>
struct WordOf<std::complex<float>> {
    using type = Complex<float>;
};
template <>
struct WordOf<std::complex<double>> {
    using type = Complex<double>;
};

bool aligned(const void* p, int bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % static_cast<unsigned>(bytes) == 0;
}

}  // namespace

struct DeviceTranspose::Impl {
    TransposePlan plan;
    DeviceTiles general;                 // accesses by elements, for any address
    std::unique_ptr<DeviceTiles> words;  // accesses of 16 bytes, or what tuning asks for; null where that is the same

    static DeviceTiles tiles_for(const TransposePlan& plan, const DeviceTransposeTuning& tuning, Shape shape,
                                 int word_bytes) {
        const auto or_else = [](auto value, decltype(value) fallback) { return value != 0 ? value : fallback; };
        const std::int64_t run = or_else(tuning.run_bytes, std::int64_t{256});
        const std::int64_t row = or_else(tuning.row_bytes, std::int64_t{1} << 20);
        int device = 0, shared = 0;
        check(cudaGetDevice(&device), "device");
        check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
        shared -= 512;  // the kernel's own
        auto volume = std::int64_t{shape.threads} * shape.elements;
        auto tables = make_tiles(plan, volume, run, row, word_bytes);
        // Wide words may need smaller tiles than the threads could move.
        while (std::int64_t{tables.slots} * tables.plan.element_bytes * shape.stages > shared)
            tables = make_tiles(plan, volume = volume * 3 / 4, run, row, word_bytes);
        // Also where the smaller tiles that follow would do without: only the kernels for wide offsets have their
        // shape.
        const bool wide = tables.largest_offset > 0xffffffffll;
        if (tables.direct || wide) {
            shape = {256, 8, 1};
            tables = make_tiles(plan, 256 * 8, run, row, 1);
        }
        DeviceTiles made(std::move(tables), shape, wide);
        made.waves = std::max(1, tuning.waves);
        made.resonant = tuning.waves < 0;
        return made;
    }
    Impl(const TransposePlan& p, const DeviceTransposeTuning& tuning)
        : plan(p), general(tiles_for(p, tuning, best_shape(static_cast<std::size_t>(p.element_bytes)), 1)) {
        if (plan.volume == 0) return;
        const auto wide = widen(plan);
        Shape shape = best_shape(static_cast<std::size_t>(wide.element_bytes));
        if (tuning.threads != 0) shape = {tuning.threads, tuning.elements, tuning.stages};
        auto made = tiles_for(wide, tuning, shape, tuning.words ? 16 : 1);
        const bool same = made.host.plan.element_bytes == plan.element_bytes && made.host.in_word == 1 &&
                          made.host.out_word == 1 && made.shape == general.shape;
        if (!same) words = std::make_unique<DeviceTiles>(std::move(made));
    }
    const DeviceTiles& first_choice() const { return words ? *words : general; }
};

namespace {

void check_tuning(const DeviceTransposeTuning& t) {
    const auto wrong = [](const char* name, std::int64_t value, const char* wanted) {
        throw UserError(std::string("transpose: tuning.") + name + " " + std::to_string(value) + " is not " + wanted);
    };
    const std::pair<const char*, std::int64_t> fields[] = {{"threads", t.threads},
                                                           {"elements", t.elements},
                                                           {"stages", t.stages},
                                                           {"run_bytes", t.run_bytes},
                                                           {"row_bytes", t.row_bytes}};
    for (const auto& [name, value] : fields)
        if (value < 0) wrong(name, value, "positive, or 0 for the planner's choice");
    for (int i = 0; i < 3; ++i)
        if ((fields[i].second == 0) != (t.threads == 0))
            wrong(fields[i].first, fields[i].second, "set as the other two of the shape are");
    if (t.waves < -1) wrong("waves", t.waves, "at least -1");
}

}  // namespace

DeviceTranspose::DeviceTranspose(std::span<const std::int64_t> extents, std::span<const int> permutation,
                                 int element_bytes, std::span<const std::int64_t> in_strides,
                                 std::span<const std::int64_t> out_strides, const DeviceTransposeTuning& tuning) {
    const auto plan = plan_transpose(extents, permutation, element_bytes, in_strides, out_strides);
    check_tuning(tuning);
    if (device::count() == 0) throw BackendUnavailable("CUDA: no device");
    impl_ = std::make_unique<Impl>(plan, tuning);
}
DeviceTranspose::~DeviceTranspose() = default;
DeviceTranspose::DeviceTranspose(DeviceTranspose&&) noexcept = default;
DeviceTranspose& DeviceTranspose::operator=(DeviceTranspose&&) noexcept = default;

const TransposePlan& DeviceTranspose::plan() const { return impl_->first_choice().host.plan; }

std::string DeviceTranspose::description() const {
    if (impl_->plan.volume == 0) return describe(impl_->plan);
    const auto& f = impl_->first_choice();
    const auto text = [](auto n) { return std::to_string(n); };
    const int bytes = f.host.plan.element_bytes;
    return describe(impl_->plan) + "  words of " + text(bytes) + " bytes, accesses of " + text(bytes * f.host.in_word) +
           " in and " + text(bytes * f.host.out_word) + " out, tiles " + text(f.shape.threads) + "x" +
           text(f.shape.elements) + "x" + text(f.shape.stages) + (f.host.direct ? ", direct" : "") + ", " +
           text(f.host.tiles) + " tiles of " + text(f.host.volume) + " elements in " + text(f.host.slots) + " slots, " +
           text(f.host.conflicts) + " wavefronts per access";
}

template <Scalar T>
void DeviceTranspose::run(const T* in, T* out, T alpha, T beta, bool conjugate, StreamHandle stream) const {
    const auto& plan = impl_->plan;
    // No fmt here: nvcc does not compile version 9 of it as C++20.
    if (plan.element_bytes != static_cast<int>(sizeof(T)))
        throw UserError("transpose: plan for elements of " + std::to_string(plan.element_bytes) +
                        " bytes, called with " + std::to_string(sizeof(T)));
    if (plan.volume == 0) return;
    if (in == nullptr || out == nullptr)
        throw UserError(std::string("transpose: null ") + (in == nullptr ? "input" : "output"));
    const auto a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
    if (!(a + plan.in_span * sizeof(T) <= b || b + plan.out_span * sizeof(T) <= a))
        throw UserError("transpose: input at " + std::to_string(a) + " and output at " + std::to_string(b) +
                        " overlap");
    if (!aligned(in, sizeof(T)) || !aligned(out, sizeof(T)))
        throw UserError("transpose: device addresses " + std::to_string(a) + " and " + std::to_string(b) +
                        " must be multiples of the element size " + std::to_string(sizeof(T)));
    const auto& first = impl_->first_choice();
    const int bytes = first.host.plan.element_bytes;
    const bool fits = aligned(in, bytes * first.host.in_word) && aligned(out, bytes * first.host.out_word);
    if (alpha == T(1) && beta == T(0) && !(is_complex<T> && conjugate)) {
        launch_move(fits ? first : impl_->general, in, out, stream);
        return;
    }
    using Word = typename WordOf<T>::type;
    const Combine<Word> combine{
        std::bit_cast<Word>(alpha), std::bit_cast<Word>(beta), beta != T(0), conjugate, alpha != T(1), beta != T(1)};
    const bool combines = fits && bytes == static_cast<int>(sizeof(T)) && first.shape == impl_->general.shape;
    launch(combines ? first : impl_->general, reinterpret_cast<const Word*>(in), reinterpret_cast<Word*>(out), combine,
           stream);
}

template void DeviceTranspose::run<float>(const float*, float*, float, float, bool, StreamHandle) const;
template void DeviceTranspose::run<double>(const double*, double*, double, double, bool, StreamHandle) const;
template void DeviceTranspose::run<std::complex<float>>(const std::complex<float>*, std::complex<float>*,
                                                        std::complex<float>, std::complex<float>, bool,
                                                        StreamHandle) const;
template void DeviceTranspose::run<std::complex<double>>(const std::complex<double>*, std::complex<double>*,
                                                         std::complex<double>, std::complex<double>, bool,
                                                         StreamHandle) const;

}  // namespace tessera::kernels::cuda

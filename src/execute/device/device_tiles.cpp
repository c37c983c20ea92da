#include "execute/device/device_tiles.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "base/check.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

/// Into memory that a device reads next: the C library would write long copies past the caches.
void copy_into_caches(std::byte* to, const void* from, std::int64_t bytes) {
    constexpr std::int64_t kPart = 64 << 10;
    const auto* in = static_cast<const std::byte*>(from);
    for (std::int64_t at = 0; at < bytes; at += kPart)
        std::memcpy(to + at, in + at, static_cast<std::size_t>(std::min(kPart, bytes - at)));
}

/// From a stored tile to [batch][rows][ld], in the order of the latter; extents of 1 are left out and neighbours that
/// walk alike are one loop.
StridedJob laid_job(const IndexVector& extents, const std::string& labels, const std::string& batch,
                    const std::string& rows, const std::string& cols, std::int64_t ld) {
    const auto order = batch + rows + cols;
    const auto strides = row_major_strides(extents);
    std::vector<StridedJob::Loop> loops;
    std::int64_t step = 1, count = 1;
    for (std::size_t d = order.size(); d-- > 0;) {
        const auto label = static_cast<int>(labels.find(order[d]));
        if (d + 1 == batch.size() + rows.size()) step = ld, count = 1;
        const std::int64_t extent = extents[label], in = strides[label];
        const auto out = step * count;
        count *= extent;
        if (extent == 1) continue;
        if (!loops.empty() && loops.back().in * loops.back().extent == in &&
            loops.back().out * loops.back().extent == out)
            loops.back().extent *= extent;
        else
            loops.push_back({extent, in, out});
    }
    StridedJob job;
    job.copies = true;
    ensure(loops.size() <= static_cast<std::size_t>(StridedJob::kMostLoops), "a tile walked by {} loops", loops.size());
    for (auto l = loops.rbegin(); l != loops.rend(); ++l) {
        job.loop[job.kept_loops++] = *l;
        job.kept *= l->extent;
    }
    return job;
}

DeviceTiles::Layout make_layout(const IndexVector& extents, const std::string& labels, const std::string& rows,
                                const std::string& cols, const std::string& batch, std::int64_t element_bytes) {
    DeviceTiles::Layout l;
    const auto extent_of = [&](char label) { return extents[static_cast<int>(labels.find(label))]; };
    for (char c : batch) l.batch *= extent_of(c);
    for (char c : rows) l.rows *= extent_of(c);
    for (char c : cols) l.cols *= extent_of(c);
    l.ld = device_row_elements(l.cols, element_bytes);
    l.elements = extents.product();
    l.bytes = device_tile_bytes(l.batch, l.rows, l.cols, element_bytes);

    const std::string order = batch + rows + cols;
    std::string walked, stored;
    for (char c : order)
        if (extent_of(c) != 1) walked += c;
    for (char c : labels)
        if (extent_of(c) != 1) stored += c;
    l.plain = walked == stored;
    std::string other;
    for (char c : cols + rows)
        if (extent_of(c) != 1) other += c;
    l.transposed = !l.plain && l.batch == 1 && other == stored;
    l.laid = laid_job(extents, labels, batch, rows, cols, l.ld);
    l.back = l.laid;
    for (auto& loop : l.back.loop) std::swap(loop.in, loop.out);
    if (l.plain) return l;

    std::vector<std::int64_t> matrix_extents, strides(order.size());
    std::vector<int> permutation, inverse(order.size());
    for (char c : order) {
        matrix_extents.push_back(extent_of(c));
        permutation.push_back(static_cast<int>(labels.find(c)));
        inverse[labels.find(c)] = static_cast<int>(matrix_extents.size()) - 1;
    }
    std::int64_t step = 1;
    for (std::size_t d = order.size(); d-- > 0;) {
        if (d + 1 == batch.size() + rows.size()) step = l.ld;
        if (d + 1 == batch.size()) step = l.ld * l.rows;
        strides[d] = step;
        step *= matrix_extents[d];
    }
    const int bytes = static_cast<int>(element_bytes);
    l.to_device = kernels::plan_transpose(extents, permutation, bytes, {}, strides);
    l.to_host = kernels::plan_transpose(matrix_extents, inverse, bytes, strides, {});
    return l;
}

}  // namespace

DeviceTiles::DeviceTiles(const Shape& shape, const TileViews& views, const std::string& labels, const std::string& rows,
                         const std::string& cols, const std::string& batch, std::int64_t element_bytes) {
    using Kind = std::pair<IndexVector, std::uint16_t>;
    const auto less = [](const Kind& x, const Kind& y) {
        if (x.second != y.second) return x.second < y.second;
        return std::ranges::lexicographical_compare(x.first, y.first);
    };
    std::map<Kind, std::int32_t, decltype(less)> known(less);
    class_of_.reserve(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto extents = shape.grid().tile_extents(shape.tile(s));
        const auto view = views.empty() ? std::uint16_t{0} : views.view[static_cast<std::size_t>(s)];
        const auto [it, fresh] = known.try_emplace(Kind{extents, view}, static_cast<std::int32_t>(layouts_.size()));
        if (fresh && views.empty()) layouts_.push_back(make_layout(extents, labels, rows, cols, batch, element_bytes));
        if (fresh && !views.empty()) {
            const auto& seen = views[s];
            layouts_.push_back(
                make_layout(seen.order.apply(extents), in_order(labels, seen.order), rows, cols, batch, element_bytes));
            layouts_.back().factor = seen.factor;
            layouts_.back().conjugate = seen.conjugate;
        }
        class_of_.push_back(it->second);
    }
    for (const auto& l : layouts_) {
        largest_bytes_ = std::max(largest_bytes_, l.bytes);
        largest_elements_ = std::max(largest_elements_, l.elements);
    }
}

template <Scalar T>
void pack_rows(const DeviceTiles::Layout& layout, const T* tile, std::int64_t begin, std::int64_t end, std::byte* to) {
    T* out = reinterpret_cast<T*>(to);
    const auto pad = layout.ld - layout.cols;
    if (!layout.plain) {
        if (pad > 0) std::memset(to, 0, static_cast<std::size_t>(layout.bytes));
        kernels::transpose<T>(layout.to_device, tile, out);
    } else if (pad == 0) {
        copy_into_caches(to, tile + begin * layout.cols,
                         (end - begin) * layout.cols * static_cast<std::int64_t>(sizeof(T)));
    } else {
        for (auto r = begin; r < end; ++r, out += layout.ld) {
            std::memcpy(static_cast<void*>(out), tile + r * layout.cols,
                        static_cast<std::size_t>(layout.cols) * sizeof(T));
            std::fill(out + layout.cols, out + layout.ld, T(0));
        }
    }
    if (layout.factor != 1 || (is_complex<T> && layout.conjugate)) {
        T* row = reinterpret_cast<T*>(to);
        for (auto r = begin; r < end; ++r, row += layout.ld)
            for (std::int64_t e = 0; e < layout.cols; ++e)
                row[e] = static_cast<RealOf<T>>(layout.factor) * conjugate_if(row[e], layout.conjugate);
    }
    if (end == layout.all_rows()) {
        const auto used = (end - begin) * layout.ld * static_cast<std::int64_t>(sizeof(T));
        const auto whole = layout.bytes - begin * layout.ld * static_cast<std::int64_t>(sizeof(T));
        std::memset(to + used, 0, static_cast<std::size_t>(whole - used));
    }
}

template <Scalar T>
void unpack_tile(const DeviceTiles::Layout& layout, const std::byte* from, T* tile) {
    const T* in = reinterpret_cast<const T*>(from);
    if (!layout.plain) {
        kernels::transpose<T>(layout.to_host, in, tile);
    } else if (layout.ld == layout.cols) {
        std::memcpy(static_cast<void*>(tile), in, static_cast<std::size_t>(layout.elements) * sizeof(T));
    } else {
        for (std::int64_t r = 0; r < layout.all_rows(); ++r, in += layout.ld, tile += layout.cols)
            std::memcpy(static_cast<void*>(tile), in, static_cast<std::size_t>(layout.cols) * sizeof(T));
    }
}

template <Scalar T>
void unpack_rows(const DeviceTiles::Layout& layout, const std::byte* from, std::int64_t begin, std::int64_t end,
                 T* tile, std::span<double> squares) {
    constexpr auto chunk = kChunkElements<T>;
    const T* in = reinterpret_cast<const T*>(from);
    const auto first = begin * layout.cols;
    auto at = first;
    std::array<T, static_cast<std::size_t>(chunk)> gathered;  // a chunk that is not in one piece
    const auto pass = [&](const T* x, std::int64_t n) {
        while (n > 0) {
            const auto offset = at % chunk, here = std::min(n, chunk - offset);
            copy_past_caches(tile + at, x, static_cast<std::size_t>(here) * sizeof(T));
            const bool ends = offset + here == chunk || at + here == layout.elements;
            if (offset == 0 && ends) {
                squares[static_cast<std::size_t>(at / chunk)] = sum_of_squares(x, here);
            } else if (at - offset >= first) {
                std::copy_n(x, here, gathered.data() + offset);
                if (ends)
                    squares[static_cast<std::size_t>(at / chunk)] = sum_of_squares(gathered.data(), offset + here);
            }
            at += here;
            x += here;
            n -= here;
        }
    };
    if (layout.ld == layout.cols)
        pass(in, (end - begin) * layout.cols);
    else
        for (auto r = begin; r < end; ++r, in += layout.ld) pass(in, layout.cols);
}

#define TESSERA_INSTANTIATE(T)                                                                                 \
    template void pack_rows<T>(const DeviceTiles::Layout&, const T*, std::int64_t, std::int64_t, std::byte*);  \
    template void unpack_tile<T>(const DeviceTiles::Layout&, const std::byte*, T*);                            \
    template void unpack_rows<T>(const DeviceTiles::Layout&, const std::byte*, std::int64_t, std::int64_t, T*, \
                                 std::span<double>);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera

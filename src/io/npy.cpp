#include "tessera/io/npy.hpp"

#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "base/check.hpp"
#include "io/file.hpp"
#include "io/npy_layout.hpp"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied between memory and file as they are");

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::int64_t kMagicBytes = 6;
constexpr std::int64_t kLongestHeader = 1 << 16;  // NumPy's own are under 200 bytes for the ranks we take

struct NpyHeader {
    std::string descr;
    bool fortran_order = false;
    IndexVector extents;
};

/// Text from a file inside a message: short, and without control characters.
std::string shown(std::string_view text) {
    std::string s;
    for (char c : text.substr(0, 40)) s += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
    return text.size() > 40 ? s + "..." : s;
}

/// The header is a Python dictionary of exactly three keys; this reads that much of Python and no more.
class HeaderParser {
  public:
    explicit HeaderParser(std::string_view text) : text_(text) {}

    NpyHeader parse() {
        std::optional<std::string> descr;
        std::optional<bool> fortran;
        std::optional<IndexVector> extents;
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr") {
                once(!descr, key);
                descr = description();
            } else if (key == "fortran_order") {
                once(!fortran, key);
                fortran = boolean();
            } else if (key == "shape") {
                once(!extents, key);
                extents = tuple();
            } else {
                user_error(".npy header: unknown key '{}'", shown(key));
            }
            if (accept('}')) break;
            expect(',');
        }
        skip_space();
        require(at_ == text_.size(), ".npy header: '{}' after its dictionary", shown(text_.substr(at_)));
        require(descr.has_value(), ".npy header: 'descr' is missing");
        require(fortran.has_value(), ".npy header: 'fortran_order' is missing");
        require(extents.has_value(), ".npy header: 'shape' is missing");
        return {*descr, *fortran, *extents};
    }

  private:
    static void once(bool first, const std::string& key) { require(first, ".npy header: '{}' stands twice", key); }

    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool accept(char c) {
        if (peek() != c || at_ >= text_.size()) return false;
        ++at_;
        return true;
    }
    void expect(char c) { require(accept(c), ".npy header: '{}' expected at '{}'", c, shown(text_.substr(at_))); }

    std::string quoted() {
        const char quote = peek();
        require(quote == '\'' || quote == '"', ".npy header: a quoted word expected at '{}'", shown(text_.substr(at_)));
        const std::size_t end = text_.find(quote, at_ + 1);
        require(end != std::string_view::npos, ".npy header: a quote is not closed");
        const std::string word(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return word;
    }

    std::string description() {
        require(peek() != '[', "its elements are records ({}); float32, float64, complex64 or complex128 are needed",
                shown(text_.substr(at_)));
        return quoted();
    }

    bool boolean() {
        skip_space();
        for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
            if (text_.substr(at_, word.size()) == word) {
                at_ += word.size();
                return value;
            }
        user_error(".npy header: True or False expected at '{}'", shown(text_.substr(at_)));
    }

    IndexVector tuple() {
        IndexVector extents;
        expect('(');
        while (!accept(')')) {
            const std::int64_t n = number(extents.size());
            require(extents.size() < kMaxRank, "its array has more than {} indices", kMaxRank);
            extents.push_back(n);
            if (accept(')')) break;
            expect(',');
        }
        return extents;
    }

    std::int64_t number(int index) {
        const bool negative = accept('-');
        skip_space();
        const std::size_t first = at_;
        while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
        const auto digits = text_.substr(first, at_ - first);
        require(!digits.empty(), ".npy header: an extent expected at '{}'", shown(text_.substr(first)));
        std::int64_t n = 0;
        const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), n).ec == std::errc{};
        require(!negative && fits, ".npy header: index {} has extent {}{}, outside 0..{}", index, negative ? "-" : "",
                shown(digits), std::numeric_limits<std::int64_t>::max());
        if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
        return n;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::string type_name(std::string_view descr) {
    struct Known {
        std::string_view code, name;
    };
    static constexpr Known kKnown[] = {
        {"b1", "bool"},         {"i1", "int8"},      {"i2", "int16"},       {"i4", "int32"},
        {"i8", "int64"},        {"u1", "uint8"},     {"u2", "uint16"},      {"u4", "uint32"},
        {"u8", "uint64"},       {"f2", "float16"},   {"f4", "float32"},     {"f8", "float64"},
        {"f16", "long double"}, {"c8", "complex64"}, {"c16", "complex128"}, {"c32", "long double complex"},
        {"O", "Python objects"}};
    std::string_view code = descr;
    const char order = code.empty() ? '\0' : code.front();
    if (order == '<' || order == '>' || order == '|' || order == '=') code.remove_prefix(1);
    for (const auto& known : kKnown)
        if (known.code == code) return fmt::format("{}{} ('{}')", order == '>' ? "big-endian " : "", known.name, descr);
    return fmt::format("'{}'", shown(descr));
}

ScalarKind scalar_kind(const std::string& descr) {
    if (descr == "<f4") return ScalarKind::f32;
    if (descr == "<f8") return ScalarKind::f64;
    if (descr == "<c8") return ScalarKind::c64;
    if (descr == "<c16") return ScalarKind::c128;
    user_error("its elements are {}; little-endian float32, float64, complex64 or complex128 are needed",
               type_name(descr));
}

/// From first index fastest to last index fastest.
template <Scalar T>
std::vector<T> from_fortran_order(const IndexVector& extents, const std::vector<T>& in) {
    std::vector<T> out(in.size());
    if (in.empty()) return out;  // then the product of the other extents may be anything
    const int rank = extents.size();
    IndexVector strides = extents;  // of the input
    std::int64_t stride = 1;
    for (int d = 0; d < rank; ++d) {
        strides[d] = stride;
        stride *= extents[d];
    }
    IndexVector position = IndexVector::filled(rank, 0);
    std::int64_t from = 0;
    for (auto& element : out) {
        element = in[from];
        for (int d = rank - 1; d >= 0; --d) {
            from += strides[d];
            if (++position[d] < extents[d]) break;
            from -= strides[d] * extents[d];
            position[d] = 0;
        }
    }
    return out;
}

template <Scalar T>
AnyNpyArray read_elements(const InputFile& in, const NpyLayout& layout) {
    NpyArray<T> array{layout.extents, std::vector<T>(static_cast<std::size_t>(layout.count))};
    in.read_at(layout.at, array.data.data(), layout.count * static_cast<std::int64_t>(sizeof(T)));
    if (layout.fortran_order) array.data = from_fortran_order(array.extents, array.data);
    return array;
}

AnyNpyArray read_array(const InputFile& in) {
    const NpyLayout layout = read_npy_layout(in);
    switch (layout.kind) {
        case ScalarKind::f32:
            return read_elements<float>(in, layout);
        case ScalarKind::f64:
            return read_elements<double>(in, layout);
        case ScalarKind::c64:
            return read_elements<std::complex<float>>(in, layout);
        case ScalarKind::c128:
            return read_elements<std::complex<double>>(in, layout);
    }
    throw InternalError("internal: scalar kind without a type");
}

std::string_view descr_of(ScalarKind kind) {
    switch (kind) {
        case ScalarKind::f32:
            return "<f4";
        case ScalarKind::f64:
            return "<f8";
        case ScalarKind::c64:
            return "<c8";
        case ScalarKind::c128:
            return "<c16";
    }
    throw InternalError("internal: scalar kind without a type");
}

}  // namespace

NpyLayout read_npy_layout(const InputFile& in) {
    unsigned char start[12] = {};
    require(in.bytes() >= kMagicBytes + 4, "not a .npy file: it has {} bytes", in.bytes());
    in.read_at(0, start, std::min<std::int64_t>(in.bytes(), 12));
    require(std::memcmp(start, kMagic, kMagicBytes) == 0, "not a .npy file: it does not begin with \\x93NUMPY");
    const int major = start[6], minor = start[7];
    require(major >= 1 && major <= 3 && minor == 0, ".npy version {}.{} is not one of 1.0, 2.0, 3.0", major, minor);
    std::int64_t length = start[8] + 256 * start[9];
    if (major > 1) length += (std::int64_t{start[10]} << 16) + (std::int64_t{start[11]} << 24);
    const std::int64_t at = kMagicBytes + (major > 1 ? 6 : 4);
    require(at + length <= in.bytes(), "truncated: a header of {} bytes in a file of {}", length, in.bytes());
    require(length <= kLongestHeader, ".npy header of {} bytes; at most {} are allowed", length, kLongestHeader);
    std::string text(static_cast<std::size_t>(length), '\0');
    in.read_at(at, text.data(), length);
    const NpyHeader header = HeaderParser(text).parse();

    NpyLayout layout{scalar_kind(header.descr), header.fortran_order, header.extents, 1, at + length};
    bool none = false;
    for (std::int64_t n : layout.extents) none = none || n == 0;
    for (std::int64_t n : layout.extents) layout.count = none ? 0 : checked_multiply(layout.count, n, "elements");
    const std::int64_t bytes = checked_multiply(layout.count, bytes_of(layout.kind), "bytes");
    // Before anyone allocates: the file must hold what its header promises.
    const std::int64_t there = in.bytes() - layout.at;
    require(there >= bytes, "truncated: {} {} elements need {} bytes, the file has {}", to_string(layout.extents),
            name(layout.kind), bytes, there);
    require(there == bytes, "{} bytes after its array of {} {} elements", there - bytes, to_string(layout.extents),
            name(layout.kind));
    return layout;
}

std::string npy_start(ScalarKind kind, const IndexVector& extents) {
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr_of(kind),
                                     fmt::join(extents.begin(), extents.end(), ", "), extents.size() == 1 ? "," : "");
    // The elements begin at a multiple of 64 bytes; the header ends with a newline.
    const std::size_t used = kMagicBytes + 4 + header.size() + 1;
    header.append((64 - used % 64) % 64, ' ').push_back('\n');
    std::string start(kMagic, kMagicBytes);
    start += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
    return start + header;
}

AnyNpyArray read_npy(const std::string& path) {
    const InputFile in(path);
    try {
        return read_array(in);
    } catch (const UserError& e) {
        throw UserError(path + ": " + e.what());
    } catch (const std::bad_alloc&) {
        throw MachineError(path + ": not enough memory to read it");
    }
}

template <Scalar T>
void write_npy(const std::string& path, const IndexVector& extents, std::span<const T> data) {
    std::int64_t count = 1;
    for (std::int64_t n : extents) {
        require(n >= 0, "cannot write {}: an array {} has a negative extent", path, to_string(extents));
        count = checked_multiply(count, n, "elements");
    }
    require(static_cast<std::int64_t>(data.size()) == count, "cannot write {}: {} elements for an array {}", path,
            data.size(), to_string(extents));
    const std::string start = npy_start(ScalarTraits<T>::kind, extents);
    AtomicFile out(path);
    const auto start_bytes = static_cast<std::int64_t>(start.size());
    out.reserve(start_bytes + static_cast<std::int64_t>(data.size_bytes()));
    out.write_at(0, start.data(), start_bytes);
    out.write_at(start_bytes, data.data(), static_cast<std::int64_t>(data.size_bytes()));
    out.commit();
}

template void write_npy(const std::string&, const IndexVector&, std::span<const float>);
template void write_npy(const std::string&, const IndexVector&, std::span<const double>);
template void write_npy(const std::string&, const IndexVector&, std::span<const std::complex<float>>);
template void write_npy(const std::string&, const IndexVector&, std::span<const std::complex<double>>);

}  // namespace tessera

#include "io/png.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string_view>

#include "io/file.hpp"

namespace tessera {
namespace {

using Bytes = std::vector<std::byte>;

void put_u32(Bytes& out, std::uint32_t v) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(v >> shift));
}

/// CRC-32 as PNG wants it, one bit at a time per table entry.
std::uint32_t crc32(std::span<const std::byte> data) {
    static const auto table = [] {
        std::array<std::uint32_t, 256> t{};
        for (std::uint32_t n = 0; n < 256; ++n) {
            std::uint32_t c = n;
            for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0xedb88320u : 0u);
            t[n] = c;
        }
        return t;
    }();
    std::uint32_t crc = 0xffffffffu;
    for (std::byte b : data) crc = (crc >> 8) ^ table[(crc ^ static_cast<std::uint32_t>(b)) & 255u];
    return ~crc;
}

std::uint32_t adler32(std::span<const std::byte> data) {
    std::uint32_t a = 1, b = 0;
    for (std::byte x : data) {
        a = (a + static_cast<std::uint32_t>(x)) % 65521;
        b = (b + a) % 65521;
    }
    return (b << 16) | a;
}

void put_chunk(Bytes& out, std::string_view type, std::span<const std::byte> body) {
    put_u32(out, static_cast<std::uint32_t>(body.size()));
    const std::size_t start = out.size();
    for (char c : type) out.push_back(static_cast<std::byte>(c));
    out.insert(out.end(), body.begin(), body.end());
    put_u32(out, crc32(std::span(out).subspan(start)));
}

/// One deflate block with the fixed codes of RFC 1951 section 3.2.6; matches are found through a hash of three bytes.
class Deflater {
  public:
    Bytes run(std::span<const std::byte> data) {
        put(0b011, 3);  // the last block, fixed codes
        constexpr std::size_t kWindow = 32768, kLongest = 258;
        std::vector<std::int64_t> last(1 << 15, -1);
        const auto n = data.size();
        for (std::size_t i = 0; i < n;) {
            std::size_t length = 0, distance = 0;
            if (i + 3 <= n) {
                auto& slot = last[hash(data, i)];
                if (slot >= 0 && i - static_cast<std::size_t>(slot) <= kWindow) {
                    distance = i - static_cast<std::size_t>(slot);
                    while (length < kLongest && i + length < n && data[i + length] == data[i + length - distance])
                        ++length;
                }
                slot = static_cast<std::int64_t>(i);
            }
            if (length >= 3) {
                put_match(length, distance);
                for (std::size_t k = 1; k < length && i + k + 3 <= n; ++k)
                    last[hash(data, i + k)] = static_cast<std::int64_t>(i + k);
                i += length;
            } else {
                put_symbol(static_cast<unsigned>(data[i]));
                ++i;
            }
        }
        put_symbol(256);
        if (bits_ > 0) out_.push_back(static_cast<std::byte>(held_));
        return std::move(out_);
    }

  private:
    static std::size_t hash(std::span<const std::byte> data, std::size_t i) {
        const auto v = static_cast<std::uint32_t>(data[i]) | static_cast<std::uint32_t>(data[i + 1]) << 8 |
                       static_cast<std::uint32_t>(data[i + 2]) << 16;
        return (v * 0x9e3779b1u) >> 17;
    }

    void put(std::uint32_t value, int count) {  // lowest bit first
        held_ |= std::uint64_t{value} << bits_;
        for (bits_ += count; bits_ >= 8; bits_ -= 8, held_ >>= 8) out_.push_back(static_cast<std::byte>(held_ & 255));
    }

    void put_code(std::uint32_t code, int count) {  // Huffman codes go highest bit first
        for (int bit = count - 1; bit >= 0; --bit) put((code >> bit) & 1, 1);
    }

    void put_symbol(unsigned symbol) {
        if (symbol < 144)
            put_code(0x30 + symbol, 8);
        else if (symbol < 256)
            put_code(0x190 + symbol - 144, 9);
        else if (symbol < 280)
            put_code(symbol - 256, 7);
        else
            put_code(0xc0 + symbol - 280, 8);
    }

    void put_match(std::size_t length, std::size_t distance) {
        // Both are coded as a power-of-two bucket and the rest: lengths in quarters, distances in halves of an octave.
        if (length == 258) {
            put_symbol(285);
        } else if (length < 11) {
            put_symbol(static_cast<unsigned>(257 + length - 3));
        } else {
            const auto v = static_cast<unsigned>(length - 3);
            const int extra = std::bit_width(v) - 3;
            put_symbol(static_cast<unsigned>(257 + 4 * (extra + 1)) + ((v >> extra) & 3));
            put(v & ((1u << extra) - 1), extra);
        }
        const auto v = static_cast<unsigned>(distance - 1);
        if (v < 4) {
            put_code(v, 5);
        } else {
            const int extra = std::bit_width(v) - 2;
            put_code(static_cast<unsigned>(2 * (extra + 1)) + ((v >> extra) & 1), 5);
            put(v & ((1u << extra) - 1), extra);
        }
    }

    Bytes out_;
    std::uint64_t held_ = 0;
    int bits_ = 0;
};

/// The font: one glyph per character, seven rows of five dots, drawn for this file. Letters with a tail stand lower.
struct Glyph {
    char letter;
    std::string_view rows;
};
constexpr Glyph kFont[] = {
    {'0', " ### #   ##  ### # ###  ##   # ### "}, {'1', "  #   ##    #    #    #    #   ### "},
    {'2', " ### #   #    #  ##  #   #    #####"}, {'3', " ### #   #    #  ##     ##   # ### "},
    {'4', "   #   ##  # # #  # #####   #    # "}, {'5', "######    ####     #    ##   # ### "},
    {'6', " ### #    #    #### #   ##   # ### "}, {'7', "#####    #   #   #    #   #    #   "},
    {'8', " ### #   ##   # ### #   ##   # ### "}, {'9', " ### #   ##   # ####    #    # ### "},
    {'-', "               #####               "}, {'.', "                          ##   ##  "},
    {',', "                 ##   ##    #   #  "}, {'%', "##  ###  #   #   #   #   #  ###  ##"},
    {'/', "    #    #   #   #   #   #    #    "}, {'(', "  #   #   #    #    #     #     #  "},
    {')', "  #     #     #    #    #   #   #  "}, {'|', "  #    #    #    #    #    #    #  "},
    {'a', "           ###     # #####   # ####"}, {'b', "#    #    # ## ##  ##   ##   ##### "},
    {'c', "           ### #    #    #   # ### "}, {'d', "    #    # ## ##  ###   ##   # ####"},
    {'e', "           ### #   #######     ### "}, {'f', "  ##  #    #   ####  #    #    #   "},
    {'g', " #####   ##   ##   # ####    # ### "}, {'h', "#    #    # ## ##  ##   ##   ##   #"},
    {'i', "  #        ##    #    #    #   ### "}, {'j', "   #        ##    #    # #  #  ##  "},
    {'k', " #    #    #  # # #  ##   # #  #  #"}, {'l', " ##    #    #    #    #    #   ### "},
    {'m', "          ## # # # ## # ## # ## # #"}, {'n', "          # ## ##  ##   ##   ##   #"},
    {'o', "           ### #   ##   ##   # ### "}, {'p', "#### #   ##   ##   ##### #    #    "},
    {'q', " #####   ##   ##   # ####    #    #"}, {'r', "          # ## ##  ##    #    #    "},
    {'s', "           ### #     ###     ##### "}, {'t', " #    #   ###   #    #    #  #  ## "},
    {'u', "          #   ##   ##   ##  ## ## #"}, {'v', "          #   ##   ##   # # #   #  "},
    {'w', "          #   ## # ## # ## # # # # "}, {'x', "          #   # # #   #   # # #   #"},
    {'y', "#   ##   ##   ##   # ####    # ### "}, {'z', "          #####   #   #   #   #####"},
};

}  // namespace

void Image::fill(int x0, int y0, int x1, int y1, Color color) {
    for (int y = std::max(0, y0); y < std::min(height_, y1); ++y)
        for (int x = std::max(0, x0); x < std::min(width_, x1); ++x) at(x, y) = color;
}

int Image::text_width(const std::string& words, int scale) {
    return words.empty() ? 0 : (static_cast<int>(words.size()) * 6 - 1) * scale;
}

void Image::text(int x, int y, const std::string& words, Color color, int scale) {
    for (char letter : words) {
        const int lower = std::string_view("gpqy,").find(letter) != std::string_view::npos ? 2 : 0;
        for (const Glyph& glyph : kFont)
            for (int dot = 0; glyph.letter == letter && dot < 35; ++dot)
                if (glyph.rows[static_cast<std::size_t>(dot)] == '#') {
                    const int px = x + dot % 5 * scale, py = y + (dot / 5 + lower) * scale;
                    fill(px, py, px + scale, py + scale, color);
                }
        x += 6 * scale;
    }
}

std::vector<std::byte> encode_png(const Image& image) {
    // Each row is stored as the difference to the row above ("Up"): equal rows, which tiles make, become zeros.
    Bytes raw;
    raw.reserve((static_cast<std::size_t>(image.width()) * 3 + 1) * image.height());
    for (int y = 0; y < image.height(); ++y) {
        raw.push_back(std::byte{2});
        for (int x = 0; x < image.width(); ++x) {
            const Color c = image.at(x, y), up = y > 0 ? image.at(x, y - 1) : Color{};
            for (int d : {c.r - up.r, c.g - up.g, c.b - up.b}) raw.push_back(static_cast<std::byte>(d & 255));
        }
    }
    Bytes zlib{std::byte{0x78}, std::byte{0x01}};
    const Bytes deflated = Deflater().run(raw);
    zlib.insert(zlib.end(), deflated.begin(), deflated.end());
    put_u32(zlib, adler32(raw));

    Bytes out;
    for (int b : {0x89, 'P' + 0, 'N' + 0, 'G' + 0, '\r' + 0, '\n' + 0, 0x1a, '\n' + 0})
        out.push_back(static_cast<std::byte>(b));
    Bytes header;
    put_u32(header, static_cast<std::uint32_t>(image.width()));
    put_u32(header, static_cast<std::uint32_t>(image.height()));
    for (int b : {8, 2, 0, 0, 0}) header.push_back(static_cast<std::byte>(b));  // 8-bit RGB, not interlaced
    put_chunk(out, "IHDR", header);
    put_chunk(out, "IDAT", zlib);
    put_chunk(out, "IEND", {});
    return out;
}

void write_png(const std::string& path, const Image& image) { write_file(path, encode_png(image)); }

}  // namespace tessera

#pragma once
// Lines, words and numbers of the small text files of chemistry.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::chem {

/// The file's text. UserError where there is none, it is a folder or has more bytes than `most`.
std::string read_text(const std::string& path, std::int64_t most = 64 << 20);

class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}
    /// The next line without its end; false at the end of the text.
    bool next(std::string_view& line);
    /// Of the line last given, from 1.
    int number() const { return number_; }

  private:
    std::string_view rest_;
    int number_ = 0;
};

/// Parts between white space.
std::vector<std::string_view> words(std::string_view line);
/// The whole word as a number; false where it is none. Fortran's 1.0D+00 is one.
bool parse_number(std::string_view word, std::int64_t& value);
bool parse_number(std::string_view word, double& value);
bool equal_ignoring_case(std::string_view a, std::string_view b);
/// For messages: printable, at most 40 characters.
std::string shown(std::string_view text);
/// "1 atom", "2 atoms".
std::string counted(std::int64_t n, std::string_view what);

}  // namespace tessera::chem

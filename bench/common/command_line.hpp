#pragma once
// The words that commands take. CLI11 reads them, and one file of these programs sees it: its headers cost three
// seconds in each file that includes them.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tessera::app {

/// Says what is wrong with a word, which it may change; nothing, where it is right.
struct WordCheck {
    std::function<std::string(std::string&)> fault;
    std::string in_help = {};
};
/// Numbers from first to last, both taken: int, std::int64_t, double.
template <typename T>
WordCheck between(T first, T last);
WordCheck one_of(std::vector<std::string> words);
WordCheck above_zero();
WordCheck zero_or_more();

/// One option of a command; a handle, as cheap to copy as a pointer.
class Option {
  public:
    explicit Option(CLI::Option* option) : option_(option) {}
    Option show_default();
    Option required();
    Option check(const WordCheck& word);
    Option check(const std::function<std::string(const std::string&)>& fault);
    /// As check; the value is what `word` makes of the text.
    Option transform(const WordCheck& word);
    Option excludes(Option other);
    Option excludes(const std::string& name);
    /// The heading in --help; empty: not shown.
    Option group(const std::string& heading);
    Option description(const std::string& help);
    /// "1,2" are two values.
    Option delimiter(char mark);
    /// One word each time, any number of times: `--x 1,2 --x 3`.
    Option repeatable();

  private:
    CLI::Option* option_;
    friend class Command;
};

/// A command, or the program whose subcommands they are; a handle.
class Command {
  public:
    explicit Command(CLI::App* app) : app_(app) {}
    Command add_subcommand(const std::string& name, const std::string& help);
    /// int, std::int64_t, std::uint64_t, double, std::string, optionals of them and vectors. The value stays the
    /// caller's.
    template <typename T>
    Option add_option(const std::string& name, T& value, const std::string& help);
    template <typename T>
    Option add_option_function(const std::string& name, const std::function<void(const T&)>& take,
                               const std::string& help);
    Option add_flag(const std::string& name, bool& value, const std::string& help);
    /// Those added so far, without --help.
    std::vector<Option> options() const;
    Option option(const std::string& name) const;
    /// How often an option was given.
    std::size_t count(const std::string& name) const;
    void footer(const std::string& text);
    /// Called once all words are read, before any command works.
    void when_parsed(const std::function<void()>& call);
    /// The name that an option had before: taken for one more release, hidden, with a warning; not beside the new one.
    void add_old_name(const std::string& old_name, Option now);

  private:
    CLI::App* app_;
};

/// What a subcommand does once all words are parsed.
using Action = std::function<void()>;
using AddCommand = Action (*)(Command);

struct AboutProgram {
    std::string name, what, footer;
    std::string (*version)() = nullptr;
};
/// Adds the subcommands, parses the words and does what they say, on all ranks; rank 0 prints. Returns the exit code.
int run_commands(const AboutProgram& about, std::initializer_list<AddCommand> commands, int argc, char** argv);

}  // namespace tessera::app

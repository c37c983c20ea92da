#include "command_line.hpp"

#include <fmt/format.h>

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "comm/same_on_all.hpp"
#include "program.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::app {

namespace {

WordCheck taken_from(const CLI::Validator& validator) {
    return {[validator](std::string& word) { return validator(word); }, validator.get_description()};
}

CLI::Validator validator_of(const WordCheck& word) { return {word.fault, word.in_help}; }

}  // namespace

template <typename T>
WordCheck between(T first, T last) {
    return taken_from(CLI::Range(first, last));
}
template WordCheck between(int, int);
template WordCheck between(std::int64_t, std::int64_t);
template WordCheck between(double, double);

WordCheck one_of(std::vector<std::string> words) { return taken_from(CLI::IsMember(std::move(words))); }

namespace {

template <class Right>
WordCheck number(Right right, const char* what, const char* in_help) {
    return {[=](std::string& word) {
                double x = 0;
                return CLI::detail::lexical_cast(word, x) && right(x) ? std::string()
                                                                      : fmt::format("'{}' is no number {}", word, what);
            },
            in_help};
}

/// CLI11 takes an empty word for zero.
template <typename T>
constexpr bool is_number = std::is_arithmetic_v<T> || std::is_same_v<T, std::optional<double>>;
std::string no_empty_number(const std::string& word) { return word.empty() ? "'' is no number" : ""; }

}  // namespace

WordCheck above_zero() {
    return number([](double x) { return x > 0; }, "above 0", "POSITIVE");
}
WordCheck zero_or_more() {
    return number([](double x) { return x >= 0; }, "from 0 on", "NONNEGATIVE");
}

Option Option::show_default() { return Option(option_->capture_default_str()); }
Option Option::required() { return Option(option_->required()); }
Option Option::check(const WordCheck& word) { return Option(option_->check(validator_of(word))); }
Option Option::check(const std::function<std::string(const std::string&)>& fault) {
    return Option(option_->check(fault));
}
Option Option::transform(const WordCheck& word) { return Option(option_->transform(validator_of(word))); }
Option Option::excludes(Option other) { return Option(option_->excludes(other.option_)); }
Option Option::excludes(const std::string& name) { return Option(option_->excludes(name)); }
Option Option::group(const std::string& heading) { return Option(option_->group(heading)); }
Option Option::description(const std::string& help) { return Option(option_->description(help)); }
Option Option::delimiter(char mark) { return Option(option_->delimiter(mark)); }
Option Option::repeatable() {
    return Option(option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Command Command::add_subcommand(const std::string& name, const std::string& help) {
    return Command(app_->add_subcommand(name, help));
}

template <typename T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) {
    CLI::Option* option = app_->add_option(name, value, help);
    if constexpr (is_number<T>) option->check(no_empty_number);
    return Option(option);
}

template <typename T>
Option Command::add_option_function(const std::string& name, const std::function<void(const T&)>& take,
                                    const std::string& help) {
    CLI::Option* option = app_->add_option_function<T>(name, take, help);
    if constexpr (is_number<T>) option->check(no_empty_number);
    return Option(option);
}

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) {
    return Option(app_->add_flag(name, value, help));
}

std::vector<Option> Command::options() const {
    std::vector<Option> out;
    for (CLI::Option* option : app_->get_options())
        if (option != app_->get_help_ptr()) out.emplace_back(option);
    return out;
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }
std::size_t Command::count(const std::string& name) const { return app_->count(name); }
void Command::footer(const std::string& text) { app_->footer(text); }
void Command::when_parsed(const std::function<void()>& call) { app_->parse_complete_callback(call); }

#define TESSERA_OPTION(T) template Option Command::add_option(const std::string&, T&, const std::string&);
TESSERA_OPTION(int)
TESSERA_OPTION(std::int64_t)
TESSERA_OPTION(std::uint64_t)
TESSERA_OPTION(double)
TESSERA_OPTION(std::string)
TESSERA_OPTION(std::optional<double>)
TESSERA_OPTION(std::optional<std::string>)
TESSERA_OPTION(std::vector<int>)
TESSERA_OPTION(std::vector<std::int64_t>)
TESSERA_OPTION(std::vector<double>)
TESSERA_OPTION(std::vector<std::string>)
#undef TESSERA_OPTION
#define TESSERA_OPTION(T)                                                                                  \
    template Option Command::add_option_function(const std::string&, const std::function<void(const T&)>&, \
                                                 const std::string&);
TESSERA_OPTION(int)
TESSERA_OPTION(std::int64_t)
TESSERA_OPTION(double)
TESSERA_OPTION(std::string)
#undef TESSERA_OPTION

void Command::add_old_name(const std::string& old_name, Option option) {
    const auto take = [old_name, now = option.option_](const std::string& text) {
        const auto name = now->get_name();
        if (now->count() > 0) throw CLI::ValidationError(old_name, "the old name of " + name + ", which is given too");
        if (mpi_world().rank() == 0)
            fmt::print(stderr, "tessera: warning: {} is called {} now; the old name goes with the next release\n",
                       old_name, name);
        now->add_result(text);
        now->run_callback();  // it was passed over: it had no value then
    };
    app_->add_option_function<std::string>(old_name, take)->group("");
}

namespace {

/// mpirun can start each rank with arguments of its own.
void require_same_arguments(Communicator& ranks, int argc, char** argv) {
    std::vector<std::pair<std::string, std::string>> all;
    for (int i = 1; i < argc; ++i) all.emplace_back(fmt::format("argument {}", i), argv[i]);
    require_same_on_all(ranks, all);
}

/// "unknown subcommand 'fly'...", where the words given name none, or an unknown option stands first; else nothing.
std::string unknown_subcommand(CLI::App& app) {
    CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands()[0];
    const auto words = at->remaining();
    if (at->get_require_subcommand_min() == 0 || words.empty()) return {};
    if (words[0].starts_with('-')) return fmt::format("unknown option '{}' of {}", words[0], at->get_name());
    std::string known;
    for (const CLI::App* command : at->get_subcommands({})) known += (known.empty() ? "" : ", ") + command->get_name();
    return fmt::format("unknown subcommand '{}' of {}: there are {}", words[0], at->get_name(), known);
}

}  // namespace

int run_commands(const AboutProgram& about, std::initializer_list<AddCommand> commands, int argc, char** argv) {
    // What the heap frees stays with the process, as the memory of tiles does: plans of millions of products are made
    // and dropped again and again.
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
    mallopt(M_ARENA_MAX, 1);
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit of the shell: an error that names it, no signal
    CLI::App app(about.what, about.name);
    app.footer(about.footer);
    if (about.version) app.set_version_flag("--version", about.version);
    app.require_subcommand(1);
    app.option_defaults()->disable_flag_override();  // --quiet=3 is refused
    app.get_formatter()->column_width(28);
    std::vector<std::pair<CLI::App*, Action>> actions;
    Communicator* ranks = nullptr;
    try {
        for (const AddCommand add : commands) {
            const auto action = add(Command(&app));
            actions.emplace_back(app.get_subcommands({}).back(), action);
        }
        ranks = &mpi_world();
        require_same_arguments(*ranks, argc, argv);
        // Rank 0 prints; what the others would say is the same.
        if (ranks->rank() != 0 && !std::freopen("/dev/null", "w", stdout)) return 3;
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) {
            if (ranks->rank() != 0) return 0;
            app.exit(e);
            std::cout.flush();
            return std::cout && std::fflush(stdout) == 0 ? 0 : complain("stdout cannot be written", 3);
        }
        const std::string word = unknown_subcommand(app);
        return ranks->rank() == 0 ? complain(word.empty() ? e.what() : word, 2) : 2;
    } catch (const UserError& e) {  // the same on all ranks
        return ranks && ranks->rank() != 0 ? e.exit_code() : complain(e.what(), e.exit_code());
    } catch (const Error& e) {  // a limit, or many ranks without MPI in this build
        return complain(e.what(), e.exit_code());
    } catch (const std::bad_alloc&) {
        return complain("the machine has no memory left", 3);
    }
    return run_ranks_or_abort(*ranks, [&] {
        for (const auto& [command, action] : actions)
            if (command->parsed()) try {
                    action();
                } catch (const std::system_error& e) {  // printing failed, or the system refuses a thread
                    throw MachineError(e.what());
                }
        if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw MachineError("stdout cannot be written");
    });
}

}  // namespace tessera::app

#pragma once
// Published figures of Summit against simulated ones.

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tessera::app {

struct PaperRow {
    std::string what, unit;
    double published = 0, simulated = 0;
    double tolerance = 0;  // of the ratio
    bool fitted_on = false;
    std::string command;  // that simulates the same case
    std::string reason;   // in what it is not the published run, or why it does not fit
    double ratio() const { return simulated / published; }
    bool within() const { return ratio() >= 1 - tolerance && ratio() <= 1 + tolerance; }
};

struct PapersTable {
    std::vector<PaperRow> rows;
    std::map<std::string, std::string> fitted;  // field of the machine file: value and what it stands for
};

/// on_case is told of each simulation before it starts: number, of how many, command.
PapersTable simulate_papers(const std::function<void(int, int, const std::string&)>& on_case);
/// At most 100 columns.
std::string to_text(const PapersTable& table);

}  // namespace tessera::app

#pragma once
// Programs of benchmark peers, and our own, started as one process or several ranks; their JSON read back.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera {

/// A peer's program in `folder`, or in the folder bench/ next to the running program where that is empty.
std::filesystem::path peer_program(const std::filesystem::path& folder, const std::string& name);
/// tessera itself, which started this program.
std::filesystem::path tessera_program();

/// Why ranks cannot be started here; empty where they can.
std::string no_ranks_reason();

/// Runs it on so many ranks (0: plainly, without MPI) of so many threads and returns the JSON object it prints.
/// MachineError where it fails.
nlohmann::json run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments, int ranks,
                           int threads);

/// The same of a peer that may not be installed: null then, and the reason in report["peer_missing"].
nlohmann::json run_peer(const std::string& name, const std::vector<std::string>& arguments, int threads,
                        nlohmann::json& report);

}  // namespace tessera

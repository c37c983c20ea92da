#pragma once
// Machines as JSON files: docs/SIMULATOR.md has the fields.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/machine/machine_model.hpp"

namespace TESSERA_API tessera {

struct MachineFile {
    MachineModel machine;
    std::map<std::string, std::string> sources;  // by field, as in "device.memory": where the figure comes from
    std::string about;
};

/// Throws UserError naming the field and its value where one is unknown, of the wrong type or out of range. `origin`
/// goes into messages.
MachineFile parse_machine(std::string_view json, std::string_view origin);
/// One object, every field, numbers that read back the same.
std::string to_json(const MachineFile& file);
std::string to_json(const MachineModel& machine);

/// A path to a file, or the name of a machine that comes with Tessera. Throws UserError listing those.
MachineFile read_machine(const std::string& name_or_path);
std::vector<std::string> known_machines();

}  // namespace tessera

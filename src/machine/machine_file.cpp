#include "tessera/machine/machine_file.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.hpp"
#include "base/shared_data.hpp"

namespace tessera {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 8;
// Slower than this and seconds overflow; longer and no line of text holds a name.
constexpr double kLeastRate = 1e-6, kMostSeconds = 1e6;
constexpr std::size_t kMostName = 64;

/// Where a field is in the model, and the least value it may have. One table serves reading, writing and messages.
struct Field {
    const char* name;
    int* whole = nullptr;
    std::int64_t* bytes = nullptr;
    double* real = nullptr;
    double least = 0;
};

std::vector<Field> fields_of(MachineModel& m) {
    const auto whole = [](const char* n, int* p, double least) { return Field{n, p, nullptr, nullptr, least}; };
    const auto bytes = [](const char* n, std::int64_t* p) { return Field{n, nullptr, p, nullptr, 0}; };
    const auto real = [](const char* n, double* p) { return Field{n, nullptr, nullptr, p, 0}; };
    return {
        whole("ranks_per_node", &m.ranks_per_node, 1),
        whole("threads_per_rank", &m.threads_per_rank, 1),
        real("gemm.flops_per_second", &m.gemm.flops_per_second),
        real("gemm.half_size", &m.gemm.half_size),
        bytes("host_memory", &m.host_memory),
        real("make_bytes_per_second", &m.make_bytes_per_second),
        real("copy_bytes_per_second", &m.copy_bytes_per_second),
        whole("devices_per_rank", &m.devices_per_rank, 0),
        whole("devices_per_gpu", &m.devices_per_gpu, 1),
        bytes("device.memory", &m.device.memory),
        real("device.gemm.flops_per_second", &m.device.gemm.flops_per_second),
        real("device.gemm.half_size", &m.device.gemm.half_size),
        real("device.make_bytes_per_second", &m.device.make_bytes_per_second),
        real("device.launch_seconds", &m.device.launch_seconds),
        real("host_to_device.bytes_per_second", &m.host_to_device.bytes_per_second),
        real("host_to_device.latency", &m.host_to_device.latency),
        real("device_to_host.bytes_per_second", &m.device_to_host.bytes_per_second),
        real("device_to_host.latency", &m.device_to_host.latency),
        real("device_to_device.bytes_per_second", &m.device_to_device.bytes_per_second),
        real("device_to_device.latency", &m.device_to_device.latency),
        real("host_link_bytes_per_second", &m.host_link_bytes_per_second),
        whole("near_devices", &m.near_devices, 0),
        real("far_link_bytes_per_second", &m.far_link_bytes_per_second),
        real("network.bytes_per_second", &m.network.bytes_per_second),
        real("network.latency", &m.network.latency),
        real("network_tile_seconds", &m.network_tile_seconds),
        real("node_link.bytes_per_second", &m.node_link.bytes_per_second),
        real("node_link.latency", &m.node_link.latency),
    };
}

/// No more text of a value than a message can bear.
std::string shown(const Json& value) {
    auto text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
}

void set(const Field& field, const Json& value, std::string_view origin) {
    require(value.is_number(), "machine {}: field '{}' is {}, not a number", origin, field.name, shown(value));
    const double x = value.get<double>();
    require(std::isfinite(x), "machine {}: field '{}' is {}, not a finite number", origin, field.name, shown(value));
    require(x >= field.least, "machine {}: field '{}' is {}: {} is the least it may be", origin, field.name,
            shown(value), field.least);
    if (field.real) {
        const bool rate = std::string_view(field.name).ends_with("_per_second");
        const bool seconds =
            std::string_view(field.name).ends_with("latency") || std::string_view(field.name).ends_with("_seconds");
        require(!rate || x == 0 || x >= kLeastRate, "machine {}: field '{}' is {}: 0 (unknown) or at least {}", origin,
                field.name, shown(value), kLeastRate);
        require(!seconds || x <= kMostSeconds, "machine {}: field '{}' is {}: {} is the most it may be", origin,
                field.name, shown(value), kMostSeconds);
        *field.real = x;
        return;
    }
    const double most = field.whole ? 1e6 : 1e18;
    require(x == std::floor(x), "machine {}: field '{}' is {}, not a whole number", origin, field.name, shown(value));
    require(x <= most, "machine {}: field '{}' is {}: {} is the most it may be", origin, field.name, shown(value),
            most);
    if (field.whole)
        *field.whole = static_cast<int>(x);
    else
        *field.bytes = static_cast<std::int64_t>(x);
}

/// Objects are groups of fields; a name within one is the group's, a dot, and its own.
void read_fields(const Json& object, const std::string& prefix, const std::vector<Field>& fields,
                 std::string_view origin) {
    for (const auto& [key, value] : object.items()) {
        if (prefix.empty() && (key == "name" || key == "about" || key == "sources")) continue;
        const auto name = prefix + key;
        const auto field = std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return name == f.name; });
        if (field != fields.end()) {
            set(*field, value, origin);
            continue;
        }
        const bool group = std::any_of(fields.begin(), fields.end(), [&](const Field& f) {
            return std::string_view(f.name).starts_with(name + ".");
        });
        require(group, "machine {}: there is no field '{}' (its value is {})", origin, name, shown(value));
        require(value.is_object(), "machine {}: field '{}' is {}, not an object", origin, name, shown(value));
        read_fields(value, name + ".", fields, origin);
    }
}

std::string text_of(const Json& object, const char* key, std::string_view origin) {
    if (!object.contains(key)) return {};
    const auto& value = object.at(key);
    require(value.is_string(), "machine {}: field '{}' is {}, not a text", origin, key, shown(value));
    return value.get<std::string>();
}

}  // namespace

MachineFile parse_machine(std::string_view json, std::string_view origin) {
    Json object;
    try {
        // What is nested deeper than a machine could be is no machine, and would be too deep for whoever shows it.
        std::array<std::set<std::string>, kMostDepth + 2> seen;  // keys of the object at hand, by depth
        object = Json::parse(json, [&](int depth, Json::parse_event_t event, Json& parsed) {
            require(depth <= kMostDepth, "machine {}: nested deeper than {} levels", origin, kMostDepth);
            if (event == Json::parse_event_t::object_start) seen[static_cast<std::size_t>(depth) + 1].clear();
            if (event == Json::parse_event_t::key)
                require(seen[static_cast<std::size_t>(depth)].insert(parsed.get<std::string>()).second,
                        "machine {}: field {} is given twice", origin, shown(parsed));
            return true;
        });
    } catch (const Json::exception& e) {
        std::string why = e.what();
        if (const auto end = why.find("] "); end != std::string::npos) why.erase(0, end + 2);  // the exception's name
        std::replace(why.begin(), why.end(), '\n', ' ');
        user_error("machine {}: not JSON: {}", origin, why);
    }
    require(object.is_object(), "machine {}: the file is {}, not an object", origin, shown(object));
    MachineFile file;
    auto fields = fields_of(file.machine);
    read_fields(object, "", fields, origin);
    file.machine.name = text_of(object, "name", origin);
    require(!file.machine.name.empty(), "machine {}: field 'name' is missing", origin);
    const auto& name = file.machine.name;
    require(name.size() <= kMostName &&
                std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 32 || c == 127; }),
            "machine {}: field 'name' is {}: at most {} characters of one line", origin, shown(object.at("name")),
            kMostName);
    file.about = text_of(object, "about", origin);
    if (object.contains("sources")) {
        const auto& sources = object.at("sources");
        require(sources.is_object(), "machine {}: field 'sources' is {}, not an object", origin, shown(sources));
        for (const auto& [key, value] : sources.items()) {
            require(std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return key == f.name; }),
                    "machine {}: 'sources' names '{}', which is no field", origin, key);
            require(value.is_string(), "machine {}: field 'sources.{}' is {}, not a text", origin, key, shown(value));
            file.sources[key] = value.get<std::string>();
        }
    }
    const auto& m = file.machine;
    require(m.devices_per_rank == 0 || m.device.memory > 0,
            "machine {}: field 'device.memory' is {} but there are {} devices a rank", origin, m.device.memory,
            m.devices_per_rank);
    require(m.devices_per_rank <= 1024, "machine {}: field 'devices_per_rank' is {}: 1024 is the most it may be",
            origin, m.devices_per_rank);
    require(m.devices_per_gpu <= std::max(1, m.devices_per_rank),
            "machine {}: field 'devices_per_gpu' is {}, but a rank has {} devices", origin, m.devices_per_gpu,
            m.devices_per_rank);
    return file;
}

std::string to_json(const MachineFile& file) {
    auto machine = file.machine;
    Json object;
    object["name"] = machine.name;
    if (!file.about.empty()) object["about"] = file.about;
    for (const auto& field : fields_of(machine)) {
        Json* at = &object;
        std::string_view name = field.name;
        for (std::size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1))
            at = &(*at)[std::string(name.substr(0, dot))];
        auto& value = (*at)[std::string(name)];
        if (field.whole) value = *field.whole;
        if (field.bytes) value = *field.bytes;
        if (field.real) value = *field.real;
    }
    for (const auto& [field, source] : file.sources) object["sources"][field] = source;
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_json(const MachineModel& machine) { return to_json(MachineFile{machine, {}, {}}); }

std::vector<std::string> known_machines() { return list_shared_data("machines", ".json"); }

MachineFile read_machine(const std::string& name_or_path) {
    const bool path = name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
    const auto found = path ? name_or_path : find_shared_data("machines/" + name_or_path + ".json");
    if (found.empty()) {
        const auto known = known_machines();
        require(
            !known.empty(),
            "machine '{}' is not known, nor any other: no machine files are in {} (TESSERA_SHARE names another folder)",
            name_or_path, fmt::join(shared_data_folders(), ", "));
        user_error("machine '{}' is not known: there are {}, and paths to JSON files", name_or_path,
                   fmt::join(known, ", "));
    }
    std::error_code error;
    std::ifstream in(found, std::ios::binary);
    require(in.good() && !std::filesystem::is_directory(found, error), "machine file '{}' cannot be read", found);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    require(!in.bad(), "machine file '{}' cannot be read", found);
    return parse_machine(text, found);
}

}  // namespace tessera

#include "qcschema.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.hpp"

namespace tessera::app {

using nlohmann::json;

namespace {

constexpr std::size_t kMostBytes = 64 << 20;

/// A value of the question, for messages: one line, not too long.
std::string shown(const json& value) {
    auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
}

/// Fields of an object; errors name the way there.
class Fields {
  public:
    Fields(const std::string& file, std::string at, const json& object)
        : file_(file), at_(std::move(at)), object_(object) {
        require(object.is_object(), "{}: {} is no JSON object", file_, at_.empty() ? "this" : at_);
    }
    const json* find(const char* name) const {
        const auto found = object_.find(name);
        return found == object_.end() || found->is_null() ? nullptr : &*found;
    }
    const json& need(const char* name) const {
        const json* found = find(name);
        require(found != nullptr, "{}: there is no {}", file_, path(name));
        return *found;
    }
    std::string text(const char* name) const {
        const json& value = need(name);
        require(value.is_string(), "{}: {} is {}: a text is needed", file_, path(name), shown(value));
        return value.get<std::string>();
    }
    /// A whole number, also as 1.0.
    int whole(const char* name, int absent) const {
        const json* value = find(name);
        if (!value) return absent;
        require(value->is_number() && std::abs(value->get<double>()) <= 1000 &&
                    value->get<double>() == std::round(value->get<double>()),
                "{}: {} is {}: a whole number is needed", file_, path(name), shown(*value));
        return static_cast<int>(value->get<double>());
    }
    Fields object(const char* name) const { return {file_, path(name), need(name)}; }
    std::string path(const char* name) const { return at_.empty() ? name : at_ + "." + name; }

  private:
    const std::string& file_;
    std::string at_;
    const json& object_;
};

chem::Molecule molecule_of(const Fields& fields, const std::string& file) {
    chem::Molecule out;
    out.name = file;
    const json &symbols = fields.need("symbols"), &geometry = fields.need("geometry");
    require(symbols.is_array() && geometry.is_array(), "{}: {} and {} must be lists", file, fields.path("symbols"),
            fields.path("geometry"));
    std::vector<double> places;
    const auto add = [&](const json& x) {
        require(x.is_number() && std::isfinite(x.get<double>()), "{}: {} has {}: a number is needed", file,
                fields.path("geometry"), shown(x));
        places.push_back(x.get<double>());
    };
    for (const auto& x : geometry) {
        if (!x.is_array()) {
            add(x);
            continue;
        }
        for (const auto& y : x) add(y);
    }
    require(!symbols.empty() && places.size() == 3 * symbols.size(),
            "{}: {} has {} numbers for {} atoms, three each are needed", file, fields.path("geometry"), places.size(),
            symbols.size());
    for (std::size_t n = 0; n < symbols.size(); ++n) {
        const int number = symbols[n].is_string() ? chem::element_number(symbols[n].get<std::string>()) : 0;
        require(number > 0, "{}: {} has {}: there is no such element", file, fields.path("symbols"), shown(symbols[n]));
        out.atoms.push_back({number, {places[3 * n], places[3 * n + 1], places[3 * n + 2]}});
    }
    if (const json* real = fields.find("real")) {
        require(real->is_array(), "{}: {} is no list", file, fields.path("real"));
        for (const auto& x : *real)
            require(x.is_boolean() && x.get<bool>(), "{}: {} has {}: atoms that are not real (ghosts) are not computed",
                    file, fields.path("real"), shown(x));
    }
    out.charge = fields.whole("molecular_charge", 0);
    const int multiplicity = fields.whole("molecular_multiplicity", 1);
    require(multiplicity == 1, "{}: {} is {}: only closed shells (1) are computed", file,
            fields.path("molecular_multiplicity"), multiplicity);
    return out;
}

}  // namespace

std::string read_qcschema_text(const std::string& path) {
    std::ifstream file;
    if (path != "-") {
        file.open(path, std::ios::binary);
        require(file.good(), "{} cannot be read", path);
    }
    std::istream& from = path == "-" ? std::cin : file;
    std::string text;
    for (char c = 0; text.size() <= kMostBytes && from.get(c);) text += c;
    require(text.size() <= kMostBytes, "{}: more than {} bytes are too many for a question in QCSchema", path,
            kMostBytes);
    require(!from.bad(), "{} cannot be read", path);
    return text;
}

QcSchema parse_qcschema(const std::string& text, const std::string& name) {
    QcSchema out;
    out.name = name == "-" ? "stdin" : name;
    const std::string& file = out.name;
    try {
        out.input = json::parse(text);
    } catch (const json::parse_error& e) {
        user_error("{}: no JSON: byte {} is not what should stand there", file, e.byte);
    }
    const Fields all(file, "", out.input);
    if (const json* version = all.find("schema_version")) {
        require(version->is_number_integer() && (*version == 1 || *version == 2),
                "{}: schema_version is {}: 1 and 2 are read", file, shown(*version));
        out.version = version->get<int>();
    } else if (all.find("specification")) {
        out.version = 2;
    }
    if (all.find("schema_name")) {
        const auto said = all.text("schema_name");
        require(said == "qcschema_input" || said == "qc_schema_input" || said == "qcschema_atomic_input",
                "{}: schema_name is {}: qcschema_input or qcschema_atomic_input is needed", file, shown(said));
    }
    const Fields how = out.version == 2 ? all.object("specification") : all;
    const auto driver = how.text("driver");
    require(driver == "energy", "{}: {} is {}: only \"energy\" is computed", file, how.path("driver"), shown(driver));
    const Fields model = how.object("model");
    out.method = model.text("method");
    const json& basis = model.need("basis");
    require(basis.is_string(), "{}: {} is {}: the name of a basis set is needed", file, model.path("basis"),
            shown(basis));
    out.basis = basis.get<std::string>();
    out.keywords = json::object();
    if (const json* keywords = how.find("keywords")) {
        require(keywords->is_object(), "{}: {} is no JSON object", file, how.path("keywords"));
        out.keywords = *keywords;
    }
    out.molecule = molecule_of(all.object("molecule"), file);
    return out;
}

namespace {

json provenance() { return {{"creator", "Tessera"}, {"version", TESSERA_VERSION}, {"routine", "tessera energy"}}; }

json properties_of(const QcSchema& schema, const chem::EnergyResult& r, chem::Method m) {
    using chem::Method;
    const auto electrons = r.occupied + r.frozen;
    json out{{"calcinfo_natom", schema.molecule.atoms.size()},
             {"calcinfo_nbasis", r.basis_functions},
             {"calcinfo_nmo", r.basis_functions - r.dropped_functions},
             {"calcinfo_nalpha", electrons},
             {"calcinfo_nbeta", electrons},
             {"nuclear_repulsion_energy", r.nuclear},
             {"scf_total_energy", r.rhf},
             {"scf_iterations", r.scf_iterations},
             {"return_energy", r.total}};
    if (m != Method::rhf) {
        out["mp2_correlation_energy"] = r.mp2;
        out["mp2_total_energy"] = r.rhf + r.mp2;
    }
    if (m == Method::ccsd || m == Method::ccsd_t) {
        out["ccsd_correlation_energy"] = r.ccsd;
        out["ccsd_total_energy"] = r.rhf + r.ccsd;
        out["ccsd_iterations"] = r.iterations;
    }
    if (m == Method::ccsd_t) {
        out["ccsd_prt_pr_correlation_energy"] = r.ccsd + r.triples;
        out["ccsd_prt_pr_total_energy"] = r.total;
    }
    return out;
}

}  // namespace

json qcschema_result(const QcSchema& schema, const chem::EnergyResult& found, chem::Method method,
                     const std::string& said) {
    json out;
    const auto extras = json{{"tessera", {{"t1_diagnostic", found.t1_diagnostic}, {"seconds", found.seconds}}}};
    if (schema.version == 1) {
        out = schema.input;
        if (!out["extras"].is_object()) out["extras"] = json::object();
        out["schema_name"] = "qcschema_output";
        for (const auto& [name, value] : extras.items()) out["extras"][name] = value;
    } else {
        out["schema_name"] = "qcschema_atomic_result";
        out["input_data"] = schema.input;
        out["molecule"] = schema.input.at("molecule");
        out["extras"] = extras;
        if (const auto id = schema.input.find("id"); id != schema.input.end()) out["id"] = *id;
    }
    out["schema_version"] = schema.version;
    out["properties"] = properties_of(schema, found, method);
    out["provenance"] = provenance();
    out["return_result"] = found.total;
    out["stdout"] = said;
    out["success"] = true;
    return out;
}

json qcschema_failure(const json& input, int version, const Error& error) {
    const bool budget = dynamic_cast<const BudgetError*>(&error) != nullptr;
    const char* kind = dynamic_cast<const chem::NotConverged*>(&error) ? "convergence_error"
                       : dynamic_cast<const UserError*>(&error)        ? "input_error"
                       : budget                                        ? "resource_error"
                                                                       : "unknown_error";
    json out{
        {"success", false}, {"error", {{"error_type", kind}, {"error_message", error.what()}}}, {"input_data", input}};
    if (version == 2) {
        out["schema_name"] = "qcschema_failed_operation";
        out["schema_version"] = 2;
    }
    if (input.is_object())
        if (const auto id = input.find("id"); id != input.end()) out["id"] = *id;
    return out;
}

}  // namespace tessera::app

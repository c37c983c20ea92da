#pragma once
// QCSchema, the JSON by which programs of quantum chemistry are asked and answer: what it asks of `tessera energy`, and
// the answer. Version 1 (qcschema_input) and 2 (qcschema_atomic_input).

#include <nlohmann/json.hpp>

#include <string>

#include "tessera/base/error.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::app {

struct QcSchema {
    std::string name;      // of the file, for messages
    nlohmann::json input;  // as it came
    int version = 1;
    chem::Molecule molecule;
    std::string method, basis;
    nlohmann::json keywords;  // an object
};

/// "-" is what stands on stdin.
std::string read_qcschema_text(const std::string& path);
/// UserError, naming the field, for what is no question about the energy of a closed shell.
QcSchema parse_qcschema(const std::string& text, const std::string& name);

nlohmann::json qcschema_result(const QcSchema& schema, const chem::EnergyResult& found, chem::Method method,
                               const std::string& said);
/// What failed. `input`: as far as it is known.
nlohmann::json qcschema_failure(const nlohmann::json& input, int version, const Error& error);

}  // namespace tessera::app

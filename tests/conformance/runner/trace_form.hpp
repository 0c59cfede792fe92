#pragma once

#include <filesystem>

#include "scenario.hpp"

namespace conformance {

/// Reads the trace files below a directory in the normal form of the recorded ones (README-fixtures.md, section 2.1), by the
/// times at which the traces start. Throws std::runtime_error for a line that is not a span.
JsonArray read_traces(const std::filesystem::path& directory);

/// Changes both where our traces may differ from the recorded ones, `want` (section 2.2): they are equal if ours are right.
/// `model`: the settings of a real provider's model; null for Faux.
void fit_traces(JsonArray& got, JsonArray& want, const JsonObject* model);

}  // namespace conformance

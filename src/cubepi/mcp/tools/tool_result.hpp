#pragma once

#include <memory>
#include <string>

#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task.hpp>
#include <cubepi/mcp/tools.hpp>

namespace cubepi::detail {

/// Where the data of a result is stored.
struct McpDataLocation {
    std::shared_ptr<const McpDataStore> store = {};
    std::string tool = {};  ///< its name, for files
    std::shared_ptr<const Runtime> runtime = {};
};

/// Stores the sounds and other data of a result of `tools/call`, and replaces their blocks by texts that state where they are. Data that
/// is not base64, or cannot be stored, remains.
Task<> store_data_of(JsonObject* result, McpDataLocation place);

}  // namespace cubepi::detail

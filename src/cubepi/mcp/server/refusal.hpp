#pragma once

#include <string>
#include <utility>

#include <cubepi/core/json.hpp>
#include <cubepi/mcp/protocol.hpp>

namespace cubepi::detail {

/// An error response of the server, as an exception.
struct Refusal {
    int code;
    std::string text;
    Json data;

    Refusal(int its_code, std::string its_text, Json its_data = {})
        : code(its_code), text(std::move(its_text)), data(std::move(its_data)) {}
};

}  // namespace cubepi::detail

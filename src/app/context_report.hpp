#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cubepi/provider/provider.hpp>

namespace cubepi::app {

/// The parts of a request, in estimated tokens: a quarter of their bytes, scaled to `total` if the server has counted.
struct RequestParts {
    std::int64_t system_prompt = 0;  ///< without the parts below
    std::int64_t instructions = 0;
    std::int64_t skills = 0;
    std::int64_t tools = 0;
    std::int64_t summary = 0;  ///< in place of the messages before it
    std::int64_t prompts = 0;
    std::int64_t answers = 0;  ///< with calls
    std::int64_t results = 0;
    std::size_t tool_count = 0;
    std::size_t message_count = 0;
    std::int64_t total = 0;
};

/// The files that are a part of the system prompt, as the model gets them.
struct PromptFiles {
    std::string instructions = {};
    std::string skills = {};
};

/// Measures a request without its last `omitted` messages. `counted`: tokens of the request as known from the server; 0: unknown.
RequestParts parts_of(const ModelRequest& request, std::size_t omitted, const PromptFiles& files,
                      std::int64_t counted);

/// The text of `/context`. `window`: of the model; 0: unknown.
std::string context_text(const RequestParts& parts, std::int64_t window, bool is_counted);

}  // namespace cubepi::app

// The message that the benchmarks of the stores on a server append and load.
#pragma once

#include <string>
#include <utility>

#include <cubepi/core/message.hpp>

namespace cubepi::bench {

inline Message stored_message(std::string id = "m") {
    UserMessage made;
    made.content.emplace_back(TextContent{"a message of ordinary length, as users write them"});
    made.id = std::move(id);
    made.timestamp = 1795303670.61;
    made.run_id = "run-1";
    return made;
}

}  // namespace cubepi::bench

#pragma once

#include <cubepi/core/shared_string.hpp>

namespace cubepi::detail {

/// The texts that occur in the spans of every run.
struct ConstantTexts {
    SharedString chat = "chat";
    SharedString cubepi = "cubepi";
    SharedString execute_tool = "execute_tool";
    SharedString function = "function";
    SharedString invoke_agent = "invoke_agent";
    SharedString parallel = "parallel";
    SharedString sequential = "sequential";
    SharedString turn = "cubepi.turn";
};

/// Returns the texts of this thread: a reference count that all threads share would slow them down.
const ConstantTexts& constant_texts();

}  // namespace cubepi::detail

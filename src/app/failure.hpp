#pragma once

#include <exception>
#include <string>

#include <cubepi/agent/run_result.hpp>
#include <cubepi/core/error.hpp>

namespace cubepi::app {

/// A failure as a person should read it: what happened, and the next command.
struct Failure {
    std::string text = {};  ///< one line, may be followed by lines of advice
    int exit_code = 1;
};

/// Where the failing call went, for texts that name it.
struct FailureContext {
    std::string where = {};         ///< "gpt-5.1 at api.openai.com"
    std::string key_variable = {};  ///< where its key is looked for; empty: in no variable
    std::string session = {};       ///< the conversation's name, where it has one
};

Failure explain(const Error& error, const FailureContext& context = {});
Failure explain(const std::exception_ptr& failure, const FailureContext& context = {});

}  // namespace cubepi::app

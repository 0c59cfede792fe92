#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace conformance {

/// Thrown by a rule of the scenario in a hook.
class HookFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Thrown by the acting listener.
class ListenerFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Thrown by a tool of the scenario.
class ToolFault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The category of the exception of a step (README.md, section 3.1).
std::string category_of(const std::exception_ptr& failure);

}  // namespace conformance

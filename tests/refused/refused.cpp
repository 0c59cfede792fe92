// Each of these is a mistake that a user makes on the first day. It must not compile, on either compiler, and the error must
// say what to do: the line "says" is part of it.

#include <cubepi/agent/agent.hpp>

#include <chrono>
#include <memory>
#include <string>

using namespace cubepi;

template <class Args>
AgentTool tool_with() {
    return tool<Args>("name", "description", [](Args) { return std::string(); });
}

struct Base {
    int a;
};
struct Derived : Base {
    int b;
};
// says: cubepi: a struct for JSON must not have base classes; list all its fields in one struct
AgentTool derived() { return tool_with<Derived>(); }

struct Constant {
    const int a = 3;
};
// says: cubepi: a struct for JSON must be assignable: it has no const or reference fields
AgentTool constant() { return tool_with<Constant>(); }

struct CArray {
    int a[3];
};
// says: cubepi: a struct for JSON has no C array (use std::array or std::vector)
AgentTool c_array() { return tool_with<CArray>(); }

struct Duration {
    std::chrono::seconds limit;
};
// says: cubepi: this type cannot be turned into JSON; use bool, an integer (not char), float, double, std::string
AgentTool duration() { return tool_with<Duration>(); }

enum Open { first, second };
struct OpenEnum {
    Open open;
};
// says: cubepi: an enum for JSON must be an `enum class` or have a fixed underlying type
AgentTool open_enum() { return tool_with<OpenEnum>(); }

enum class Status { ok = 200, not_found = 404 };
struct StatusArgs {
    Status status;
};
// says: cubepi: an enumerator of this enum lies outside of its enum_range (-128 to 255 unless specialized)
AgentTool status_enum() { return tool_with<StatusArgs>(); }

// says: cubepi: the arguments of a tool are a struct with one field for each
AgentTool no_struct() { return tool_with<std::string>(); }

struct Args {
    std::string city;
};
// says: a tool's callable takes (Args) or (Args, ToolContext&)
AgentTool wrong_callable() {
    return tool<Args>("name", "description", [](int) { return std::string(); });
}

// says: a tool returns what the model is to read, not void
AgentTool no_answer() {
    return tool<Args>("name", "description", [](Args) {});
}

// says: a tool returns what the model is to read, not void
AgentTool no_answer_later() {
    return tool<Args>("name", "description", [](Args) -> Task<void> { co_return; });
}

struct WrongHook {
    int transform_context(MessageList messages) { return static_cast<int>(messages.size()); }
};
// says: middleware hook transform_context must be callable as MessageList transform_context(MessageList, HookContext&)
Middleware wrong_hook() { return WrongHook(); }

struct NoHook {
    MessageList transfrom_context(MessageList messages) { return messages; }
};
// says: a middleware has at least one hook: transform_context, convert_to_llm
Middleware no_hook() { return NoHook(); }

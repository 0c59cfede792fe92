// Common mistakes of new users. None may compile with either compiler, and the error must state the remedy: it must contain the
// line "says".

#include <app/terminal/terminal_stream.hpp>
#include <bub/builtin/builtin.hpp>
#include <cubepi/agent/agent.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/http_provider.hpp>
#include <cubepi/provider/images.hpp>
#include <cubepi/provider/observers.hpp>

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

// says: cubepi: name each parameter of the callable but a ToolContext&, as in tool<"city", "days">(...)
AgentTool unnamed_parameter() {
    return tool<"city">("name", "description", [](std::string, int) { return std::string(); });
}

// says: cubepi: the types of the callable's parameters must be known: no `auto`, no overloads
AgentTool generic_callable() {
    return tool<"city">("name", "description", [](auto) { return std::string(); });
}

// says: cubepi: the parameters of a tool's callable are passed by value, except for a ToolContext& at the end
AgentTool reference_parameter() {
    return tool<"city">("name", "description", [](const std::string&) { return std::string(); });
}

// says: cubepi: the names of a tool's parameters must differ
AgentTool same_names() {
    return tool<"a", "a">("name", "description", [](int, int) { return std::string(); });
}

struct WrongHook {
    int transform_context(MessageList messages) { return static_cast<int>(messages.size()); }
};
// says: hook transform_context must be callable as MessageList transform_context(MessageList, HookContext&)
Middleware wrong_hook() { return WrongHook(); }

struct NoHook {
    MessageList transfrom_context(MessageList messages) { return messages; }
};
// says: a middleware has at least one hook: transform_context, convert_to_llm
Middleware no_hook() { return NoHook(); }

// says: a listener must be callable with (const AgentEvent&) or (const AgentEvent&, std::stop_token) and return void or Task<void>
AgentListener listener_that_would_never_run() {
    return AgentListener([](const AgentEvent&) -> Task<bool> { co_return true; });
}
AgentListener listener_with_an_answer() {
    return AgentListener([](const AgentEvent& event) { return event.seq; });
}
AgentListener listener_of_something_else() {
    return AgentListener([](const std::string&) {});
}

// says: hook before_tool_call must be callable as std::optional<BeforeToolCallResult> before_tool_call(BeforeToolCallContext&)
AgentOptions explicit_hook() {
    AgentOptions options;
    options.before_tool_call = [](BeforeToolCallContext&) { return true; };
    return options;
}

// says: hook should_stop_after_turn must be callable as bool should_stop_after_turn(ShouldStopAfterTurnContext&)
HookSet hook_without_an_answer() {
    HookSet hooks;
    hooks.should_stop_after_turn = [](ShouldStopAfterTurnContext&) -> Task<void> { co_return; };
    return hooks;
}

// says: on_payload must be callable as Task<std::optional<JsonObject>> (JsonObject payload, Model model, HttpHeaders headers)
PayloadHook payload_hook() {
    return PayloadHook([](JsonObject, Model) { return JsonObject(); });
}

// says: on_response must be callable as Task<void> (ProviderResponse response, Model model)
ResponseHook response_hook() {
    return ResponseHook([](ProviderResponse, Model) {});
}

// says: a request observer must be callable with (const RequestPayload&, const ProviderCall&) and return void or Task<void>
RequestObserver request_observer() {
    return RequestObserver(
        [](const RequestPayload&, const ProviderCall&) -> Task<bool> { co_return true; });
}

// says: a chunk observer must be callable with (const StreamEvent&, const ProviderCall&) and return void or Task<void>
ChunkObserver chunk_observer() {
    return ChunkObserver([](const StreamEvent&) {});
}

// says: a response observer must be callable with (const ProviderOutcome&, const ProviderCall&) and return void or Task<void>
ResponseObserver response_observer() {
    return ResponseObserver([](const ProviderOutcome&, const ProviderCall&) { return 1; });
}

// says: a failover observer must be callable with (const Failover&) and return void or Task<void>
FailoverObserver failover_observer() {
    return FailoverObserver([](const Failover&) -> Task<int> { co_return 1; });
}

// says: ImagesOptions::on_event must be callable as void (const ImagesEvent&); a Task would never run
ImagesEventHandler images_event_handler() {
    return ImagesEventHandler([](const ImagesEvent&) -> Task<void> { co_return; });
}

// says: an images request observer must be callable as void (const JsonObject& payload, const ImagesModel&)
ImagesRequestObserver images_request_observer() {
    return ImagesRequestObserver(
        [](const JsonObject&, const ImagesModel&) -> Task<void> { co_return; });
}

// says: on_warning must be callable as void (std::string text); a Task would never run
bub::WarningHandler warning_handler() {
    return bub::WarningHandler([](std::string) -> Task<void> { co_return; });
}

// says: BuiltinOptions::on_result must be callable as void (const cubepi::RunResult&, const TurnContext&)
bub::BuiltinOptions result_handler() {
    bub::BuiltinOptions options;
    options.on_result = [](const RunResult&, const bub::TurnContext&) -> Task<void> { co_return; };
    return options;
}

// says: a plugin's hook must be callable with a reference to its call (bub/hooks.hpp)
bub::Plugin plugin_hook_arguments() {
    bub::Plugin plugin;
    plugin.save_state = [](int) {};
    return plugin;
}
// says: and return the hook's result, what converts to it, nothing, or a Task of one
bub::Plugin plugin_hook_result() {
    bub::Plugin plugin;
    plugin.build_prompt = [](bub::BuildPromptCall&) { return std::chrono::seconds(1); };
    return plugin;
}

// A wrong field. The compilers name it if the type is spelled out: `Agent agent(AgentOptions{...})`.

// says with clang: field designator 'system_promt' does not refer to any field in type 'AgentOptions'; did you mean 'system_prompt'?
// says with g++: 'cubepi::AgentOptions' has no non-static data member named 'system_promt'
void misspelled_option(const BoundModel& model) {
    const Agent agent(AgentOptions{.model = model, .system_promt = "You are terse."});
}
// says with clang: no viable conversion from 'int' to 'std::string'
// says with g++: could not convert '5' from 'int' to 'std::string'
void option_of_another_type(const BoundModel& model) {
    const Agent agent(AgentOptions{.model = model, .system_prompt = 5});
}

// says: a request signer must be callable
RequestSigner signer_of_another_type() {
    return [](const std::string&) { return 1; };
}

// A part of the program: text for a terminal.

// says: text for a terminal must be a literal or have passed for_terminal()
void unescaped_output(app::TerminalStream& out, const std::string& tool_name) { out << tool_name; }

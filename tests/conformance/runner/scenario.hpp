#pragma once

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_list.hpp>

namespace conformance {

using cubepi::Json;
using cubepi::JsonArray;
using cubepi::JsonObject;

/// The file does not conform to the format; the text names the place.
class BadFile : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The product has no API yet for a feature of the file; the text names it.
class Unsupported : public std::runtime_error {
public:
    explicit Unsupported(const std::string& what) : std::runtime_error("unsupported: " + what) {}
};

/// One tool and the steps of its body.
struct ToolSpec {
    std::string name;
    std::string description;
    Json parameters;
    bool sequential = false;
    bool ask_user = false;  ///< the product's own tool
    JsonArray steps;
};

struct HookRule {
    std::string hook;
    JsonObject rule;
};

/// The product's own middleware of one kind, with its options.
struct ProductSpec {
    std::string kind;
    JsonObject options;
};

struct MiddlewareSpec {
    std::vector<HookRule> hooks;
    std::vector<ProductSpec> products;
};

/// One item of the script: a message, or a request that fails before it starts.
struct ScriptItem {
    std::optional<std::string> thrown;
    cubepi::AssistantMessage message;
    std::optional<std::int64_t> input_tokens;  ///< the usage that the answer reports
};

struct Match {
    std::string event;
    std::string stream;
    std::string role;
    std::string id;
    std::int64_t nth = 1;
    bool every = false;
};

struct Action {
    std::string name;
    Json value;
    /// Waits: performed in a task concurrent with the listener.
    bool waits = false;
};

struct ActionRule {
    Match when;
    std::vector<Action> actions;
};

struct Step {
    std::string name;
    Json value;
    bool wrong_question = false;
    cubepi::TraceContext context;
};

enum class StoreKind { none, memory, sqlite };

struct Scenario {
    std::string name;
    std::string system_prompt;
    bool sequential_tools = false;
    cubepi::QueueMode steering_mode = cubepi::QueueMode::one_at_a_time;
    cubepi::QueueMode follow_up_mode = cubepi::QueueMode::one_at_a_time;
    StoreKind store = StoreKind::none;
    std::set<std::int64_t> fail_append;
    cubepi::MessageList history;
    std::string channel;  ///< empty, "memory", "checkpointed"
    std::optional<std::int64_t> channel_timeout_ms;
    int token_size = 100000;
    bool usage = true;
    std::vector<ToolSpec> tools;
    std::vector<MiddlewareSpec> middleware;
    std::vector<HookRule> hooks;
    std::vector<ScriptItem> script;
    std::vector<ScriptItem> helper_script;  ///< of the model of the middleware
    std::vector<ActionRule> on;
    std::vector<Step> run;
    std::vector<std::string> count;
    bool late = false;
    std::vector<std::string> ignore;
    Json expect;
};

/// Throws BadFile.
ToolSpec parse_tool(const Json& form);
/// Throws BadFile.
ScriptItem parse_script_item(const Json& form);

/// Throws BadFile.
Scenario parse_scenario(const Json& file);

/// The compact form of a message (README.md, section 1.1). Throws BadFile.
cubepi::Message parse_message(const Json& form);
/// One text block for a string, else the list of blocks.
cubepi::ContentList<cubepi::AssistantContent> parse_assistant_content(const Json& form);
/// A user message from a text or {"text", "id"}; the id becomes metadata.steer_id.
cubepi::Message parse_queued(const Json& form);

}  // namespace conformance

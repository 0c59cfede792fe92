#include <cubepi/agent/tool.hpp>

#include <algorithm>
#include <unordered_set>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/provider/stream_options.hpp>
#include <cubepi/schema/issue.hpp>

namespace cubepi {

namespace {

constexpr std::size_t longest_name = 64;

bool is_name_character(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/// Returns true if all providers accept the name.
bool is_tool_name(std::string_view name) {
    return !name.empty() && name.size() <= longest_name &&
           std::all_of(name.begin(), name.end(), is_name_character);
}

void check_names(const std::vector<AgentTool>& tools) {
    std::unordered_set<std::string_view> names;
    for (const AgentTool& tool : tools) {
        const std::string_view name = tool.name;
        if (!is_tool_name(name)) {
            throw Error(ErrorCode::invalid_argument,
                        "invalid tool name '" + detail::abbreviated(name, 2 * longest_name) +
                            "': a tool name has 1 to 64 characters of A-Z, a-z, 0-9, _ and -");
        }
        if (!names.insert(name).second) {
            throw Error(ErrorCode::invalid_argument,
                        "duplicate tool name '" + std::string(name) +
                            "': each tool of an agent needs a name of its own");
        }
    }
}

}  // namespace

std::string_view to_string(ToolRisk risk) noexcept {
    switch (risk) {
        case ToolRisk::read_only: return "read_only";
        case ToolRisk::writes: return "writes";
        case ToolRisk::network: return "network";
        case ToolRisk::irreversible: return "irreversible";
    }
    return "writes";
}

std::string_view to_string(ReplayPolicy policy) noexcept {
    return policy == ReplayPolicy::idempotent ? "idempotent" : "never";
}

std::shared_ptr<HitlChannel> ToolContext::channel() const {
    if (!channel_) {
        throw Error(ErrorCode::no_channel,
                    "the tool '" + tool_name_.str() +
                        "' asks the user, but the agent has no channel: set AgentOptions::channel");
    }
    return detail::channel_of_call(channel_, tool_call_id_.str());
}

const RunInfo& ToolContext::run() const noexcept {
    static const RunInfo none;
    return run_ ? run_->info() : none;
}

void ToolContext::charge(const Usage& usage, std::optional<double> cost) const {
    if (run_) run_->charge(usage, cost);
}

StreamOptions ToolContext::call_options(std::string_view purpose) const {
    return options_for_call(run(), purpose, tool_call_id_)
        .stop_token(stop_token())
        .runtime(runtime_);
}

AgentTool detail::make_tool(std::string name, std::string description, JsonSchema schema,
                            SharedObject callback, ToolFunction function) {
    auto execute = [callback = std::move(callback), function](JsonObject arguments,
                                                              ToolContext& ctx) {
        return function(callback.get(), std::move(arguments), ctx);
    };
    return AgentTool(std::move(name), std::move(description), std::move(schema),
                     std::move(execute));
}

JsonSchema AgentTool::no_parameters() {
    static const JsonSchema schema(
        Json(JsonObject{{"type", "object"}, {"properties", JsonObject()}}));
    return schema;
}

ToolDefinition AgentTool::definition() const {
    ToolDefinition made;
    made.name = name;
    made.description = description;
    made.parameters = parameters.shared_source();
    return made;
}

ToolList::ToolList(std::vector<AgentTool> tools) {
    if (tools.empty()) return;
    check_names(tools);
    auto shared = std::make_shared<Shared>();
    shared->tools = std::move(tools);
    auto definitions = std::make_shared<ToolDefinitions>();
    definitions->reserve(shared->tools.size());
    for (const AgentTool& tool : shared->tools) {
        if (tool.expose_to_model) definitions->push_back(tool.definition());
    }
    if (!definitions->empty()) shared->definitions = std::move(definitions);
    shared_ = std::move(shared);
}

const std::vector<AgentTool>& ToolList::tools() const noexcept {
    static const std::vector<AgentTool> none;
    return shared_ ? shared_->tools : none;
}

const AgentTool* ToolList::find(std::string_view name) const noexcept {
    for (const AgentTool& tool : tools()) {
        if (tool.name == name) return &tool;
    }
    return nullptr;
}

void ToolList::push_back(AgentTool tool) {
    std::vector<AgentTool> more = tools();
    more.push_back(std::move(tool));
    *this = ToolList(std::move(more));
}

const std::shared_ptr<const ToolDefinitions>& ToolList::definitions() const noexcept {
    static const std::shared_ptr<const ToolDefinitions> none;
    return shared_ ? shared_->definitions : none;
}

}  // namespace cubepi

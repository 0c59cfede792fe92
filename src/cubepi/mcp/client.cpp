#include <cubepi/mcp/client.hpp>

#include <utility>

#include <cubepi/core/support/percent_decoded.hpp>
#include <cubepi/mcp/client/client_state.hpp>
#include <cubepi/mcp/client/offer_list.hpp>

namespace cubepi {

McpRoot mcp_root(const std::filesystem::path& path) {
    McpRoot root;
    root.uri = "file://";
    for (const std::filesystem::path& part : path.lexically_normal()) {
        const std::string name = part.string();
        if (name == "/" || name.empty()) continue;
        root.uri += "/" + detail::percent_encoded(name);
        root.name = name;
    }
    if (root.name.empty()) root.uri += "/";
    root.name = detail::shown_mcp_text(root.name);
    return root;
}

McpClient::McpClient(McpClientOptions options, std::unique_ptr<McpTransport> transport,
                     std::shared_ptr<const Runtime> runtime)
    : state_(
          std::make_shared<State>(std::move(options), std::move(transport), std::move(runtime))) {}

McpClient::~McpClient() {
    state_->is_ended = true;
    state_->listening.reset();
    state_->background.reset();
    state_->waiting_scope.reset();
    state_->transport->abandon();
}

const std::string& McpClient::server() const noexcept { return state_->options.server; }
const McpLimits& McpClient::limits() const noexcept { return state_->options.limits; }
const std::shared_ptr<const McpSamplingOptions>& McpClient::sampling() const noexcept {
    return state_->options.sampling;
}
std::uint64_t McpClient::tools_revision() const noexcept { return state_->tools.revision; }
bool McpClient::has_sampling_tools() const noexcept {
    return state_->info.is_stateless || state_->info.version >= "2025-11-25";
}

Task<McpServerInfo> McpClient::connect() {
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    co_return state->info;
}

Task<std::shared_ptr<const McpToolList>> McpClient::tools() {
    const std::shared_ptr<State> state = state_;
    co_return co_await state->list_tools();
}

Task<JsonObject> McpClient::call(McpCall call) {
    const std::shared_ptr<State> state = state_;
    Task<JsonObject> calling = State::call(state, std::move(call));
    co_return co_await std::move(calling);
}

Task<std::shared_ptr<const McpPromptList>> McpClient::prompts() {
    const std::shared_ptr<State> state = state_;
    co_return co_await state->list_prompts();
}

Task<std::shared_ptr<const McpResourceList>> McpClient::resources() {
    const std::shared_ptr<State> state = state_;
    co_return co_await state->list_resources();
}

Task<> McpClient::subscribe(std::string uri) {
    const std::shared_ptr<State> state = state_;
    co_await state->subscribe(std::move(uri));
}

Task<> McpClient::unsubscribe(std::string uri) {
    const std::shared_ptr<State> state = state_;
    co_await state->unsubscribe(std::move(uri));
}

Task<McpPromptText> McpClient::prompt(std::string name,
                                      std::map<std::string, std::string> arguments,
                                      McpInputHandler on_input) {
    const std::shared_ptr<State> state = state_;
    JsonObject values;
    for (const auto& [key, value] : arguments) values[key] = value;
    JsonObject params;
    params["name"] = std::move(name);
    params["arguments"] = std::move(values);
    const JsonObject result =
        co_await state->ask_with_input("prompts/get", std::move(params), std::move(on_input));
    co_return detail::mcp_prompt_text_from_json(result);
}

Task<std::vector<McpResourceContent>> McpClient::read_resource(std::string uri,
                                                               McpInputHandler on_input) {
    const std::shared_ptr<State> state = state_;
    JsonObject params;
    params["uri"] = std::move(uri);
    const JsonObject result =
        co_await state->ask_with_input("resources/read", std::move(params), std::move(on_input));
    co_return detail::mcp_contents_from_json(result);
}

Task<std::vector<std::string>> McpClient::complete(McpCompletionTarget target, std::string argument,
                                                   std::string value) {
    constexpr std::size_t max_values = 100;
    const std::shared_ptr<State> state = state_;
    co_await state->ensure_connected();
    std::vector<std::string> values;
    if (!state->offers("completions")) co_return values;
    JsonObject reference;
    if (target.prompt.empty()) {
        reference["type"] = "ref/resource";
        reference["uri"] = std::move(target.uri_template);
    } else {
        reference["type"] = "ref/prompt";
        reference["name"] = std::move(target.prompt);
    }
    JsonObject typed;
    typed["name"] = std::move(argument);
    typed["value"] = std::move(value);
    JsonObject params;
    params["ref"] = std::move(reference);
    params["argument"] = std::move(typed);
    const JsonObject result =
        co_await state->send_within(state->options.request_timeout, "completion/complete",
                                    std::move(params), State::RequestExtras());
    const JsonObject* completion = detail::object_member(result, "completion");
    const JsonArray* list = completion ? detail::array_member(*completion, "values") : nullptr;
    if (!list) co_return values;
    for (const Json& one : *list) {
        if (values.size() == max_values) break;
        if (one.is_string()) values.push_back(detail::shown_mcp_text(one.get_string()));
    }
    co_return values;
}

Task<JsonObject> McpClient::request(std::string method, JsonObject params) {
    const std::shared_ptr<State> state = state_;
    const std::chrono::nanoseconds limit = state->options.request_timeout;
    co_return co_await state->send_within(limit, std::move(method), std::move(params),
                                          State::RequestExtras());
}

Task<> McpClient::roots_changed() {
    const std::shared_ptr<State> state = state_;
    const bool is_notified = state->options.roots && state->is_agreed &&
                             !state->info.is_stateless && state->transport->is_open();
    if (is_notified)
        co_await state->transport->notify("notifications/roots/list_changed", JsonObject());
}

Task<> McpClient::close() {
    const std::shared_ptr<State> state = state_;
    state->listening.reset();
    state->waiting_calls.clear();
    state->waiting_scope.reset();
    if (state->background) co_await state->background->idle();
    state->is_agreed = false;
    co_await state->transport->close();
}

}  // namespace cubepi

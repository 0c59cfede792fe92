#include <cubepi/mcp/sampling.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/agent/run/spend_reservation.hpp>
#include <cubepi/agent/run_account.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/mcp/client.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/cost.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

using detail::array_member;
using detail::object_member;
using detail::shown_mcp_text;
using detail::string_member;

constexpr std::size_t max_messages = 200;
constexpr std::size_t max_tools = 64;
/// Of the prompt, in the question to the user.
constexpr std::size_t max_shown_bytes = 4000;
constexpr double max_temperature = 2.0;
/// For the server, which must not learn endpoints, models and limits of its user from failures.
constexpr const char* no_answer_text = "The model has not answered.";

[[noreturn]] void reject(const std::string& reason) {
    throw McpError(mcp_error::invalid_params,
                   "The request for a message is refused: " + reason + ".");
}

/// Calls `each` for the blocks of a content, which is one block or a list of them.
template <class Each>
void for_blocks(const JsonObject& holder, Each each) {
    const Json* content = holder.if_contains("content");
    if (content && content->is_object()) {
        each(content->get_object());
        return;
    }
    const JsonArray* list = content ? content->if_array() : nullptr;
    if (!list) reject("a message has no content");
    for (const Json& block : *list) {
        const JsonObject* object = block.if_object();
        if (!object) reject("a block of content is invalid");
        each(*object);
    }
}

Content content_of(const JsonObject& block) {
    const std::string_view type = string_member(block, "type");
    if (type == "text") return TextContent{replace_broken_utf8(string_member(block, "text"))};
    if (type != "image")
        reject("content of the type '" + shown_mcp_text(type, 64) + "' cannot be sent");
    ImageContent image;
    image.source = string_member(block, "data");
    image.media_type = SharedString(detail::text_member(block, "mimeType"));
    // A URL would be fetched by the endpoint of the model.
    if (image.source.find(':') != std::string::npos) reject("an image is not base64");
    return image;
}

ToolResultMessage result_of(const JsonObject& block) {
    ToolResultMessage result;
    result.tool_call_id = SharedString(detail::text_member(block, "toolUseId"));
    result.is_error = detail::flag_member(block, "isError");
    if (block.contains("content")) {
        for_blocks(block,
                   [&](const JsonObject& one) { result.content.push_back(content_of(one)); });
    }
    return result;
}

void add_user_message(MessageList& messages, const JsonObject& json) {
    UserMessage message;
    for_blocks(json, [&](const JsonObject& block) {
        if (string_member(block, "type") == "tool_result") {
            messages.push_back(Message(result_of(block)));
        } else {
            message.content.push_back(content_of(block));
        }
    });
    if (!message.content.empty()) messages.push_back(Message(std::move(message)));
}

void add_assistant_message(MessageList& messages, const JsonObject& json) {
    AssistantMessage message;
    for_blocks(json, [&](const JsonObject& block) {
        const std::string_view type = string_member(block, "type");
        if (type == "text") {
            message.content.push_back(
                TextContent{replace_broken_utf8(string_member(block, "text"))});
        } else if (type == "tool_use") {
            ToolCall call;
            call.id = SharedString(detail::text_member(block, "id"));
            call.name = SharedString(detail::text_member(block, "name"));
            if (const JsonObject* input = object_member(block, "input")) call.arguments = *input;
            message.content.push_back(std::move(call));
        } else {
            reject("an answer has content of the type '" + shown_mcp_text(type, 64) + "'");
        }
    });
    messages.push_back(Message(std::move(message)));
}

std::shared_ptr<const ToolDefinitions> tools_of(const JsonObject& params) {
    const JsonArray* list = array_member(params, "tools");
    if (!list || list->empty()) return nullptr;
    if (list->size() > max_tools) reject("it has too many tools");
    auto tools = std::make_shared<ToolDefinitions>();
    for (const Json& one : *list) {
        const JsonObject* object = one.if_object();
        const Json* schema = object ? object->if_contains("inputSchema") : nullptr;
        if (!schema || !schema->is_object()) reject("a tool has no schema");
        ToolDefinition tool;
        tool.name = SharedString(detail::text_member(*object, "name"));
        tool.description = SharedString(detail::text_member(*object, "description"));
        tool.parameters = std::make_shared<const Json>(*schema);
        tools->push_back(std::move(tool));
    }
    try {
        std::vector<AgentTool> checked(tools->size());
        for (std::size_t i = 0; i < checked.size(); ++i) checked[i].name = (*tools)[i].name;
        (void)ToolList(std::move(checked));
    } catch (const Error& error) {
        reject(error.what());
    }
    return tools;
}

std::optional<ToolChoice> choice_of(const JsonObject& params) {
    const JsonObject* object = object_member(params, "toolChoice");
    if (!object) return std::nullopt;
    ToolChoice choice;
    const std::string_view mode = string_member(*object, "mode");
    if (mode == "required") choice.mode = ToolChoice::Mode::required;
    if (mode == "none") choice.mode = ToolChoice::Mode::none;
    return choice;
}

/// Each line is indented, so that a prompt cannot imitate the words of the program.
void append_lines(std::string& text, std::string_view words) {
    while (!words.empty()) {
        const std::size_t end = std::min(words.find('\n'), words.size());
        // Not cut here: the question states how much of the prompt it does not show.
        text += "\n  " + shown_mcp_text(words.substr(0, end), end);
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}

std::string_view role_name(Role role) {
    if (role == Role::user) return "User";
    return role == Role::assistant ? "Model" : "Result of a tool";
}

template <class Blocks>
std::size_t images_in(const Blocks& blocks) {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks, [](const auto& block) { return std::holds_alternative<ImageContent>(block); }));
}

/// Refuses unless the user allows the request.
Task<> require_consent(std::shared_ptr<HitlChannel> channel, std::string question) {
    bool is_allowed = false;
    try {
        is_allowed = co_await channel->confirm(std::move(question));
    } catch (const HitlCancelled&) {
        is_allowed = false;
    } catch (const HitlTimedOut&) {
        is_allowed = false;
    }
    if (!is_allowed) throw McpInputRefused("The user has refused the request for a message.");
}

/// Adds a call to the run, whose budget has a reservation for it if it is limited (D120).
void count(const std::shared_ptr<RunAccount>& account, detail::SpendReservation& reservation,
           const Usage& usage, std::optional<double> cost) {
    if (!account) return;
    if (reservation.usd()) {
        account->count(usage, cost);
        reservation.end(cost);
    } else {
        account->charge(usage, cost);
    }
}

}  // namespace

ModelRequest detail::sampling_request(const McpSamplingOptions& options,
                                      const McpSamplingRequest& request) {
    const JsonObject& params = request.params;
    const bool has_tools = params.contains("tools") || params.contains("toolChoice");
    if (has_tools && !request.may_have_tools)
        reject("this revision of the protocol has no tools for models");
    if (json_text(Json(params)).size() > options.max_prompt_bytes)
        reject("it has more than " + std::to_string(options.max_prompt_bytes) + " bytes");
    const JsonArray* messages = array_member(params, "messages");
    if (!messages || messages->empty()) reject("it has no messages");
    if (messages->size() > max_messages) reject("it has too many messages");
    ModelRequest asked;
    asked.model = options.model().spec();
    const std::int64_t wanted = integer_member(params, "maxTokens").value_or(options.max_tokens);
    if (wanted < 1) reject("maxTokens must be positive");
    std::int64_t limit = std::min(wanted, options.max_tokens);
    if (asked.model.max_tokens) limit = std::min(limit, *asked.model.max_tokens);
    asked.model.max_tokens = limit;
    if (const Json* temperature = params.if_contains("temperature")) {
        if (temperature->is_number()) {
            asked.model.temperature =
                std::clamp(temperature->to_number<double>(), 0.0, max_temperature);
        }
    }
    asked.system_prompt = SharedString(replace_broken_utf8(string_member(params, "systemPrompt")));
    asked.tools = tools_of(params);
    for (const Json& one : *messages) {
        const JsonObject* message = one.if_object();
        if (!message) reject("a message is invalid");
        const std::string_view role = string_member(*message, "role");
        if (role == "user") {
            add_user_message(asked.messages, *message);
        } else if (role == "assistant") {
            add_assistant_message(asked.messages, *message);
        } else {
            reject("a message has an unknown role");
        }
    }
    if (asked.messages.empty()) reject("it has no messages");
    return asked;
}

std::string detail::sampling_question(const McpSamplingRequest& request,
                                      const ModelRequest& asked) {
    std::string prompt;
    std::size_t images = 0;
    if (!asked.system_prompt.empty()) {
        prompt += "\nInstructions:";
        append_lines(prompt, asked.system_prompt.str());
    }
    for (const Message& message : asked.messages) {
        prompt += "\n" + std::string(role_name(message.role())) + ":";
        append_lines(prompt, message.text());
        if (message.assistant()) {
            for (const ToolCall* call : message.assistant()->tool_calls())
                append_lines(prompt, call->name.str() + " " + json_text(Json(call->arguments)));
        }
        if (message.user()) images += images_in(message.user()->content);
        if (message.tool_result()) images += images_in(message.tool_result()->content);
    }
    if (asked.tools) {
        for (const ToolDefinition& tool : *asked.tools) {
            prompt += "\nTool:";
            append_lines(prompt, tool.name.str() + ": " + tool.description.str() + " " +
                                     json_text(*tool.parameters));
        }
    }
    std::string text = "The server " + request.server + " asks the model " +
                       shown_mcp_text(asked.model.id) + " for an answer of at most " +
                       std::to_string(asked.model.max_tokens.value_or(0)) +
                       " tokens, at your cost. The server receives the answer.";
    if (images > 0) text += " Its prompt has " + std::to_string(images) + " images.";
    if (asked.tools)
        text +=
            " The model may call " + std::to_string(asked.tools->size()) + " tools of the server.";
    const std::size_t shown = complete_utf8_prefix(prompt.substr(0, max_shown_bytes));
    text += prompt.substr(0, shown);
    if (shown < prompt.size()) {
        text += "\n(" + std::to_string(prompt.size() - shown) +
                " more bytes of the prompt are not shown)";
    }
    return text + "\nAllow it?";
}

JsonObject detail::sampling_result(const AssistantMessage& answer) {
    JsonArray blocks;
    bool calls_tools = false;
    for (const AssistantContent& block : answer.content) {
        JsonObject json;
        if (const auto* text = std::get_if<TextContent>(&block)) {
            json["type"] = "text";
            json["text"] = text->text;
        } else if (const auto* call = std::get_if<ToolCall>(&block)) {
            calls_tools = true;
            json["type"] = "tool_use";
            json["id"] = call->id.str();
            json["name"] = call->name.str();
            json["input"] = call->arguments;
        } else {
            continue;  // reasoning, and images, which servers do not expect
        }
        blocks.emplace_back(std::move(json));
    }
    JsonObject result;
    result["role"] = "assistant";
    result["model"] = answer.model_id.str();
    result["stopReason"] = "endTurn";
    if (answer.stop_reason == stop_reason::length) result["stopReason"] = "maxTokens";
    if (calls_tools) result["stopReason"] = "toolUse";
    if (!calls_tools) {
        // Without tools the content is one block in all revisions.
        JsonObject text;
        text["type"] = "text";
        text["text"] = answer.text();
        result["content"] = std::move(text);
    } else {
        result["content"] = std::move(blocks);
    }
    return result;
}

Task<JsonObject> answer_mcp_sampling(std::shared_ptr<const McpSamplingOptions> options,
                                     McpSamplingRequest request, StreamOptions call) {
    ModelRequest asked = detail::sampling_request(*options, request);
    const std::shared_ptr<Provider> provider = options->model().provider();
    co_await require_consent(request.channel, detail::sampling_question(request, asked));
    detail::SpendReservation reservation;
    if (request.account) {
        const std::optional<LimitReachedError> reached =
            reservation.reserve(request.account, *provider, asked);
        if (reached) throw McpInputRefused(no_answer_text, reached->what());
    }
    if (const std::optional<ToolChoice> choice = choice_of(request.params); choice && asked.tools)
        call = std::move(call).tool_choice(*choice);
    const std::shared_ptr<const Runtime> runtime = call.runtime();
    const BoundModel model(provider, std::move(asked.model));
    Task<AssistantMessage> asking = model.generate(
        std::move(asked.messages), std::move(asked.system_prompt), asked.tools, std::move(call));
    Task<AssistantMessage> limited =
        with_timeout(*runtime->clock, options->timeout, std::move(asking), "sampling");
    Outcome<AssistantMessage> answered = co_await outcome_of(std::move(limited));
    if (!answered.ok()) {
        // The endpoint may bill it. Without a limit its cost is not known.
        if (reservation.usd()) count(request.account, reservation, Usage(), reservation.usd());
        if (answered.cancelled()) answered.rethrow();
        throw McpInputRefused(no_answer_text, exception_text(answered.failure()));
    }
    const AssistantMessage& answer = answered.value();
    if (answer.usage || answer.stop_reason != stop_reason::error) {
        count(request.account, reservation, answer.usage.value_or(Usage()),
              cost_of(answer, model.spec()));
    }
    const bool has_failed =
        answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted;
    if (has_failed) throw McpInputRefused(no_answer_text, answer.error_message.str());
    co_return detail::sampling_result(answer);
}

}  // namespace cubepi

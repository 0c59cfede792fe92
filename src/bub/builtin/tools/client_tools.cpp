#include <bub/builtin/client_tools.hpp>

#include <memory>
#include <utility>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/base64.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

namespace {

using cubepi::detail::object_member;
using cubepi::detail::text_member;

constexpr std::string_view call_key = "client_call";  // of the payload
constexpr std::string_view tool_key = "client_tool";  // of HitlRequest::extra
constexpr std::string_view output_key = "output";
constexpr std::string_view images_key = "images";

[[noreturn]] void refuse(const std::string& reason) {
    throw cubepi::Error(cubepi::ErrorCode::invalid_argument, "the tools of the client: " + reason);
}

cubepi::HitlQuestion question_of(std::string_view key, std::string prompt) {
    cubepi::HitlQuestion question;
    question.key = key;
    question.prompt = std::move(prompt);
    question.required = false;
    return question;
}

/// Returns the question for the output of a call.
cubepi::AskRequest question_about(const std::string& name, const JsonObject& arguments) {
    cubepi::AskRequest ask;
    ask.questions.push_back(
        question_of(output_key, "The program that has sent the message is to call its tool '" +
                                    name + "'. What is the output?"));
    ask.questions.push_back(question_of(images_key, "Pictures of the output, as data URLs"));
    ask.questions.back().multi_select = true;
    ask.extra[call_key] = JsonObject{{"name", name}, {"arguments", arguments}};
    return ask;
}

cubepi::AgentToolResult result_of(const JsonObject& answer) {
    cubepi::AgentToolResult result(text_member(answer, output_key));
    const Json* const images = answer.if_contains(images_key);
    if (!images || !images->is_array()) return result;
    for (const Json& one : images->get_array()) {
        constexpr std::string_view prefix = "data:";
        constexpr std::string_view mark = ";base64,";
        const std::string_view url = one.is_string() ? one.get_string() : std::string_view();
        const std::size_t end = url.find(mark);
        if (!url.starts_with(prefix) || end == url.npos) continue;
        if (!cubepi::detail::is_base64(url.substr(end + mark.size()))) continue;
        cubepi::ImageContent image;
        image.media_type =
            cubepi::SharedString(std::string(url.substr(prefix.size(), end - prefix.size())));
        image.source = std::string(url.substr(end + mark.size()));
        result.content.emplace_back(std::move(image));
    }
    return result;
}

Task<cubepi::AgentToolResult> ask_client(std::shared_ptr<cubepi::HitlChannel> channel,
                                         JsonObject definition, JsonObject arguments,
                                         std::string call_id, std::chrono::nanoseconds time) {
    const std::string name = text_member(definition, "name");
    cubepi::HitlOptions options;
    options.timeout = time;
    options.asking_call = call_id;
    // A digest of the question would be the same for two calls of an answer, and their order changes when one is answered.
    options.question_id = "output:" + call_id;
    options.extra[tool_key] = std::move(definition);
    cubepi::HitlPayload payload = question_about(name, arguments);
    Task<Json> asking = channel->request(std::move(payload), std::move(options));
    cubepi::Outcome<Json> answer = co_await cubepi::outcome_of(std::move(asking));
    if (answer.ok()) co_return result_of(answer.value().as_object());
    try {
        answer.rethrow();
    } catch (const cubepi::HitlTimedOut&) {
        // Below: another exception is rethrown, also a suspension of the run.
    }
    co_return cubepi::AgentToolResult::error("The output of this call did not arrive in time.");
}

cubepi::AgentTool tool_of(const JsonObject& definition, bool is_sequential,
                          std::chrono::nanoseconds time) {
    if (time.count() <= 0) time = longest_client_call;
    cubepi::AgentTool tool;
    const Json* const parameters = definition.if_contains("parameters");
    tool.name = cubepi::SharedString(text_member(definition, "name"));
    tool.description = cubepi::SharedString(text_member(definition, "description"));
    if (tool.name.empty() || !parameters || !parameters->is_object())
        refuse("each must have a name and parameters");
    tool.parameters = cubepi::JsonSchema(*parameters);
    // Its effects are the client's, which does not send the output of a call that it refuses.
    tool.risk_level = cubepi::ToolRisk::read_only;
    tool.replay_policy = cubepi::ReplayPolicy::idempotent;
    if (is_sequential) tool.execution_mode = cubepi::ExecutionMode::sequential;
    tool.execute = [definition, time](
                       JsonObject arguments,
                       cubepi::ToolContext& context) -> cubepi::MaybeTask<cubepi::AgentToolResult> {
        return ask_client(context.channel(), definition, std::move(arguments),
                          context.tool_call_id().str(), time);
    };
    return tool;
}

}  // namespace

bool is_client_call(const cubepi::HitlRequest& request) {
    return object_member(request.extra, tool_key) != nullptr;
}

std::optional<ClientCall> client_call_of(const JsonObject& request) {
    std::optional<ClientCall> found;
    const JsonObject* const payload = object_member(request, "payload");
    const JsonObject* const call = payload ? object_member(*payload, call_key) : nullptr;
    const JsonObject* const arguments = call ? object_member(*call, "arguments") : nullptr;
    if (!arguments) return found;
    found.emplace();
    found->name = text_member(*call, "name");
    found->arguments = *arguments;
    return found;
}

JsonObject client_output(std::string text, const std::vector<std::string>& images) {
    JsonObject answer;
    answer[output_key] = std::move(text);
    if (images.empty()) return answer;
    JsonArray urls;
    for (const std::string& url : images) urls.emplace_back(url);
    answer[images_key] = std::move(urls);
    return answer;
}

std::vector<cubepi::AgentTool> client_tools_of(const JsonObject& rest,
                                               std::chrono::nanoseconds time) {
    std::vector<cubepi::AgentTool> tools;
    const JsonObject* const given = object_member(rest, client_tools_key);
    if (!given) return tools;
    const Json* const listed = given->if_contains("tools");
    if (!listed || !listed->is_array()) refuse("'tools' must be a list");
    const bool is_sequential = cubepi::detail::flag_member(*given, "one_at_a_time");
    for (const Json& one : listed->get_array()) {
        if (!one.is_object()) refuse("each must be an object");
        tools.push_back(tool_of(one.get_object(), is_sequential, time));
    }
    return tools;
}

std::optional<cubepi::AgentTool> client_tool_of(const cubepi::HitlRequest& request,
                                                std::chrono::nanoseconds time) {
    std::optional<cubepi::AgentTool> tool;
    const JsonObject* const definition = object_member(request.extra, tool_key);
    if (definition) tool = tool_of(*definition, false, time);
    return tool;
}

std::optional<cubepi::ToolChoice> client_choice_of(const JsonObject& rest) {
    std::optional<cubepi::ToolChoice> choice;
    const JsonObject* const given = object_member(rest, client_tools_key);
    std::string name = given ? text_member(*given, "choice") : std::string();
    if (name.empty()) return choice;
    choice.emplace();
    choice->mode =
        name == "required" ? cubepi::ToolChoice::Mode::required : cubepi::ToolChoice::Mode::named;
    if (name != "required") choice->name = std::move(name);
    return choice;
}

}  // namespace bub

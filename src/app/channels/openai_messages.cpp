#include "openai_interface.hpp"

#include <algorithm>
#include <utility>

#include <bub/builtin/client_tools.hpp>
#include <bub/channel/http_channel.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi::app {

namespace {

using detail::OpenAIClientCall;
using detail::OpenAIClientFile;
using detail::OpenAIClientMessage;
using detail::OpenAIClientRequest;

std::string shown_id(const std::string& id) {
    constexpr std::size_t longest = 200;
    return "'" + id.substr(0, longest) + "'";
}

/// Returns the name of the tool of a call in the conversation; empty: the call is not part of it.
std::string name_of_call(const OpenAIClientRequest& request, const std::string& id) {
    for (const OpenAIClientMessage& message : request.messages)
        for (const OpenAIClientCall& call : message.calls)
            if (call.id == id) return call.name;
    return {};
}

JsonObject fact_of(const OpenAIClientMessage& message) {
    JsonObject fact;
    fact["role"] = !message.output_of.empty() ? "tool" : message.is_answer ? "assistant" : "user";
    if (!message.output_of.empty()) fact["call"] = message.output_of;
    if (!message.text.empty() || message.calls.empty()) fact["text"] = message.text;
    JsonArray calls;
    for (const OpenAIClientCall& call : message.calls) {
        calls.push_back(
            JsonObject{{"call", call.id}, {"tool", call.name}, {"arguments", call.arguments}});
    }
    if (!calls.empty()) fact["calls"] = std::move(calls);
    return fact;
}

/// A conversation as facts for the model: the instructions of the caller, and what precedes the last message.
JsonObject facts_of(const OpenAISubmission& submission) {
    const OpenAIClientRequest& request = submission.request;
    const bool with_earlier = submission.with_earlier;
    JsonObject facts;
    if (!submission.context.empty()) facts["context"] = submission.context;
    if (!request.instructions.empty()) facts["instructions"] = request.instructions;
    const std::size_t last = request.messages.empty() ? 0 : request.messages.size() - 1;
    JsonArray earlier;
    for (std::size_t i = 0; with_earlier && i < last; ++i)
        earlier.push_back(fact_of(request.messages[i]));
    if (!earlier.empty()) facts["earlier_messages"] = std::move(earlier);
    return facts;
}

void add_message(const OpenAISubmission& submission, JsonObject& body) {
    const OpenAIClientRequest& request = submission.request;
    const OpenAIClientMessage& last = request.messages.back();
    // The output of a call that another agent has made.
    body["text"] = last.output_of.empty()
                       ? last.text
                       : "The output of the call " + shown_id(last.output_of) + " of " +
                             name_of_call(request, last.output_of) + ":\n" + last.text;
    JsonObject facts = facts_of(submission);
    if (!facts.empty()) body["context"] = std::move(facts);
    JsonArray files;
    const std::size_t first = submission.with_earlier ? 0 : request.messages.size() - 1;
    for (std::size_t i = first; i < request.messages.size(); ++i) {
        for (const OpenAIClientFile& file : request.messages[i].files) {
            files.push_back(
                JsonObject{{"name", file.name}, {"type", file.type}, {"content", file.content}});
        }
    }
    if (!files.empty()) body["files"] = std::move(files);
}

HttpServerRequest request_of(JsonObject body, const OpenAIClientRequest& request,
                             const std::string& session, std::string id,
                             const HttpServerRequest& from) {
    if (!session.empty()) body["session"] = session;
    if (!request.user.empty()) body["user"] = request.user;
    HttpServerRequest made;
    made.method = "POST";
    made.body = json_text(body);
    made.closed = from.closed;
    made.parameters["id"] = std::move(id);
    const std::string_view caller = from.headers.get("traceparent");
    if (!caller.empty()) made.headers.set("traceparent", std::string(caller));
    return made;
}

JsonObject output_body(const OpenAIOutput& output) {
    std::vector<std::string> images;
    for (const OpenAIClientFile& file : output.message->files)
        images.push_back("data:" + file.type + ";base64," + file.content);
    JsonObject body;
    body["answer_to"] = output.call.question;
    body["answer"] = bub::client_output(output.message->text, images);
    return body;
}

HttpServerResponse no_call(const std::string& id) {
    return openai_failure(
        400, "No tool call found for function call output with call_id " + shown_id(id) + ".", {},
        "input");
}

bool is_image(const OpenAIClientFile& file) {
    return file.type.starts_with("image/") && !file.content.empty() &&
           file.content.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
               std::string::npos;
}

}  // namespace

OpenAIDestination destination_of(const OpenAIClientRequest& request, std::string session,
                                 const OpenAIResponseNames& names) {
    OpenAIDestination found;
    const bool is_named = !session.empty();
    const OpenAIClientMessage* const last =
        request.messages.empty() ? nullptr : &request.messages.back();
    const bool ends_with_output = last && !last->output_of.empty();
    if (ends_with_output) {
        const std::optional<OpenAICallName> call = names.read_call(last->output_of);
        if (is_named && (!call || call->session != session)) {
            found.refusal = no_call(last->output_of);
            return found;
        }
        if (call) session = call->session;
        found.answers = call.has_value();
        if (!call && name_of_call(request, last->output_of).empty()) {
            found.refusal = no_call(last->output_of);
            return found;
        }
    }
    found.session = std::move(session);
    for (const OpenAIClientMessage& message : request.messages) {
        if (message.output_of.empty() || !found.answers) continue;
        std::optional<OpenAICallName> call = names.read_call(message.output_of);
        if (!call || call->session != found.session) continue;
        if (!std::all_of(message.files.begin(), message.files.end(), is_image)) {
            found.refusal = openai_failure(
                400, "the files in the output of a call must be pictures", {}, "input");
            return found;
        }
        found.outputs.push_back({std::move(*call), &message});
    }
    return found;
}

JsonObject approval_body(const detail::OpenAIClientApproval& approval) {
    JsonObject answer;
    answer["decision"] = approval.approves ? "approve" : "deny";
    if (!approval.reason.empty()) answer["reason"] = approval.reason;
    JsonObject body;
    body["answer_to"] = approval.request;
    body["answer"] = std::move(answer);
    return body;
}

std::vector<OpenAIOpenCall> open_calls_of(const JsonArray& questions) {
    std::vector<OpenAIOpenCall> open;
    for (const Json& question : questions) {
        const JsonObject* const object = question.if_object();
        const std::optional<bub::ClientCall> call =
            object ? bub::client_call_of(*object) : std::nullopt;
        if (call) open.push_back({detail::text_member(*object, "request_id"), call->name});
    }
    return open;
}

std::vector<HttpServerRequest> message_requests(const OpenAISubmission& submission,
                                                const OpenAIDestination& destination,
                                                std::string_view id,
                                                const HttpServerRequest& from) {
    std::vector<HttpServerRequest> made;
    const std::size_t answers = submission.answers.size() + destination.outputs.size();
    const auto add = [&](JsonObject body, const std::string& of_answer) {
        std::string own(id);
        if (made.size() + 1 < answers) own += "-" + of_answer;
        made.push_back(request_of(std::move(body), submission.request, destination.session,
                                  std::move(own), from));
    };
    for (const JsonObject& answer : submission.answers)
        add(answer, "answer-" + std::to_string(made.size()));
    for (const OpenAIOutput& output : destination.outputs)
        add(output_body(output), output.call.question);
    if (!made.empty() || submission.request.messages.empty()) return made;
    JsonObject body;
    add_message(submission, body);
    add(std::move(body), {});
    return made;
}

std::string digest_of(const OpenAIClientRequest& request, const JsonArray& answers) {
    JsonArray parts;
    for (const OpenAIClientMessage& message : request.messages) {
        parts.push_back(fact_of(message));
        for (const OpenAIClientFile& file : message.files)
            parts.push_back(JsonArray{file.name, file.type, detail::sha256_hex(file.content)});
    }
    parts.emplace_back(answers);
    parts.emplace_back(request.user);
    // Absent otherwise, as in the digests of earlier versions.
    if (!request.stores) parts.emplace_back("unstored");
    return detail::sha256_hex(json_text(parts));
}

JsonObject envelope_members(const OpenAIClientRequest& request) {
    JsonObject members;
    members[bub::usage_key] = true;
    if (request.in_background) members[bub::background_key] = true;
    using Choice = detail::OpenAIToolChoice;
    if (request.tools.empty() || request.tool_choice == Choice::none) return members;
    JsonArray tools;
    for (const detail::OpenAIClientTool& tool : request.tools) {
        tools.push_back(JsonObject{{"name", tool.name},
                                   {"description", tool.description},
                                   {"parameters", tool.parameters}});
    }
    JsonObject offered;
    offered["tools"] = std::move(tools);
    if (request.tool_choice == Choice::required) offered["choice"] = "required";
    if (request.tool_choice == Choice::named) offered["choice"] = request.chosen_tool;
    if (!request.parallel_calls) offered["one_at_a_time"] = true;
    members[bub::client_tools_key] = std::move(offered);
    return members;
}

}  // namespace cubepi::app

#include <cubepi/mcp/server/server_request.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/mcp/server/session.hpp>
#include <cubepi/net/http_server.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t mac_digits = 64;

std::string mac_of(const std::string& key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> mac = {};
    unsigned size = 0;
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    if (!HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(),
              mac.data(), &size))
        throw std::bad_alloc();
    return hex_of(std::string_view(reinterpret_cast<const char*>(mac.data()), size));
}

[[noreturn]] void refuse_state() {
    throw Refusal(mcp_error::invalid_params,
                  "`requestState` is not valid (any more) for this request; send the request "
                  "without it.");
}

std::int64_t milliseconds_now(const Runtime& runtime) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               runtime.clock->wall().time_since_epoch())
        .count();
}

/// Appends the value with the members of its objects in order.
void append_sorted(std::string& out, const Json& value) {
    if (const JsonArray* array = value.if_array()) {
        out += '[';
        for (const Json& item : *array) {
            append_sorted(out, item);
            out += ',';
        }
        out += ']';
    } else if (const JsonObject* object = value.if_object()) {
        std::vector<std::pair<std::string_view, const Json*>> members;
        for (const auto& member : *object) members.emplace_back(member.key(), &member.value());
        std::ranges::sort(members, {}, &std::pair<std::string_view, const Json*>::first);
        out += '{';
        for (const auto& [key, member] : members) {
            out += json_text(Json(key)) + ":";
            append_sorted(out, *member);
            out += ',';
        }
        out += '}';
    } else {
        out += json_text(value);
    }
}

}  // namespace

McpRequestStates::McpRequestStates(std::string key, std::chrono::nanoseconds lifetime,
                                   std::size_t max_bytes, std::shared_ptr<const Runtime> runtime)
    : key_(key.empty() ? random_secret(32) : std::move(key)),
      lifetime_(lifetime),
      max_bytes_(max_bytes),
      runtime_(std::move(runtime)) {}

std::string McpRequestStates::seal(const McpRounds& rounds, std::string_view request) const {
    const auto lifetime = std::chrono::duration_cast<std::chrono::milliseconds>(lifetime_).count();
    JsonObject object;
    object["request"] = request;
    object["expires"] = milliseconds_now(*runtime_) + lifetime;
    object["rounds"] = rounds.rounds;
    object["answers"] = rounds.answers;
    const std::string text = json_text(Json(std::move(object)));
    if (mac_digits + 1 + text.size() > max_bytes_)
        throw Refusal(mcp_error::invalid_params, "The answers of the client are too large.");
    return mac_of(key_, text) + "." + text;
}

McpRounds McpRequestStates::open(std::string_view state, std::string_view request) const {
    if (state.size() > max_bytes_ || state.size() <= mac_digits || state[mac_digits] != '.')
        refuse_state();
    const std::string_view text = state.substr(mac_digits + 1);
    if (!equal_secrets(state.substr(0, mac_digits), mac_of(key_, text))) refuse_state();
    // seal() has written the rest.
    const Json json = parse_json(text);
    const JsonObject& object = json.as_object();
    if (string_member(object, "request") != request) refuse_state();
    const auto expires = integer_member(object, "expires");
    if (!expires || milliseconds_now(*runtime_) >= *expires) refuse_state();
    McpRounds rounds;
    rounds.answers = object.at("answers").as_object();
    rounds.rounds = static_cast<std::size_t>(object.at("rounds").to_number<std::uint64_t>());
    return rounds;
}

std::string mcp_request_digest(std::string_view method, std::string_view target,
                               const JsonObject& arguments) {
    std::string text(method);
    text += '\n';
    text += json_text(Json(target));
    text += '\n';
    append_sorted(text, Json(arguments));
    return sha256_hex(text);
}

std::string random_secret(std::size_t bytes) {
    std::string random(bytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(bytes)) != 1)
        throw Error(ErrorCode::io, "the system has no random numbers");
    return hex_of(random);
}

}  // namespace cubepi::detail

namespace cubepi {

namespace {

using detail::object_member;
using detail::Refusal;
using detail::string_member;

constexpr std::array<std::string_view, 8> level_names = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

/// Returns the capability that a question needs; empty for a method that is not a question.
std::string_view capability_of(std::string_view method) {
    if (method == "elicitation/create") return "elicitation";
    if (method == "sampling/createMessage") return "sampling";
    return method == "roots/list" ? "roots" : "";
}

/// Ends a function that begins again: when the client has sent its request with an answer, or as a task.
class AwaitsClient final : public Error {
public:
    AwaitsClient() : Error(ErrorCode::hitl, "the client must answer first") {}
};

}  // namespace

std::string_view to_string(McpLogLevel level) noexcept {
    return level_names[static_cast<std::size_t>(level)];
}

std::optional<McpLogLevel> mcp_log_level(std::string_view name) noexcept {
    const auto found = std::ranges::find(level_names, name);
    if (found == level_names.end()) return std::nullopt;
    return static_cast<McpLogLevel>(found - level_names.begin());
}

McpQuestion mcp_form(std::string key, std::string message, JsonObject schema) {
    McpQuestion question;
    question.key = std::move(key);
    question.method = "elicitation/create";
    question.params["message"] = std::move(message);
    question.params["requestedSchema"] = std::move(schema);
    return question;
}

McpQuestion mcp_sampling(std::string key, std::string prompt, std::int64_t max_tokens) {
    JsonObject message;
    message["role"] = "user";
    message["content"] = mcp_content::text(prompt);
    McpQuestion question;
    question.key = std::move(key);
    question.method = "sampling/createMessage";
    question.params["messages"] = JsonArray{Json(std::move(message))};
    question.params["maxTokens"] = max_tokens;
    return question;
}

McpQuestion mcp_roots(std::string key) {
    McpQuestion question;
    question.key = std::move(key);
    question.method = "roots/list";
    return question;
}

Task<> McpRequest::continue_as_task() { co_return; }

Task<JsonObject> McpRequest::ask(McpQuestion question) {
    std::vector<McpQuestion> questions;
    questions.push_back(std::move(question));
    std::vector<JsonObject> answers = co_await ask(std::move(questions));
    co_return std::move(answers.front());
}

McpServerResource McpServerResource::of_text(McpResource resource, std::string text) {
    std::vector<McpResourceContent> contents;
    contents.push_back(
        McpResourceContent::of_text(resource.uri, resource.mime_type, std::move(text)));
    struct Fixed {
        static Task<std::vector<McpResourceContent>> return_copy(
            std::vector<McpResourceContent> contents) {
            co_return contents;
        }
    };
    McpServerResource made;
    made.resource = std::move(resource);
    made.read = [contents](McpRequest&) { return Fixed::return_copy(contents); };
    return made;
}

namespace detail {

std::string mcp_answer_problem(const McpQuestion& question, const JsonObject& answer) {
    if (question.method == "roots/list")
        return detail::array_member(answer, "roots") ? "" : "`roots` must be a list";
    if (question.method == "sampling/createMessage")
        return answer.contains("content") ? "" : "`content` is missing";
    const std::string_view action = string_member(answer, "action");
    if (action == "decline" || action == "cancel") return {};
    if (action != "accept") return "`action` must be accept, decline or cancel";
    const JsonObject* schema = object_member(question.params, "requestedSchema");
    if (!schema) return {};  // a URL
    const JsonObject* content = object_member(answer, "content");
    if (!content) return "`content` must be an object";
    Json value(*content);
    const std::vector<SchemaIssue> issues = JsonSchema(Json(*schema)).validate(value);
    return issues.empty() ? std::string() : issues[0].path + ": " + issues[0].message;
}

bool mcp_client_answers(const JsonObject& capabilities, std::string_view method) {
    const std::string_view needed = capability_of(method);
    const JsonObject* declared = needed.empty() ? nullptr : object_member(capabilities, needed);
    if (!declared) return false;
    // A client that names one mode only has no other one.
    return needed != "elicitation" || !declared->contains("url") || declared->contains("form");
}

ServerRequest::ServerRequest(const JsonObject& params, std::string digest,
                             const McpRequestStates& states, std::size_t max_rounds, McpSend send)
    : send_(std::move(send)),
      states_(&states),
      digest_(std::move(digest)),
      max_rounds_(max_rounds) {
    const JsonObject* meta = object_member(params, "_meta");
    if (const JsonObject* declared =
            meta ? object_member(*meta, mcp_meta::client_capabilities) : nullptr)
        capabilities_ = *declared;
    if (const Json* level = meta ? meta->if_contains(mcp_meta::log_level) : nullptr) {
        if (level->is_string()) log_level_ = mcp_log_level(level->get_string());
        if (!log_level_) throw Refusal(mcp_error::invalid_params, "This log level is unknown.");
    }
    if (const Json* state = params.if_contains("requestState")) {
        if (!state->is_string())
            throw Refusal(mcp_error::invalid_params, "`requestState` must be a text.");
        earlier_ = states.open(state->get_string(), digest_);
    }
    if (const Json* responses = params.if_contains("inputResponses")) {
        if (!responses->is_object())
            throw Refusal(mcp_error::invalid_params, "`inputResponses` must be an object.");
        sent_ = responses->get_object();
    }
}

ServerRequest::ServerRequest(std::shared_ptr<McpSession> session, McpSend send)
    : send_(std::move(send)), session_(std::move(session)) {
    if (!session_) return;
    capabilities_ = session_->capabilities;
    log_level_ = session_->log_level;
}

bool ServerRequest::can_ask(std::string_view method) const {
    if (!states_ && (!session_ || !send_)) return false;
    return mcp_client_answers(capabilities_, method);
}

void ServerRequest::refuse(Refusal refusal) {
    refusal_ = std::move(refusal);
    throw Error(ErrorCode::unsupported, refusal_->text);
}

Task<std::vector<JsonObject>> ServerRequest::ask(std::vector<McpQuestion> questions) {
    if (states_) co_return ask_by_result(std::move(questions));
    std::vector<JsonObject> answers;
    for (McpQuestion& question : questions) {
        if (!can_ask(question.method)) {
            throw Error(ErrorCode::unsupported,
                        "the MCP client does not answer " + question.method);
        }
        JsonObject answer = co_await session_->ask(question.method, question.params, send_);
        check(question, answer);
        answers.push_back(std::move(answer));
    }
    co_return answers;
}

void ServerRequest::check(const McpQuestion& question, const JsonObject& answer) const {
    const std::string problem = mcp_answer_problem(question, answer);
    if (problem.empty()) return;
    throw Error(ErrorCode::protocol,
                "the MCP client has sent an invalid answer to " + question.key + ": " + problem);
}

std::vector<JsonObject> ServerRequest::ask_by_result(std::vector<McpQuestion> questions) {
    JsonObject missing;
    for (const McpQuestion& question : questions) {
        if (!can_ask(question.method)) missing[capability_of(question.method)] = JsonObject();
    }
    if (!missing.empty()) {
        JsonObject data;
        data["requiredCapabilities"] = std::move(missing);
        refuse(Refusal(mcp_error::missing_client_capability,
                       "The client must answer questions that it does not support.",
                       std::move(data)));
    }
    std::vector<JsonObject> answers;
    for (McpQuestion& question : questions) {
        // An earlier answer is the one on which later questions depend.
        const Json* answer = earlier_.answers.if_contains(question.key);
        if (!answer) answer = sent_.if_contains(question.key);
        if (!answer) {
            open_.push_back(std::move(question));
            continue;
        }
        const JsonObject* object = answer->if_object();
        const std::string problem =
            object ? mcp_answer_problem(question, *object) : "it must be an object";
        if (!problem.empty()) {
            refuse(Refusal(mcp_error::invalid_params,
                           "The answer to " + question.key + " is invalid: " + problem + "."));
        }
        used_[question.key] = *object;
        answers.push_back(*object);
    }
    if (!open_.empty()) throw AwaitsClient();
    return answers;
}

Task<> ServerRequest::continue_as_task() {
    if (!may_be_task_) co_return;
    becomes_task_ = true;
    throw AwaitsClient();
}

Task<> ServerRequest::log(McpLogLevel level, Json data, std::string logger) {
    if (!send_ || !log_level_ || level < *log_level_) co_return;
    JsonObject params;
    params["level"] = to_string(level);
    if (!logger.empty()) params["logger"] = std::move(logger);
    params["data"] = std::move(data);
    RpcMessage message = rpc_notification("notifications/message", std::move(params));
    co_await send_(std::move(message));
}

void ServerRequest::throw_refusal() const {
    if (refusal_) throw Refusal(*refusal_);
}

JsonObject ServerRequest::input_required() const {
    McpRounds rounds;
    rounds.rounds = earlier_.rounds + 1;
    rounds.answers = used_;
    if (rounds.rounds > max_rounds_)
        throw Refusal(mcp_error::internal, "The request has asked its client too many times.");
    JsonObject requests;
    for (const McpQuestion& question : open_) {
        JsonObject request;
        request["method"] = question.method;
        request["params"] = question.params;
        requests[question.key] = std::move(request);
    }
    JsonObject result;
    result["resultType"] = "input_required";
    result["inputRequests"] = std::move(requests);
    result["requestState"] = states_->seal(rounds, digest_);
    return result;
}

}  // namespace detail

}  // namespace cubepi

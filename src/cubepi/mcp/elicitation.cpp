#include <cubepi/mcp/elicitation.hpp>

#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/outcome.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/mcp/protocol.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>
#include <cubepi/schema/validate.hpp>

namespace cubepi {

namespace {

using detail::array_member;
using detail::object_member;
using detail::shown_mcp_text;
using detail::string_member;

constexpr std::size_t max_questions = 16;
constexpr std::size_t max_options = 64;
constexpr std::size_t max_message_bytes = 1000;
/// How often a form is shown whose answers do not fit.
constexpr int max_attempts = 3;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorCode::validation, "The form of the server cannot be shown: " + reason + ".");
}

const JsonObject& form_of(const JsonObject& params) {
    const JsonObject* form = object_member(params, "requestedSchema");
    if (!form) refuse("it has no requestedSchema");
    if (json_text(*form).size() > McpLimits().max_schema_bytes) refuse("it is too large");
    return *form;
}

HitlOption option_of(std::string_view value, std::string_view label) {
    HitlOption option;
    option.value = value;
    option.label = shown_mcp_text(label.empty() ? value : label);
    return option;
}

/// The choices of a property, which has one of the forms that revisions of the protocol have defined. Empty: free text.
std::vector<HitlOption> options_of(const JsonObject& property) {
    std::vector<HitlOption> options;
    if (string_member(property, "type") == "boolean") {
        options.push_back(option_of("true", "Yes"));
        options.push_back(option_of("false", "No"));
        return options;
    }
    const JsonArray* titled = array_member(property, "oneOf");
    if (!titled) titled = array_member(property, "anyOf");
    if (titled) {
        for (const Json& one : *titled) {
            const JsonObject* choice = one.if_object();
            if (choice && choice->contains("const"))
                options.push_back(
                    option_of(string_member(*choice, "const"), string_member(*choice, "title")));
        }
    } else if (const JsonArray* values = array_member(property, "enum")) {
        const JsonArray* names = array_member(property, "enumNames");
        for (std::size_t i = 0; i < values->size(); ++i) {
            if (!(*values)[i].is_string()) refuse("a choice is not a text");
            const bool has_name = names && i < names->size() && (*names)[i].is_string();
            options.push_back(option_of(
                (*values)[i].get_string(),
                has_name ? std::string_view((*names)[i].get_string()) : std::string_view()));
        }
    }
    if (options.size() > max_options) refuse("a property has too many choices");
    return options;
}

bool is_required(const JsonObject& form, std::string_view name) {
    const JsonArray* required = array_member(form, "required");
    if (!required) return false;
    for (const Json& one : *required) {
        if (one.is_string() && std::string_view(one.get_string()) == name) return true;
    }
    return false;
}

HitlQuestion question_of(std::string_view name, const JsonObject& property) {
    HitlQuestion question;
    question.key = name;
    question.multi_select = string_member(property, "type") == "array";
    const JsonObject* items = question.multi_select ? object_member(property, "items") : nullptr;
    std::vector<HitlOption> options = options_of(items ? *items : property);
    if (!options.empty()) question.options = std::move(options);
    const std::string_view title = string_member(property, "title");
    question.prompt = shown_mcp_text(title.empty() ? name : title);
    const std::string_view description = string_member(property, "description");
    if (!description.empty()) question.prompt += ": " + shown_mcp_text(description, 500);
    if (const Json* preset = property.if_contains("default"))
        question.prompt += " (default: " + shown_mcp_text(json_text(*preset)) + ")";
    return question;
}

JsonObject action(std::string_view word) {
    JsonObject result;
    result["action"] = word;
    return result;
}

/// Returns true if the user has ended the question without an answer.
bool is_unanswered(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const HitlCancelled&) {
        return true;
    } catch (const HitlTimedOut&) {
        return true;
    } catch (...) {
        return false;
    }
}

/// Returns the answers; nothing if the user does not answer.
Task<std::optional<JsonObject>> ask_user(std::shared_ptr<HitlChannel> channel,
                                         std::vector<HitlQuestion> questions) {
    std::exception_ptr failure;
    try {
        if (!questions.front().key.empty()) {
            JsonObject answers = co_await channel->ask(std::move(questions));
            co_return std::optional<JsonObject>(std::move(answers));
        }
        // A form without properties only wants to be confirmed.
        const bool confirmed = co_await channel->confirm(questions.front().prompt);
        if (confirmed) co_return std::optional<JsonObject>(JsonObject());
        co_return std::nullopt;
    } catch (...) {
        failure = std::current_exception();
    }
    if (!is_unanswered(failure)) std::rethrow_exception(failure);
    co_return std::nullopt;
}

}  // namespace

namespace detail {

std::vector<HitlQuestion> elicitation_questions(std::string_view server, const JsonObject& params) {
    const JsonObject& form = form_of(params);
    const std::string intro = "The server " + shown_mcp_text(server) + " asks: " +
                              shown_mcp_text(string_member(params, "message"), max_message_bytes);
    std::vector<HitlQuestion> questions;
    if (const JsonObject* properties = object_member(form, "properties")) {
        if (properties->size() > max_questions) refuse("it has too many properties");
        for (const auto& entry : *properties) {
            const JsonObject* property = entry.value().if_object();
            if (!property || entry.key().empty()) refuse("a property is invalid");
            HitlQuestion question = question_of(entry.key(), *property);
            question.required = is_required(form, entry.key()) && !property->contains("default");
            questions.push_back(std::move(question));
        }
    }
    if (questions.empty()) questions.emplace_back();
    HitlQuestion& first = questions.front();
    first.prompt = first.prompt.empty() ? intro : intro + "\n" + first.prompt;
    return questions;
}

JsonObject elicitation_content(const JsonObject& params, const JsonObject& answers) {
    JsonObject content;
    for (const auto& entry : answers) {
        // An answer that was left out takes the default of the schema.
        const bool is_empty_text = entry.value().is_string() && entry.value().get_string().empty();
        if (!is_empty_text) content[entry.key()] = entry.value();
    }
    Json value(std::move(content));
    const std::vector<SchemaIssue> issues = JsonSchema(Json(form_of(params))).validate(value);
    if (!issues.empty()) {
        throw Error(ErrorCode::bad_answer,
                    shown_mcp_text(issues.front().path + ": " + issues.front().message, 300));
    }
    return std::move(value.get_object());
}

}  // namespace detail

Task<JsonObject> ask_mcp_elicitation(std::shared_ptr<HitlChannel> channel, std::string server,
                                     JsonObject params) {
    const std::string_view mode = string_member(params, "mode");
    if (!mode.empty() && mode != "form") co_return action("decline");
    std::string remark;
    for (int attempt = 0; attempt < max_attempts; ++attempt) {
        std::vector<HitlQuestion> questions = detail::elicitation_questions(server, params);
        if (!remark.empty()) questions.front().prompt = remark + "\n" + questions.front().prompt;
        const std::optional<JsonObject> answers = co_await ask_user(channel, std::move(questions));
        if (!answers) co_return action("cancel");
        try {
            JsonObject content = detail::elicitation_content(params, *answers);
            JsonObject accepted = action("accept");
            accepted["content"] = std::move(content);
            co_return accepted;
        } catch (const Error& error) {
            if (error.code() != ErrorCode::bad_answer) throw;
            remark = std::string("The answer does not fit: ") + error.what();
        }
    }
    co_return action("cancel");
}

}  // namespace cubepi

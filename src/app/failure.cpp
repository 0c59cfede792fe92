#include "failure.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/message_list.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/answer_end.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/provider/structured.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/support/issue_text.hpp>
#include <cubepi/workspace/files/content.hpp>

#include "config/model_choice.hpp"
#include "config/paths.hpp"
#include "shell_quoting.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_message = 2048;

std::string name_another_model(const FailureContext& context) {
    return context.in_chat ? "choose another model with /model" : "name another model with --model";
}

std::string start_new_session(const FailureContext& context) {
    return context.in_chat ? "/new" : "cubepi chat --session NAME";
}

/// Returns the advice about a limit of a run; empty: none.
std::string advice_about(std::string_view limit, const FailureContext& context) {
    if (limit == "max_turns") return "Raise the limit: --max-turns NUMBER";
    if (limit == "max_spend")
        return "Raise or omit the limit (--max-cost USD), or " + name_another_model(context);
    return {};
}

/// The message has the name of the limit in the library, where it is not that of the flag.
std::string limit_text(std::string text, std::string_view limit) {
    if (limit != "max_spend") return text;
    for (std::size_t at = text.find(limit); at != text.npos; at = text.find(limit, at))
        text.replace(at, limit.size(), "--max-cost");
    return text;
}

std::string endpoint_text(const FailureContext& context) {
    return context.where.empty() ? "the model" : context.where;
}

Failure make_failure(int exit_code, const std::string& what, const std::string& advice = {}) {
    Failure failure;
    failure.text = advice.empty() ? what : what + "\n  " + advice;
    failure.exit_code = exit_code;
    return failure;
}

/// External text without control characters, of limited length, its further lines indented like the first one.
std::string quoted_text(const std::string& given) {
    std::string text = printable(given);
    while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
    text.erase(0, text.find_first_not_of(" \n"));
    if (text.size() > longest_message) {
        text.resize(longest_message);
        text.resize(complete_utf8_prefix(text));
        text += "...";
    }
    std::string indented;
    for (const char c : text) {
        indented += c;
        if (c == '\n') indented += "  ";
    }
    return indented;
}

std::string status_text(const ErrorInfo& info) {
    return info.status_code ? " (HTTP " + std::to_string(*info.status_code) + ")" : std::string();
}

std::string key_advice(const FailureContext& context) {
    if (!context.withheld_key.empty()) {
        return "The key (" + context.withheld_key +
               ") is for another address. Name a key for this one with --api-key-env NAME, or with "
               "api_key_env in " +
               config_path().string();
    }
    const std::string& name = context.key_variable;
    if (name.empty())
        return "Check api_key or api_key_env in " + config_path().string() +
               ", then: cubepi doctor";
    std::string looks;
    if (name == "OPENAI_API_KEY") looks = " (it begins with 'sk-')";
    if (name == "ANTHROPIC_API_KEY") looks = " (it begins with 'sk-ant-')";
    return "Check the key: echo $" + name + looks + ", then: cubepi doctor";
}

std::string address_advice(const FailureContext& context) {
    const std::string& from = context.address_from;
    if (from.empty()) return "Check the network, then: cubepi doctor";
    const std::string name = from == config_origin ? "base_url in " + config_path().string() : from;
    return "Check the address (" + name + ") and the network, then: cubepi doctor";
}

struct Explanation {
    std::string title;
    std::string advice;
};

std::string rate_advice(const ErrorInfo& info) {
    std::string wait = "Wait a moment and retry";
    if (info.retry_after && *info.retry_after >= 1 && *info.retry_after < 1e6)
        wait = "Retry in " + std::to_string(static_cast<std::int64_t>(*info.retry_after)) + " s";
    return wait + "; for an exhausted quota check the account.";
}

/// Names the key of the configuration for a timeout of a call; the name of the timeout is in the message.
std::string timeout_advice(const std::string& message) {
    const std::pair<const char*, const char*> keys[] = {
        {"(idle timeout)", "idle_timeout"},
        {"timeout: first_byte", "first_byte_timeout"},
        {"timeout: total", "model_timeout"}};
    for (const auto& [name, key] : keys) {
        if (message.find(name) != std::string::npos)
            return "If that is expected, raise " + std::string(key) + " (seconds) in " +
                   config_path().string();
    }
    return {};
}

/// The most common failures, each with the next command (docs/errors.md).
Explanation explain_provider(const ErrorInfo& info, const FailureContext& context) {
    const std::string to = endpoint_text(context);
    const std::string status = status_text(info);
    switch (info.code) {
        case ErrorCode::auth:
            return {"authentication failed at " + to + status + ".", key_advice(context)};
        case ErrorCode::model_not_found:
            return {"model not found: " + to + status + ".",
                    context.in_chat
                        ? "Choose another: /model lists those of the server."
                        : "Name another with --model; 'cubepi models' lists those of the server."};
        case ErrorCode::rate_limited:
            return {"rate limited by " + to + status + ".", rate_advice(info)};
        case ErrorCode::context_length:
            return {"the conversation exceeds the context window of " + to + status + ".",
                    "Start a new one: " + start_new_session(context) +
                        ", or use a model with a larger context window."};
        case ErrorCode::content_filtered:
            return {to + " refused the content" + status + ".",
                    "Rephrase the prompt, or " + name_another_model(context) + "."};
        case ErrorCode::unavailable:
            return {to + " is unavailable" + status + ".",
                    "The failure is on the server's side: retry in a moment, or " +
                        name_another_model(context) + "."};
        case ErrorCode::connect:
            return {"cannot reach " + to + ".", "Is the server running? Check: cubepi doctor"};
        case ErrorCode::dns: return {"cannot reach " + to + ".", address_advice(context)};
        case ErrorCode::tls:
            return {"no trusted connection to " + to + ".",
                    "For a private certificate authority: export "
                    "SSL_CERT_FILE=/path/to/ca.pem"};
        case ErrorCode::proxy:
            return {"cannot reach " + to + " through the proxy.",
                    "Check http_proxy, https_proxy and no_proxy (env | grep -i proxy), then: "
                    "cubepi doctor"};
        case ErrorCode::timeout: return {to + " failed.", timeout_advice(info.message)};
        default: break;
    }
    if (info.status_code == 403)
        return {to + " denied access" + status + ".",
                "Check what the account and its key may use, or " + name_another_model(context) +
                    "; then: cubepi doctor"};
    // A server at the right address knows the path, even if it does not know the model.
    if (info.status_code == 404)
        return {to + " failed" + status + ".",
                "Check the address: it ends before the path that is added, such as "
                "/chat/completions. Then: cubepi "
                "doctor"};
    return {to + " failed" + status + ".", {}};
}

Failure explain_model(const Error& error, const FailureContext& context) {
    ErrorInfo info;
    info.code = error.code();
    const auto* failed = dynamic_cast<const ProviderError*>(&error);
    if (failed) info = failed->info();
    if (!failed && info.code != ErrorCode::auth && !is_network(info.code))
        return make_failure(exit_failed, error.what());
    if (info.message == web_page_text) {
        return make_failure(
            exit_failed,
            endpoint_text(context) + " answered with a web page instead of the API" +
                status_text(info) + ".",
            context.advise ? "A proxy, a login page or another service answers there. " +
                                 address_advice(context)
                           : std::string());
    }
    const Explanation explanation = explain_provider(info, context);
    Failure failure;
    failure.exit_code = exit_failed;
    failure.text = explanation.title;
    // The whole message is shown, and nothing is added to it.
    const bool of_server = failed && !info.message.empty() && !is_network(info.code);
    const std::string message = quoted_text(info.message.empty() ? error.what() : info.message);
    if (!message.empty()) failure.text += (of_server ? "\n  Server message: " : "\n  ") + message;
    if (context.advise && !explanation.advice.empty()) failure.text += "\n  " + explanation.advice;
    return failure;
}

std::string path_of(const Error& error) {
    const auto* failed = dynamic_cast<const CheckpointerError*>(&error);
    return failed ? failed->path() : std::string();
}

/// True for files of tapes, false for the database of older versions.
bool is_of_tapes(const std::string& path) {
    const std::filesystem::path tapes = bub::default_tape_directory();
    const std::filesystem::path file(path);
    return std::mismatch(tapes.begin(), tapes.end(), file.begin(), file.end()).first == tapes.end();
}

std::string storage_advice(const std::string& path) {
    if (path.empty() || !is_of_tapes(path)) return {};
    return "Sessions are stored there; to store them elsewhere: export BUB_HOME=/path/to/directory";
}

Failure explain_locked(const Error& error) {
    const std::string path = path_of(error);
    if (path.empty() || is_of_tapes(path))
        return make_failure(exit_storage,
                            std::string("cannot write the session now: ") + error.what());
    return make_failure(exit_storage,
                        "the sessions are locked: another process holds " + path + ".",
                        "Find it: fuser " + shell_word(path) + "; then retry.");
}

Failure explain_corrupt(const Error& error) {
    const std::string path = path_of(error);
    if (path.empty() || is_of_tapes(path))
        return make_failure(exit_storage, std::string("cannot read the session: ") + error.what());
    return make_failure(exit_storage, std::string("cannot read the sessions: ") + error.what(),
                        "Keep a copy, then check it: sqlite3 " + shell_word(path) +
                            " 'PRAGMA integrity_check'; to continue without it: mv " +
                            shell_word(path) + " " + shell_word(path + ".bad"));
}

Failure explain_full(const Error& error) {
    const std::string path = path_of(error);
    const std::string directory =
        path.empty() ? std::string() : std::filesystem::path(path).parent_path().string();
    return make_failure(
        exit_storage, std::string("no space to store the conversation: ") + error.what(),
        "Check the disk: df -h" + (directory.empty() ? "" : " " + shell_word(directory)) +
            "\n  Sessions can still be deleted: cubepi sessions delete NAME");
}

Failure explain_claimed(const Error& error, const FailureContext& context) {
    const auto* claimed = dynamic_cast<const RunAlreadyClaimedError*>(&error);
    if (!claimed || claimed->owner().empty()) return make_failure(exit_storage, error.what());
    const std::string session =
        context.session.empty() ? "this session" : "session " + visible(context.session);
    return make_failure(
        exit_storage,
        session + " is in use: " + claimed->owner() + " is in the middle of an answer.",
        "Wait until it ends and retry, or use another session: " +
            std::string(context.in_chat ? "/new" : "--session NAME"));
}

Failure explain_waiting(const FailureContext& context) {
    const std::string session =
        context.session.empty() ? "this session" : "session " + visible(context.session);
    return make_failure(exit_waiting,
                        session + " waits for an answer, so the message was not read.",
                        "To see the question and answer it: cubepi inbox");
}

Failure explain_limit(const Error& error, const FailureContext& context) {
    const auto* reached = dynamic_cast<const LimitReachedError*>(&error);
    const std::string_view limit =
        reached ? std::string_view(reached->limit()) : std::string_view();
    return make_failure(exit_limited, limit_text(error.what(), limit),
                        advice_about(limit, context));
}

/// The model's answers do not fit --output-schema.
Failure explain_schema(const StructuredOutputError& error) {
    const std::string attempts =
        std::to_string(error.attempts()) + (error.attempts() == 1 ? " attempt" : " attempts");
    std::string text = "no answer fits --output-schema (" + attempts + "): ";
    const bool has_called = std::any_of(
        error.message().content.begin(), error.message().content.end(),
        [](const AssistantContent& block) { return std::holds_alternative<ToolCall>(block); });
    if (!has_called && !error.message().content.empty()) {
        text += "the model answered with text, which began: " +
                quoted_text(std::string(detail::cut_text(error.message().text(), 200)));
    } else {
        text += "the last one has these faults:";
        for (const SchemaIssue& issue : error.issues())
            text += "\n    " + quoted_text(detail::issue_text(issue));
    }
    return make_failure(
        exit_failed, text,
        "Ask for JSON in the prompt, simplify the schema, or name another model with "
        "--model.");
}

}  // namespace

bool is_network(ErrorCode code) {
    switch (code) {
        case ErrorCode::connect:
        case ErrorCode::dns:
        case ErrorCode::tls:
        case ErrorCode::proxy:
        case ErrorCode::timeout:
        case ErrorCode::disconnected: return true;
        default: return false;
    }
}

FailureContext failure_context(const Endpoint& endpoint) {
    FailureContext context;
    context.where = endpoint.host();
    context.key_variable = endpoint.variable_of_the_key();
    context.withheld_key = endpoint.withheld_key;
    context.address_from = endpoint.from.base_url;
    return context;
}

Failure explain(const Error& error, const FailureContext& context) {
    if (const auto* answer = dynamic_cast<const StructuredOutputError*>(&error);
        answer && answer->failure() == StructuredFailure::invalid)
        return explain_schema(*answer);
    switch (error.code()) {
        case ErrorCode::cancelled: return make_failure(exit_aborted, "stopped.");
        case ErrorCode::limit: return explain_limit(error, context);
        case ErrorCode::pending_requests: return explain_waiting(context);
        case ErrorCode::storage_locked: return explain_locked(error);
        case ErrorCode::storage_corrupt: return explain_corrupt(error);
        case ErrorCode::storage_full: return explain_full(error);
        case ErrorCode::run_already_claimed: return explain_claimed(error, context);
        case ErrorCode::stale_append: return make_failure(exit_storage, error.what());
        case ErrorCode::storage:
            return make_failure(exit_storage, error.what(), storage_advice(path_of(error)));
        case ErrorCode::permission_denied:
            if (const std::string path = path_of(error); !path.empty())
                return make_failure(exit_storage, error.what(), storage_advice(path));
            return explain_model(error, context);
        default: break;
    }
    const bool is_of_store = dynamic_cast<const CheckpointerError*>(&error) != nullptr;
    if (is_of_store && error.code() == ErrorCode::auth)
        return make_failure(exit_storage, error.what(),
                            "Check the user and the password of the database: cubepi db status");
    if (is_of_store && is_network(error.code())) return make_failure(exit_storage, error.what());
    return explain_model(error, context);
}

Failure explain(const std::exception_ptr& failure, const FailureContext& context) {
    if (is_cancellation(failure)) return make_failure(exit_aborted, "stopped.");
    try {
        std::rethrow_exception(failure);
    } catch (const EndpointFailed& failed) {
        FailureContext where = failure_context(failed.endpoint());
        where.session = context.session;
        where.in_chat = context.in_chat;
        return explain(failed.cause(), where);
    } catch (const Error& error) {
        return explain(error, context);
    } catch (const std::filesystem::filesystem_error& error) {
        if (error.code() == std::errc::no_such_file_or_directory && error.path1().empty())
            return make_failure(exit_failed, "the current directory no longer exists.",
                                "Change to an existing directory: cd");
        return make_failure(exit_failed, error.what());
    } catch (const std::exception& error) {
        return make_failure(exit_failed, error.what());
    } catch (...) {
        return make_failure(exit_failed, "unknown exception");
    }
}

std::string explain_event(const JsonObject& data, const FailureContext& context) {
    const Json* message = data.if_contains("message");
    std::string text =
        message && message->is_string() ? std::string(message->get_string()) : json_text(data);
    const Json* limit = data.if_contains("limit");
    if (!limit || !limit->is_string()) return text;
    text = limit_text(std::move(text), limit->get_string());
    const std::string advice = advice_about(limit->get_string(), context);
    return advice.empty() ? text : text + "\n  " + advice;
}

std::optional<Failure> incomplete_answer(const AssistantMessage& answer,
                                         const FailureContext& context) {
    std::string advice = "Prompt again, or " + name_another_model(context) + ".";
    switch (answer_end(answer)) {
        case AnswerEnd::complete: return std::nullopt;
        case AnswerEnd::cut_off:
            advice = "Prompt again to continue, or raise max_tokens in " + config_path().string();
            break;
        case AnswerEnd::context_window:
            advice = "Prompt again to continue: the conversation is compacted first.";
            break;
        case AnswerEnd::refused:
            advice = "Rephrase the prompt, or " + name_another_model(context) + ".";
            break;
        case AnswerEnd::incomplete:
        case AnswerEnd::empty: break;
    }
    return make_failure(exit_incomplete, answer_end_text(answer) + ".", advice);
}

std::optional<Failure> incomplete_answer(const RunResult& result, const FailureContext& context) {
    if (!result) return std::nullopt;
    for (std::size_t i = result.new_messages.size(); i > 0; --i) {
        if (const AssistantMessage* answer = result.new_messages[i - 1].assistant())
            return incomplete_answer(*answer, context);
    }
    return std::nullopt;
}

}  // namespace cubepi::app

#include "failure.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/cancellation.hpp>

#include "config/model_choice.hpp"
#include "config/paths.hpp"
#include "exit_code.hpp"

namespace cubepi::app {

namespace {

std::string place(const FailureContext& context) {
    return context.where.empty() ? "the model" : context.where;
}

Failure say(int exit_code, const std::string& what, const std::string& advice = {}) {
    Failure failure;
    failure.text = advice.empty() ? what : what + "\n  " + advice;
    failure.exit_code = exit_code;
    return failure;
}

/// The error in its own words, without what the texts here say themselves: which model it was, and the advice that
/// follows the first sentence.
std::string first_sentence(const Error& error) {
    std::string text = error.what();
    if (const auto* failed = dynamic_cast<const ProviderError*>(&error);
        failed && text.starts_with('[')) {
        const std::string type = "] " + failed->info().type + ": ";
        const std::size_t end = text.find(type);
        if (end != std::string::npos) text.erase(0, end + type.size());
    }
    text = text.substr(0, text.find(". "));
    if (text.ends_with('.')) text.pop_back();
    return text;
}

std::string key_advice(const FailureContext& context) {
    const std::string& name = context.key_variable;
    if (name.empty())
        return "Check api_key or api_key_env in " + config_path().string() +
               ", then: cubepi doctor";
    std::string looks;
    if (name == "OPENAI_API_KEY") looks = " (it begins with 'sk-')";
    if (name == "ANTHROPIC_API_KEY") looks = " (it begins with 'sk-ant-')";
    return "Check it: echo $" + name + looks + ", then: cubepi doctor";
}

/// The failures of a first day, each with the command that comes next (docs/errors.md).
Failure explain_model(const Error& error, const FailureContext& context) {
    const std::string cause = first_sentence(error);
    switch (error.code()) {
        case ErrorCode::auth:
            return say(exit_failed, "the key was refused by " + place(context) + ".",
                       key_advice(context));
        case ErrorCode::model_not_found:
            return say(exit_failed, "there is no such model: " + place(context) + ".",
                       "Name another with --model; 'cubepi models' lists what the server offers.");
        case ErrorCode::rate_limited:
            return say(exit_failed, "the server says that it is too much: " + cause,
                       "Wait a little and repeat; for a used-up quota see your account.");
        case ErrorCode::context_length:
            return say(exit_failed, "the conversation is too long for this model.",
                       "Begin a new one: cubepi chat --session NAME, or take a model with a larger "
                       "window.");
        case ErrorCode::unavailable:
            // A server that says what is wrong with it was reached.
            if (cause.starts_with("HTTP "))
                return say(exit_failed, place(context) + " cannot answer now: " + cause + ".",
                           "That is the server's side: repeat in a moment, or take another model "
                           "with --model.");
            [[fallthrough]];
        case ErrorCode::connect:
            return say(exit_failed, "cannot reach " + place(context) + ": " + cause + ".",
                       "Is the server running? Look with: cubepi doctor");
        case ErrorCode::dns:
            return say(exit_failed, "cannot reach " + place(context) + ": " + cause + ".",
                       "Check the address (--base-url, OPENAI_BASE_URL) and the network, then: "
                       "cubepi doctor");
        case ErrorCode::tls:
            return say(
                exit_failed, "no trusted connection to " + place(context) + ": " + cause + ".",
                "With a certificate authority of your own: export SSL_CERT_FILE=/path/to/ca.pem");
        case ErrorCode::proxy:
            return say(exit_failed, "the proxy failed: " + cause + ".",
                       "Check http_proxy, https_proxy and no_proxy (env | grep -i proxy), then: "
                       "cubepi doctor");
        default: break;
    }
    if (const auto* failed = dynamic_cast<const ProviderError*>(&error)) {
        // The right address knows what it is asked for, even where the model is wrong.
        const std::string advice =
            failed->info().status_code == 404
                ? "Is the address right? It ends before /chat/completions, often with /v1. Look "
                  "with: cubepi doctor"
                : "";
        return say(exit_failed, place(context) + " failed: " + cause + ".", advice);
    }
    return say(exit_failed, error.what());
}

/// Whether a failure is that of a tape; else it is that of the database of older versions.
bool is_of_tapes(const std::string& what) {
    return what.find(bub::default_tape_directory().string()) != std::string::npos;
}

std::string place_advice(const std::string& what) {
    if (!is_of_tapes(what)) return {};
    return "Sessions are kept there; to keep them elsewhere: export BUB_HOME=/path/to/a/folder";
}

Failure explain_locked(const std::string& what) {
    if (is_of_tapes(what)) return say(exit_storage, "the session cannot be written now: " + what);
    return say(exit_storage,
               "the sessions are locked: another process holds " + sessions_path().string() + ".",
               "See who: fuser " + sessions_path().string() + "; then repeat.");
}

Failure explain_corrupt(const std::string& what) {
    if (is_of_tapes(what)) return say(exit_storage, "the session cannot be read: " + what);
    const std::string path = sessions_path().string();
    return say(exit_storage, "the sessions cannot be read: " + what,
               "Keep a copy, then look: sqlite3 " + path +
                   " 'PRAGMA integrity_check'; to go on without it: mv " + path + " " + path +
                   ".bad");
}

Failure explain_claimed(const std::string& what, const FailureContext& context) {
    const std::string session =
        context.session.empty() ? "this session" : "session " + context.session;
    constexpr std::string_view before = " is open in ";
    const std::size_t at = what.find(before);
    std::string who = at == std::string::npos ? "" : what.substr(at + before.size());
    who = who.substr(0, who.find(';'));
    if (who.empty()) return say(exit_storage, what);
    return say(exit_storage, session + " is in use: " + who + " is in the middle of an answer.",
               "Wait for its end and repeat, or take another session: --session NAME");
}

}  // namespace

Failure explain(const Error& error, const FailureContext& context) {
    const std::string what = error.what();
    switch (error.code()) {
        case ErrorCode::cancelled: return say(exit_aborted, "stopped.");
        case ErrorCode::limit: return say(exit_limited, what);
        case ErrorCode::storage_locked: return explain_locked(what);
        case ErrorCode::storage_corrupt: return explain_corrupt(what);
        case ErrorCode::storage_full:
            return say(
                exit_storage, "no room to store the conversation: " + what,
                "Free some: df -h " + (is_of_tapes(what) ? bub::default_tape_directory().string()
                                                         : sessions_path().parent_path().string()));
        case ErrorCode::run_already_claimed: return explain_claimed(what, context);
        case ErrorCode::stale_append: return say(exit_storage, what);
        case ErrorCode::storage: return say(exit_storage, what, place_advice(what));
        case ErrorCode::permission_denied:
            if (is_of_tapes(what)) return say(exit_storage, what, place_advice(what));
            return explain_model(error, context);
        default: return explain_model(error, context);
    }
}

Failure explain(const std::exception_ptr& failure, const FailureContext& context) {
    if (is_cancellation(failure)) return say(exit_aborted, "stopped.");
    try {
        std::rethrow_exception(failure);
    } catch (const EndpointFailed& failed) {
        FailureContext where = context;
        where.where = failed.where();
        where.key_variable = failed.key_variable();
        return explain(failed.cause(), where);
    } catch (const Error& error) {
        return explain(error, context);
    } catch (const std::filesystem::filesystem_error& error) {
        if (error.code() == std::errc::no_such_file_or_directory && error.path1().empty())
            return say(exit_failed, "the current folder does not exist any more.",
                       "Go to one that does: cd");
        return say(exit_failed, error.what());
    } catch (const std::exception& error) {
        return say(exit_failed, error.what());
    } catch (...) {
        return say(exit_failed, "unknown exception");
    }
}

}  // namespace cubepi::app

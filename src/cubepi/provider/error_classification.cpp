#include <cubepi/provider/error_classification.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/support/parsed_number.hpp>
#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/wire/error_words.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {

namespace {

constexpr std::size_t longest_message = 2048;

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// Returns whether `text` contains the parts of `form` ("input*too long") in this order, each at most 80 characters after the
/// one before it.
bool matches(std::string_view text, std::string_view form) {
    constexpr std::size_t longest_gap = 80;
    const std::size_t star = form.find('*');
    const std::string_view first = form.substr(0, star);
    for (std::size_t at = text.find(first); at != std::string_view::npos;
         at = text.find(first, at + 1)) {
        if (star == std::string_view::npos) return true;
        std::string_view others = form.substr(star + 1);
        std::size_t end = at + first.size();
        for (;;) {
            const std::size_t next_star = others.find('*');
            const std::string_view part = others.substr(0, next_star);
            const std::size_t found = text.substr(end, longest_gap + part.size()).find(part);
            if (found == std::string_view::npos) break;
            if (next_star == std::string_view::npos) return true;
            end += found + part.size();
            others = others.substr(next_star + 1);
        }
    }
    return false;
}

/// Returns whether `test` is true for one of the words of a list of `error_words`.
template <class Test>
bool any_word(std::string_view words, const Test& test) {
    while (!words.empty()) {
        const std::size_t end = std::min(words.find('|'), words.size());
        if (test(words.substr(0, end))) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

bool matches_one(std::string_view text, std::string_view forms) {
    return any_word(forms, [text](std::string_view form) { return matches(text, form); });
}

/// Returns whether the text names the prompt, apart from words that any refusal may begin with.
bool names_prompt(std::string text) {
    for (const std::string_view heading : {"input validation error", "invalid input", "请求参数"}) {
        if (const std::size_t at = text.find(heading); at != text.npos)
            text.erase(at, heading.size());
    }
    return matches_one(text, error_words::prompt_words);
}

/// Returns the text without what it may repeat of the conversation.
std::string without_content(std::string text) {
    for (const std::string_view mark : {"input_value=", "<think>"})
        text.resize(std::min(text.find(mark), text.size()));
    return text;
}

bool states_excess(std::string text) {
    // Text behind that is rarely the server's own.
    constexpr std::size_t longest = 512;
    text.resize(std::min(longest, text.size()));
    if (matches_one(text, error_words::other_content)) return false;
    if (matches_one(text, error_words::too_long_forms)) return true;
    const bool is_answer = has(text, "output token") && !has(text, "input");
    if (is_answer || matches_one(text, error_words::other_subjects)) return false;
    const bool has_subject = names_prompt(text) || matches_one(text, error_words::sizes);
    return has_subject && matches_one(text, error_words::excess_words) &&
           matches_one(text, error_words::measure_words);
}

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns whether a text has a name of a parameter as a whole word.
bool has_parameter(std::string_view text, std::string_view name, bool is_other_word) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
        const std::string_view after = text.substr(at + name.size());
        const char next = after.empty() ? ' ' : after.front();
        if (is_name_part(next) || (at > 0 && is_name_part(text[at - 1]))) continue;
        if (!is_other_word || has("'`\"[:", std::string_view(&next, 1))) return true;
        if (next == '.' && after.size() > 1 && is_name_part(after[1])) return true;
    }
    return false;
}

bool names_parameter(std::string_view text) {
    const auto has_name = [text](std::string_view name) {
        return has_parameter(text, name, false);
    };
    const auto has_word = [text](std::string_view name) { return has_parameter(text, name, true); };
    return any_word(error_words::parameter_names, has_name) ||
           any_word(error_words::parameter_words, has_word);
}

/// Returns whether a path ("messages[2].content", "input_tokens") is that of a text in the messages.
bool is_of_prompt(std::string_view path) {
    if (path.starts_with("body.")) path.remove_prefix(5);
    const auto is_root = [path](std::string_view root) { return path.starts_with(root); };
    if (!any_word(error_words::history_roots, is_root)) return false;
    for (const std::string_view other : {".id", "_id", ".name", ".role", ".type", ".tool_calls"}) {
        if (path.ends_with(other) || has(path, std::string(other) + "[")) return false;
    }
    return true;
}

/// Returns the parameter that a text quotes as the one that is refused ("Invalid 'tools[0].name': ..."); empty: none.
std::string_view quoted_parameter(std::string_view text) {
    for (const std::string_view word :
         {"invalid ", "parameter ", "parameter: ", "property ", "field ", "argument ", "option "}) {
        for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
            const std::size_t begin = at + word.size();
            if (begin >= text.size() || !has("'`\"", text.substr(begin, 1))) continue;
            const std::size_t end = text.find(text[begin], begin + 1);
            if (end == text.npos) continue;
            return text.substr(begin + 1, end - begin - 1);
        }
    }
    return {};
}

/// Returns the path with an index at the beginning of a text ("messages.2.tool_call_id: ..."); empty: there is none.
std::string_view leading_path(std::string_view text) {
    const std::string_view path = text.substr(0, text.find_first_of(" :"));
    const std::size_t index = path.find_first_of(".[") + 1;
    const bool has_index = index > 0 && index < path.size() &&
                           std::isdigit(static_cast<unsigned char>(path[index])) != 0;
    return has_index ? path : std::string_view();
}

/// Returns whether the endpoint refused a parameter of the request, and not its messages. `text` is its message in lower case.
bool refuses_parameter(const EndpointFailure& failure, const std::string& text) {
    std::string param = detail::lower_case(failure.param);
    // LiteLLM writes the text "None"; others name the whole request.
    for (const std::string_view nothing : {"none", "null", "body", "request", "model", "text"}) {
        if (param == nothing) param.clear();
    }
    // vLLM subtracts the prompt from the window: a limit below zero is that of no request.
    if (has(text, "must be at least 1, got -")) return false;
    if (param.empty()) param = quoted_parameter(text);
    if (param.empty()) param = leading_path(text);
    const bool is_output = matches_one(text, error_words::output_limits) ||
                           matches_one(param, error_words::output_limits);
    if (is_output && !names_prompt(text)) return true;
    if (!is_output && !is_of_prompt(param)) {
        const std::string kind = detail::letters_of(failure.code + " " + failure.type);
        if (!param.empty() || matches_one(kind, error_words::parameter_kinds)) return true;
    }
    if (names_parameter(text)) return true;
    return matches_one(text, error_words::parameter_forms) &&
           !matches_one(text, error_words::length_forms);
}

/// The number after `mark` in `text`.
std::optional<std::int64_t> number_after(std::string_view text, std::string_view mark) {
    const std::size_t at = text.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    std::int64_t number = 0;
    const char* begin = text.data() + at + mark.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    return number;
}

/// vLLM reports in one form an output limit that no conversation leaves space for, and a conversation that leaves too little.
bool is_output_limit(std::string_view text) {
    const auto requested = number_after(text, "is too large: ");
    if (!requested || !has(text, "max_")) return false;
    const auto window = number_after(text, "maximum context length is ");
    return !window || *requested >= *window;
}

/// Words between the verb and the duration.
bool is_filler(std::string_view word) {
    return word == "for" || word == "at" || word == "least" || word == "about" ||
           word == "another" || word == "approximately";
}

bool is_rate_kind(std::string_view kind) {
    return matches_one(detail::letters_of(kind), error_words::rate_kinds);
}

/// Whether a server answers a request that is too long with this status, or with one that says nothing.
bool may_be_overflow(int status) {
    return status == 0 || status == 400 || status == 413 || status == 422 || status >= 500;
}

bool names_unknown_model(std::string_view text) {
    return has(text, "model") && matches_one(text, error_words::unknown_model);
}

std::string text_of(const Json* value) {
    if (!value) return {};
    if (value->is_string()) return std::string(value->get_string());
    if (value->is_int64() || value->is_uint64()) return boost::json::serialize(*value);
    return {};
}

std::string shortened(std::string text) {
    if (text.size() <= longest_message) return text;
    text.resize(longest_message);
    text.resize(complete_utf8_prefix(text));
    return text + "...";
}

/// Reads a member with a delay: a number of `unit`s, or a text ("3s").
std::optional<double> read_delay(const JsonObject& object, std::string_view name, double unit) {
    const Json* value = object.if_contains(name);
    if (!value) return std::nullopt;
    if (value->is_string()) {
        std::string_view text = value->get_string();
        const std::optional<double> seconds = read_duration(text);
        return text.empty() ? seconds : std::nullopt;
    }
    if (!value->is_number()) return std::nullopt;
    const double seconds = value->to_number<double>() * unit;
    return std::isfinite(seconds) && seconds >= 0 ? std::optional(seconds) : std::nullopt;
}

/// Reads the delay in an error object: a member of it, or of one of its details (Google's RetryInfo).
std::optional<double> read_delay(const JsonObject& object) {
    for (const std::string_view name :
         {"retry_after", "retryAfter", "retry_after_seconds", "retryDelay", "retry_delay"}) {
        if (const auto delay = read_delay(object, name, 1)) return delay;
    }
    for (const std::string_view name : {"retry_after_ms", "retryAfterMs"}) {
        if (const auto delay = read_delay(object, name, 0.001)) return delay;
    }
    const Json* details = object.if_contains("details");
    if (!details || !details->is_array()) return std::nullopt;
    for (const Json& detail : details->get_array()) {
        if (!detail.is_object()) continue;
        if (const auto delay = read_delay(detail.get_object(), "retryDelay", 1)) return delay;
    }
    return std::nullopt;
}

void read_error_object(const JsonObject& object, EndpointFailure& failure) {
    failure.message = text_of(object.if_contains("message"));
    failure.code = text_of(object.if_contains("code"));
    failure.type = text_of(object.if_contains("type"));
    failure.param = text_of(object.if_contains("param"));
    // Gemini, Bedrock
    for (const std::string_view name : {"status", "__type"}) {
        if (failure.type.empty()) failure.type = text_of(object.if_contains(name));
    }
    if (failure.message.empty()) failure.message = text_of(object.if_contains("detail"));
    // OpenRouter adds the text of the upstream to its "Provider returned error".
    const Json* metadata = object.if_contains("metadata");
    if (metadata && metadata->is_object()) {
        const Json* given = metadata->get_object().if_contains("raw");
        const std::string raw =
            given && given->is_object() ? json_text(given->get_object()) : text_of(given);
        if (!raw.empty()) failure.message += " (" + raw + ")";
    }
    if (failure.message.empty() && !object.empty()) failure.message = json_text(object);
}

/// Anthropic has no codes but kinds, of which one says nothing: {"type": "error", "error": {"type": ...}}.
bool is_anthropic(const JsonObject& object) {
    return text_of(object.if_contains("type")) == "error";
}

void read_failure_value(const Json& value, EndpointFailure& failure) {
    if (value.is_string()) {
        failure.message = text_of(&value);
    } else if (value.is_object()) {
        const JsonObject& object = value.get_object();
        const Json* error = object.if_contains("error");
        if (!failure.retry_after) failure.retry_after = read_delay(object);
        if (error && error->is_object()) {
            if (!failure.retry_after) failure.retry_after = read_delay(error->get_object());
            read_error_object(error->get_object(), failure);
            const bool kind_is_code = is_anthropic(object) && failure.code.empty();
            if (kind_is_code && failure.type != "invalid_request_error")
                failure.code = failure.type;
        } else if (error && error->is_string()) {
            failure.message = text_of(error);
            failure.code = text_of(object.if_contains("code"));
        } else {
            read_error_object(object, failure);
        }
    } else if (value.is_array() && !value.get_array().empty()) {
        read_failure_value(value.get_array().front(), failure);
    }
}

std::optional<int> status_of_code(const std::string& code) {
    const std::optional<int> status = detail::parsed_number<int>(code);
    return status && *status >= 400 && *status <= 599 ? status : std::nullopt;
}

/// Google reports a wrong key with status 400.
bool names_invalid_key(std::string_view text) {
    return has(text, "api key not valid") || has(text, "api key expired");
}

ErrorCode code_of_status(int status) {
    if (status == 401) return ErrorCode::auth;
    if (status == 408 || status == 425 || status >= 500) return ErrorCode::unavailable;
    return ErrorCode::bad_request;
}

/// For errors that have no status: the kinds that endpoints use inside streams.
ErrorCode code_of_kind(std::string_view kind) {
    if (has(kind, "authentication") || has(kind, "invalid_api_key")) return ErrorCode::auth;
    if (matches_one(kind, error_words::unavailable_kinds)) return ErrorCode::unavailable;
    if (has(kind, "model_not_found")) return ErrorCode::model_not_found;
    if (matches_one(kind, error_words::bad_request_kinds)) return ErrorCode::bad_request;
    return ErrorCode::provider;
}

/// The context window that an error text states: "... > 200000 maximum", "maximum context length is 8192 tokens".
std::optional<std::int64_t> window_in(std::string_view text) {
    if (has(text, "maximum context length is "))
        return number_after(text, "maximum context length is ");
    return has(text, " maximum") ? number_after(text, "> ") : std::nullopt;
}

}  // namespace

bool is_web_page(const HttpHeaders& headers, std::string_view body) {
    const std::size_t first = body.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first == std::string_view::npos || body[first] != '<') return false;
    if (detail::lower_case(headers.get("content-type")).starts_with("text/html")) return true;
    const std::string beginning = detail::lower_case(body.substr(first, 200));
    return has(beginning, "<html") || has(beginning, "<!doctype");
}

void throw_web_page(int status) {
    ErrorInfo info;
    info.code = ErrorCode::protocol;
    info.type = error_type_of(info.code);
    info.status_code = status;
    info.message = web_page_text;
    throw_provider_error(std::move(info),
                         "HTTP " + std::to_string(status) + ": " + std::string(web_page_text));
}

EndpointFailure read_endpoint_failure(int status, const HttpHeaders& headers, std::string_view body,
                                      const RetryHints& hints) {
    const auto seconds = [](std::chrono::milliseconds delay) {
        return std::chrono::duration<double>(delay).count();
    };
    EndpointFailure failure;
    failure.status = status;
    // CubePi reports the seconds, also where milliseconds decide.
    std::string_view header = headers.get("retry-after");
    const std::optional<double> stated = read_duration(header);
    if (stated && header.empty()) {
        failure.retry_after = stated;
    } else if (hints.delay) {
        failure.retry_after = seconds(*hints.delay);
    }
    JsonTextError error;
    const Json value = parse_json(body, error);
    if (!error) {
        read_failure_value(value, failure);
    } else if (is_web_page(headers, body)) {
        failure.message = web_page_text;
    } else {
        failure.message = replace_broken_utf8(body);
    }
    if (status >= 300 && status < 400) {
        failure.message = "the endpoint redirects to " + public_url(headers.get("location")) +
                          "; redirects are not followed, set the base URL to the right address";
    }
    if (failure.type.empty()) failure.type = headers.get("x-amzn-errortype");  // Bedrock
    // A header may hold any bytes.
    if (!is_utf8(failure.message)) failure.message = replace_broken_utf8(failure.message);
    if (failure.message.empty()) failure.message = "the response is empty";
    failure.message = shortened(std::move(failure.message));
    if (!failure.retry_after) failure.retry_after = delay_in_text(failure.message);
    if (!failure.retry_after && status == 429 && hints.reset)
        failure.retry_after = seconds(*hints.reset);
    return failure;
}

EndpointFailure read_stream_failure(const Json& error) {
    EndpointFailure failure;
    read_failure_value(error, failure);
    failure.status = status_of_code(failure.code);
    if (failure.message.empty())
        failure.message = "the endpoint reported an error without a message";
    failure.message = shortened(std::move(failure.message));
    if (!failure.retry_after) failure.retry_after = delay_in_text(failure.message);
    return failure;
}

std::string_view error_type_of(ErrorCode code) noexcept {
    switch (code) {
        case ErrorCode::context_length: return "ContextLengthExceeded";
        case ErrorCode::rate_limited: return "RateLimited";
        case ErrorCode::auth: return "ProviderAuthFailed";
        case ErrorCode::bad_request: return "ProviderBadRequest";
        case ErrorCode::model_not_found: return "ModelNotFound";
        case ErrorCode::content_filtered: return "ContentFiltered";
        case ErrorCode::unavailable:
        case ErrorCode::timeout:
        case ErrorCode::dns:
        case ErrorCode::connect:
        case ErrorCode::tls:
        case ErrorCode::proxy:
        case ErrorCode::disconnected:
        case ErrorCode::protocol:
        case ErrorCode::too_large: return "ProviderUnavailable";
        default: return "ProviderError";
    }
}

bool is_context_overflow(const EndpointFailure& failure) {
    const std::string kind = failure.code + " " + failure.type;
    const int status = failure.status.value_or(0);
    if (!may_be_overflow(status) || is_rate_kind(detail::lower_case(kind))) return false;
    // The reason is in the first lines of a long text.
    const std::string text = without_content(
        detail::lower_case(std::string_view(failure.message).substr(0, longest_message)));
    const bool has_kind = matches_one(detail::letters_of(kind), error_words::overflow_kinds);
    // The code of a text that is too long is also that of a name.
    if (has_kind && !has(kind, "above_max_length")) return true;
    if (matches_one(text, error_words::rate_forms) || matches_one(text, error_words::other_forms) ||
        is_output_limit(text) || refuses_parameter(failure, text))
        return false;
    // Codes of Zhipu and Spark.
    const bool has_code = failure.code == "1261" || failure.code == "10907";
    return has_kind || status == 413 || has_code ||
           matches_one(detail::letters_of(text), error_words::overflow_kinds) ||
           matches_one(text, error_words::overflow_forms) || states_excess(text);
}

bool is_lasting_limit(const EndpointFailure& failure) {
    const std::string text =
        detail::lower_case(failure.message + " " + failure.code + " " + failure.type);
    return matches_one(text, error_words::lasting_forms);
}

std::optional<double> delay_in_text(std::string_view given) {
    const std::string text = detail::lower_case(given.substr(0, longest_message));
    for (const std::string_view mark :
         {"try again in", "retry in", "retry after", "retry-after", "retry_after",
          "try again after", "wait", "reset in", "resets in", "reset after", "resets after",
          "available in", "等待", "请在", "请于"}) {
        for (std::size_t at = text.find(mark); at != std::string::npos;
             at = text.find(mark, at + 1)) {
            std::string_view rest = std::string_view(text).substr(at + mark.size());
            for (;;) {
                rest.remove_prefix(std::min(rest.find_first_not_of(" :=\"'"), rest.size()));
                const std::size_t word = rest.find_first_of(" 0123456789");
                if (word == rest.npos || !is_filler(rest.substr(0, word))) break;
                rest.remove_prefix(word);
            }
            if (const auto delay = read_duration(rest)) return delay;
        }
    }
    // "2秒后重试"
    const std::size_t unit = text.find("秒后");
    if (unit == std::string::npos) return std::nullopt;
    std::string_view number = std::string_view(text).substr(0, unit);
    number = number.substr(0, number.find_last_not_of(' ') + 1);
    number.remove_prefix(number.find_last_not_of("0123456789.") + 1);
    return read_duration(number);
}

bool is_transient(ErrorCode code) noexcept {
    return code == ErrorCode::rate_limited || code == ErrorCode::unavailable;
}

bool is_temporary_cut(const ErrorInfo& info) {
    const std::chrono::duration<double> longest = RetryPolicy().max_server_delay;
    const bool is_soon = info.retry_after.value_or(0) <= longest.count();
    if (!is_soon) return false;
    if (info.code == ErrorCode::timeout) return info.message.ends_with(idle_timeout_mark);
    if (info.code == ErrorCode::disconnected) return true;
    EndpointFailure failure;
    failure.message = info.message;
    failure.code = info.provider_code;
    return is_transient(info.code) && !is_lasting_limit(failure);
}

ErrorInfo classify_failure(const EndpointFailure& failure,
                           std::optional<std::int64_t> context_window,
                           std::optional<std::int64_t> prompt_tokens) {
    const std::string text = detail::lower_case(failure.message);
    const std::string kind = detail::lower_case(failure.code + " " + failure.type);
    const int status = failure.status.value_or(0);
    ErrorInfo info;
    info.provider_code = failure.code;
    info.message = failure.message;
    info.status_code = failure.status;

    const bool nearly_full = status == 400 && context_window && prompt_tokens &&
                             *prompt_tokens * 100 >= *context_window * 95 &&
                             !matches_one(text, error_words::other_forms) &&
                             !refuses_parameter(failure, text);
    // A wrong key or address is none, even if the text mentions the limits of those without a key.
    const bool may_be_limit = status != 401 && status != 404 && status != 405;
    if (is_context_overflow(failure)) {
        info.code = ErrorCode::context_length;
    } else if (status == 429 || is_rate_kind(kind) ||
               (may_be_limit && matches_one(text, error_words::rate_forms))) {
        info.code = ErrorCode::rate_limited;
        info.retry_after = failure.retry_after;
    } else if (nearly_full) {
        info.code = ErrorCode::context_length;
    } else if (has(kind, "content_filter") || has(kind, "content_policy") ||
               has(kind, "responsible_ai") || has(kind, "moderation_blocked") ||
               matches_one(text, error_words::content_filter)) {
        info.code = ErrorCode::content_filtered;
    } else if (has(kind, "model_not_found") ||
               ((status == 404 || status == 400 || status == 0) && names_unknown_model(text) &&
                !names_parameter(text))) {
        info.code = ErrorCode::model_not_found;
    } else if (status == 400 && names_invalid_key(text)) {
        info.code = ErrorCode::auth;
    } else if (status != 0) {
        info.code = code_of_status(status);
    } else {
        info.code = code_of_kind(kind);
    }
    if (info.code == ErrorCode::context_length) {
        info.tokens_in = prompt_tokens;
        info.context_window = context_window ? context_window : window_in(text);
    }
    info.type = error_type_of(info.code);
    return info;
}

ErrorInfo classify_exception(const std::exception_ptr& failure) {
    ErrorInfo info;
    info.code = ErrorCode::provider;
    try {
        std::rethrow_exception(failure);
    } catch (const ProviderError& error) {
        return error.info();
    } catch (const Error& error) {
        info.code = error.code();
    } catch (...) {
    }
    info.message = exception_text(failure);
    info.type = error_type_of(info.code);
    return info;
}

namespace {

/// Returns whether an endpoint may reject the content of messages with this status; servers without support for it do so with
/// various ones.
bool may_refuse_content(int status) {
    return status != 401 && status != 402 && status != 403 && status != 408 && status != 429 &&
           status <= 501;
}

/// Code, type, parameter and text of a failure in lower case.
std::string words_of(const EndpointFailure& failure) {
    return detail::lower_case(failure.code + " " + failure.type + " " + failure.param + " " +
                              failure.message);
}

/// Returns whether the words name a place in the messages: "messages.2.content", "input[1]".
bool names_place(const std::string& words) {
    for (const std::string_view root : {"messages", "input", "contents"}) {
        for (std::size_t at = words.find(root); at != words.npos; at = words.find(root, at + 1)) {
            std::string_view index = std::string_view(words).substr(at + root.size());
            index.remove_prefix(std::min(index.find_first_not_of(".[/"), index.size()));
            const bool has_index =
                !index.empty() && std::isdigit(static_cast<unsigned char>(index.front())) != 0;
            if (has_index) return true;
        }
    }
    return false;
}

}  // namespace

bool names_image(const EndpointFailure& failure) {
    return matches_one(words_of(failure), error_words::image_texts);
}

bool refuses_image(const EndpointFailure& failure) {
    const int status = failure.status.value_or(400);
    if (status == 413) return true;
    if (!may_refuse_content(status)) return false;
    const std::string words = words_of(failure);
    if (matches_one(words, error_words::image_texts)) return true;
    if (status != 400 && status != 415 && status != 422) return false;
    // Of the other texts, those that state no other cause: there is no end of words for a content that is refused.
    if (refuses_thinking(failure) ||
        classify_failure(failure, std::nullopt, std::nullopt).code != ErrorCode::bad_request)
        return false;
    return names_place(words) || !refuses_parameter(failure, detail::lower_case(failure.message));
}

bool refuses_thinking(const EndpointFailure& failure) {
    if (!may_refuse_content(failure.status.value_or(400))) return false;
    const std::string words = words_of(failure);
    if (matches_one(words, error_words::thinking_fields)) return true;
    const bool names_thinking = has(words, "thinking") || has(words, "reasoning");
    const bool names_parameter = has(words, "budget") || has(words, "effort") ||
                                 has(words, "thinking.type") || has(words, "reasoning.summary");
    if (!names_thinking || names_parameter) return false;
    return matches_one(words, error_words::thinking_texts) || names_place(words);
}

std::optional<std::int64_t> estimate_prompt_tokens(const MessageList& messages) {
    std::size_t bytes = 0;
    for (const Message& message : messages) bytes += message.text().size();
    if (bytes == 0) return std::nullopt;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / 4));
}

std::string public_url(std::string_view url) {
    std::string result(url.substr(0, url.find_first_of("?#")));
    const std::size_t scheme = result.find("://");
    const std::size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    const std::size_t end = result.find('/', begin);
    const std::size_t at = result.rfind('@', end);
    if (at != std::string::npos && at >= begin) result.erase(begin, at + 1 - begin);
    return result;
}

namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// The number in `count` hexadecimal digits; -1 for what is none.
int hex_number(std::string_view text, std::size_t at, std::size_t count) {
    if (at + count > text.size()) return -1;
    int value = 0;
    for (std::size_t i = at; i < at + count; ++i) {
        const int digit = hex_digit(text[i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/// How many bytes of `text` at `at` stand for `wanted`: plain, after backslashes ("\/"), as "\u002f", or as "%2F"; 0: none do.
/// Text that was escaped twice has several backslashes, and "%25" for a percent sign. Adds the bytes that were compared to `steps`.
std::size_t length_as(std::string_view text, std::size_t at, char wanted, std::size_t& steps) {
    ++steps;
    const int number = static_cast<unsigned char>(wanted);
    if (at < text.size() && text[at] == wanted) return 1;
    if (at < text.size() && text[at] == '%') {
        std::size_t digits = at + 1;
        while (text.substr(digits, 2) == "25") digits += 2;
        steps += digits - at;
        return hex_number(text, digits, 2) == number ? digits + 2 - at : 0;
    }
    std::size_t next = at;
    while (next < text.size() && text[next] == '\\') ++next;
    steps += next - at;
    if (next == at) return 0;
    if (next < text.size() && text[next] == 'u' && hex_number(text, next + 1, 4) == number)
        return next + 5 - at;
    return next < text.size() && text[next] == wanted ? next + 1 - at : 0;
}

/// How many bytes of `text` at `at` stand for the secret; 0: none do.
std::size_t secret_length(std::string_view text, std::size_t at, std::string_view secret,
                          std::size_t& steps) {
    std::size_t end = at;
    for (const char c : secret) {
        const std::size_t length = length_as(text, end, c, steps);
        if (length == 0) return 0;
        end += length;
    }
    return end - at;
}

/// Where the secret may begin if it does not at `at`. Backslashes before the same character stand for the same, however many there are,
/// so that only as many as the secret itself begins with are tried one by one.
std::size_t next_place(std::string_view text, std::size_t at, std::string_view secret) {
    const std::size_t run = std::min(text.find_first_not_of('\\', at), text.size()) - at;
    const std::size_t own = std::min(secret.find_first_not_of('\\'), secret.size());
    return at + (run > own ? run - own : 1);
}

}  // namespace

std::string without_secret(std::string text, std::string_view secret) {
    if (secret.size() < 6) return text;
    std::string result;
    std::size_t copied = 0;
    // A secret and a text of the same letters would cost the product of their sizes; such a text is
    // hidden as a whole.
    const std::size_t most_steps = 64 * (text.size() + 1024);
    std::size_t steps = 0;
    for (std::size_t at = 0; at < text.size();) {
        const bool may_begin = text[at] == secret.front() || text[at] == '\\' || text[at] == '%';
        const std::size_t length = may_begin ? secret_length(text, at, secret, steps) : 0;
        if (steps > most_steps) return "***";
        if (length == 0) {
            at = next_place(text, at, secret);
            continue;
        }
        result.append(text, copied, at - copied);
        result += "***";
        at += length;
        copied = at;
    }
    if (copied == 0) return text;
    return result.append(text, copied, std::string::npos);
}

std::string plain_failure(const ErrorInfo& info, std::string_view text) {
    std::string plain;
    switch (info.code) {
        case ErrorCode::auth: plain = "denied access"; break;
        case ErrorCode::rate_limited: plain = "is rate limited"; break;
        case ErrorCode::context_length: plain = "has too small a context window"; break;
        case ErrorCode::model_not_found: plain = "is not known to its server"; break;
        case ErrorCode::content_filtered: plain = "refused the content"; break;
        case ErrorCode::unavailable: plain = "is unavailable"; break;
        case ErrorCode::dns:
        case ErrorCode::connect:
        case ErrorCode::tls:
        case ErrorCode::proxy: plain = "cannot be reached"; break;
        default: plain = "failed";
    }
    std::string_view reason = info.message.empty() ? text : std::string_view(info.message);
    reason = reason.substr(0, reason.find('\n'));
    while (reason.ends_with('.')) reason.remove_suffix(1);
    std::string detail;
    if (info.status_code) detail = "HTTP " + std::to_string(*info.status_code);
    if (!detail.empty() && !reason.empty()) detail += ": ";
    detail += reason;
    return detail.empty() ? plain : plain + " (" + detail + ")";
}

std::string failure_text(const Model& model, std::string_view base_url, const ErrorInfo& info,
                         std::string_view message) {
    std::string text = "[";
    if (!model.provider_id.empty()) text += model.provider_id + "/";
    text += model.id;
    if (!base_url.empty()) text += " @ " + public_url(base_url);
    text += "] ";
    text += info.type.empty() ? error_type_of(info.code) : std::string_view(info.type);
    text += ": ";
    text += message;
    return text;
}

}  // namespace cubepi

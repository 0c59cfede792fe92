#include <cubepi/agent/run/failure_message.hpp>

#include <exception>

#include <cubepi/core/support/error_with_text.hpp>

namespace cubepi::detail {

bool has_failed(const AssistantMessage& answer) {
    return answer.stop_reason == stop_reason::error || answer.stop_reason == stop_reason::aborted;
}

Message failure_message(const RunCore& core, const std::string& text, bool aborted) {
    AssistantMessage message;
    message.content.emplace_back(TextContent{});
    message.id = core.runtime().ids->next();
    message.stop_reason = stop_reason::shared(aborted ? stop_reason::aborted : stop_reason::error);
    message.error_message = text;
    message.timestamp = core.wall_seconds();
    message.run_id = core.run_id();
    return message;
}

std::shared_ptr<const Error> error_of(const AssistantMessage& answer) {
    if (answer.stop_reason == stop_reason::aborted) {
        return std::make_shared<const Error>(ErrorCode::cancelled, std::string(aborted_text));
    }
    const std::string text =
        answer.error_message.empty() ? "the model's answer failed" : answer.error_message.str();
    if (!answer.error) return std::make_shared<const Error>(ErrorCode::provider, text);
    const ErrorInfo& info = *answer.error;
    if (info.code == ErrorCode::limit && info.provider_code == max_answer_bytes_name) {
        return std::make_shared<const LimitReachedError>(std::string(max_answer_bytes_name), text);
    }
    try {
        throw_provider_error(info, text);
    } catch (const ProviderError&) {
        return error_with_text(std::current_exception(), text);
    }
}

}  // namespace cubepi::detail

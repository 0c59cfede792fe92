#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <bub/channel/telegram/message_sender.hpp>
#include <cubepi/core/event_signal.hpp>

namespace bub::telegram {

/// An answer that is shown while it is generated: as messages that are edited. Messages that are not final end with an
/// ellipsis, so that one which a killed process has left is recognized as incomplete. Used on one executor.
class LiveAnswer {
public:
    LiveAnswer(ChatTarget to, std::shared_ptr<MessageSender> sender, cubepi::Clock& clock);

    void append(std::string_view delta);
    /// Shows the text from time to time until finish() or end(). Run once, in the background.
    static Task<> show(std::shared_ptr<LiveAnswer> answer);

    /// Makes the messages show the final text. Throws ApiError if Telegram rejects it.
    Task<> finish(FormattedText final_text);
    /// Ends show(): the turn has no answer. What is shown stays, with its ellipsis.
    void end() { over_.request_stop(); }

private:
    struct Shown {
        std::int64_t id = 0;
        FormattedText text = {};
    };

    std::chrono::nanoseconds interval() const;
    Task<> preview();
    Task<> preview_part(std::size_t index, FormattedText part);
    Task<> finish_part(std::size_t index, FormattedText part);

    const ChatTarget to_;
    const std::shared_ptr<MessageSender> sender_;
    cubepi::Clock& clock_;
    std::string text_;
    bool changed_ = false;
    std::vector<Shown> shown_;
    std::stop_source over_;
    cubepi::AsyncEvent idle_{true};
};

}  // namespace bub::telegram

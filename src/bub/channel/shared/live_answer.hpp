#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/channel/delivery_log.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/clock.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/task.hpp>

namespace bub::shared {

using cubepi::Task;

/// An answer that is shown while it is generated: as messages that are edited. Messages that are not final end with a mark, so that
/// one which a killed process has left is recognized as incomplete. Used on one executor.
///
/// `Sender` has the types `Target` (a chat), `Message` with the members `text` and `progress` (SendProgress), and `Id` (of a sent message; Id() is none), and
///   Task<Id> send(Target, Message), try_send(Target, Message);
///   Task<bool> edit(Target, Id, Message), try_edit(Target, Id, Message);
///   Task<> try_delete(Target, Id);
/// of which `try_` makes one attempt, only if the rate limits allow it, and returns Id() or false otherwise. edit() returns false if the
/// message does not exist any more.
template <class Sender>
class LiveAnswer {
public:
    using Target = typename Sender::Target;
    using Message = typename Sender::Message;
    using Id = typename Sender::Id;
    using Text = decltype(Message::text);
    /// Divides an incomplete answer into messages, the last with the mark.
    using Preview = std::function<std::vector<Text>(const std::string& answer)>;

    struct Parts {
        Target to = {};
        Message first = {};  ///< for the first message, without its text
        std::shared_ptr<Sender> sender = {};
        Preview preview = {};
        std::chrono::nanoseconds interval = {};  ///< leaves messages to final texts
        cubepi::Clock* clock = nullptr;          ///< outlives the answer
    };
    explicit LiveAnswer(Parts parts) : parts_(std::move(parts)) {}

    void append(std::string_view delta) {
        text_ += delta;
        changed_ = true;
    }
    /// Sets a text that follows the answer while it is incomplete, such as the progress of its turn.
    void set_progress_text(std::string text) {
        progress_text_ = std::move(text);
        changed_ = true;
    }
    /// Shows the text from time to time until finish() or end(). Run once, in the background.
    static Task<> show(std::shared_ptr<LiveAnswer> answer);

    /// Makes the messages show the final text. Throws what the sender throws. `progress` may be null.
    Task<> finish(std::vector<Text> final_parts, std::shared_ptr<SendProgress> progress);
    /// Ends show(): the turn has no answer. What is shown stays, with its mark.
    void end() { over_.request_stop(); }

private:
    /// A longer answer is not shown before it is complete: each change would format all of it.
    static constexpr std::size_t max_preview_bytes = 64 * 1024;

    struct Shown {
        Id id = {};
        Text text = {};
    };

    Task<> preview();
    Task<> put(std::size_t index, Text part, bool is_final);

    const Parts parts_;
    std::shared_ptr<SendProgress> progress_;
    std::string text_;
    std::string progress_text_;
    bool changed_ = false;
    std::vector<Shown> shown_;
    std::stop_source over_;
    cubepi::AsyncEvent idle_{true};
};

template <class Sender>
Task<> LiveAnswer<Sender>::show(std::shared_ptr<LiveAnswer> answer) {
    answer->idle_.reset();
    std::exception_ptr failure;
    try {
        while (true) {
            Task<> sleeping = answer->parts_.clock->sleep_for(answer->parts_.interval);
            Task<> waiting = cubepi::cancel_on(answer->over_.get_token(), std::move(sleeping));
            co_await std::move(waiting);
            if (answer->text_.size() > max_preview_bytes) break;
            if (!std::exchange(answer->changed_, false)) continue;
            co_await answer->preview();
        }
    } catch (...) {
        // The final text reports what is wrong; a preview is not worth a retry.
        failure = std::current_exception();
    }
    answer->idle_.set();
    if (cubepi::is_cancellation(failure) && !answer->over_.stop_requested())
        std::rethrow_exception(failure);
}

template <class Sender>
Task<> LiveAnswer<Sender>::preview() {
    const std::string gap = text_.empty() || progress_text_.empty() ? "" : "\n\n";
    std::vector<Text> parts = parts_.preview(text_ + gap + progress_text_);
    for (std::size_t index = 0; index < parts.size(); ++index)
        co_await put(index, std::move(parts[index]), false);
}

template <class Sender>
Task<> LiveAnswer<Sender>::finish(std::vector<Text> final_parts,
                                  std::shared_ptr<SendProgress> progress) {
    end();
    co_await idle_.wait();
    progress_ = std::move(progress);
    // A part that is shown has arrived: the answer does not only wait. Each further request is checked (D206).
    if (progress_ && !shown_.empty()) (void)co_await progress_->begin();
    for (std::size_t index = 0; index < final_parts.size(); ++index)
        co_await put(index, std::move(final_parts[index]), true);
    for (; shown_.size() > final_parts.size(); shown_.pop_back())
        co_await parts_.sender->try_delete(parts_.to, shown_.back().id);
}

/// Shows a part in its message, or in a new one after the others.
template <class Sender>
Task<> LiveAnswer<Sender>::put(std::size_t index, Text part, bool is_final) {
    if (index > shown_.size()) co_return;
    Sender& sender = *parts_.sender;
    if (index < shown_.size()) {
        if (shown_[index].text == part) co_return;
        Message message;
        message.text = part;
        message.progress = progress_;
        Task<bool> editing = is_final
                                 ? sender.edit(parts_.to, shown_[index].id, std::move(message))
                                 : sender.try_edit(parts_.to, shown_[index].id, std::move(message));
        const bool edited = co_await std::move(editing);
        if (edited) {
            shown_[index].text = std::move(part);
            co_return;
        }
        changed_ = true;
        if (!is_final) co_return;
        // A user has deleted the message. The following ones are replaced as well, to keep the order.
        for (; shown_.size() > index; shown_.pop_back())
            co_await sender.try_delete(parts_.to, shown_.back().id);
    }
    Message message;
    if (shown_.empty()) message = parts_.first;
    message.text = part;
    message.progress = progress_;
    Task<Id> sending = is_final ? sender.send(parts_.to, std::move(message))
                                : sender.try_send(parts_.to, std::move(message));
    Id id = co_await std::move(sending);
    changed_ = changed_ || id == Id();
    if (id == Id() && !is_final) co_return;
    shown_.emplace_back();
    shown_.back().id = std::move(id);
    shown_.back().text = std::move(part);
}

}  // namespace bub::shared

#include <bub/channel/telegram/live_answer.hpp>

#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>

namespace bub::telegram {

namespace {

using cubepi::Outcome;
using cubepi::outcome_of;

/// A longer answer is not shown before it is complete: each change would format all of it.
constexpr std::size_t max_preview_bytes = 64 * 1024;
constexpr std::string_view ellipsis = " \u2026";

bool is_same(const FormattedText& a, const FormattedText& b) {
    return a.text == b.text && a.entities == b.entities;
}

}  // namespace

LiveAnswer::LiveAnswer(ChatTarget to, std::shared_ptr<MessageSender> sender, cubepi::Clock& clock)
    : to_(to), sender_(std::move(sender)), clock_(clock) {}

void LiveAnswer::append(std::string_view delta) {
    text_ += delta;
    changed_ = true;
}

/// Leaves the rest of the rate limits to final messages.
std::chrono::nanoseconds LiveAnswer::interval() const {
    return to_.chat < 0 ? std::chrono::milliseconds(6000) : std::chrono::milliseconds(1500);
}

Task<> LiveAnswer::show(std::shared_ptr<LiveAnswer> answer) {
    answer->idle_.reset();
    std::exception_ptr failure;
    try {
        while (true) {
            Task<> sleeping = answer->clock_.sleep_for(answer->interval());
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

Task<> LiveAnswer::preview() {
    // The ellipsis must fit into the last message.
    std::vector<FormattedText> parts =
        split_text(format_markdown(text_), max_message_units - ellipsis.size());
    if (parts.empty()) co_return;
    parts.back().text += ellipsis;
    for (std::size_t index = 0; index < parts.size(); ++index)
        co_await preview_part(index, std::move(parts[index]));
}

Task<> LiveAnswer::preview_part(std::size_t index, FormattedText part) {
    if (index > shown_.size()) co_return;
    if (index < shown_.size() && is_same(shown_[index].text, part)) co_return;
    if (index < shown_.size()) {
        const bool edited = co_await sender_->try_edit(to_, shown_[index].id, OutgoingText(part));
        if (edited) {
            shown_[index].text = std::move(part);
        } else {
            changed_ = true;
        }
        co_return;
    }
    const std::int64_t id = co_await sender_->try_send(to_, OutgoingText(part));
    if (id != 0) {
        shown_.emplace_back();
        shown_.back().id = id;
        shown_.back().text = std::move(part);
    } else {
        changed_ = true;
    }
}

Task<> LiveAnswer::finish(FormattedText final_text) {
    end();
    co_await idle_.wait();
    std::vector<FormattedText> parts = split_text(final_text);
    for (std::size_t index = 0; index < parts.size(); ++index)
        co_await finish_part(index, std::move(parts[index]));
    for (; shown_.size() > parts.size(); shown_.pop_back())
        co_await sender_->try_delete(to_, shown_.back().id);
}

Task<> LiveAnswer::finish_part(std::size_t index, FormattedText part) {
    if (index < shown_.size()) {
        if (is_same(shown_[index].text, part)) co_return;
        const bool edited = co_await sender_->edit(to_, shown_[index].id, OutgoingText(part));
        if (edited) {
            shown_[index].text = std::move(part);
            co_return;
        }
        // A user has deleted the message. The following ones are replaced as well, to keep the order.
        while (shown_.size() > index) {
            co_await sender_->try_delete(to_, shown_.back().id);
            shown_.pop_back();
        }
    }
    const std::int64_t id = co_await sender_->send(to_, OutgoingText(part));
    shown_.emplace_back();
    shown_.back().id = id;
    shown_.back().text = std::move(part);
}

}  // namespace bub::telegram

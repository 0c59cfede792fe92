#include "console_channel.hpp"

#include <algorithm>
#include <utility>

#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "live_answers.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_notice = 2'000;

bool is_flagged(const bub::Envelope& message, std::string_view key) {
    return detail::flag_member(message.context, key);
}

/// Returns the text of what no tape has; empty: the history shows the message.
std::string notice_text(const bub::Envelope& message) {
    const std::string kind = message.kind.value_or("");
    if (kind == bub::envelope_kind::file) {
        const JsonObject* const file = detail::object_member(message.rest, bub::file_key);
        return "File sent: " + (file ? detail::text_member(*file, "path") : std::string());
    }
    const bool is_shown = kind == bub::envelope_kind::error || is_flagged(message, "rejected") ||
                          is_flagged(message, "postponed");
    return is_shown ? message.content_text() : std::string();
}

}  // namespace

Task<> ConsoleChannel::start(std::stop_token) { co_return; }

Task<> ConsoleChannel::stop() { co_return; }

Task<> ConsoleChannel::send(bub::Envelope message) {
    SessionNotice notice;
    notice.text = notice_text(message);
    if (notice.text.empty()) co_return;
    (void)shorten(notice.text, longest_notice);
    notice.is_error = message.kind.value_or("") == bub::envelope_kind::error;
    notice.date = bub::local_date(Runtime::standard()->clock->wall());
    const std::string session = message.session_id.value_or(bub::default_session(message));
    std::deque<SessionNotice>& of_session = notices_[session];
    if (of_session.empty()) order_.push_back(session);
    of_session.push_back(std::move(notice));
    if (of_session.size() > max_notices) of_session.pop_front();
    while (order_.size() > max_sessions) {
        notices_.erase(order_.front());
        order_.pop_front();
    }
}

std::vector<SessionNotice> ConsoleChannel::notices(const std::string& session) const {
    const auto found = notices_.find(session);
    if (found == notices_.end()) return {};
    return {found->second.begin(), found->second.end()};
}

}  // namespace cubepi::app

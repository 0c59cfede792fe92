#include "console_channel.hpp"

#include <algorithm>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/offload.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "gateway_http.hpp"
#include "live_answers.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t longest_notice = 2'000;

bool is_flagged(const bub::Envelope& message, std::string_view key) {
    return detail::flag_member(message.context, key);
}

/// Returns the text of what no tape has; empty: the history shows the message. Files have a text of their own.
std::string notice_text(const bub::Envelope& message) {
    const std::string kind = message.kind.value_or("");
    const bool is_shown = kind == bub::envelope_kind::error || is_flagged(message, "rejected") ||
                          is_flagged(message, "postponed");
    return is_shown ? message.content_text() : std::string();
}

Task<std::string> digest_of(std::shared_ptr<const Runtime> runtime, std::string bytes) {
    auto work = [bytes = std::move(bytes)] { return detail::sha256_hex(bytes); };
    co_return co_await offload(*runtime->workers, std::move(work));
}

}  // namespace

Task<> ConsoleChannel::start(std::stop_token) { co_return; }

Task<> ConsoleChannel::stop() { co_return; }

Task<> ConsoleChannel::send(bub::Envelope message) {
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Notice notice;
    SessionNotice& shown = notice.shown;
    // It throws if the file cannot be sent, as every channel does.
    Task<std::optional<bub::SentFile>> reading =
        bub::read_sent_file(runtime, message, max_file_bytes_);
    std::optional<bub::SentFile> file = co_await std::move(reading);
    if (file) {
        shown.file.emplace();
        shown.file->id = runtime->ids->next();
        shown.file->name = file->name;
        shown.file->size = static_cast<std::int64_t>(file->bytes.size());
        shown.file->is_image = !shown_image_type(file->bytes).empty();
        shown.text = "File sent: " + file->name;
        notice.digest = co_await digest_of(runtime, std::move(file->bytes));
        notice.message = message;
    } else {
        shown.text = notice_text(message);
    }
    if (shown.text.empty()) co_return;
    (void)shorten(shown.text, longest_notice);
    shown.is_error = message.kind.value_or("") == bub::envelope_kind::error;
    shown.date = bub::local_date(runtime->clock->wall());
    const std::string session = message.session_id.value_or(bub::default_session(message));
    std::deque<Notice>& of_session = notices_[session];
    if (of_session.empty()) order_.push_back(session);
    of_session.push_back(std::move(notice));
    if (of_session.size() > max_notices) of_session.pop_front();
    while (order_.size() > max_sessions) {
        notices_.erase(order_.front());
        order_.pop_front();
    }
    if (live_) live_->touch(session);
}

std::vector<SessionNotice> ConsoleChannel::notices(const std::string& session) const {
    const auto found = notices_.find(session);
    if (found == notices_.end()) return {};
    std::vector<SessionNotice> all;
    for (const Notice& one : found->second) all.push_back(one.shown);
    return all;
}

Task<bub::SentFile> ConsoleChannel::file(std::string session, std::string id) const {
    const auto found = notices_.find(session);
    bub::Envelope message;
    std::string digest;
    if (found != notices_.end()) {
        for (const Notice& one : found->second) {
            if (!one.shown.file || one.shown.file->id != id) continue;
            message = one.message;
            digest = one.digest;
        }
    }
    if (digest.empty())
        throw Error(ErrorCode::not_found, "the gateway has no such file of the session any more");
    const std::shared_ptr<const Runtime> runtime = Runtime::standard();
    Task<std::optional<bub::SentFile>> reading =
        bub::read_sent_file(runtime, std::move(message), max_file_bytes_);
    std::optional<bub::SentFile> file = co_await std::move(reading);
    const std::string now = co_await digest_of(runtime, file->bytes);
    if (now != digest) throw Error(ErrorCode::not_found, "the file was changed after it was sent");
    co_return std::move(*file);
}

}  // namespace cubepi::app

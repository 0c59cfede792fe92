#include "openai_runs.hpp"

#include <array>
#include <charconv>
#include <new>
#include <utility>

#include <openssl/hmac.h>

#include <cubepi/core/support/digest.hpp>
#include <cubepi/net/http_server.hpp>

namespace cubepi::app {

namespace {

constexpr std::string_view prefix = "resp_";
constexpr std::size_t code_size = 32;
constexpr std::size_t most_runs = 256;
constexpr std::size_t most_bytes = std::size_t{64} << 20U;

std::optional<std::string> bytes_of(std::string_view hex) {
    if (hex.size() % 2 != 0) return std::nullopt;
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) {
        unsigned value = 0;
        const char* const last = hex.data() + i + 2;
        const auto [end, failed] = std::from_chars(hex.data() + i, last, value, 16);
        if (failed != std::errc() || end != last) return std::nullopt;
        bytes += static_cast<char>(value);
    }
    return bytes;
}

}  // namespace

std::string OpenAIResponseNames::code_of(std::string_view text) const {
    std::array<unsigned char, EVP_MAX_MD_SIZE> code = {};
    unsigned size = 0;
    const std::string signed_text = "openai response " + std::string(text);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(signed_text.data());
    if (!HMAC(EVP_sha256(), token_.data(), static_cast<int>(token_.size()), bytes,
              signed_text.size(), code.data(), &size))
        throw std::bad_alloc();
    const std::string_view all(reinterpret_cast<const char*>(code.data()), size);
    return detail::hex_of(all).substr(0, code_size);
}

std::string OpenAIResponseNames::id_of(const OpenAIResponseName& name) const {
    const std::string text = detail::hex_of(name.message) + "_" + std::to_string(name.created) +
                             "_" + detail::hex_of(name.session);
    return std::string(prefix) + text + "_" + code_of(text);
}

std::optional<OpenAIResponseName> OpenAIResponseNames::read(std::string_view id) const {
    if (!id.starts_with(prefix)) return std::nullopt;
    id.remove_prefix(prefix.size());
    const std::size_t last = id.rfind('_');
    if (last == std::string_view::npos) return std::nullopt;
    const std::string_view text = id.substr(0, last);
    if (!equal_secrets(id.substr(last + 1), code_of(text))) return std::nullopt;
    // Made by id_of().
    const std::size_t first = text.find('_');
    const std::size_t second = text.rfind('_');
    const std::optional<std::string> message = bytes_of(text.substr(0, first));
    const std::optional<std::string> session = bytes_of(text.substr(second + 1));
    if (!message || !session) return std::nullopt;
    OpenAIResponseName name;
    name.message = *message;
    name.session = *session;
    const std::string_view created = text.substr(first + 1, second - first - 1);
    (void)std::from_chars(created.data(), created.data() + created.size(), name.created);
    return name;
}

OpenAIRun::OpenAIRun(std::shared_ptr<bub::HttpReply> reply, detail::OpenAIAnswerHead head,
                     JsonObject request)
    : reply_(std::move(reply)), writer_(std::move(head), std::move(request)) {
    writer_.begin(events_);
}

void OpenAIRun::advance() {
    while (reply_ && !answer_.ended()) {
        const std::optional<bub::HttpReplyPart> part = reply_->poll();
        if (!part) break;
        answer_.take(*part, *this);
    }
    for (; counted_ < events_.size(); ++counted_) bytes_ += events_[counted_].size();
}

void OpenAIRun::text(std::string_view text) { writer_.add_text(text, events_); }

void OpenAIRun::end_message() { writer_.end_message(events_); }

bool OpenAIRun::approval(std::string_view id, std::string_view tool, const JsonObject& arguments) {
    writer_.add_approval(id, tool, arguments, events_);
    return true;
}

void OpenAIRun::end(const OpenAIAnswerEnd& end) { writer_.finish(end.status, end.reason, events_); }

void OpenAIRun::postponed() {
    is_postponed_ = true;
    writer_.set_status(detail::OpenAIResponseStatus::queued);
}

void OpenAIRuns::add(const std::string& message, std::shared_ptr<OpenAIRun> run) {
    if (!runs_.emplace(message, std::move(run)).second) return;
    order_.push_back(message);
    shrink();
}

std::shared_ptr<OpenAIRun> OpenAIRuns::find(const std::string& message) const {
    const auto found = runs_.find(message);
    return found == runs_.end() ? nullptr : found->second;
}

void OpenAIRuns::shrink() {
    std::size_t bytes = 0;
    for (const auto& [message, run] : runs_) {
        run->advance();
        bytes += run->bytes();
    }
    while (order_.size() > most_runs || (bytes > most_bytes && order_.size() > 1)) {
        const auto oldest = runs_.find(order_.front());
        bytes -= oldest->second->bytes();
        runs_.erase(oldest);
        order_.pop_front();
    }
}

}  // namespace cubepi::app

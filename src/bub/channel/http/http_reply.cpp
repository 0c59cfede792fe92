#include <bub/channel/http/http_reply.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <bub/turn_usage.hpp>
#include <cubepi/schema/json_text.hpp>

namespace bub {

namespace detail {

namespace {

std::string event_text(std::string_view name, const JsonObject& data) {
    return cubepi::server_sent_event(name, cubepi::json_text(data));
}

std::string delta_event(const std::string& text) {
    JsonObject data;
    data["text"] = text;
    return event_text("delta", data);
}

}  // namespace

JsonObject result_of(const HttpExchange& exchange) {
    JsonObject result;
    result["session"] = exchange.chat();
    result["id"] = exchange.id();
    result["ok"] = exchange.error().empty();
    if (!exchange.error().empty()) {
        JsonObject error;
        error["message"] = exchange.error();
        result["error"] = std::move(error);
    }
    if (!exchange.finish().empty()) result["finish"] = exchange.finish();
    result["outputs"] = exchange.outputs();
    return result;
}

JsonObject pending_message(const HttpExchange& exchange) {
    JsonObject message;
    message["session"] = exchange.chat();
    message["id"] = exchange.id();
    message["state"] = "pending";
    return message;
}

Task<> write_events(std::shared_ptr<HttpReply> reply, std::stop_token closed,
                    cubepi::ResponseStream& out) {
    for (;;) {
        std::optional<HttpReplyPart> part = reply->poll();
        if (!part) {
            if (closed.stop_requested()) co_return;
            co_await reply->wait(closed);
            continue;
        }
        using Kind = HttpReplyPart::Kind;
        const bool is_last = part->kind == Kind::done || part->kind == Kind::pending;
        std::string event;
        switch (part->kind) {
            case Kind::text: event = delta_event(part->text); break;
            case Kind::reasoning:
            case Kind::event:
            case Kind::restart: continue;
            case Kind::output: event = event_text("message", part->value); break;
            case Kind::done:
                part->value.erase("outputs");
                part->value.erase(usage_key);
                event = event_text("done", part->value);
                break;
            case Kind::pending:
                if (part->value.empty()) co_return;
                event = event_text("pending", part->value);
                break;
        }
        co_await out.write(std::move(event));
        if (is_last) co_return;
    }
}

}  // namespace detail

HttpReply::HttpReply(std::shared_ptr<detail::HttpExchange> exchange, std::stop_token draining,
                     std::stop_token stopping)
    : exchange_(std::move(exchange)),
      draining_(std::move(draining)),
      stopping_(std::move(stopping)),
      parts_(exchange_->read_parts()),
      turn_(exchange_->turns()) {}

const std::string& HttpReply::id() const noexcept { return exchange_->id(); }
const std::string& HttpReply::session() const noexcept { return exchange_->chat(); }
bool HttpReply::running() const noexcept { return exchange_->running(); }
bool HttpReply::done() const noexcept { return exchange_->done(); }
bool HttpReply::lost() const noexcept {
    return !done() && detail::ReplyEnds{{}, draining_, stopping_}.reached(*exchange_);
}

std::optional<HttpReplyPart> HttpReply::poll() {
    using Kind = HttpReplyPart::Kind;
    if (ended_) return std::nullopt;
    HttpReplyPart part;
    // A turn that is tried again has outputs of its own.
    if (const std::size_t before = std::exchange(turn_, exchange_->turns()); before != turn_) {
        outputs_ = 0;
        if (before > 0) {
            part.kind = Kind::restart;
            return part;
        }
    }
    if (std::optional<HttpReplyPart> streamed = parts_->take()) return streamed;
    if (outputs_ < exchange_->outputs().size()) {
        part.kind = Kind::output;
        part.value = exchange_->outputs().at(outputs_++).as_object();
    } else if (exchange_->done()) {
        part.kind = Kind::done;
        part.value = detail::result_of(*exchange_);
        if (!exchange_->usage().empty()) part.value[usage_key] = exchange_->usage();
        ended_ = true;
    } else if (lost()) {
        part.kind = Kind::pending;
        if (exchange_->recorded) part.value = detail::pending_message(*exchange_);
        ended_ = true;
    } else {
        return std::nullopt;
    }
    return part;
}

Task<> HttpReply::wait(std::stop_token closed) {
    const std::shared_ptr<detail::HttpExchange> exchange = exchange_;
    const std::stop_callback on_close(closed, [exchange] { exchange->wake(); });
    if (closed.stop_requested()) co_return;
    co_await exchange->wait();
}

}  // namespace bub

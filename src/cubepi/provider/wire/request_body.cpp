#include <cubepi/provider/wire/request_body.hpp>

#include <utility>

#include <cubepi/net/utf8.hpp>
#include <cubepi/provider/wire/endpoint.hpp>
#include <cubepi/provider/wire/user_hook.hpp>

namespace cubepi::detail {

namespace {

void queue_all(std::vector<Notice> notices, EventQueue& queue) {
    for (Notice& notice : notices) queue.push(MessageAssembler::notice(std::move(notice)));
}

}  // namespace

Task<std::string> build_request_body(const ModelRequest& request, const WireProtocol& protocol,
                                     const std::shared_ptr<ObservedCall>& observed,
                                     EventQueue& queue) {
    WireProtocol::Built built = protocol.build(request);
    queue_all(std::move(built.notices), queue);
    JsonObject body = std::move(built.body);
    if (request.options.on_payload()) {
        Task<std::optional<JsonObject>> hook =
            call_user_hook("on_payload", request.options.on_payload(), body, request.model,
                           headers_without_keys(protocol.http_request()));
        std::optional<JsonObject> changed = co_await std::move(hook);
        if (changed) body = std::move(*changed);
    }
    protocol.finish_body(body);
    if (observed) {
        Task<std::vector<Notice>> observing = observe_request(observed, RequestPayload(body));
        queue_all(co_await std::move(observing), queue);
    }
    std::string text = boost::json::serialize(body);
    if (!is_utf8(text)) {
        // From a tool or the caller. The server would reject this request and every later one of the conversation.
        text = replace_broken_utf8(text);
        Notice notice;
        notice.code = "request_changed";
        notice.text = "The request contained invalid UTF-8, which was replaced by U+FFFD.";
        queue.push(MessageAssembler::notice(std::move(notice)));
    }
    co_return text;
}

}  // namespace cubepi::detail

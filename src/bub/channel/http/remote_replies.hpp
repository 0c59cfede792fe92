#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>

#include <bub/channel/http/http_exchange.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub::detail {

/// Returns true if a message in this state of HttpSessions::message() has no answer yet, and needs nothing from its client.
bool is_open(std::string_view state);

/// The replies to messages that other gateways process, and their text while it is generated (D254). A gateway that has a reader asks the one
/// that runs the turn, which never waits for it.
class RemoteReplies {
public:
    /// The options must outlive the object.
    RemoteReplies(const HttpChannelOptions& options, std::shared_ptr<HttpExchanges> exchanges)
        : options_(options), exchanges_(std::move(exchanges)) {}

    /// Lets the text of the turn be retained, at the gateway that will run it, if other gateways may have readers. Called before the message is
    /// stored.
    void announce(HttpExchange& exchange, Envelope& message) const;
    /// Called for a message that the manager has taken.
    static void note(HttpExchange& exchange, const Envelope& message);

    /// Refuses the exchange of a message whose reply cannot be awaited, or ends it with the reply; otherwise continues to do so in the
    /// background, and returns.
    Task<> follow(std::shared_ptr<HttpExchange> exchange, std::stop_token draining);
    /// Answers a request of follow() of another gateway; nothing if it is another request, or about a turn that this gateway does not run.
    Task<std::optional<JsonObject>> text_for(JsonObject request) const;
    /// Ends what follow() has begun; afterwards it begins nothing.
    Task<> close();

private:
    Task<bool> read_record(std::shared_ptr<HttpExchange> exchange);
    Task<> follow_until_end(std::shared_ptr<HttpExchange> exchange, std::stop_token draining);
    Task<> read_until_end(std::shared_ptr<HttpExchange> exchange, std::stop_token draining);
    Task<bool> read_text(std::shared_ptr<HttpExchange> exchange, bool waits);

    const HttpChannelOptions& options_;
    const std::shared_ptr<HttpExchanges> exchanges_;
    std::unique_ptr<cubepi::BackgroundScope> work_;
    bool is_closed_ = false;
};

}  // namespace bub::detail

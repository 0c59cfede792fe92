#pragma once

#include <memory>
#include <stop_token>

#include <bub/channel/http/http_exchange.hpp>
#include <bub/channel/http_channel.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub::detail {

/// Why the outputs of a message are not awaited any longer.
struct ReplyEnds {
    std::stop_token closed;    ///< the client has closed the connection
    std::stop_token draining;  ///< no further turn begins
    std::stop_token stopping;  ///< the channel ends

    bool reached(const HttpExchange& exchange) const {
        return closed.stop_requested() || stopping.stop_requested() || exchange.elsewhere ||
               (draining.stop_requested() && !exchange.running());
    }
};

/// Returns the reply to a message whose turn has ended.
JsonObject result_of(const HttpExchange& exchange);

/// Returns the reply to a message whose turn has not ended.
JsonObject pending_message(const HttpExchange& exchange);

/// Writes the text as it is generated, then each output, then the result.
Task<> write_events(std::shared_ptr<HttpReply> reply, std::stop_token closed,
                    cubepi::ResponseStream& out);

}  // namespace bub::detail

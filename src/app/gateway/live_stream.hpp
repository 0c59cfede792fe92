#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <cubepi/net/http_server.hpp>

#include "live_answers.hpp"

namespace cubepi::app {

/// The reader of a stream, and its end.
struct LiveReader {
    std::stop_token ended = {};  ///< of the login
    /// Returns false if the login has expired. Asked from time to time; null: it does not.
    std::function<bool()> is_valid = {};
    std::shared_ptr<const void> counted = {};  ///< released at the end of the stream
};

/// Returns the response to GET /v1/admin/sessions/{id}/events: server-sent events with what the turn of the session produces, until the
/// client, its login or the instance of the gateway ends (D251). GET /v1/admin/events, without a session, has only the last two:
///   live     {text, thinking, truncated, calls}: all that is not stored yet; replaces what was read
///   delta    {text, thinking}: follows it
///   calls    {calls}: those in progress
///   changed  {}: the history or the state of the session is another one
///   questions, sessions  {}: that list is another one since the stream has begun (D268)
/// The id of an event is a position. A client that returns it as `Last-Event-ID`, or as the parameter `after`, continues there.
HttpServerResponse live_events(std::shared_ptr<LiveAnswers> answers,
                               const HttpServerRequest& request, Executor executor,
                               LiveReader reader);

}  // namespace cubepi::app

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/sent_file.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/net/http_server.hpp>

namespace bub {

struct HttpChannelOptions {
    /// Address, TLS and limits.
    cubepi::HttpServerOptions server = {};
    /// The token that every request must have (`Authorization: Bearer TOKEN`). Required.
    std::string token = {};
    /// Users (the member `user` of a message) who are operators: they may answer every question and use comma commands.
    std::vector<std::string> operators = {};
    /// The number of replies that are held for clients that repeat a request, and their size in bytes.
    std::size_t remembered = 1'000;
    std::size_t max_remembered_bytes = 64 << 20;
    /// Limit of the streamed text that waits for a slow client, in bytes. Beyond it, parts are omitted; the message that ends
    /// the answer is complete.
    std::size_t max_waiting_text = 1 << 20;
    /// Limit of the files that the turn of a message sends, in bytes.
    std::size_t max_reply_files = 20'000'000;
    /// The text for the client whose message is not accepted, or whose turn fails without an output of kind `error`. Null: the
    /// description of the failure, which may name models, addresses and files.
    FailureText failure_text = {};
};

/// A channel for programs: `POST /v1/messages` sends a message to a session and returns the answer of its turn, as JSON or as
/// server-sent events (docs/guides/bub/http-channel.md). Used on the manager's executor.
class HttpChannel final : public Channel,
                          public FollowsTurns,
                          public SettlesDeliveries,
                          public SendsFiles {
public:
    /// Throws Error(invalid_argument) if there is no token.
    HttpChannel(HttpChannelOptions options, MessageHandler handler);
    ~HttpChannel() override;

    const std::string& name() const noexcept override;
    /// Returns the port on which the channel listens; 0 before prepare() or start().
    std::uint16_t port() const noexcept;

    Task<> prepare() override;
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    /// Throws Error(not_found) if no request waits for messages of this session. Ignores notices about rejected messages, which the
    /// status of their responses reports.
    Task<> send(Envelope message) override;
    EventStream stream_events(const Envelope& message, EventStream stream) override;
    Task<std::optional<AdmitDecision>> admit_message(std::string session_id,
                                                     const Envelope& message,
                                                     TurnSnapshot turn) override;
    UnsettledPolicy unsettled_policy() const noexcept override { return UnsettledPolicy::hold; }
    /// A client that repeats the request of the message receives the answer of its turn.
    void restore(Envelope& message) override;
    void begin_turn(const Envelope& message) noexcept override;
    void end_turn(const Envelope& message, std::exception_ptr failure) noexcept override;
    void drop(const Envelope& message) noexcept override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace bub

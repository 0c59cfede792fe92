#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include <bub/channel.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

namespace matrix {

using bub::Json;
using bub::JsonObject;
using bub::Task;

/// A client of the Matrix client-server API, v1.11 (https://spec.matrix.org/v1.11/client-server-api/). Used on one executor.
class Homeserver {
public:
    Homeserver(std::string url, std::string token, std::shared_ptr<const cubepi::Runtime> runtime)
        : url_(std::move(url)), token_(std::move(token)), runtime_(std::move(runtime)) {}

    /// Makes one request. `path` follows "/_matrix/client/v3/". Throws Error(auth) if the server rejects the token, Error(not_found),
    /// Error(rate_limited), Error(unavailable) for what may pass, Error(invalid_argument) for other errors, and errors of the network.
    Task<JsonObject> call(std::string method, std::string path, JsonObject body = {},
                          std::chrono::seconds limit = std::chrono::seconds(10)) const;
    /// Makes the request until the server has answered it: with a transaction id in the path, it has its effect once. Throws what is
    /// no failure of the network or of the moment.
    Task<JsonObject> call_until_answered(std::string method, std::string path,
                                         JsonObject body) const;
    const cubepi::Runtime& runtime() const noexcept { return *runtime_; }

private:
    const std::string url_;
    const std::string token_;
    const std::shared_ptr<const cubepi::Runtime> runtime_;
};

/// Returns a part of a path: other characters than letters, digits, '-', '.', '_' and '~' become "%XX".
std::string path_part(const std::string& text);

struct MatrixOptions {
    std::string homeserver = {};  ///< "https://matrix.example.org"
    std::string token = {};
    std::set<std::string> users = {};  ///< ids: "@ann:example.org"
    std::set<std::string> operators =
        {};  ///< users who may also answer everything and use comma commands
    std::shared_ptr<const cubepi::Runtime> runtime = {};
    bub::WarningHandler on_warning = {};
};

/// Text messages of listed users, in chats to which one of them has invited the bot. The position in the stream
/// of events is stored with the server, after the messages before it are accepted.
class MatrixChannel final : public bub::Channel, public bub::SettlesDeliveries {
public:
    MatrixChannel(MatrixOptions options, bub::MessageHandler handler);

    const std::string& name() const noexcept override { return name_; }
    Task<> prepare() override;
    Task<> start(std::stop_token stopping) override;
    Task<> stop() override;
    Task<> send(bub::Envelope message) override;
    bub::UnsettledPolicy unsettled_policy() const noexcept override {
        return bub::UnsettledPolicy::resend;
    }

private:
    Task<> receive();
    Task<> find_position();
    Task<> store_position(std::string position);
    Task<> sync();
    Task<> join_chats(JsonObject invitations);
    /// Returns false if the events must be delivered again.
    Task<bool> accept_events(std::string chat, JsonObject timeline);
    Task<bool> accept(bub::Envelope message);
    bub::Envelope envelope_of(const std::string& chat, const JsonObject& event) const;
    bool is_listed(const std::string& user) const;
    void warn(const std::exception_ptr& failure) const;

    const std::string name_ = "matrix";
    const MatrixOptions options_;
    const bub::MessageHandler handler_;
    const Homeserver server_;
    std::string self_;  ///< the id of the bot
    std::string position_;
    std::unique_ptr<cubepi::BackgroundScope> work_;
};

}  // namespace matrix

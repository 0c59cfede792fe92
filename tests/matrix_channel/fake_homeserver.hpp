#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/net/http_server.hpp>

namespace matrix {

/// The part of a homeserver that a bot uses, on loopback: sync, chats, transactions, account data. Refuses what a homeserver refuses. It
/// has a thread of its own.
class FakeHomeserver {
public:
    static constexpr const char* token = "syt_very_secret";
    static constexpr const char* bot = "@bot:example.org";

    struct Message {
        std::string chat;
        std::string sender;
        std::string text;
    };
    /// The fate of a request: an answer, a cut connection, or an error with this status.
    enum Fault : unsigned { none = 0, cut = 1, rate_limited = 429 };
    /// Called on the server's thread for each request, before and after its effect. Their names are "identify", "position", "store", "join",
    /// "send" and "sync".
    using Watch = std::function<Fault(const std::string& request, bool is_done)>;

    FakeHomeserver();
    ~FakeHomeserver();
    FakeHomeserver(const FakeHomeserver&) = delete;
    FakeHomeserver& operator=(const FakeHomeserver&) = delete;

    std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
    void watch(Watch watch);
    /// Adds the bot to a chat.
    void add_chat(const std::string& chat);
    void invite(const std::string& chat, const std::string& sender);
    void say(const std::string& chat, const std::string& sender, const std::string& text);

    /// Returns the texts that the bot has sent to a chat.
    std::vector<std::string> answers(const std::string& chat);
    bool has_joined(const std::string& chat);
    /// Returns true if the bot has confirmed all events.
    bool is_read();
    /// Waits until the condition, which may call the functions above, is true.
    void wait_until(const std::function<bool()>& condition);

private:
    using Request = cubepi::HttpServerRequest;
    using Response = cubepi::HttpServerResponse;
    struct Event {
        std::string chat;
        cubepi::JsonObject event;
    };

    void route(const char* name, const char* method, const std::string& path,
               std::function<Response(const Request&)> reply);
    Fault observe(const std::string& request, bool is_done);
    /// Returns the events after `since`; an empty object if there are none.
    cubepi::JsonObject news(std::size_t since);
    cubepi::Task<Response> sync(Request request);
    Response send(const Request& request);
    void add(const std::string& chat, const std::string& sender, const std::string& text);
    void changed();

    boost::asio::io_context context_;
    cubepi::AsyncEvent arrived_;
    std::recursive_mutex mutex_;
    std::condition_variable_any changed_;
    Watch watch_;
    std::set<std::string> chats_;
    std::map<std::string, std::string> invitations_;  // chat: sender
    std::vector<Event> events_;
    std::vector<Message> messages_;
    std::map<std::string, std::string> transactions_;  // id: event
    std::string position_;
    cubepi::HttpServer server_;
    cubepi::HttpRoutes routes_{server_, "homeserver"};
    std::thread thread_;
};

}  // namespace matrix

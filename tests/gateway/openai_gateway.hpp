#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include <cubepi/core/run.hpp>

#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {

inline constexpr const char* with_openai =
    R"({http: {listen: "127.0.0.1:0", openai: true, operators: [olga]}})";

/// A client that sends one request and reads as much of the response as it wants.
class Client {
public:
    Client(std::uint16_t port, const std::string& line, const std::string& body,
           const std::string& headers = {})
        : socket_(io_) {
        socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
        const std::string request =
            line + " HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef\r\n" + headers +
            "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
        boost::asio::write(socket_, boost::asio::buffer(request));
    }
    void read_until(const std::string& end) {
        boost::asio::read_until(socket_, boost::asio::dynamic_buffer(buffer_), end);
    }
    /// Reads until the server closes the connection; returns the body, which must not be in chunks.
    std::string body() {
        boost::system::error_code end;
        boost::asio::read(socket_, boost::asio::dynamic_buffer(buffer_), end);
        return buffer_.substr(buffer_.find("\r\n\r\n") + 4);
    }
    void close() { socket_.close(); }
    /// Leaves as close() does, but can still read what the server does then.
    void leave() { socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send); }
    /// Returns the bytes that were read.
    const std::string& text() const { return buffer_; }

private:
    boost::asio::io_context io_;
    boost::asio::ip::tcp::socket socket_;
    std::string buffer_;
};

/// Returns the data of the server-sent events of a body; the last is not JSON in Chat Completions.
inline std::vector<JsonObject> events_of(const std::string& body) {
    std::vector<JsonObject> events;
    for (std::size_t at = body.find("data: {"); at != std::string::npos;
         at = body.find("data: {", at + 1)) {
        const std::size_t end = body.find('\n', at);
        events.push_back(boost::json::parse(body.substr(at + 6, end - at - 6)).as_object());
    }
    return events;
}

/// Returns the text of the messages of a response.
inline std::string text_of(const JsonObject& response) {
    std::string text;
    for (const Json& item : response.at("output").as_array()) {
        if (item.at("type") != Json("message")) continue;
        text += std::string_view(item.at("content").at(0).at("text").as_string());
    }
    return text;
}

/// A gateway with the interface, and its clients.
class OpenAIGateway : public ::testing::Test {
protected:
    OpenAIGateway() { home.configure(with_openai); }
    void start(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
        gateway =
            std::make_unique<GatewayProcess>(home, std::move(arguments), std::move(environment));
        port = gateway->wait_until_running();
    }
    HttpReply call(const std::string& method, const std::string& path, const JsonObject& body) {
        return run(call_channel(port, method, path,
                                body.empty() ? std::string() : boost::json::serialize(body)));
    }
    HttpReply get(const std::string& path) { return call("GET", path, JsonObject()); }
    HttpReply chat(const Json& messages, JsonObject more = {}) {
        more["model"] = "cubepi";
        more["messages"] = messages;
        return call("POST", "/v1/chat/completions", more);
    }
    HttpReply respond(const Json& input, JsonObject more = {}) {
        more["model"] = "cubepi";
        more["input"] = input;
        return call("POST", "/v1/responses", more);
    }
    std::string session_state(const std::string& session) {
        const HttpReply read = get("/v1/sessions/" + session);
        return read.status == 200 ? std::string(read.json().at("state").as_string()) : read.body;
    }

    GatewayHome home;
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t port = 0;
};

inline Json user(const std::string& text) {
    return JsonArray({JsonObject{{"role", "user"}, {"content", text}}});
}

}  // namespace cubepi::gateway_tests

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/http_client.hpp>

#include "gateway/control_server.hpp"
#include "operated_gateway.hpp"

namespace cubepi::gateway_tests {

struct Answered {
    int status = 0;
    HttpHeaders headers = {};
    std::string body = {};

    JsonObject json() const {
        boost::system::error_code failed;
        const Json value = boost::json::parse(body, failed);
        return value.is_object() ? value.get_object() : JsonObject();
    }
    std::string error() const {
        const JsonObject all = json();
        const JsonObject* const error = detail::object_member(all, "error");
        return error ? detail::text_member(*error, "message") : std::string();
    }
};

inline Task<Answered> exchange(HttpRequest request) {
    HttpClient client;
    HttpResponse response = co_await client.send(std::move(request));
    Answered answered;
    answered.status = response.status;
    answered.headers = response.headers;
    for (bool more = true; more;) more = co_await response.body->read(answered.body);
    co_return answered;
}

/// A browser with the page of the console.
struct Browser {
    std::uint16_t port = 0;
    std::string cookie = {};
    std::map<std::string, std::string> headers = {};  ///< of each request that changes something
    std::string base = "/console/";

    Answered call(const std::string& method, const std::string& path, const std::string& body = {},
                  const std::map<std::string, std::string>& more = {}) const {
        HttpRequest request(method, "http://127.0.0.1:" + std::to_string(port) + base + path);
        if (!cookie.empty()) request.headers.set("cookie", cookie);
        if (method == "POST")
            for (const auto& [name, value] : headers) request.headers.set(name, value);
        for (const auto& [name, value] : more) request.headers.set(name, value);
        request.body = body;
        return run(exchange(std::move(request)));
    }
    Answered get(const std::string& path) const { return call("GET", path); }
    Answered post(const std::string& path, const std::string& body = {}) const {
        return call("POST", path, body);
    }
    /// Opens a link.
    Answered log_in(const std::string& link) {
        const std::string secret = link.substr(link.find("#login=") + 7);
        const Answered answered = call("POST", "login", "", {{"x-console-link", secret}});
        const std::string set(answered.headers.get("set-cookie"));
        if (answered.status == 200) {
            cookie = set.substr(0, set.find(';'));
            headers["x-csrf-token"] = detail::text_member(answered.json(), "csrf");
        }
        return answered;
    }
};

/// A gateway with the web console.
class ConsoleTest : public OperatedGatewayTest {
protected:
    ConsoleTest() { configure(R"(, console: {listen: "127.0.0.1:0"})"); }

    void start(std::vector<std::string> flags, std::vector<std::string> environment = {}) {
        OperatedGatewayTest::start(std::move(flags), std::move(environment));
    }
    void start() { start(model.flags()); }
    /// Returns a link, as `cubepi gateway console` prints it.
    std::string link(bool viewer = false, const std::string& name = "olga") const {
        const JsonObject made = app::call_gateway(
            home.socket(), JsonObject{{"command", "console"}, {"viewer", viewer}, {"name", name}});
        return detail::text_member(made, "url");
    }
    std::string origin() const { return "http://127.0.0.1:" + std::to_string(ports.at("console")); }
    /// A browser that is not logged in.
    Browser stranger() const {
        Browser browser;
        browser.port = ports.at("console");
        browser.headers["origin"] = origin();
        return browser;
    }
    Browser browser_of(bool viewer, const std::string& name) const {
        Browser browser = stranger();
        EXPECT_EQ(browser.log_in(link(viewer, name)).status, 200);
        return browser;
    }
    HttpReply ask(const std::string& text) const {
        return post_later(ports.at("http"), text, "s1").get();
    }
};

}  // namespace cubepi::gateway_tests

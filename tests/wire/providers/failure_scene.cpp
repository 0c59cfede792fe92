#include "failure_scene.hpp"

#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/network_error.hpp>

namespace cubepi::wire {

using namespace std::chrono_literals;

Scene::Scene(const Cell& cell, int failures)
    : cell_(cell),
      progress_(cell),
      names_(std::make_shared<Names>(failures)),
      server_([this](Connection& connection) { serve(connection); }),
      agent_(std::make_unique<Agent>(options())) {
    if (cell.row->kind == Kind::abort) progress_.also = [this] { agent_->abort(); };
    agent_->subscribe([this](const AgentEvent& event) {
        progress_.on_event(event);
        const NoticeEvent* seen = event.get_if<NoticeEvent>();
        if (seen) notices.push_back(seen->notice);
    });
}

RunResult Scene::first() {
    // Waiting for a retry takes no time. For timeouts, the server advances the clock.
    const bool servers_time = cell_.clock() && cell_.reaches_server();
    RunResult result = servers_time || cell_.whole()
                           ? run(agent_->prompt("Add."))
                           : testing::run_advancing(*clock_, agent_->prompt("Add."));
    failures_ = 0;
    progress_.also = {};
    if (!names_->resolve.try_wait()) names_->resolve.count_down();
    return result;
}

RunResult Scene::next() { return run(agent_->prompt("Continue.")); }

std::vector<std::string> Scene::resolve(Kind kind, Names& names, const std::string& host) {
    if (kind == Kind::connect_timeout) names.resolve.wait();
    const bool fails = names.failures > 0 && names.failures-- > 0;
    if (fails && kind == Kind::no_name)
        throw NetworkError(ErrorCode::dns, host, false, "Cannot find the server " + host + ".");
    // All of 127.0.0.0/8 is this machine; the server listens on one of its addresses.
    return {fails && kind == Kind::refused ? "127.0.0.2" : "127.0.0.1"};
}

AgentOptions Scene::options() {
    HttpClientOptions http;
    http.clock = clock_;
    http.env = [](const std::string&) { return std::optional<std::string>(); };
    http.resolver = [kind = cell_.row->kind, names = names_](const std::string& name) {
        return resolve(kind, *names, name);
    };
    TableTimeouts timeouts;
    const std::string host = cell_.reaches_server() ? "127.0.0.1" : "endpoint.test";
    switch (cell_.row->kind) {
        case Kind::connect_timeout: timeouts.connect = 20s; break;
        case Kind::first_byte_timeout: timeouts.first_byte = 20s; break;
        case Kind::idle_timeout: timeouts.idle = 20s; break;
        case Kind::total_timeout: timeouts.total = 20s; break;
        default: break;
    }
    struct Args {
        int a = 0;
    };
    AgentOptions made;
    made.model =
        model_at(cell_.format, "http://" + host + ":" + std::to_string(server_.port()), timeouts);
    made.tools.push_back(tool<Args>("add", "Adds one.", [this](Args args) {
        ++tool_runs;
        return std::to_string(args.a + 1);
    }));
    made.runtime = std::make_shared<const Runtime>(
        Runtime().with_clock(clock_).with_transport(std::make_shared<HttpClient>(http)));
    made.on_response = [this](ProviderResponse, Model) -> Task<void> {
        progress_.on_head();
        co_return;
    };
    return made;
}

namespace {

const std::string stream_head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const std::string stream_end = "0\r\n\r\n";

}  // namespace

void Scene::serve(Connection& connection) {
    for (;;) {
        const std::string request = connection.read_request();
        if (request.empty()) return;
        {
            const std::lock_guard lock(mutex_);
            bodies_.push_back(request.substr(request.find("\r\n\r\n") + 4));
        }
        if (failures_ > 0) {
            --failures_;
            if (!fail(connection)) return;
        } else {
            connection.send(stream_head + chunk(whole_answer(cell_.format)) + stream_end);
        }
    }
}

void Scene::let_time_pass(Connection& connection) {
    while (!connection.closed()) {
        clock_->advance(1s);
        std::this_thread::yield();
    }
}

/// Returns false if the connection has ended.
bool Scene::fail_before_headers(Connection& connection) {
    switch (cell_.row->kind) {
        case Kind::reset: connection.reset(); return false;
        case Kind::not_http: connection.send("SSH-2.0-OpenSSH_9.2\r\n\r\n"); return false;
        case Kind::status: {
            const int status = cell_.row->status;
            const std::string body = error_body(cell_.format, status);
            connection.send("HTTP/1.1 " + std::to_string(status) +
                            " No\r\ncontent-type: application/json\r\n" +
                            (status == 429 ? "retry-after: 7\r\n" : "") +
                            "content-length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
            return true;
        }
        case Kind::first_byte_timeout:
        case Kind::total_timeout: let_time_pass(connection); return false;
        case Kind::abort:
            agent_->abort();
            connection.wait_until_closed();
            return false;
        default: return false;
    }
}

bool Scene::fail(Connection& connection) {
    if (cell_.phase == Phase::before_headers) return fail_before_headers(connection);
    if (cell_.row->kind == Kind::error_body) {
        connection.send(ok(error_body(cell_.format, 404), "content-type: application/json\r\n"));
        return true;
    }
    std::string events = events_until(cell_.format, cell_.phase);
    switch (cell_.row->kind) {
        case Kind::close: events += "data: {\"ty"; break;
        case Kind::overload_event: events += error_event(cell_.format, true); break;
        case Kind::refusal_event: events += error_event(cell_.format, false); break;
        case Kind::not_json: events += "data: {not json}\n\n"; break;
        case Kind::cut_json: events += cut_event(cell_.format); break;
        default: break;
    }
    connection.send(stream_head + (events.empty() ? "" : chunk(events)));
    switch (cell_.row->kind) {
        case Kind::reset:
            progress_.wait();
            connection.reset();
            return false;
        case Kind::close: return false;
        case Kind::idle_timeout:
        case Kind::total_timeout:
            progress_.wait();
            let_time_pass(connection);
            return false;
        case Kind::abort: connection.wait_until_closed(); return false;
        default: return connection.send(stream_end);
    }
}

}  // namespace cubepi::wire

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/network_error.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "../net/raw_server.hpp"
#include "failure_scripts.hpp"

// Every failure of a model call, at every point of its answer, over a socket, for every wire format: the error, whether the call
// was retried (D15), which content is stored (D9, D34), and that the conversation can continue (D1).

namespace cubepi::wire {
namespace {

using namespace std::chrono_literals;

// One cell of the table, played over a socket.

/// The kind of failure. `status` represents all status codes; the number is a separate member.
enum class Kind : std::uint8_t {
    no_name,     ///< before the connection
    refused,     ///< before the connection
    reset,       ///< RST
    close,       ///< FIN in the middle of a message of HTTP
    clean_end,   ///< the body ends properly, the answer does not
    not_http,    ///< before the headers
    status,      ///< before the headers
    error_body,  ///< 200, and JSON that reports a failure
    overload_event,
    refusal_event,
    not_json,
    cut_json,
    connect_timeout,  ///< the name does not resolve in time
    first_byte_timeout,
    idle_timeout,
    total_timeout,
    abort,
};

struct Row {
    Kind kind;
    const char* name;
    Phase first;
    Phase last;
    ErrorCode code;
    const char* type;
    bool retried = false;  ///< if nothing was shown
    int status = 0;
};

struct Cell {
    Format format;
    Phase phase;
    const Row* row;

    bool shown() const { return phase >= Phase::mid_text; }
    bool retried() const { return row->retried && !shown(); }
    /// The answer lacks only the marker of its end.
    bool whole() const {
        return phase == Phase::at_end && is_whole_at_end(format) && row->kind != Kind::abort;
    }
    bool reaches_server() const {
        return row->kind != Kind::no_name && row->kind != Kind::refused &&
               row->kind != Kind::connect_timeout;
    }
    const char* clock() const {
        switch (row->kind) {
            case Kind::connect_timeout: return "connect";
            case Kind::first_byte_timeout: return "first_byte";
            case Kind::idle_timeout: return "idle timeout";
            case Kind::total_timeout: return "total";
            default: return nullptr;
        }
    }
};

void PrintTo(const Cell& cell, std::ostream* out) {
    *out << name_of(cell.format) << " " << name_of(cell.phase) << " " << cell.row->name;
}

/// The progress of the client, for the server: it breaks the connection, or lets time pass, when its data has been received.
class Progress {
public:
    explicit Progress(const Cell& cell) : cell_(cell) {}

    /// The head of an answer has arrived.
    void on_head() {
        ++heads_;
        // A second attempt does not announce the message again.
        const bool again = cell_.phase == Phase::before_content && heads_ > 1;
        if (cell_.phase == Phase::after_headers || again) reach();
    }
    void on_event(const AgentEvent& event) {
        const MessageStartEvent* start = event.get_if<MessageStartEvent>();
        if (start && start->message.assistant() && cell_.phase == Phase::before_content) reach();
        const MessageUpdateEvent* update = event.get_if<MessageUpdateEvent>();
        if (update) on_update(update->stream_event.type);
    }
    /// Waits on the server's side.
    void wait() {
        if (!reached_.try_acquire_for(std::chrono::seconds(30)))
            ADD_FAILURE() << "the client never reached this point";
    }

    std::function<void()> also = {};  ///< called when the client has reached the point

private:
    void on_update(StreamEventType type) {
        if (type == StreamEventType::text_delta && cell_.phase == Phase::mid_text) reach();
        if (type == StreamEventType::toolcall_end && cell_.phase == Phase::at_end &&
            ends_calls(cell_.format))
            reach();
        if (type != StreamEventType::toolcall_delta) return;
        ++pieces_;
        const bool all = pieces_ == 2 && cell_.phase == Phase::at_end && !ends_calls(cell_.format);
        if (all || cell_.phase == Phase::mid_arguments) reach();
    }
    void reach() {
        if (also) also();
        reached_.release();
    }

    const Cell cell_;
    std::counting_semaphore<64> reached_{0};
    int heads_ = 0;
    int pieces_ = 0;
};

/// An endpoint that fails as the cell defines, a given number of times, and an agent that uses it.
class Scene {
public:
    Scene(const Cell& cell, int failures);

    /// The prompt that fails.
    RunResult first();
    /// The next prompt, which the endpoint answers.
    RunResult next();

    const MessageList& messages() const { return agent_->state().messages; }
    const std::string& agent_error() const { return agent_->state().error_message; }
    AssistantMessage last_answer() const {
        for (std::size_t i = messages().size(); i-- > 0;) {
            if (messages()[i].assistant()) return *messages()[i].assistant();
        }
        return AssistantMessage();
    }
    std::vector<std::string> bodies() const {
        const std::lock_guard lock(mutex_);
        return bodies_;
    }

    std::vector<Notice> notices;
    std::atomic<int> tool_runs{0};

private:
    /// State of the name resolution; a hanging resolver may access it after the scene has ended.
    struct Names {
        explicit Names(int count) : failures(count) {}
        std::latch resolve{1};
        std::atomic<int> failures;
    };

    AgentOptions options();
    void serve(Connection& connection);
    static std::vector<std::string> resolve(Kind kind, Names& names, const std::string& host);
    bool fail(Connection& connection);
    bool fail_before_headers(Connection& connection);
    void let_time_pass(Connection& connection);

    const Cell cell_;
    const std::shared_ptr<testing::ManualClock> clock_ = std::make_shared<testing::ManualClock>();
    Progress progress_;
    const std::shared_ptr<Names> names_;
    std::atomic<int>& failures_ = names_->failures;
    mutable std::mutex mutex_;
    std::vector<std::string> bodies_;
    RawServer server_;
    std::unique_ptr<Agent> agent_;
};

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

constexpr Phase at_once = Phase::before_headers;
constexpr const char* gone = "ProviderUnavailable";
constexpr Row rows[] = {
    {Kind::no_name, "NoName", at_once, at_once, ErrorCode::dns, gone},
    {Kind::refused, "Refused", at_once, at_once, ErrorCode::connect, gone, true},
    {Kind::reset, "Reset", at_once, Phase::at_end, ErrorCode::disconnected, gone, true},
    {Kind::close, "Close", at_once, Phase::at_end, ErrorCode::disconnected, gone, true},
    {Kind::clean_end, "CleanEnd", Phase::after_headers, Phase::at_end, ErrorCode::disconnected,
     gone, true},
    {Kind::not_http, "NotHttp", at_once, at_once, ErrorCode::protocol, gone},
    {Kind::status, "401", at_once, at_once, ErrorCode::auth, "ProviderAuthFailed", false, 401},
    {Kind::status, "400", at_once, at_once, ErrorCode::bad_request, "ProviderBadRequest", false,
     400},
    {Kind::status, "404", at_once, at_once, ErrorCode::model_not_found, "ModelNotFound", false,
     404},
    {Kind::status, "408", at_once, at_once, ErrorCode::unavailable, gone, true, 408},
    {Kind::status, "429", at_once, at_once, ErrorCode::rate_limited, "RateLimited", true, 429},
    {Kind::status, "500", at_once, at_once, ErrorCode::unavailable, gone, true, 500},
    {Kind::status, "529", at_once, at_once, ErrorCode::unavailable, gone, true, 529},
    {Kind::error_body, "ErrorBody", Phase::after_headers, Phase::after_headers,
     ErrorCode::model_not_found, "ModelNotFound"},
    {Kind::overload_event, "OverloadEvent", Phase::after_headers, Phase::at_end,
     ErrorCode::unavailable, gone, true},
    {Kind::refusal_event, "RefusalEvent", Phase::after_headers, Phase::at_end,
     ErrorCode::bad_request, "ProviderBadRequest"},
    {Kind::not_json, "NotJson", Phase::after_headers, Phase::at_end, ErrorCode::protocol, gone},
    {Kind::cut_json, "CutJson", Phase::after_headers, Phase::at_end, ErrorCode::protocol, gone},
    {Kind::connect_timeout, "ConnectTimeout", at_once, at_once, ErrorCode::timeout, gone, true},
    {Kind::first_byte_timeout, "FirstByteTimeout", at_once, at_once, ErrorCode::timeout, gone},
    {Kind::idle_timeout, "IdleTimeout", Phase::after_headers, Phase::at_end, ErrorCode::timeout,
     gone},
    {Kind::total_timeout, "TotalTimeout", at_once, Phase::at_end, ErrorCode::timeout, gone},
    {Kind::abort, "Abort", at_once, Phase::at_end, ErrorCode::cancelled, ""},
};

std::vector<Cell> all_cells() {
    std::vector<Cell> cells;
    for (const Format format : all_formats) {
        for (const Phase phase : all_phases) {
            if (phase == Phase::mid_arguments && !splits_calls(format)) continue;
            for (const Row& row : rows) {
                if (row.first <= phase && phase <= row.last)
                    cells.push_back(Cell{format, phase, &row});
            }
        }
    }
    return cells;
}

std::string cell_name(const ::testing::TestParamInfo<Cell>& info) {
    const Cell& cell = info.param;
    return std::string(name_of(cell.format)) + "_" + name_of(cell.phase) + "_" + cell.row->name;
}

/// Checks the announced retries, each with the reason in the table.
void expect_retries(const Cell& cell, const Scene& scene, std::size_t count) {
    ASSERT_EQ(scene.notices.size(), count);
    for (const Notice& notice : scene.notices) {
        EXPECT_EQ(notice.code, "retry") << notice.text;
        if (cell.row->status != 0) {
            EXPECT_EQ(notice.details.at("status_code"), Json(cell.row->status));
        }
        if (cell.row->status == 429) {
            EXPECT_EQ(notice.details.at("delay_ms"), Json(7000));
        }
    }
}

void expect_error(const Cell& cell, const RunResult& result, const AssistantMessage& answer) {
    const std::string text(std::string_view(answer.error_message));
    EXPECT_EQ(result.error().code(), cell.row->code) << text;
    EXPECT_EQ(text.find(table_key), std::string::npos) << text;
    if (cell.row->kind == Kind::abort) {
        EXPECT_EQ(result.outcome, RunOutcome::aborted);
        EXPECT_EQ(answer.stop_reason, "aborted");
        EXPECT_EQ(text, "Request was aborted");
        return;
    }
    EXPECT_EQ(result.outcome, RunOutcome::failed);
    EXPECT_EQ(answer.stop_reason, "error");
    ASSERT_TRUE(answer.error) << text;
    EXPECT_EQ(answer.error->code, cell.row->code) << text;
    // An answer of Anthropic's that ends early is stored without a type, as CubePi does.
    const bool untyped = cell.format == Format::anthropic && cell.row->kind == Kind::clean_end;
    EXPECT_EQ(answer.error->type, untyped ? "" : cell.row->type) << text;
    if (cell.row->status != 0) {
        EXPECT_EQ(answer.error->status_code, cell.row->status);
    }
    if (cell.row->status == 429) {
        EXPECT_EQ(answer.error->retry_after, 7.0);
    }
    if (cell.clock()) {
        EXPECT_NE(text.find(cell.clock()), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("after 2 retries") != std::string::npos, cell.retried()) << text;
}

/// Checks that shown content is stored; a call whose arguments were incomplete is not, if the user ended the answer.
void expect_content(const Cell& cell, const AssistantMessage& answer) {
    EXPECT_EQ(answer.text(), cell.shown() ? partial_text : "");
    const bool aborted = cell.row->kind == Kind::abort;
    const bool closed = cell.phase == Phase::at_end && ends_calls(cell.format);
    const bool begun = cell.phase >= Phase::mid_arguments;
    const std::vector<const ToolCall*> calls = answer.tool_calls();
    ASSERT_EQ(calls.size(), begun && (closed || !aborted) ? 1u : 0u);
    if (calls.empty()) return;
    EXPECT_EQ(calls[0]->name, "add");
    EXPECT_EQ(calls[0]->arguments, closed ? JsonObject({{"a", 1}}) : JsonObject());
    if (!closed) {
        EXPECT_EQ(calls[0]->extra.get().at("raw_arguments"), Json("{\"a\":"));
    }
}

void expect_continues(const Cell& cell, Scene& scene) {
    const std::size_t before = scene.bodies().size();
    const RunResult next = scene.next();
    EXPECT_TRUE(next) << scene.agent_error();
    EXPECT_EQ(next.text(), whole_text);
    EXPECT_EQ(scene.agent_error(), "");
    EXPECT_TRUE(is_legal_transcript(scene.messages()));
    const std::vector<std::string> bodies = scene.bodies();
    ASSERT_EQ(bodies.size(), before + 1);
    expect_legal_request(cell.format, bodies.back());
    EXPECT_NE(bodies.back().find("Continue."), std::string::npos);
}

class FailureTable : public ::testing::TestWithParam<Cell> {};

TEST_P(FailureTable, D15_D9_D34_D1_Failure_EndsAsDefinedAndContinues) {
    const Cell cell = GetParam();
    // A complete answer is followed by a second call, which must not fail.
    Scene scene(cell, cell.whole() ? 1 : INT_MAX);
    const RunResult result = scene.first();
    if (cell.whole()) {
        EXPECT_TRUE(result) << scene.agent_error();
        EXPECT_EQ(scene.tool_runs, 1);
        EXPECT_EQ(scene.bodies().size(), 2u);
        EXPECT_TRUE(scene.notices.empty());
    } else {
        EXPECT_EQ(scene.tool_runs, 0);
        const std::size_t attempts = cell.retried() ? 3 : 1;
        EXPECT_EQ(scene.bodies().size(), cell.reaches_server() ? attempts : 0);
        expect_retries(cell, scene, attempts - 1);
        expect_error(cell, result, scene.last_answer());
        expect_content(cell, scene.last_answer());
    }
    expect_continues(cell, scene);
}

INSTANTIATE_TEST_SUITE_P(Wire, FailureTable, ::testing::ValuesIn(all_cells()), cell_name);

class FailureOnce : public ::testing::TestWithParam<Cell> {};

TEST_P(FailureOnce, D15_Retry_ReturnsTheAnswer) {
    const Cell cell = GetParam();
    Scene scene(cell, 1);
    const RunResult result = scene.first();
    EXPECT_TRUE(result) << scene.agent_error();
    EXPECT_EQ(result.text(), whole_text);
    ASSERT_EQ(scene.messages().size(), 2u);
    EXPECT_EQ(scene.last_answer().content.size(), 1u);
    expect_retries(cell, scene, 1);
    const std::vector<std::string> bodies = scene.bodies();
    ASSERT_EQ(bodies.size(), cell.reaches_server() ? 2u : 1u);
    EXPECT_EQ(bodies.front(), bodies.back());
    expect_continues(cell, scene);
}

std::vector<Cell> retried_cells() {
    std::vector<Cell> cells = all_cells();
    // A name that is resolved nevertheless would race with the clock.
    std::erase_if(cells, [](const Cell& cell) {
        return !cell.retried() || cell.row->kind == Kind::connect_timeout;
    });
    return cells;
}

INSTANTIATE_TEST_SUITE_P(Wire, FailureOnce, ::testing::ValuesIn(retried_cells()), cell_name);

}  // namespace
}  // namespace cubepi::wire

// Streams that are always faster than their reader: the event loop must nevertheless run other handlers, so that timers, signals,
// aborts and timeouts work. Everything is counted; nothing is timed.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/message_assembler.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
#include <cubepi/provider/provider.hpp>
#include <cubepi/testing/manual_clock.hpp>

#include "attack.hpp"

namespace cubepi::attack {

namespace {

using namespace std::chrono_literals;

/// The bytes that a server sends without a pause: `first`, then `piece` repeatedly.
struct Flood {
    const char* about = "";
    std::string first = {};
    std::string piece = {};
    std::size_t pieces = 0;
    std::size_t sent = 0;  ///< bytes
    std::size_t reads = 0;
};

class FloodBody final : public HttpBody {
public:
    explicit FloodBody(std::shared_ptr<Flood> flood) : flood_(std::move(flood)) {}

    Task<bool> read(std::string& out) override { co_return read_ready(out); }
    bool read_ready(std::string& out) override {
        if (flood_->pieces == 0) return false;
        const std::string next = flood_->first.empty() ? flood_->piece : flood_->first;
        if (flood_->first.empty()) --flood_->pieces;
        flood_->first.clear();
        flood_->sent += next.size();
        ++flood_->reads;
        out += next;
        return true;
    }

private:
    std::shared_ptr<Flood> flood_;
};

class FloodTransport final : public HttpTransport {
public:
    explicit FloodTransport(std::shared_ptr<Flood> flood) : flood_(std::move(flood)) {}

    Task<HttpResponse> send(HttpRequest) override {
        HttpResponse response;
        response.status = 200;
        response.headers.set("content-type", "text/event-stream");
        response.body = std::make_unique<FloodBody>(flood_);
        co_return response;
    }

private:
    std::shared_ptr<Flood> flood_;
};

/// One protocol, with events of its own for each kind of flood.
struct Protocol {
    std::string name;
    BoundModel model;
    std::vector<Flood> floods;
};

std::string event(const std::string& data) { return "data: " + data + "\n\n"; }

/// Floods that are the same for every protocol.
std::vector<Flood> common_floods() {
    return {
        {"comments", ": begin\n", ": nothing\n"},
        {"empty lines", "\n", "\n\n\n\n"},
        {"events without data", "event: ping\n\n", "event: ping\n\n"},
        {"events without content", event("{}"), event("{}")},
        {"events of unknown types", "event: x\n" + event("{\"type\":\"x\"}"),
         "event: x\n" + event("{\"type\":\"x\"}")},
        {"one event of many lines", "data: \n", "data: \n"},
        {"one line without an end", "data: ", std::string(1000, 'x')},
        {"one JSON text without an end", "{\"x\": \"", std::string(1000, 'x')},
    };
}

RetryPolicy no_retries() {
    RetryPolicy policy;
    policy.max_retries = 0;  // one would wait on a clock that does not advance
    return policy;
}

Protocol chat() {
    const auto delta = [](const std::string& fields) {
        return event("{\"choices\":[{\"index\":0,\"delta\":{" + fields + "}}]}");
    };
    const auto call = [&](const std::string& fields) {
        return delta("\"tool_calls\":[{\"index\":0,\"function\":{" + fields + "}}]");
    };
    Protocol protocol{"chat completions",
                      OpenAIProvider({.api_key = "k", .retry = no_retries()}).model("m"),
                      common_floods()};
    const std::string begin = call("\"name\":\"read\",\"arguments\":\"{\"");
    protocol.floods.push_back({"text", delta("\"content\":\"x\""), delta("\"content\":\"x\"")});
    protocol.floods.push_back({"arguments", begin, call("\"arguments\":\" \"")});
    protocol.floods.push_back({"a name again and again", begin, call("\"name\":\"read\"")});
    protocol.floods.push_back({"a name in pieces", call("\"name\":\"a\""), call("\"name\":\"b\"")});
    protocol.floods.push_back({"empty deltas", delta(""), delta("")});
    return protocol;
}

Protocol responses() {
    const auto typed = [](const std::string& type, const std::string& fields) {
        return event("{\"type\":\"response." + type + "\"" + fields + "}");
    };
    Protocol protocol{"responses",
                      OpenAIResponsesProvider({.api_key = "k", .retry = no_retries()}).model("m"),
                      common_floods()};
    const std::string text = typed("output_text.delta", ",\"output_index\":0,\"delta\":\"x\"");
    const std::string arguments =
        typed("function_call_arguments.delta", ",\"output_index\":0,\"delta\":\" \"");
    const std::string item = typed("output_item.added", ",\"item\":{\"type\":\"web_search_call\"}");
    protocol.floods.push_back({"text", text, text});
    protocol.floods.push_back({"arguments", arguments, arguments});
    protocol.floods.push_back({"items", item, item});
    protocol.floods.push_back({"empty deltas", typed("output_text.delta", ""),
                               typed("output_text.delta", ",\"delta\":\"\"")});
    return protocol;
}

Protocol messages() {
    const auto delta = [](const std::string& fields) {
        return "event: content_block_delta\n" +
               event("{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{" + fields + "}}");
    };
    const auto start = [](const std::string& block) {
        return "event: content_block_start\n" +
               event("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{" + block +
                     "}}");
    };
    Protocol protocol{"messages",
                      AnthropicProvider({.api_key = "k", .retry = no_retries()}).model("m"),
                      common_floods()};
    const std::string text = delta("\"type\":\"text_delta\",\"text\":\"x\"");
    protocol.floods.push_back({"text", text, text});
    protocol.floods.push_back(
        {"arguments", start("\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"read\",\"input\":{}"),
         delta("\"type\":\"input_json_delta\",\"partial_json\":\" \"")});
    protocol.floods.push_back({"citations", start("\"type\":\"text\",\"text\":\"\""),
                               delta("\"type\":\"citations_delta\",\"citation\":{\"a\":1}")});
    protocol.floods.push_back({"signatures", start("\"type\":\"thinking\",\"thinking\":\"\""),
                               delta("\"type\":\"signature_delta\",\"signature\":\"x\"")});
    const std::string ping = "event: ping\n" + event("{\"type\":\"ping\"}");
    protocol.floods.push_back({"pings", ping, ping});
    return protocol;
}

std::vector<Protocol> protocols() {
    std::vector<Protocol> all;
    all.push_back(chat());
    all.push_back(responses());
    all.push_back(messages());
    return all;
}

/// The actions of another coroutine on the same loop, at each of its turns.
struct Other {
    std::size_t turns = 0;
    std::size_t act_at = 0;  ///< zero: never
    std::function<void()> act = {};
    bool over = false;
};

Task<> take_turns(std::shared_ptr<Other> other) {
    while (!other->over) {
        ++other->turns;
        if (other->act && other->turns >= other->act_at) other->act();
        co_await yield_now();
    }
}

/// Reads a stream to its end, as the agent does. Returns its last event.
Task<StreamEvent> read_concurrently(MessageStream stream, std::shared_ptr<Other> other) {
    BackgroundScope others(co_await this_executor);
    others.spawn(take_turns(other));
    StreamEvent last;
    while (!stream.finished()) {
        std::optional<StreamEvent> event = stream.ready();
        if (!event) event = co_await stream.next();
        if (event) last = std::move(*event);
    }
    other->over = true;
    co_await others.close();
    co_return last;
}

/// One call of a model whose server floods.
struct Call {
    Call(const Flood& wanted, std::size_t bytes, std::size_t piece_size)
        : flood(std::make_shared<Flood>(wanted)) {
        const std::string one = flood->piece;
        while (flood->piece.size() < piece_size) flood->piece += one;
        flood->pieces = std::max<std::size_t>(1, bytes / flood->piece.size());
    }

    StreamEvent read(const BoundModel& model) {
        auto runtime = std::make_shared<const Runtime>(
            Runtime().with_clock(clock).with_transport(std::make_shared<FloodTransport>(flood)));
        MessageList messages{user_message("x")};
        StreamOptions options =
            StreamOptions().runtime(std::move(runtime)).stop_token(stop.get_token());
        return run(read_concurrently(model.stream(std::move(messages), {}, {}, std::move(options)),
                                     other));
    }

    std::shared_ptr<Flood> flood;
    std::shared_ptr<Other> other = std::make_shared<Other>();
    std::shared_ptr<testing::ManualClock> clock = std::make_shared<testing::ManualClock>();
    std::stop_source stop;
};

std::string about(const Protocol& protocol, const Flood& flood) {
    return protocol.name + ", " + flood.about;
}

constexpr std::size_t flood_bytes = std::size_t{1} << 20U;
constexpr std::size_t large_read = 16 * 1024;

}  // namespace

TEST(StreamAttack, Floods_DoNotBlockTheEventLoop) {
    Row row("streams", "floods of bytes that are always there");
    for (const Protocol& protocol : protocols()) {
        for (const Flood& wanted : protocol.floods) {
            Call call(wanted, flood_bytes, large_read);
            (void)call.read(protocol.model);
            // The reader yields after each 256 KiB.
            row.attempt(call.other->turns + 1 >= call.flood->sent / (512 * 1024),
                        about(protocol, wanted) + ": " + std::to_string(call.other->turns));
        }
    }
}

TEST(StreamAttack, TinyReads_DoNotBlockTheEventLoop) {
    Row row("streams", "floods in very small reads");
    for (const Protocol& protocol : protocols()) {
        for (const Flood& wanted : protocol.floods) {
            Call call(wanted, flood_bytes / 16, 1);
            (void)call.read(protocol.model);
            row.attempt(call.other->turns + 1 >= call.flood->reads / 1024,
                        about(protocol, wanted) + ": " + std::to_string(call.other->turns));
        }
    }
}

TEST(StreamAttack, Abort_EndsAFlood) {
    Row row("streams", "floods during which the user stops the run");
    for (const Protocol& protocol : protocols()) {
        for (const Flood& wanted : protocol.floods) {
            Call call(wanted, 8 * flood_bytes, large_read);
            call.other->act_at = 3;
            call.other->act = [&call] { call.stop.request_stop(); };
            const StreamEvent last = call.read(protocol.model);
            const bool stopped = last.partial.get().stop_reason == stop_reason::aborted;
            // An endpoint's fault may end it earlier, as a name that never ends does.
            const bool ended = call.other->turns <= 3;
            row.attempt(stopped || ended, about(protocol, wanted));
        }
    }
}

TEST(StreamAttack, BytesWithoutContent_ReachTheIdleTimeout) {
    Row row("streams", "floods without content that hide from timeouts");
    for (const Protocol& protocol : protocols()) {
        for (const Flood& wanted : common_floods()) {
            Call call(wanted, 8 * flood_bytes, large_read);
            call.other->act_at = 1;
            call.other->act = [&call] { call.clock->advance(31s); };
            const StreamEvent last = call.read(protocol.model);
            const AssistantMessage message = last.partial.get();
            // Some end earlier, as an error of the endpoint.
            row.attempt(bool(message.error) && call.flood->pieces > 0,
                        about(protocol, wanted) + ": " + message.error_message.str());
        }
    }
}

namespace {

/// A model whose next event is always there.
class ReadySource final : public StreamSource {
public:
    explicit ReadySource(std::size_t events) : answer_(AssistantMessage()), events_(events) {}
    Task<StreamEvent> next() override { co_return *ready(); }
    std::optional<StreamEvent> ready() override {
        if (!answer_.started()) return answer_.start();
        if (events_-- == 0) return answer_.done(stop_reason::stop);
        if (!answer_.has_content()) return answer_.text_start();
        return answer_.text_delta(0, "x");
    }

private:
    MessageAssembler answer_;
    std::size_t events_;
};

/// The same without ready(), as a source that only has next().
class EagerSource final : public StreamSource {
public:
    explicit EagerSource(std::size_t events) : source_(events) {}
    Task<StreamEvent> next() override { return source_.next(); }

private:
    ReadySource source_;
};

}  // namespace

TEST(StreamAttack, ReadySources_DoNotBlockTheEventLoop) {
    Row row("streams", "sources whose next event is always there");
    constexpr std::size_t events = 20'000;
    const auto attempt = [&row](MessageStream stream, const char* what) {
        const auto other = std::make_shared<Other>();
        (void)run(read_concurrently(std::move(stream), other));
        row.attempt(other->turns >= events / 2048, what);
    };
    attempt(MessageStream(std::make_unique<ReadySource>(events)), "ready()");
    attempt(MessageStream(std::make_unique<EagerSource>(events)), "next()");
    FauxProvider faux;
    faux.set_responses({FauxStep(faux_assistant_message(std::string(events * 16, 'x')))});
    MessageList hello{user_message("x")};
    attempt(faux.model().stream(hello, {}, {}, StreamOptions()), "a script");
}

}  // namespace cubepi::attack

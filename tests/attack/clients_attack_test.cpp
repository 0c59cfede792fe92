// Clients of a gateway: requests with forged ids and histories, and what clients see of turns that send their events in any order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/net/server/http_server_test_support.hpp>

#include "attack.hpp"
#include "channels/agui.hpp"
#include "channels/openai_runs.hpp"

namespace cubepi::attack {

namespace {

using app::AguiRequest;
using app::AguiRun;
using app::AguiRunHead;
using bub::HttpReplyPart;

std::string hostile_text(std::mt19937_64& random) {
    constexpr std::string_view parts[] = {
        "tool_1", "call_1", "s1",  "/agent/",  "/call/", "../", std::string_view("\0", 1),
        "\r\n",   "data:",  "\"}", ",approve", "olga",   "é",   " "};
    std::string text;
    for (std::size_t i = random() % 4; i > 0; --i) text += parts[random() % std::size(parts)];
    if (random() % 16 == 0) text += std::string(600, 'x');
    return text;
}

Json hostile_value(std::mt19937_64& random) {
    switch (random() % 6) {
        case 0: return nullptr;
        case 1: return static_cast<std::int64_t>(random());
        case 2: return JsonArray{JsonObject(), 1, hostile_text(random)};
        case 3: return JsonObject{{"type", "text"}, {"text", hostile_text(random)}};
        default: return Json(hostile_text(random));
    }
}

JsonObject hostile_message(std::mt19937_64& random) {
    constexpr const char* roles[] = {"user", "assistant", "tool", "system", "reasoning", "root"};
    JsonObject message{{"id", hostile_text(random)}, {"role", roles[random() % std::size(roles)]}};
    for (const char* const key : {"content", "toolCallId", "toolCalls", "error", "name"})
        if (random() % 3 != 0) message[key] = hostile_value(random);
    if (random() % 2 == 0) message["content"] = "HISTORY";
    if (random() % 2 == 0) message["toolCallId"] = random() % 2 == 0 ? "tool_1" : "call_1";
    if (random() % 4 == 0) {
        JsonObject call{{"id", "tool_1"}, {"type", "function"}};
        call["function"] = JsonObject{{"name", "shell"}, {"arguments", hostile_value(random)}};
        message["toolCalls"] = JsonArray{std::move(call)};
    }
    return message;
}

/// Returns true if only what follows the last message of the agent was taken, and no result of the agent's own calls.
bool is_without_history(const AguiRequest& request, const JsonArray& messages) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < messages.size(); ++i)
        if (messages[i].at("role") == Json("assistant")) last = i + 1;
    std::size_t most = messages.size() - last;
    for (const detail::OpenAIClientMessage& message : request.client.messages)
        if (message.is_answer || message.output_of.starts_with("tool_")) return false;
    return request.client.messages.size() <= most;
}

/// Checks the rules of AG-UI for the order of events.
class Order {
public:
    /// Returns false if the event is not allowed where it is.
    bool take(const JsonObject& event) {
        const std::string type = detail::text_member(event, "type");
        if (ended_ || (type == "RUN_STARTED") == std::exchange(begun_, true)) return false;
        const auto id = [&event](const char* key) { return detail::text_member(event, key); };
        if (type.starts_with("RUN_")) {
            ended_ = type != "RUN_STARTED";
            return type != "RUN_FINISHED" || open_.empty();
        }
        if (type.starts_with("SUBAGENT_"))
            return type == "SUBAGENT_STARTED" ? begin("a" + id("subagentRunId"))
                                              : end("a" + id("subagentRunId"));
        if (type.starts_with("TOOL_CALL_")) {
            const std::string call = "c" + id("toolCallId");
            if (type == "TOOL_CALL_START") return begin(call);
            if (type == "TOOL_CALL_END") return end(call);
            return type == "TOOL_CALL_RESULT" || open_.contains(call);
        }
        const std::string message = (type.starts_with("TEXT_")         ? "t"
                                     : type.starts_with("REASONING_M") ? "m"
                                                                       : "r") +
                                    id("messageId");
        if (type.ends_with("_START")) return begin(message);
        if (type.ends_with("_END")) return end(message);
        return !type.ends_with("_CONTENT") || open_.contains(message);
    }
    bool ended() const { return ended_; }

private:
    bool begin(const std::string& id) {
        return known_.insert(id).second && open_.insert(id).second;
    }
    bool end(const std::string& id) { return open_.erase(id) == 1; }

    std::set<std::string> open_;
    std::set<std::string> known_;
    bool begun_ = false;
    bool ended_ = false;
};

HttpReplyPart any_part(std::mt19937_64& random) {
    using Kind = HttpReplyPart::Kind;
    const std::string id = "c" + std::to_string(random() % 3);
    const std::string name = random() % 2 == 0 ? "subagent" : "clock";
    HttpReplyPart part;
    AgentEvent event;
    part.kind = Kind::event;
    switch (random() % 8) {
        case 0: {
            ToolExecutionStartEvent start;
            start.tool_call_id = SharedString(id);
            start.tool_name = SharedString(random() % 3 == 0 ? "shell" : name);
            event.body = std::move(start);
            break;
        }
        case 1: {
            ToolExecutionEndEvent end;
            end.tool_call_id = SharedString(id);
            end.is_error = random() % 2 == 0;
            end.result = AgentToolResult(hostile_text(random));
            event.body = std::move(end);
            break;
        }
        case 2: {
            ToolExecutionUpdateEvent update;
            update.tool_call_id = SharedString(id);
            update.partial_result = JsonObject{{"subagent", hostile_value(random)}};
            event.body = std::move(update);
            break;
        }
        case 3:
            part.kind = Kind::output;
            part.value = {{"kind", "normal"}, {"text", hostile_text(random)}};
            return part;
        case 4: part.kind = Kind::restart; return part;
        case 5: part.kind = Kind::reasoning; break;
        default: part.kind = Kind::text; break;
    }
    part.text = part.kind == Kind::event ? "" : "x" + hostile_text(random);
    part.event = std::make_shared<const AgentEvent>(std::move(event));
    return part;
}

/// Returns a frame of a WebSocket that RFC 6455 does not allow from a client.
std::string malformed_frame(std::mt19937_64& random) {
    const auto frame = [](std::uint64_t first, std::uint64_t length, const std::string& payload) {
        // The mask is zero.
        return std::string{static_cast<char>(first), static_cast<char>(0x80U | length)} +
               std::string(4, '\0') + payload;
    };
    const std::string secret = "ECHOED";
    switch (random() % 9) {
        case 0: return std::string("\x81\x06") + secret;                     // without a mask
        case 1: return frame(0x81U | (1U + random() % 7) << 4U, 6, secret);  // reserved bits
        case 2: return frame(0x80U | (3U + random() % 5), 6, secret);        // a reserved opcode
        case 3: return frame(0x09, 6, secret);          // a control frame in parts
        case 4: return frame(0x80, 6, secret);          // continues nothing
        case 5: return frame(0x81, 3, "\xed\xa0\x80");  // not UTF-8
        case 6: return frame(0x88, 1, "x");             // half of a code
        case 7: return frame(0x88, 2, "\x03\xed");      // a code that is not sent
        default:
            // A length of 2^62 bytes.
            return std::string("\x81\xff\x40\0\0\0\0\0\0\0", 10) + std::string(4, '\0') + secret;
    }
}

Task<> echo(WebSocket* socket) {
    for (;;) {
        std::optional<std::string> text = co_await socket->read();
        if (!text) co_return;
        co_await socket->write(std::move(*text));
    }
}

}  // namespace

TEST(ClientsAttack, MalformedFrames_EndTheirConnectionOnly) {
    using http_server_tests::Wire;
    Row row("clients", "malformed frames of a WebSocket");
    std::mt19937_64 random = generator("frames");
    http_server_tests::Served served;
    served.routes().add("GET", "/socket", [](HttpServerRequest) -> Task<HttpServerResponse> {
        HttpServerResponse response;
        response.web_socket = [](WebSocket& socket) { return echo(&socket); };
        co_return response;
    });
    served.start();
    for (std::size_t i = rounds(300); i > 0; --i) {
        Wire wire(served);
        wire.send(
            "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
        const bool is_open = wire.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 ");
        const std::string frame = malformed_frame(random);
        wire.send(frame);
        // Ends when the server closes the connection.
        const bool has_echo = wire.read_all().find("ECHOED") != std::string::npos;
        Wire other(served);
        other.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        const bool is_served = other.read_all().ends_with("hello");
        row.attempt(is_open && !has_echo && is_served, frame);
    }
}

TEST(ClientsAttack, ForgedHistories_AreNotTaken) {
    Row row("clients", "requests of AG-UI with forged ids, results and histories");
    std::mt19937_64 random = generator("ag-ui requests");
    for (std::size_t i = rounds(5'000); i > 0; --i) {
        JsonObject input{{"threadId", "t"}, {"runId", "r"}};
        JsonArray messages;
        for (std::size_t n = random() % 6; n > 0; --n) messages.push_back(hostile_message(random));
        input["messages"] = messages;
        for (const char* const key : {"tools", "context", "state", "resume", "forwardedProps"})
            if (random() % 8 == 0) input[key] = hostile_value(random);
        const std::string body = boost::json::serialize(input);
        bool held = false;
        try {
            held = is_without_history(app::read_agui_request(body), messages);
        } catch (const detail::OpenAIRequestError&) {
            held = true;
        }
        row.attempt(held, body);
    }
}

TEST(ClientsAttack, D193_ForgedIds_NameNothing) {
    Row row("clients",
            "ids of responses and calls that were altered, or are those of another token");
    std::mt19937_64 random = generator("ids of responses");
    const app::OpenAIResponseNames names("the token of ann");
    const app::OpenAIResponseNames others("the token of bob");
    for (std::size_t i = rounds(5'000); i > 0; --i) {
        const std::string session = "s" + hostile_text(random);
        const std::string id = names.id_of({"m1", session, 1});
        const std::string call = names.call_id_of({session, "q1"});
        ASSERT_TRUE(names.read(id));
        ASSERT_TRUE(names.read_call(call));
        for (const std::string& text : {id, call}) {
            const std::string wrong = altered(text, random);
            row.attempt(!names.read(wrong) && !names.read_call(wrong), wrong);
            row.attempt(!others.read(text) && !others.read_call(text), text);
        }
        // One is not good in place of the other.
        row.attempt(!names.read(call) && !names.read_call(id), id);
    }
}

TEST(ClientsAttack, EventsInAnyOrder_AreAValidStream) {
    Row row("clients", "turns whose events come in any order, for AG-UI");
    std::mt19937_64 random = generator("ag-ui events");
    for (std::size_t i = rounds(3'000); i > 0; --i) {
        AguiRunHead head;
        head.thread = "t";
        head.run = "r";
        head.mark = "m";
        if (random() % 2 == 0) head.client_tools = {"clock"};
        AguiRun run(
            nullptr, [](std::string_view id) { return "call_" + std::string(id); },
            std::move(head));
        for (std::size_t n = random() % 30; n > 0; --n) run.take(any_part(random));
        HttpReplyPart last;
        last.kind = random() % 8 == 0 ? HttpReplyPart::Kind::pending : HttpReplyPart::Kind::done;
        last.value = {{"ok", random() % 4 != 0}};
        run.take(last);
        Order order;
        bool held = true;
        std::string stream;
        for (const std::string& event : run.events()) {
            stream += event;
            held = held && event.starts_with("data: {") && event.find('\n') == event.size() - 2 &&
                   order.take(boost::json::parse(event.substr(6)).as_object());
        }
        row.attempt(held && order.ended(), stream);
    }
}

}  // namespace cubepi::attack

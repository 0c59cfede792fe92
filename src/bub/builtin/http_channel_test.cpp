// The channel `http` with the manager and the builtin agent.

#include <bub/builtin/builtin_test_support.hpp>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/delivery_log.hpp>
#include <bub/channel/file_delivery_log.hpp>
#include <bub/channel/http/http_exchange.hpp>
#include <bub/channel/http_channel.hpp>
#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/turn_usage.hpp>
#include <cubepi/core/agent_event.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_client.hpp>

namespace bub {
namespace {

struct NoArgs {};

struct Reply {
    int status = 0;
    std::string body = {};

    JsonObject json() const { return Json(boost::json::parse(body)).as_object(); }
    std::string text(std::size_t output) const {
        return std::string(json().at("outputs").at(output).at("text").as_string());
    }
};

class HttpChannelTest : public test::Builtin {
public:
    HttpChannelTest() {
        extra_tools.push_back(cubepi::tool<NoArgs>("press", "Presses the button.", [this](NoArgs) {
            ++pressed;
            return "pressed";
        }));
        channel_options.token = "secret";
        channel_options.operators = {"olga"};
    }

    static Task<cubepi::ApprovalDecision> ask(const cubepi::BeforeToolCallContext&) {
        co_return cubepi::ApprovalDecision(cubepi::AskUser());
    }

    void add(std::vector<cubepi::FauxStep> steps) {
        BuiltinOptions options;
        TurnQuestions questions;
        questions.policy = ask;
        options.questions = std::move(questions);
        options.channels = [this](ProvideChannelsCall& call) {
            MessageHandler handler = call.handler;
            if (wrap_handler) handler = wrap_handler(std::move(handler));
            channel = std::make_shared<HttpChannel>(channel_options, std::move(handler));
            return std::vector<std::shared_ptr<Channel>>{channel};
        };
        add_builtin(std::move(steps), std::move(options));
    }

    void fail_admissions(std::string problem) {
        Plugin broken;
        broken.name = "broken";
        broken.admit_message = [problem](AdmitMessageCall&) -> std::optional<AdmitDecision> {
            throw std::runtime_error(problem);
        };
        framework->add(std::move(broken));
    }

    /// Runs `script` while a manager serves the channel.
    void serve(std::function<Task<>(HttpChannelTest&)> script) {
        ChannelManagerOptions options;
        options.stream_output = true;
        options.deliveries = deliveries;
        manager = std::make_unique<ChannelManager>(*framework, std::move(options));
        cubepi::run(together(*this, std::move(script)));
        manager.reset();
    }

    Task<Reply> post(std::string body, cubepi::HttpHeaders headers = {}) {
        return post_to(channel->port(), std::move(body), std::move(headers));
    }
    Task<Reply> get(std::string path, std::string authorization) {
        return send(cubepi::HttpRequest("GET", url(channel->port(), path)),
                    with("authorization", std::move(authorization)));
    }
    /// The channel and the delivery log know the last message only.
    void remember_one() {
        channel_options.remembered = 1;
        FileDeliveryLogOptions log;
        log.directory = root / "deliveries";
        log.remembered = 1;
        deliveries = std::make_shared<FileDeliveryLog>(std::move(log));
    }
    std::string url_of(const std::string& path) const { return url(channel->port(), path); }
    static cubepi::HttpHeaders with(std::string name, std::string value) {
        cubepi::HttpHeaders headers;
        headers.set(std::move(name), std::move(value));
        return headers;
    }

    HttpChannelOptions channel_options;
    std::shared_ptr<HttpChannel> channel;
    std::shared_ptr<DeliveryLog> deliveries;
    std::unique_ptr<ChannelManager> manager;
    std::function<MessageHandler(MessageHandler)> wrap_handler;
    int pressed = 0;

private:
    static Task<Reply> post_to(std::uint16_t port, std::string body, cubepi::HttpHeaders headers) {
        cubepi::HttpRequest request("POST", url(port, "/v1/messages"));
        request.body = std::move(body);
        return send(std::move(request), std::move(headers));
    }
    static std::string url(std::uint16_t port, const std::string& path) {
        return "http://127.0.0.1:" + std::to_string(port) + path;
    }
    static Task<Reply> send(cubepi::HttpRequest request, cubepi::HttpHeaders headers) {
        cubepi::HttpClient client;
        request.headers = std::move(headers);
        if (!request.headers.find("authorization"))
            request.headers.set("authorization", "Bearer secret");
        cubepi::HttpResponse response = co_await client.send(std::move(request));
        Reply reply;
        reply.status = response.status;
        for (bool more = true; more;) more = co_await response.body->read(reply.body);
        co_return reply;
    }
    static Task<> together(HttpChannelTest& test, std::function<Task<>(HttpChannelTest&)> script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        const auto server = std::make_shared<cubepi::HttpServer>(executor);
        test.channel_options.server = server;
        cubepi::TaskScope scope(executor);
        scope.spawn(test.manager->run());
        scope.spawn(act(test, std::move(script)));
        co_await scope.join();
        co_await server->stop();
    }
    static Task<> act(HttpChannelTest& test, std::function<Task<>(HttpChannelTest&)> script) {
        co_await test.manager->started();
        const cubepi::Outcome<> done = co_await cubepi::outcome_of(script(test));
        test.manager->request_stop();
        done.rethrow();
    }
};

TEST(HttpExchange, LongEvent_DoesNotRemoveOthers) {
    detail::HttpExchange exchange("key", "chat", "digest");
    exchange.detail = HttpReplyDetail::events;
    exchange.begin();
    const auto add = [&](std::string result) {
        cubepi::ToolExecutionEndEvent end;
        end.result = std::move(result);
        StreamEvent event(event_kind::agent, {});
        event.agent_event = std::make_shared<const cubepi::AgentEvent>(std::move(end));
        exchange.add_event(event, 2'000);
    };
    const std::shared_ptr<detail::HttpParts> parts = exchange.read_parts();
    add(std::string(5'000, 'x'));
    add("left out");
    EXPECT_TRUE(parts->take());
    EXPECT_FALSE(parts->take());
    add("next");
    exchange.add_event(StreamEvent::text("one"), 2'000);
    exchange.add_event(StreamEvent::text(std::string(2'000, 'x')), 2'000);
    exchange.add_event(StreamEvent::text("two"), 2'000);
    EXPECT_EQ(parts->take()->kind, HttpReplyPart::Kind::event);
    EXPECT_EQ(parts->take()->text, "one");
    // A text without its middle would be wrong.
    exchange.add_event(StreamEvent::text("three"), 2'000);
    EXPECT_FALSE(parts->take());
}

std::string text_in(detail::HttpParts& parts) {
    std::string text;
    while (std::optional<HttpReplyPart> part = parts.take()) text += part->text;
    return text;
}

TEST(HttpExchange, SeveralClients_EachReadTheWholeText) {
    detail::HttpExchange exchange("key", "chat", "digest");
    exchange.detail = HttpReplyDetail::text;
    const std::shared_ptr<detail::HttpParts> early = exchange.read_parts();
    exchange.begin();
    exchange.add_event(StreamEvent::text("one "), 10);
    EXPECT_EQ(text_in(*early), "one ");
    const std::shared_ptr<detail::HttpParts> late = exchange.read_parts();
    exchange.add_event(StreamEvent::text("two "), 10);
    EXPECT_EQ(text_in(*early), "two ");
    // The limit is that of the slow client alone.
    exchange.add_event(StreamEvent::text("three"), 10);
    EXPECT_EQ(text_in(*early), "three");
    EXPECT_EQ(text_in(*late), "one two ");
    exchange.begin();
    exchange.add_event(StreamEvent::text("next"), 10);
    EXPECT_EQ(text_in(*early), "next");
    EXPECT_EQ(text_in(*late), "next");
    const std::size_t size = exchange.size();
    exchange.end({});
    EXPECT_LT(exchange.size(), size);
    EXPECT_EQ(text_in(*exchange.read_parts()), "");
}

TEST(HttpExchange, FirstClientAfterTheEnd_ReadsTheText) {
    detail::HttpExchange exchange("key", "chat", "digest");
    exchange.detail = HttpReplyDetail::text;
    exchange.begin();
    exchange.add_event(StreamEvent::text("text"), 10);
    exchange.end({});
    EXPECT_EQ(text_in(*exchange.read_parts()), "text");
    EXPECT_EQ(text_in(*exchange.read_parts()), "");
}

TEST_F(HttpChannelTest, Message_IsAnsweredWithOutputsOfItsTurn) {
    add({"Hello, Ann."});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi", "user": "ann"})");
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.text(0), "Hello, Ann.");
        EXPECT_EQ(reply.json().at("session"), "s1");
        EXPECT_EQ(reply.json().at("ok"), true);
    });
    EXPECT_EQ(count(tape("http:s1"), entry_kind::message), 2u);
}

TEST_F(HttpChannelTest, D98_FailedAdmission_HasTheTextForSenders) {
    channel_options.failure_text = [](const std::exception_ptr&) {
        return std::string("(error 1)");
    };
    add({"unused"});
    fail_admissions("/srv/secret");
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})");
        EXPECT_EQ(reply.status, 503);
        EXPECT_NE(reply.body.find("(error 1)"), std::string::npos) << reply.body;
        EXPECT_EQ(reply.body.find("/srv/secret"), std::string::npos) << reply.body;
    });
}

TEST_F(HttpChannelTest, D87_AnswerThatIsNotComplete_IsReported) {
    add({cubepi::faux_assistant_message("", "stop"),
         cubepi::faux_assistant_message("hel", "length"),
         cubepi::faux_assistant_message("no", "SAFETY"), "whole"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::pair<const char*, const char*> ends[] = {
            {"empty", "an empty answer"},
            {"cut_off", "cut off at the output limit"},
            {"refused", "'SAFETY'"}};
        for (const auto& [finish, words] : ends) {
            const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})");
            EXPECT_EQ(reply.json().at("finish"), finish) << reply.body;
            const boost::json::array outputs = reply.json().at("outputs").as_array();
            EXPECT_EQ(outputs.size(), 2u) << reply.body;
            EXPECT_EQ(outputs.back().at("kind"), "error");
            EXPECT_NE(reply.text(1).find(words), std::string::npos) << reply.body;
        }
        const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})");
        EXPECT_FALSE(reply.json().contains("finish")) << reply.body;
        EXPECT_EQ(reply.json().at("outputs").as_array().size(), 1u) << reply.body;
    });
}

TEST_F(HttpChannelTest, UnnamedSession_IsANewOne) {
    add({"one", "two"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply first = co_await t.post(R"({"text": "a"})");
        const Reply second = co_await t.post(R"({"text": "b"})");
        EXPECT_NE(first.json().at("session"), second.json().at("session"));
    });
}

TEST_F(HttpChannelTest, StreamingRequest_GetsTheAnswerAsEvents) {
    add({"A streamed answer."});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})",
                                            with("accept", "text/event-stream"));
        EXPECT_EQ(reply.status, 200);
        EXPECT_NE(reply.body.find("event: delta\ndata: {\"text\":\"A"), std::string::npos)
            << reply.body;
        EXPECT_NE(
            reply.body.find(
                "event: message\ndata: {\"kind\":\"normal\",\"text\":\"A streamed answer.\"}"),
            std::string::npos)
            << reply.body;
        EXPECT_NE(reply.body.find("event: done\ndata: {\"session\":\"s1\""), std::string::npos)
            << reply.body;
    });
}

Task<cubepi::HttpResponse> stream_message(HttpChannelTest& t, cubepi::HttpClient& client,
                                          bool streams) {
    cubepi::HttpRequest request("POST", t.url_of("/v1/messages"));
    request.body = R"({"session": "s1", "text": "Hi"})";
    request.headers = HttpChannelTest::with("idempotency-key", "k1");
    request.headers.set("authorization", "Bearer secret");
    if (streams) request.headers.set("accept", "text/event-stream");
    co_return co_await client.send(std::move(request));
}

Task<std::string> body_of(cubepi::HttpResponse& response) {
    std::string body;
    for (bool more = true; more;) more = co_await response.body->read(body);
    co_return body;
}

TEST_F(HttpChannelTest, StreamsOfOneKey_HaveTheWholeText) {
    cubepi::AsyncEvent connected;
    add({[&connected](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        co_await connected.wait();
        co_return faux_assistant_message("A streamed answer of several pieces.");
    }});
    serve([&connected](HttpChannelTest& t) -> Task<> {
        cubepi::HttpClient client;
        cubepi::HttpResponse first = co_await stream_message(t, client, true);
        cubepi::HttpResponse second = co_await stream_message(t, client, true);
        connected.set();
        const std::string body = co_await body_of(first);
        EXPECT_NE(body.find("event: delta"), std::string::npos) << body;
        EXPECT_NE(body.find("event: done"), std::string::npos) << body;
        const std::string repeated = co_await body_of(second);
        EXPECT_EQ(repeated, body);
    });
}

TEST_F(HttpChannelTest, RequestWithoutToken_IsRefused) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        for (const char* value : {"Bearer wrong", "Bearer ", "Basic secret", "secret"}) {
            const Reply reply = co_await t.post(R"({"text": "Hi"})", with("authorization", value));
            EXPECT_EQ(reply.status, 401) << value;
            EXPECT_EQ(reply.body.find("secret"), std::string::npos);
        }
    });
    EXPECT_THROW(HttpChannel(HttpChannelOptions(), nullptr), cubepi::Error);
}

TEST_F(HttpChannelTest, InvalidRequest_SaysWhatIsWrong) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::vector<std::pair<std::string, std::string>> bad{
            {"", "the body must be a JSON object"},
            {"[]", "the body must be a JSON object"},
            {"{}", "no 'text'"},
            {R"({"text": 1})", "'text' must be a string"},
            {R"({"text": "x", "sesion": "y"})", "unknown member 'sesion'"},
            {R"({"text": "x", "context": []})", "'context' must be an object"},
            {R"({"text": "x", "session": "a\u0000b"})", "printable text"},
            {R"({"text": "x", "session": ")" + std::string(300, 's') + R"("})", "longer than 200"},
        };
        for (const auto& [body, problem] : bad) {
            const Reply reply = co_await t.post(body);
            EXPECT_EQ(reply.status, 400) << body;
            EXPECT_NE(reply.body.find(problem), std::string::npos) << reply.body;
        }
        const Reply no_key = co_await t.post(R"({"text": "x"})", with("idempotency-key", ""));
        EXPECT_EQ(no_key.status, 400) << no_key.body;
        EXPECT_NE(no_key.body.find("Idempotency-Key"), std::string::npos) << no_key.body;
    });
}

TEST_F(HttpChannelTest, B18_RepeatedRequest_GetsTheSameAnswer) {
    add({"once", "twice"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::string body = R"({"session": "s1", "text": "Hi"})";
        const Reply first = co_await t.post(body, with("idempotency-key", "k1"));
        const Reply again = co_await t.post(body, with("idempotency-key", "k1"));
        EXPECT_EQ(first.text(0), "once");
        EXPECT_EQ(again.body, first.body);
        for (const char* other :
             {R"({"session": "s2", "text": "Hi"})", R"({"\u0073ession": "s2", "text": "Hi"})",
              R"({"text": "Hi"})", R"({"session": "s1", "text": "Delete it"})",
              R"({"session": "s1", "text": "Hi", "answer_to": "q"})"}) {
            const Reply refused = co_await t.post(other, with("idempotency-key", "k1"));
            EXPECT_EQ(refused.status, 422) << other;
        }
    });
    EXPECT_EQ(count(tape("http:s1"), entry_kind::message), 2u);
}

Task<> store_and_fail(MessageHandler store, Envelope message, cubepi::AsyncEvent& begun) {
    Task<> storing = store(std::move(message));
    co_await std::move(storing);
    co_await begun.wait();
    throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "the connection was lost");
}

Task<> post_and_expect(HttpChannelTest& t, std::string text) {
    const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})",
                                        HttpChannelTest::with("idempotency-key", "k1"));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.text(0), text) << reply.body;
}

TEST_F(HttpChannelTest, StoringFailsDuringTurn_ClientsAreAnswered) {
    cubepi::AsyncEvent begun;
    cubepi::AsyncEvent repeated;
    wrap_handler = [&begun](MessageHandler store) {
        return [&begun, store](Envelope message) {
            return store_and_fail(store, std::move(message), begun);
        };
    };
    add({[&](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        begun.set();
        co_await repeated.wait();
        co_return faux_assistant_message("Hello.");
    }});
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope clients(executor);
        clients.spawn(post_and_expect(t, "Hello."));
        co_await begun.wait();
        clients.spawn(post_and_expect(t, "Hello."));
        repeated.set();
        co_await clients.join();
    });
}

TEST_F(HttpChannelTest, KeyOfAnotherMessage_IsRefused) {
    const auto post = [](HttpChannelTest& t, std::string body, std::string key,
                         unsigned status) -> Task<> {
        const std::string sent = body;
        const Reply reply = co_await t.post(std::move(body), with("idempotency-key", key));
        EXPECT_EQ(reply.status, status) << sent << "\n" << reply.body;
    };
    const auto repeat = [post](HttpChannelTest& t) -> Task<> {
        co_await post(t, R"({"session": "s1", "text": "Hi"})", "k1", 200);
        co_await post(t, R"({"text": "Hi", "session": "s1"})", "k1", 200);
        co_await post(t, R"({"session": "s1", "text": "Ho"})", "k1", 422);
        co_await post(t, R"({"session": "s2", "text": "Hi"})", "k1", 422);
        co_await post(t, R"({"s\u0065ssion": "s2", "text": "Hi"})", "k1", 422);
        co_await post(t, R"({"text": "Hi"})", "k1", 422);
        co_await post(t, R"({"text": "Hi"})", "k2", 200);
        co_await post(t, R"({"text": "Hi"})", "k2", 200);
    };
    add({"once", "twice"});
    serve(repeat);
}

TEST(HttpMessageId, D291_UserAndKey_AreDistinguished) {
    const std::string long_text(200, '0');
    std::vector<std::pair<std::string, std::string>> pairs = {{"ann", "k1"}, {"bob", "k1"}};
    for (const std::string& text :
         {std::string("a"), std::string("ab"), std::string(":"), std::string("1:a"),
          std::string("user-"), std::string("a\0b", 3), std::string("a\0", 2),
          std::string("\xC3\xA4"), long_text, long_text + "0"}) {
        for (const char* key : {"c", "bc", "b:c", "1:c", "2:bc", "0c"})
            pairs.emplace_back(text, key);
    }
    std::set<std::string> ids;
    for (const auto& [user, key] : pairs) {
        const std::string id = detail::message_id(user, key);
        EXPECT_TRUE(ids.insert(id).second) << user << " " << key;
        EXPECT_NO_THROW(detail::check_id("message", id));
        // A client without a user cannot name the message by its id as a key.
        EXPECT_TRUE(ids.insert(detail::message_id("", id)).second) << id;
    }
    for (const std::string& key : {std::string("k1"), std::string("user-17"), long_text})
        EXPECT_EQ(detail::message_id("", key), key);
    // Nor a firing of a schedule.
    EXPECT_TRUE(detail::message_id("", "schedule-a-1").starts_with("user-"));
    EXPECT_TRUE(ids.insert(detail::message_id("", "schedule-a-1")).second);
    // Nor the records that a tape derives from it.
    for (const std::string& key : {std::string("k1"), detail::message_id("ann", "k1")}) {
        for (const std::string& derived : {plugin_answer_id(key), next_message_id(key)}) {
            EXPECT_TRUE(is_derived_id(derived));
            EXPECT_FALSE(is_derived_id(detail::message_id("", derived)));
        }
    }
}

TEST_F(HttpChannelTest, D291_UsersOfOneToken_HaveTheirOwnKeys) {
    add({"for ann", "for bob", "for none", "for a", "for ab"});
    serve([](HttpChannelTest& t) -> Task<> {
        const auto body_of = [](const std::string& user, const std::string& text) {
            const std::string member = user.empty() ? "" : R"(, "user": ")" + user + "\"";
            return R"({"text": ")" + text + "\"" + member + "}";
        };
        const std::vector<std::array<std::string, 4>> messages = {
            {"ann", "ann", "k1", "for ann"},
            {"b%00b", R"(b\u0000b)", "k1", "for bob"},
            {"", "", "k1", "for none"},
            {"a", "a", "bc", "for a"},
            {"ab", "ab", "c", "for ab"}};
        for (const auto& [encoded, user, key, text] : messages) {
            const Reply first = co_await t.post(body_of(user, "Hi"), with("idempotency-key", key));
            EXPECT_EQ(first.text(0), text) << first.body;
            const std::string id(first.json().at("id").as_string());
            EXPECT_EQ(id == key, user.empty());
            const Reply again = co_await t.post(body_of(user, "Hi"), with("idempotency-key", key));
            EXPECT_EQ(again.body, first.body);
            const Reply other = co_await t.post(body_of(user, "Ho"), with("idempotency-key", key));
            EXPECT_EQ(other.status, 422) << other.body;
            for (const std::string& path :
                 {key + "?user=" + encoded, id, id + "?user=", id + "?user=" + encoded}) {
                const Reply read = co_await t.get("/v1/messages/" + path, "Bearer secret");
                EXPECT_EQ(read.text(0), text) << path << read.body;
            }
        }
        for (const auto& [path, status] :
             {std::pair("k1?user=eve", 404), std::pair("k1?user=%4", 400)}) {
            const Reply read = co_await t.get("/v1/messages/" + std::string(path), "Bearer secret");
            EXPECT_EQ(read.status, status) << path;
        }
    });
}

TEST_F(HttpChannelTest, D291_KeyWithAnswerSuffix_IsAnotherMessage) {
    add({"for none", "for ann", "for suffix", "for plain"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::string id = detail::message_id("ann", "k1");
        const std::string none = R"({"session": "s1", "text": "FORGED"})";
        const Reply first = co_await t.post(none, with("idempotency-key", id + "/answer"));
        EXPECT_EQ(first.text(0), "for none") << first.body;
        const std::string ann = R"({"session": "s1", "user": "ann", "text": "Hi"})";
        const Reply reply = co_await t.post(ann, with("idempotency-key", "k1"));
        EXPECT_EQ(reply.text(0), "for ann") << reply.body;
        const Reply suffix = co_await t.post(none, with("idempotency-key", "k1/answer"));
        EXPECT_EQ(suffix.text(0), "for suffix") << suffix.body;
        const Reply plain = co_await t.post(none, with("idempotency-key", "k1"));
        EXPECT_EQ(plain.text(0), "for plain") << plain.body;
        // The key reads the message, although it is not the id.
        const Reply read = co_await t.get("/v1/messages/k1%2Fanswer", "Bearer secret");
        EXPECT_EQ(read.body.find(std::string(suffix.json().at("id").as_string())) != read.body.npos,
                  true)
            << read.body;
    });
}

TEST_F(HttpChannelTest, D291_KeyWithPlus_IsAnotherMessage) {
    remember_one();
    add({"for ann", "for none", "never"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::string id = detail::message_id("ann", "k1");
        const std::string ann = R"({"session": "s1", "user": "ann", "text": "Hi"})";
        const Reply reply = co_await t.post(ann, with("idempotency-key", "k1"));
        EXPECT_EQ(reply.text(0), "for ann") << reply.body;
        const std::string none = R"({"session": "s1", "text": "Other"})";
        const Reply first = co_await t.post(none, with("idempotency-key", id + "+"));
        EXPECT_EQ(first.text(0), "for none") << first.body;
        const Reply again = co_await t.post(ann, with("idempotency-key", "k1"));
        EXPECT_EQ(again.text(0), "for ann") << again.body;
    });
}

TEST_F(HttpChannelTest, D291_MessageOfEarlierVersion_IsRepeatedOnce) {
    deliveries = std::make_shared<MemoryDeliveryLog>();
    add({"first", "second"});
    serve([](HttpChannelTest& t) -> Task<> {
        // As an earlier version has received it: the id is the key, with the digest of the request.
        cubepi::HttpServerRequest earlier;
        earlier.body = R"({"session": "s1", "user": "ann", "text": "Hi"})";
        earlier.headers.set("idempotency-key", "k1");
        earlier.parameters["id"] = "k1";
        const std::string body = earlier.body;
        Task<cubepi::HttpServerResponse> posting = t.channel->post_message(std::move(earlier));
        (void)co_await std::move(posting);
        const Reply again = co_await t.post(body, with("idempotency-key", "k1"));
        EXPECT_EQ(again.text(0), "first") << again.body;
        EXPECT_EQ(again.json().at("id"), "k1");
        const Reply read = co_await t.get("/v1/messages/k1?user=ann", "Bearer secret");
        EXPECT_EQ(read.text(0), "first") << read.body;
        const Reply other = co_await t.get("/v1/messages/k1?user=bob", "Bearer secret");
        EXPECT_EQ(other.status, 404) << other.body;
        const std::string bob = R"({"session": "s1", "user": "bob", "text": "Hi"})";
        const Reply second = co_await t.post(bob, with("idempotency-key", "k1"));
        EXPECT_EQ(second.text(0), "second") << second.body;
    });
}

TEST_F(HttpChannelTest, RememberedReplies_AreBoundedByBytes) {
    deliveries = std::make_shared<MemoryDeliveryLog>();
    channel_options.max_remembered_bytes = 3'000;
    const std::string long_text(1'500, 'a');
    add({long_text.c_str(), long_text.c_str()});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::vector<std::pair<std::string, unsigned>> sent = {
            {"k1", 200}, {"k1", 200}, {"k2", 200}, {"k2", 200}, {"k1", 409}};
        for (const auto& [key, status] : sent) {
            const std::string body = R"({"session": "s1", "text": ")" + key + R"("})";
            const Reply reply = co_await t.post(body, with("idempotency-key", key));
            EXPECT_EQ(reply.status, status) << key << reply.body;
        }
    });
}

TEST_F(HttpChannelTest, D262_ForgottenKeyWithOtherText_IsRefused) {
    remember_one();
    add({"once", "other"});
    serve([](HttpChannelTest& t) -> Task<> {
        const auto body_of = [](std::string_view text) {
            return R"({"session": "s1", "text": ")" + std::string(text) + R"("})";
        };
        const Reply first = co_await t.post(body_of("Hi"), with("idempotency-key", "k1"));
        const Reply second = co_await t.post(body_of("Ho"), with("idempotency-key", "k2"));
        EXPECT_EQ(second.text(0), "other");
        EXPECT_EQ(first.text(0), "once");
        const Reply changed = co_await t.post(body_of("Remove it"), with("idempotency-key", "k1"));
        EXPECT_EQ(changed.json().at("ok"), false) << changed.body;
        EXPECT_NE(changed.body.find("belongs to another"), std::string::npos) << changed.body;
        EXPECT_EQ(changed.body.find("once"), std::string::npos) << changed.body;
        const Reply same = co_await t.post(body_of("Ho"), with("idempotency-key", "k2"));
        EXPECT_EQ(same.text(0), "other") << same.body;
    });
}

TEST_F(HttpChannelTest, D262_ForgottenAnswerWithOtherContents_IsRefused) {
    remember_one();
    add({test::calling("press"), "done", "other"});
    serve([](HttpChannelTest& t) -> Task<> {
        const auto answer = [](std::string_view decision) {
            return R"({"session": "s1", "user": "olga", "answer_to": "c1", "answer": {"decision": ")" +
                   std::string(decision) + R"("}})";
        };
        (void)co_await t.post(R"({"session": "s1", "text": "Press it", "user": "ann"})");
        const Reply done = co_await t.post(answer("approve"), with("idempotency-key", "k1"));
        EXPECT_EQ(done.text(0), "done") << done.body;
        const Reply other = co_await t.post(R"({"session": "s2", "text": "Ho"})");
        EXPECT_EQ(other.text(0), "other");
        const Reply changed = co_await t.post(answer("deny"), with("idempotency-key", "k1"));
        EXPECT_EQ(changed.json().at("ok"), false) << changed.body;
        EXPECT_NE(changed.body.find("belongs to another"), std::string::npos) << changed.body;
    });
    EXPECT_EQ(pressed, 1);
}

TEST_F(HttpChannelTest, ReplyToMessage_IsReadByItsId) {
    add({"once"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply first = co_await t.post(R"({"session": "s1", "text": "Hi"})",
                                            with("idempotency-key", "a key/1"));
        const Reply read = co_await t.get("/v1/messages/a%20key%2F1", "Bearer secret");
        EXPECT_EQ(read.status, 200);
        JsonObject expected = first.json();
        expected["state"] = "answered";
        EXPECT_EQ(read.json(), expected);
        const Reply unknown = co_await t.get("/v1/messages/k2", "Bearer secret");
        EXPECT_EQ(unknown.status, 404);
        const Reply stranger = co_await t.get("/v1/messages/a%20key%2F1", "Bearer wrong");
        EXPECT_EQ(stranger.status, 401);
    });
}

TEST_F(HttpChannelTest, B18_MessageAnsweredByEarlierProcess_IsNotReprocessed) {
    deliveries = std::make_shared<MemoryDeliveryLog>();
    add({"once", "twice"});
    const auto send = [](HttpChannelTest& t, int status) -> Task<> {
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_EQ(reply.status, status) << reply.body;
    };
    serve([&](HttpChannelTest& t) { return send(t, 200); });
    make_framework(FrameworkOptions());
    add({"twice"});
    serve([&](HttpChannelTest& t) { return send(t, 409); });
    EXPECT_EQ(count(tape("http:s1"), entry_kind::message), 2u);
}

TEST_F(HttpChannelTest, B18_RequestRepeatedAfterRestart_GetsTheAnswer) {
    auto log = std::make_shared<MemoryDeliveryLog>();
    Envelope message = Envelope("Hi").on("http", "s1");
    message.inbound_id = "k1";
    message.is_active = true;
    (void)cubepi::run(log->receive(std::move(message)));
    deliveries = log;
    add({"after the restart"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.text(0), "after the restart");
    });
    EXPECT_TRUE(cubepi::run(log->unfinished()).empty());
}

TEST_F(HttpChannelTest, B25_Operator_IsTheOnlyApproverOfCalls) {
    add({test::calling("press"), "done"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply asked =
            co_await t.post(R"({"session": "s1", "text": "Press it", "user": "ann"})");
        EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        EXPECT_EQ(asked.json().at("outputs").at(0).at("question").at("question_id"), "c1");
        const Reply refused = co_await t.post(
            R"({"session": "s1", "user": "ann", "answer_to": "c1", "answer": {"decision": "approve"}})");
        EXPECT_NE(refused.text(0).find("You may not answer"), std::string::npos) << refused.body;
        EXPECT_EQ(t.pressed, 0);
        const Reply done = co_await t.post(
            R"({"session": "s1", "user": "olga", "answer_to": "c1", "answer": {"decision": "approve"}})");
        EXPECT_EQ(done.text(0), "done") << done.body;
        EXPECT_EQ(t.pressed, 1);
    });
}

cubepi::HttpServerRequest model_request(std::string body) {
    cubepi::HttpServerRequest request;
    request.method = "POST";
    request.body = std::move(body);
    return request;
}

TEST_F(HttpChannelTest, B11_TextOfAModel_IsNeverACommand) {
    std::vector<cubepi::FauxStep> steps;
    for (int turn = 0; turn < 5; ++turn) steps.emplace_back("read");
    add(std::move(steps));
    serve([](HttpChannelTest& t) -> Task<> {
        const std::vector<std::string> texts = {",touch made", " ,help", "/stop", ",stop", "/todo"};
        for (const std::string& text : texts) {
            const JsonObject body{{"session", "s1"}, {"user", "olga"}, {"text", text}};
            Task<cubepi::HttpServerResponse> posting =
                t.channel->post_message(model_request(boost::json::serialize(body)));
            const cubepi::HttpServerResponse posted = co_await std::move(posting);
            EXPECT_NE(posted.body.find("\"text\":\"read\""), std::string::npos)
                << text << posted.body;
        }
    });
    EXPECT_FALSE(std::filesystem::exists(root / "work" / "made"));
}

TEST_F(HttpChannelTest, B25_TextOfAModel_ApprovesNoCall) {
    add({test::calling("press"), "done"});
    serve([](HttpChannelTest& t) -> Task<> {
        const auto post = [&t](JsonObject body) {
            body["session"] = "s1";
            body["user"] = "olga";
            return t.channel->post_message(model_request(boost::json::serialize(body)));
        };
        Task<cubepi::HttpServerResponse> posting = post({{"text", "Press it"}});
        const cubepi::HttpServerResponse asked = co_await std::move(posting);
        EXPECT_NE(asked.body.find("\"question\""), std::string::npos) << asked.body;
        const std::vector<std::string> texts = {",approve c1", " ,approve", "/approve c1"};
        for (const std::string& text : texts) {
            posting = post({{"text", text}});
            const cubepi::HttpServerResponse refused = co_await std::move(posting);
            EXPECT_NE(refused.body.find("waits for an answer"), std::string::npos) << refused.body;
        }
        posting = post({{"answer_to", "c1"}, {"answer", {{"decision", "approve"}}}});
        const cubepi::HttpServerResponse refused = co_await std::move(posting);
        EXPECT_EQ(refused.status, 400u) << refused.body;
        EXPECT_EQ(t.pressed, 0);
    });
}

TEST_F(HttpChannelTest, Question_HasDecimalNumbers) {
    JsonObject arguments;
    arguments["degrees"] = 21.5;
    add({test::calling("press", std::move(arguments)), "done"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply asked =
            co_await t.post(R"({"session": "s1", "text": "Press it", "user": "ann"})");
        EXPECT_NE(asked.body.find("\"degrees\":21.5"), std::string::npos) << asked.body;
        EXPECT_EQ(asked.body.find("2.15E1"), std::string::npos) << asked.body;
    });
}

TEST_F(HttpChannelTest, D83_RepeatedAnswer_AnswersItsOwnQuestionOnly) {
    add({test::calling("press"), test::calling("press"), "done"});
    serve([](HttpChannelTest& t) -> Task<> {
        const auto name_in = [](const Reply& asked) {
            const Json reply = asked.json();
            const Json& question = reply.at("outputs").at(0).at("question");
            return std::string(question.at("request_id").as_string());
        };
        const auto approval = [](const std::string& name) {
            return R"({"session": "s1", "user": "olga", "answer_to": ")" + name +
                   R"(", "answer": {"decision": "approve"}})";
        };
        const Reply first = co_await t.post(R"({"session": "s1", "text": "Press it twice"})");
        const Reply second = co_await t.post(approval(name_in(first)));
        EXPECT_EQ(t.pressed, 1);
        for (const std::string& stale : {name_in(first), std::string("c1")}) {
            const Reply refused = co_await t.post(approval(stale));
            EXPECT_EQ(t.pressed, 1) << refused.body;
        }
        const Reply done = co_await t.post(approval(name_in(second)));
        EXPECT_EQ(done.text(0), "done") << done.body;
        EXPECT_EQ(t.pressed, 2);
    });
}

TEST_F(HttpChannelTest, IdentitiesInContext_AreIgnored) {
    add({test::calling("press"), "done"});
    serve([](HttpChannelTest& t) -> Task<> {
        (void)co_await t.post(R"({"session": "s1", "text": "Press it"})");
        const Reply refused = co_await t.post(
            R"({"session": "s1", "text": ",approve c1", "context": {"sender_id": "olga"}})");
        EXPECT_EQ(refused.json().at("outputs").at(0).at("text").as_string().find("done"),
                  boost::json::string::npos)
            << refused.body;
        EXPECT_EQ(t.pressed, 0);
    });
}

Envelope approval_of(const std::string& session) {
    Envelope message = Envelope(",approve c1").on("http", session);
    message.session_id = "http:" + session;
    message.from_operator = true;
    message.is_active = true;
    return message;
}

TEST_F(HttpChannelTest, B24_OperatorMessages_KeepOutputsOfSessionsApart) {
    add({test::calling("press"), test::calling("press"), "one", "two", "for the client"});
    std::vector<std::string> errors;
    Plugin observer;
    observer.name = "observer";
    observer.on_error = [&errors](OnErrorCall& call) { errors.emplace_back(call.stage); };
    framework->add(std::move(observer));
    serve([](HttpChannelTest& t) -> Task<> {
        for (const char* session : {"s1", "s2"}) {
            const Reply asked = co_await t.post(R"({"session": ")" + std::string(session) +
                                                R"(", "text": "Press it"})");
            EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        }
        for (const char* session : {"s1", "s2"}) co_await t.manager->receive(approval_of(session));
        co_await t.manager->idle();
        EXPECT_EQ(t.pressed, 2);
        const Reply reply = co_await t.post(R"({"session": "s2", "text": "Hi"})");
        EXPECT_EQ(reply.json().at("outputs").as_array().size(), 1u) << reply.body;
        EXPECT_EQ(reply.text(0), "for the client");
    });
    EXPECT_EQ(errors, std::vector<std::string>());
}

Envelope message_of(const std::string& key) {
    Envelope message = Envelope("Hi").on("http", "s1");
    message.inbound_id = key;
    return message;
}

TEST_F(HttpChannelTest, RejectionNotice_StaysOutOfOtherAnswers) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Envelope message = message_of("k1");
        t.channel->begin_turn(message);
        Envelope notice = Envelope("Too many messages").on("http", "s1");
        notice.context["rejected"] = true;
        co_await t.channel->send(std::move(notice));
        t.channel->end_turn(message, nullptr);
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_TRUE(reply.json().at("outputs").as_array().empty()) << reply.body;
    });
}

TEST_F(HttpChannelTest, DroppedMessage_IsAnswered) {
    add({"never"});
    Plugin dropping;
    dropping.name = "dropping";
    dropping.admit_message = [](AdmitMessageCall&) -> Task<std::optional<AdmitDecision>> {
        AdmitDecision decision;
        decision.action = AdmitAction::drop;
        co_return std::optional<AdmitDecision>(decision);
    };
    framework->add(std::move(dropping));
    serve([](HttpChannelTest& t) -> Task<> {
        Envelope message = message_of("k1");
        t.channel->restore(message);
        co_await t.manager->receive(std::move(message));
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.json().at("ok"), false) << reply.body;
    });
}

Task<> post_as(HttpChannelTest& t, std::string user, std::string text, Reply* reply) {
    std::string body = R"({"session": "s1", "user": ")" + user + R"(", "text": ")" + text + "\"}";
    *reply = co_await t.post(std::move(body), HttpChannelTest::with("idempotency-key", user));
}

cubepi::FauxStep answering_after(cubepi::AsyncEvent& begun, cubepi::AsyncEvent& over,
                                 std::string text) {
    return [&begun, &over, text](const cubepi::ModelRequest&) -> Task<cubepi::AssistantMessage> {
        begun.set();
        co_await over.wait();
        co_return faux_assistant_message(text);
    };
}

Plugin session_of_each_sender() {
    Plugin dividing;
    dividing.name = "dividing";
    dividing.resolve_session = [](ResolveSessionCall& call) -> std::optional<std::string> {
        return "http:s1:" + sender_of(call.message);
    };
    return dividing;
}

TEST_F(HttpChannelTest, D292_FinishedMessage_IsFoundInSessionOfSender) {
    deliveries = std::make_shared<MemoryDeliveryLog>();
    add({"for ann"});
    framework->add(session_of_each_sender());
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply = co_await t.post(R"({"session": "s1", "user": "ann", "text": "Hi"})");
        const std::string id(reply.json().at("id").as_string());
        // A client gets its answer before the record of its message is finished.
        std::optional<FoundMessage> found;
        while (!found || found->progress != MessageProgress::finished) {
            co_await cubepi::yield_now();
            found = co_await t.manager->find_message("http", id);
        }
        EXPECT_EQ(found->session_id, "http:s1:ann");
    });
}

TEST_F(HttpChannelTest, D288_SessionsOfOneChat_AnswerTheirOwnClients) {
    cubepi::AsyncEvent ann_begun, bob_begun, ann_over, bob_over;
    add({answering_after(ann_begun, ann_over, "for ann"),
         answering_after(bob_begun, bob_over, "for bob")});
    framework->add(session_of_each_sender());
    Reply ann;
    Reply bob;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope first(executor);
        cubepi::TaskScope second(executor);
        first.spawn(post_as(t, "ann", "Hi", &ann));
        co_await ann_begun.wait();
        second.spawn(post_as(t, "bob", "Hi", &bob));
        co_await bob_begun.wait();
        ann_over.set();
        co_await first.join();
        bob_over.set();
        co_await second.join();
    });
    for (const auto& [reply, text] : {std::pair(ann, "for ann"), std::pair(bob, "for bob")}) {
        ASSERT_EQ(reply.json().at("outputs").as_array().size(), 1u) << reply.body;
        EXPECT_EQ(reply.text(0), text);
    }
}

TEST_F(HttpChannelTest, D294_MessagesDecidedByAHook_AreAnswered) {
    cubepi::AsyncEvent begun, over;
    add({answering_after(begun, over, "first"), "second", "for dora"});
    Plugin deciding;
    deciding.name = "deciding";
    deciding.admit_message = [](AdmitMessageCall& call) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        const std::string sender = sender_of(call.message);
        if (sender == "bob") decision.action = AdmitAction::steer;
        if (sender == "carl") decision.action = AdmitAction::drop;
        return decision;
    };
    framework->add(std::move(deciding));
    Reply ann, bob, carl, dora;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(post_as(t, "ann", "Hi", &ann));
        co_await begun.wait();
        scope.spawn(post_as(t, "bob", "Hi", &bob));
        while (t.manager->snapshot("http:s1").steering_count == 0) co_await cubepi::yield_now();
        co_await post_as(t, "carl", "Hi", &carl);
        scope.spawn(post_as(t, "dora", "Hi", &dora));
        while (t.manager->snapshot("http:s1").pending_count == 0) co_await cubepi::yield_now();
        over.set();
        co_await scope.join();
    });
    EXPECT_EQ(ann.status, 200) << ann.body;
    EXPECT_NE(ann.body.find("second"), std::string::npos) << ann.body;
    EXPECT_EQ(bob.status, 200) << bob.body;
    EXPECT_EQ(bob.json().at("id"), Json(detail::message_id("bob", "bob"))) << bob.body;
    EXPECT_EQ(bob.json().at("outputs"), ann.json().at("outputs")) << bob.body;
    EXPECT_EQ(carl.json().at("ok"), false) << carl.body;
    EXPECT_EQ(dora.text(0), "for dora") << dora.body;
}

TEST_F(HttpChannelTest, D294_MessageThatSteered_IsAnsweredAfterQuit) {
    cubepi::AsyncEvent begun, over, begun2, over2;
    add({answering_after(begun, over, "first"), answering_after(begun2, over2, "second")});
    Plugin deciding;
    deciding.name = "deciding";
    deciding.admit_message = [](AdmitMessageCall& call) -> std::optional<AdmitDecision> {
        std::optional<AdmitDecision> decision;
        if (sender_of(call.message) == "bob") {
            decision.emplace();
            decision->action = AdmitAction::steer;
        }
        return decision;
    };
    framework->add(std::move(deciding));
    Reply ann, bob, olga;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(post_as(t, "ann", "Hi", &ann));
        co_await begun.wait();
        scope.spawn(post_as(t, "bob", "Hi", &bob));
        while (t.manager->snapshot("http:s1").steering_count == 0) co_await cubepi::yield_now();
        over.set();
        co_await begun2.wait();
        scope.spawn(post_as(t, "olga", ",quit", &olga));
        co_await scope.join();
    });
    EXPECT_EQ(bob.status, 200) << bob.body;
    EXPECT_EQ(bob.json().at("ok"), false) << bob.body;
}

TEST_F(HttpChannelTest, D294_MessageThatSteeredForgottenTurn_HasAnError) {
    channel_options.max_remembered_bytes = 10;
    cubepi::AsyncEvent begun, over;
    add({answering_after(begun, over, "first"), "second"});
    Plugin deciding;
    deciding.name = "deciding";
    deciding.admit_message = [](AdmitMessageCall& call) -> std::optional<AdmitDecision> {
        AdmitDecision decision;
        if (sender_of(call.message) == "bob") decision.action = AdmitAction::steer;
        return decision;
    };
    framework->add(std::move(deciding));
    Reply ann, bob;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(post_as(t, "ann", "Hi", &ann));
        co_await begun.wait();
        scope.spawn(post_as(t, "bob", "Hi", &bob));
        while (t.manager->snapshot("http:s1").steering_count == 0) co_await cubepi::yield_now();
        over.set();
        co_await scope.join();
    });
    EXPECT_EQ(bob.json().at("ok"), false) << bob.body;
    EXPECT_NE(bob.body.find("together with one"), std::string::npos) << bob.body;
}

TEST_F(HttpChannelTest, D288_RejectedMessage_StaysOutOfOtherAnswers) {
    cubepi::AsyncEvent begun, over;
    add({answering_after(begun, over, "for ann")});
    Plugin refusing;
    refusing.name = "refusing";
    refusing.admit_message = [](AdmitMessageCall& call) -> std::optional<AdmitDecision> {
        if (sender_of(call.message) == "bob") throw std::runtime_error("for bob");
        return std::nullopt;
    };
    framework->add(std::move(refusing));
    Reply ann;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(post_as(t, "ann", "Hi", &ann));
        co_await begun.wait();
        Reply bob;
        co_await post_as(t, "bob", "Hi", &bob);
        EXPECT_EQ(bob.status, 503) << bob.body;
        over.set();
        co_await scope.join();
    });
    EXPECT_EQ(ann.json().at("outputs").as_array().size(), 1u) << ann.body;
}

TEST_F(HttpChannelTest, D288_ReleasedAnswer_StaysOutOfOtherAnswers) {
    auto log = std::make_shared<MemoryDeliveryLog>();
    const std::string id = *cubepi::run(log->receive(message_of("k1")));
    const std::string answer =
        cubepi::run(log->intend(Envelope("for another").on("http", "s1"), {id}));
    deliveries = log;
    cubepi::AsyncEvent begun, over;
    add({answering_after(begun, over, "for ann")});
    Reply ann;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(post_as(t, "ann", "Hi", &ann));
        co_await begun.wait();
        const cubepi::Outcome<> released =
            co_await cubepi::outcome_of(t.manager->release_held(answer));
        EXPECT_TRUE(released.failure());
        over.set();
        co_await scope.join();
    });
    EXPECT_EQ(ann.json().at("outputs").as_array().size(), 1u) << ann.body;
}

TEST_F(HttpChannelTest, B8_RedeliveredMessageIsRejected_ClientIsAnswered) {
    auto log = std::make_shared<MemoryDeliveryLog>();
    (void)cubepi::run(log->receive(message_of("k1")));
    deliveries = log;
    add({"never"});
    fail_admissions("no space");
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.json().at("ok"), false) << reply.body;
    });
}

Task<> send_to_session(HttpChannelTest& t, std::string text) {
    Envelope output = Envelope(std::move(text)).on("http", "s1");
    co_await t.channel->send(std::move(output));
}

TEST_F(HttpChannelTest, PostponedTurn_StreamsTheOutputsOfTheNext) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        const Envelope message = message_of("k1");
        t.channel->begin_turn(message);
        co_await send_to_session(t, "first");
        cubepi::HttpRequest request("POST", t.url_of("/v1/messages"));
        request.body = R"({"session": "s1", "text": "Hi"})";
        request.headers = with("idempotency-key", "k1");
        request.headers.set("authorization", "Bearer secret");
        request.headers.set("accept", "text/event-stream");
        cubepi::HttpClient client;
        cubepi::HttpResponse response = co_await client.send(std::move(request));
        std::string body;
        bool more = true;
        while (more && body.find("first") == std::string::npos)
            more = co_await response.body->read(body);
        t.channel->postpone_turn(message);
        t.channel->begin_turn(message);
        co_await send_to_session(t, "second");
        t.channel->end_turn(message, nullptr);
        while (more) more = co_await response.body->read(body);
        EXPECT_NE(body.find("second"), std::string::npos) << body;
    });
}

TEST_F(HttpChannelTest, D90_ReleasedMessage_IsPendingUntilItsNextTurn) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        Envelope message = message_of("k1");
        message.receipts.emplace_back("1");
        t.channel->begin_turn(message);
        co_await send_to_session(t, "it is held");
        t.channel->end_turn(message, nullptr);
        t.channel->restore(message);
        t.channel->drain();
        const Reply reply =
            co_await t.post(R"({"session": "s1", "text": "Hi"})", with("idempotency-key", "k1"));
        EXPECT_EQ(reply.status, 202) << reply.body;
    });
}

TEST_F(HttpChannelTest, D97_Drain_EndsRequestsBeforeTheirTurns) {
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        Envelope message = message_of("k1");
        message.receipts.emplace_back("1");
        t.channel->restore(message);
        t.channel->drain();
        cubepi::HttpHeaders headers = with("idempotency-key", "k1");
        const Reply accepted = co_await t.post(R"({"session": "s1", "text": "Hi"})", headers);
        EXPECT_EQ(accepted.status, 202) << accepted.body;
        EXPECT_EQ(accepted.json().at("id"), "k1");
        headers.set("accept", "text/event-stream");
        const Reply streamed = co_await t.post(R"({"session": "s1", "text": "Hi"})", headers);
        EXPECT_EQ(streamed.body,
                  "event: pending\ndata: {\"session\":\"s1\",\"id\":\"k1\",\"state\":"
                  "\"pending\"}\n\n");
    });
}

Task<> post_refused(HttpChannelTest& t, int& refused, bool streams) {
    cubepi::HttpHeaders headers = HttpChannelTest::with("idempotency-key", "k1");
    if (streams) headers.set("accept", "text/event-stream");
    const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})", std::move(headers));
    if (reply.status == 503 && reply.body.find("no space") != std::string::npos) ++refused;
}

TEST_F(HttpChannelTest, RepetitionOfRefusedRequest_IsRefused) {
    add({"never"});
    cubepi::AsyncEvent decide;
    cubepi::AsyncEvent asked;
    Plugin refusing;
    refusing.name = "refusing";
    refusing.admit_message = [&](AdmitMessageCall&) -> Task<std::optional<AdmitDecision>> {
        asked.set();
        co_await decide.wait();
        throw cubepi::Error(cubepi::ErrorCode::io, "no space");
    };
    framework->add(std::move(refusing));
    int refused = 0;
    serve([&](HttpChannelTest& t) -> Task<> {
        cubepi::TaskScope scope(co_await cubepi::this_executor);
        scope.spawn(post_refused(t, refused, false));
        co_await asked.wait();
        for (const bool streams : {false, true}) scope.spawn(post_refused(t, refused, streams));
        for (int i = 0; i < 1'000; ++i) co_await cubepi::yield_now();
        decide.set();
        co_await scope.join();
    });
    EXPECT_EQ(refused, 3);
}

Task<> post_closed(HttpChannelTest& t, std::stop_token closed, unsigned& status) {
    cubepi::HttpServerRequest request;
    request.body = R"({"session": "s1", "text": "Hi"})";
    request.headers.set("idempotency-key", "k1");
    request.closed = std::move(closed);
    Task<cubepi::HttpServerResponse> posting = t.channel->post_message(std::move(request));
    const cubepi::HttpServerResponse response = co_await std::move(posting);
    status = response.status;
}

TEST_F(HttpChannelTest, RepetitionOfUndecidedRequest_EndsWithItsClient) {
    add({"never"});
    cubepi::AsyncEvent decide;
    cubepi::AsyncEvent asked;
    Plugin slow;
    slow.name = "slow";
    slow.admit_message = [&](AdmitMessageCall&) -> Task<std::optional<AdmitDecision>> {
        asked.set();
        co_await decide.wait();
        throw cubepi::Error(cubepi::ErrorCode::io, "no space");
    };
    framework->add(std::move(slow));
    int refused = 0;
    unsigned status = 0;
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope first(executor);
        cubepi::TaskScope others(executor);
        first.spawn(post_refused(t, refused, false));
        co_await asked.wait();
        std::stop_source closing;
        others.spawn(post_closed(t, closing.get_token(), status));
        for (int i = 0; i < 1'000; ++i) co_await cubepi::yield_now();
        EXPECT_EQ(status, 0u);
        closing.request_stop();
        co_await others.join();
        EXPECT_NE(status, 0u);
        // So does one that this gateway does not wait for.
        cubepi::TaskScope draining(executor);
        status = 0;
        draining.spawn(post_closed(t, {}, status));
        for (int i = 0; i < 1'000; ++i) co_await cubepi::yield_now();
        EXPECT_EQ(status, 0u);
        t.channel->drain();
        co_await draining.join();
        EXPECT_EQ(status, 503u);
        decide.set();
        co_await first.join();
    });
    EXPECT_EQ(refused, 1);
}

class FailingRecords final : public HttpSessions {
public:
    Task<std::optional<JsonObject>> message(std::string) override {
        throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "the connection was lost");
    }
    Task<std::optional<JsonObject>> session(std::string, std::size_t, std::int64_t) override {
        return message({});
    }
    Task<StopOutcome> stop(Envelope) override { co_return StopOutcome::idle; }
};

Task<> store_for_another_gateway(Envelope) { co_return; }

TEST_F(HttpChannelTest, B18_UnreadRecordOfStoredMessage_ReturnsItsId) {
    channel_options.sessions = std::make_shared<FailingRecords>();
    wrap_handler = [](const MessageHandler&) { return store_for_another_gateway; };
    add({"never"});
    serve([](HttpChannelTest& t) -> Task<> {
        const std::string body = R"({"session": "s1", "text": "Hi"})";
        const Reply stored = co_await t.post(body);
        EXPECT_EQ(stored.status, 202) << stored.body;
        const Reply unknown = co_await t.post(body, with("idempotency-key", "k1"));
        EXPECT_EQ(unknown.status, 503) << unknown.body;
        // Another interface has an id for each message, and a digest if its client has named a key.
        for (const bool has_key : {false, true}) {
            cubepi::HttpServerRequest request;
            request.body = body;
            request.parameters["id"] = has_key ? "with-key" : "without-key";
            JsonObject more;
            if (has_key) more[request_digest_key] = "digest";
            Task<HttpSubmission> submitting = t.channel->submit_message(
                std::move(request), HttpReplyDetail::text, std::move(more));
            const HttpSubmission submitted = co_await std::move(submitting);
            EXPECT_EQ(submitted.reply == nullptr, has_key);
            if (!submitted.reply) continue;
            const std::optional<HttpReplyPart> part = submitted.reply->poll();
            EXPECT_EQ(part.value().kind, HttpReplyPart::Kind::pending);
            EXPECT_EQ(part->value.at("id"), "without-key");
        }
    });
}

/// The records of a message that another gateway finds late.
class LateRecords final : public HttpSessions {
public:
    Task<std::optional<JsonObject>> message(std::string) override {
        JsonObject record{{"session", "s1"}, {"state", stops < attempts ? "pending" : "failed"}};
        co_return record;
    }
    Task<std::optional<JsonObject>> session(std::string, std::size_t, std::int64_t) override {
        co_return std::nullopt;
    }
    Task<StopOutcome> stop(Envelope by) override {
        EXPECT_EQ(by.rest.at(only_message_key), "m1");
        EXPECT_EQ(sender_of(by), "ann") << "a hook may choose the session by it";
        if (++stops == 1)
            throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "the connection was lost");
        co_return stops < attempts ? StopOutcome::idle : StopOutcome::stopped;
    }

    static constexpr int attempts = 3;
    int stops = 0;
};

Task<bool> note_question(int* asked) {
    ++*asked;
    co_return true;
}

TEST_F(HttpChannelTest, D215_MessageFoundLate_IsStoppedWhenFound) {
    const auto records = std::make_shared<LateRecords>();
    channel_options.sessions = records;
    wrap_handler = [](const MessageHandler&) { return store_for_another_gateway; };
    add({"never"});
    serve([&](HttpChannelTest& t) -> Task<> {
        cubepi::HttpServerRequest request;
        request.body = R"({"session": "s1", "text": "Hi", "user": "ann"})";
        request.parameters["id"] = "m1";
        Task<HttpSubmission> submitting =
            t.channel->submit_message(std::move(request), HttpReplyDetail::outputs);
        const HttpSubmission submitted = co_await std::move(submitting);
        int asked = 0;
        const auto is_awaited = [&asked] { return note_question(&asked); };
        t.channel->abandon_message("m1", "s1", is_awaited);
        while (asked == 0) co_await cubepi::yield_now();
        t.channel->abandon_message("m1", "s1");
        while (!submitted.reply->done()) co_await submitted.reply->wait(std::stop_token());
        EXPECT_EQ(records->stops, LateRecords::attempts);
        EXPECT_EQ(asked, 1);
    });
}

/// Does not accept or refuse a message.
Task<> wait_for_ever(cubepi::AsyncEvent* asked) {
    asked->set();
    cubepi::AsyncEvent never;
    co_await never.wait();
}

/// Stops a message after `release`, also if the caller is cancelled.
class SlowStop final : public HttpSessions {
public:
    Task<std::optional<JsonObject>> message(std::string) override { co_return std::nullopt; }
    Task<std::optional<JsonObject>> session(std::string, std::size_t, std::int64_t) override {
        co_return std::nullopt;
    }
    Task<StopOutcome> stop(Envelope) override {
        co_await cubepi::shield();
        begun.set();
        co_await release.wait();
        co_await cubepi::unshield();
        has_ended = true;
        co_return StopOutcome::stopped;
    }

    cubepi::AsyncEvent begun;
    cubepi::AsyncEvent release;
    bool has_ended = false;
};

Task<> post_without_answer(HttpChannelTest& t, bool* has_ended) {
    (void)co_await cubepi::outcome_of(t.post(R"({"session": "s1", "text": "Hi"})"));
    *has_ended = true;
}

Task<> stop_and_note(HttpChannelTest& t, cubepi::Outcome<>* stopped) {
    Task<> stopping = t.channel->stop();
    *stopped = co_await cubepi::outcome_of(std::move(stopping));
}

TEST_F(HttpChannelTest, CancelledStop_EndsConnectionsAndChildren) {
    const auto sessions = std::make_shared<SlowStop>();
    channel_options.sessions = sessions;
    cubepi::AsyncEvent asked;
    wrap_handler = [&asked](const MessageHandler&) {
        return [&asked](const Envelope&) { return wait_for_ever(&asked); };
    };
    add({"never"});
    serve([&](HttpChannelTest& t) -> Task<> {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        bool has_ended = false;
        cubepi::BackgroundScope client(executor);
        client.spawn(post_without_answer(t, &has_ended));
        co_await asked.wait();
        t.channel->abandon_message("m1", "s1");
        co_await sessions->begun.wait();
        cubepi::Outcome<> stopped{std::exception_ptr()};
        cubepi::BackgroundScope limited(executor);
        limited.spawn(stop_and_note(t, &stopped));
        for (int i = 0; i < 100; ++i) co_await cubepi::yield_now();
        limited.cancel();
        while (!has_ended) co_await cubepi::yield_now();
        EXPECT_EQ(limited.live(), 1u) << "a child uses the channel";
        sessions->release.set();
        co_await limited.idle();
        EXPECT_TRUE(sessions->has_ended);
        EXPECT_TRUE(stopped.cancelled());
        co_await client.close();
    });
}

/// The records of messages that a version without D291 has received from ann, whose ids are their keys.
class EarlierRecords final : public HttpSessions {
public:
    Task<std::optional<JsonObject>> message(std::string id) override {
        read.push_back(id);
        if (id == "unread") throw cubepi::CheckpointerError(cubepi::ErrorCode::storage, "lost");
        if (id == "elsewhere") {
            const DatabaseMap map({{"a", "0000-7fff"}, {"b", "8000-ffff"}});
            std::vector<bool> was_read(2);
            was_read[map.of_session("http:s1")] = true;
            throw MessageUnreadError("a database is down", map, was_read);
        }
        std::optional<JsonObject> record;
        if (id != "k1") co_return record;
        Envelope hi("Hi");
        hi.context["sender_id"] = "ann";
        record = JsonObject{{"session", "s1"},     {"id", id},
                            {"state", "answered"}, {"user", "ann"},
                            {"ok", true},          {"request_digest", detail::content_digest(hi)}};
        (*record)["outputs"] = JsonArray{JsonObject{{"kind", "normal"}, {"text", "before"}}};
        co_return record;
    }
    Task<std::optional<JsonObject>> session(std::string, std::size_t, std::int64_t) override {
        co_return std::nullopt;
    }
    Task<StopOutcome> stop(Envelope) override { co_return StopOutcome::idle; }

    std::vector<std::string> read;
};

Task<> note_id(std::vector<std::string>* ids, Envelope message) {
    ids->push_back(message.inbound_id.value());
    co_return;
}

TEST_F(HttpChannelTest, D291_RecordOfEarlierVersion_IsTheMessage) {
    const auto records = std::make_shared<EarlierRecords>();
    channel_options.sessions = records;
    std::vector<std::string> ids;
    wrap_handler = [&ids](const MessageHandler&) {
        return [&ids](Envelope message) { return note_id(&ids, std::move(message)); };
    };
    add({"never"});
    serve([&](HttpChannelTest& t) -> Task<> {
        const std::string ann = R"({"user": "ann", "text": "Hi"})";
        const std::string in_session = R"({"user": "ann", "text": "Hi", "session": "s1"})";
        const std::string bob = R"({"user": "bob", "text": "Hi"})";
        for (const std::string& body : {ann, in_session}) {
            const Reply again = co_await t.post(body, with("idempotency-key", "k1"));
            EXPECT_EQ(again.text(0), "before") << again.body;
            EXPECT_EQ(again.json().at("session"), "s1");
            EXPECT_EQ(again.json().at("id"), "k1");
        }
        EXPECT_EQ(ids, std::vector<std::string>(2, "k1"));
        (void)co_await t.post(bob, with("idempotency-key", "k1"));
        EXPECT_EQ(ids.back(), detail::message_id("bob", "k1"));
        const Reply unread = co_await t.post(in_session, with("idempotency-key", "unread"));
        EXPECT_EQ(unread.status, 503) << unread.body;
        EXPECT_EQ(ids.size(), 3u);
        (void)co_await t.post(in_session, with("idempotency-key", "elsewhere"));
        EXPECT_EQ(ids.back(), detail::message_id("ann", "elsewhere"));
        const Reply read = co_await t.get("/v1/messages/k1?user=ann", "Bearer secret");
        EXPECT_EQ(read.text(0), "before") << read.body;
        EXPECT_FALSE(read.json().contains("user"));
        const Reply other = co_await t.get("/v1/messages/k1?user=bob", "Bearer secret");
        EXPECT_EQ(other.status, 404) << other.body;
        // Nothing is looked for without a user or a key.
        records->read.clear();
        const std::size_t before = ids.size();
        (void)co_await t.post(R"({"text": "Hi"})", with("idempotency-key", "k2"));
        (void)co_await t.post(ann);
        EXPECT_EQ(ids.size(), before + 2);
        const std::vector<std::string> followed(ids.end() - 2, ids.end());
        EXPECT_EQ(records->read, followed);
    });
}

TEST_F(HttpChannelTest, ModelFailure_IsPartOfTheAnswer) {
    add({cubepi::faux_failure("overloaded")});
    serve([](HttpChannelTest& t) -> Task<> {
        const Reply reply = co_await t.post(R"({"session": "s1", "text": "Hi"})");
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(reply.json().at("outputs").at(0).at("kind"), "error") << reply.body;
    });
}

}  // namespace
}  // namespace bub

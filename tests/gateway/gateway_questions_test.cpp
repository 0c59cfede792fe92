// Questions of the gateway's turns: answered after a restart or a kill, by those who may, once; over HTTP, by commands and by buttons in
// Telegram; and their deadlines.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "config/store_locations.hpp"
#include "echo_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway/control_server.hpp"
#include "gateway_process.hpp"
#include "process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;

constexpr const char* writes_a_file =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}, "Done."]})";
constexpr const char* has_a_file_written =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "subagent", "arguments": {"prompt": "write it"}}]}, {"stop_reason": "tool_use", "content": [{"type": "tool_call",
        "id": "c1", "name": "write", "arguments": {"path": "new.txt", "content": "hello\n"}}]}]})";
constexpr const char* two_calls_with_one_id =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "write", "arguments": {"path": "new.txt", "content": "one\n"}}]}, {"stop_reason": "tool_use", "content": [
        {"type": "tool_call", "id": "c1", "name": "write", "arguments": {"path": "new.txt", "content": "two\n"}}]}, "Done."]})";
constexpr const char* continues_twice =
    R"({"tokens_per_second": 100000, "answers": ["written", "Done."]})";
constexpr const char* continues = R"({"tokens_per_second": 100000, "answers": ["Done."]})";

HttpReply post(std::uint16_t port, JsonObject message) {
    message["session"] = "s1";
    return run(post_message(port, std::move(message)));
}

void wait_until_without_questions(const GatewayHome& home) {
    wait_until([&] {
        const std::string listed = run_command(home, {"inbox", "--gateway"}).output;
        return listed.find("No question") != std::string::npos;
    });
}

bool wrote(const GatewayHome& home) {
    for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
        if (std::filesystem::exists(entry.path() / "new.txt")) return true;
    }
    return false;
}

TEST(GatewayQuestions, B26_QuestionAboutWrite_IsAnsweredAfterRestart) {
    const GatewayHome home;
    {
        GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply asked = post(port, {{"text", "write it"}, {"user", "ann"}});
        EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        EXPECT_FALSE(wrote(home));
        gateway.kill();
    }
    GatewayProcess gateway(home, {"--script", home.script(continues)});
    const std::uint16_t port = gateway.wait_until_running();
    const CommandResult inbox = run_command(home, {"inbox", "--gateway"});
    EXPECT_NE(inbox.output.find("\tRun write {"), std::string::npos) << inbox.output;
    const HttpReply refused = post(port, {{"text", ",approve c1"}, {"user", "ann"}});
    EXPECT_NE(refused.text().find("You may not answer this question"), std::string::npos)
        << refused.body;
    EXPECT_FALSE(wrote(home));
    const HttpReply answered = post(port, {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(wrote(home));
}

/// Appends a message to the records of the gateway as an earlier version has stored it.
void store_answer(const GatewayHome& home, JsonObject fields) {
    fields["channel"] = "http";
    fields["chat_id"] = "s1";
    fields["context"] = JsonObject{{"sender_id", "olga"}};
    const JsonObject message{
        {"fields", std::move(fields)}, {"inbound_id", "k9"}, {"active", true}, {"operator", true}};
    const JsonObject record{{"in", 90}, {"at", "2026-11-27T10:00:00.000Z"}, {"message", message}};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(home.path()))
        if (entry.path().filename() == "deliveries.jsonl")
            std::ofstream(entry.path(), std::ios::app) << boost::json::serialize(record) << "\n";
}

TEST(GatewayQuestions, B24_AnswerStoredByEarlierVersion_Continues) {
    for (const bool is_command : {true, false}) {
        SCOPED_TRACE(is_command);
        const GatewayHome home;
        {
            GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
            const HttpReply asked =
                post(gateway.wait_until_running(), {{"text", "write it"}, {"user", "ann"}});
            const Json name = asked.json().at("outputs").at(0).at("question").at("request_id");
            gateway.kill();
            if (is_command) {
                store_answer(home, {{"content", ",approve c1"}});
            } else {
                store_answer(
                    home,
                    {{"content", ""}, {"answer_to", name}, {"answer", {{"decision", "approve"}}}});
            }
        }
        GatewayProcess gateway(home, {"--script", home.script(continues_twice)});
        // The next message of the session waits for the turn of the answer.
        const HttpReply next = post(gateway.wait_until_running(), {{"text", "next"}});
        EXPECT_EQ(next.text(), "Done.") << next.body;
        EXPECT_TRUE(wrote(home));
    }
}

TEST(GatewayQuestions, D86_ApprovalAfterRestartElsewhere_IsRefused) {
    const GatewayHome home;
    const std::string write = R"({"path": "new.txt", "content": "hello"})";
    joint_tests::ModelServer a({joint_tests::chat_answer("", {{"write", write, "c1"}}),
                                joint_tests::chat_answer("Done.")});
    joint_tests::ModelServer b({joint_tests::chat_answer("B")});
    const auto start = [&home](const joint_tests::ModelServer& server) {
        return std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--base-url", server.url(), "-m", "local"});
    };
    std::unique_ptr<GatewayProcess> gateway = start(a);
    (void)post(gateway->wait_until_running(), {{"text", "write it"}, {"user", "olga"}});
    gateway->kill();
    gateway = start(b);
    const HttpReply refused =
        post(gateway->wait_until_running(), {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_NE(refused.body.find("not sent elsewhere"), std::string::npos)
        << "an operator reads why: " << refused.body;
    EXPECT_EQ(b.requests().size(), 0u);
    EXPECT_FALSE(wrote(home));
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0);
    gateway = start(a);
    const HttpReply answered =
        post(gateway->wait_until_running(), {{"text", ",approve c1"}, {"user", "olga"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    EXPECT_TRUE(wrote(home));
}

TEST(GatewayQuestions, D86_ExpiredQuestionElsewhere_BlocksNoMessage) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, question_timeout: 1})");
    const std::string write = R"({"path": "new.txt", "content": "hello"})";
    const joint_tests::ModelServer a({joint_tests::chat_answer("", {{"write", write, "c1"}})});
    const joint_tests::ModelServer b({joint_tests::chat_answer("B")});
    const auto start = [&home](const joint_tests::ModelServer& server) {
        return std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--base-url", server.url(), "-m", "local"});
    };
    std::unique_ptr<GatewayProcess> gateway = start(a);
    (void)post(gateway->wait_until_running(), {{"text", "write it"}, {"user", "olga"}});
    gateway->kill();
    gateway = start(b);
    const std::uint16_t port = gateway->wait_until_running();
    wait_until_without_questions(home);
    const HttpReply answered = post(port, {{"text", "next"}, {"user", "ann"}});
    EXPECT_EQ(answered.text(), "B") << answered.body;
    EXPECT_FALSE(wrote(home));
    EXPECT_EQ(b.requests().size(), 1u) << "no run was continued";
}

TEST(GatewayQuestions, UnknownQuestion_IsNotAnsweredWithOk) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}, {"user", "ann"}});
    const HttpReply unknown =
        post(port, {{"answer_to", "no-such-id"}, {"answer", true}, {"user", "olga"}});
    EXPECT_EQ(unknown.json().at("ok"), false) << unknown.body;
    const HttpReply refused = post(port, {{"text", ",approve"}, {"user", "ann"}});
    EXPECT_EQ(refused.json().at("ok"), false) << refused.body;
    EXPECT_NE(refused.text().find("only an operator may"), std::string::npos) << refused.body;
}

TEST(GatewayQuestions, LateAnswer_SaysWhoAnsweredFirst) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply asked = post(port, {{"text", "write it"}, {"user", "olga"}});
    const std::string name(
        asked.json().at("outputs").at(0).at("question").at("request_id").as_string());
    const HttpReply denied =
        post(port, {{"answer_to", name}, {"answer", {{"decision", "deny"}}}, {"user", "olga"}});
    EXPECT_EQ(denied.text(), "Done.") << denied.body;
    const HttpReply late =
        post(port, {{"answer_to", name}, {"answer", {{"decision", "approve"}}}, {"user", "olga"}});
    EXPECT_EQ(late.json().at("ok"), false) << late.body;
    EXPECT_NE(late.text().find("It was denied before by olga"), std::string::npos) << late.body;
    const CommandResult inbox = run_command(home, {"inbox", "--gateway", "approve", name});
    EXPECT_NE(inbox.status, 0) << inbox.output;
    EXPECT_FALSE(wrote(home));
}

TEST(GatewayQuestions, Operator_AnswersFromTheTerminal) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}});
    const CommandResult answered = run_command(home, {"inbox", "--gateway", "approve", "c1"});
    EXPECT_EQ(answered.status, 0) << answered.output;
    // The next message of the session waits for the turn of the answer.
    (void)post(port, {{"text", "next"}});
    EXPECT_TRUE(wrote(home));
    EXPECT_NE(run_command(home, {"inbox", "--gateway"}).output.find("No question"),
              std::string::npos);
}

TEST(GatewayQuestions, D83_NamedQuestion_IsAnsweredInItsSessionOnly) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(two_calls_with_one_id)});
    const std::uint16_t port = gateway.wait_until_running();
    for (const char* session : {"s1", "s2"})
        (void)run(post_message(port, JsonObject{{"session", session}, {"text", "write it"}}));
    const std::string listed = run_command(home, {"inbox", "--gateway"}).output;
    const std::string name = listed.substr(0, listed.find('\t'));
    // Both have the id of the model's call.
    EXPECT_NE(run_command(home, {"inbox", "--gateway", "approve", "c1"}).status, 0);
    EXPECT_FALSE(wrote(home));
    const CommandResult answered = run_command(home, {"inbox", "--gateway", "approve", name});
    EXPECT_EQ(answered.status, 0) << answered.output;
    std::string left = listed;
    while (left.find(name) != std::string::npos)
        left = run_command(home, {"inbox", "--gateway"}).output;
    EXPECT_NE(left.find("write"), std::string::npos) << left;
    EXPECT_NE(run_command(home, {"inbox", "--gateway", "approve", name}).status, 0);
    EXPECT_EQ(run_command(home, {"inbox", "--gateway"}).output, left);
}

TEST(GatewayQuestions, FetchRefusesAddress_NothingIsAsked) {
    const GatewayHome home;
    joint_tests::ModelServer server(
        {joint_tests::chat_answer("", {{"fetch", R"({"url":"http://127.0.0.1:9/x"})"}}),
         joint_tests::chat_answer("Done.")});
    GatewayProcess gateway(home, {"--base-url", server.url(), "-m", "local"});
    const HttpReply answered = post(gateway.wait_until_running(), {{"text", "go"}});
    EXPECT_EQ(answered.text(), "Done.") << answered.body;
    ASSERT_EQ(server.requests().size(), 2u);
    EXPECT_NE(server.requests()[1].find("belongs to this machine"), std::string::npos);
}

TEST(GatewayQuestions, B26_Rule_AllowsATool) {
    const GatewayHome home;
    home.configure(
        R"({http: {listen: "127.0.0.1:0"}, rules: [{channel: http, user: ann, allow: ["write: *"]}]})");
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply done = post(port, {{"text", "write it"}, {"user", "ann"}});
    EXPECT_EQ(done.text(), "Done.") << done.body;
    EXPECT_TRUE(wrote(home));
}

TEST(GatewayQuestions, D65_ExpiredQuestion_ContinuesTheSession) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, question_timeout: 1})");
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}});
    wait_until_without_questions(home);
    EXPECT_FALSE(wrote(home));
    const HttpReply next = post(port, {{"text", ",tape_info"}, {"user", "olga"}});
    EXPECT_NE(next.text().find("entries: "), std::string::npos) << next.body;
}

/// Stores questions of a gateway with another namespace, whose time is over.
void add_foreign_questions(const GatewayHome& home, int count) {
    bub::TapeCheckpointer memory(app::open_tapes(home.tapes().string()));
    for (int i = 0; i < count; ++i) {
        const std::string session = "http:" + std::to_string(i);
        HitlRequest request;
        request.question_id = "c1";
        request.payload = ApproveRequest{"write", "c1"};
        request.created_at = i + 1;
        request.timeout_seconds = 1;
        request.extra[bub::asker_key] = JsonObject{{"channel", "http"}, {"session", session}};
        run(memory.save_pending_request(bub::shared_tape_name("others", session), "r1", request));
    }
}

TEST(GatewayQuestions, D65_ManyForeignQuestions_OwnOneExpires) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0", operators: [olga]}, question_timeout: 1})");
    add_foreign_questions(home, 210);
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)}, {"CUBEPI_TEST_CLOCK=5"});
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, {{"text", "write it"}});
    wait_until_without_questions(home);
    const HttpReply next = post(port, {{"text", ",tape_info"}, {"user", "olga"}});
    EXPECT_NE(next.text().find("entries: "), std::string::npos) << next.body;
}

TEST(GatewayQuestions, D100_TwoNamespaces_SeeTheirQuestionsOnly) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = "}\ndatabase: \"" + new_database(first) + "\"";
    first.configure("{http: {listen: \"127.0.0.1:0\"}" + database);
    second.configure("{http: {listen: \"127.0.0.1:0\"}, tape_namespace: others" + database);
    GatewayProcess one(first, {"--script", first.script(writes_a_file)});
    GatewayProcess two(second, {"--script", second.script(writes_a_file)});
    const std::uint16_t ports[] = {one.wait_until_running(), two.wait_until_running()};
    (void)run(post_message(ports[0], JsonObject{{"session", "a"}, {"text", "write it"}}));
    (void)run(post_message(ports[1], JsonObject{{"session", "b"}, {"text", "write it"}}));
    const std::string of_first = run_command(first, {"inbox", "--gateway"}).output;
    const std::string of_second = run_command(second, {"inbox", "--gateway"}).output;
    EXPECT_NE(of_first.find("\thttp:a\t"), std::string::npos) << of_first;
    EXPECT_EQ(of_first.find("\thttp:b\t"), std::string::npos) << of_first;
    EXPECT_EQ(of_second.find("\thttp:a\t"), std::string::npos) << of_second;
    const std::string name = of_second.substr(0, of_second.find('\t'));
    const CommandResult foreign = run_command(first, {"inbox", "--gateway", "approve", name});
    EXPECT_NE(foreign.output.find("no question '" + name + "' waits"), std::string::npos)
        << foreign.output;
    EXPECT_FALSE(wrote(second));
    const auto history_of = [&second](const char* session) {
        return app::call_gateway(second.socket(),
                                 JsonObject{{"command", "history"}, {"id", session}});
    };
    EXPECT_THROW((void)history_of("http:a"), Error);
    EXPECT_EQ(history_of("http:b").at("state"), "waiting");
    // The model's id of both questions names one of them at each gateway.
    EXPECT_EQ(run_command(second, {"inbox", "--gateway", "approve", "c1"}).status, 0);
    EXPECT_EQ(run_command(first, {"inbox", "--gateway"}).output, of_first);
}

TEST(GatewayQuestions, AnswerOfOperator_ShowsNoLogin) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(writes_a_file)});
    const std::uint16_t port = gateway.wait_until_running();
    const HttpReply asked = post(port, {{"text", "write it"}, {"user", "ann"}});
    const std::string name(
        asked.json().at("outputs").at(0).at("question").at("request_id").as_string());
    EXPECT_EQ(run_command(home, {"inbox", "--gateway", "deny", name}).status, 0);
    const JsonObject logged = gateway.wait_for("gateway.operated");
    EXPECT_EQ(detail::text_member(logged, "by"), app::local_user());
    EXPECT_EQ(logged.at("operation"), "answer");
    EXPECT_EQ(detail::text_member(logged, "target"), name);
    // The next message of the session waits for the turn of the answer.
    (void)post(port, {{"text", "next"}});
    const HttpReply late =
        post(port, {{"answer_to", name}, {"answer", {{"decision", "approve"}}}, {"user", "olga"}});
    EXPECT_NE(late.text().find("It was denied before by an operator (http"), std::string::npos)
        << late.body;
}

constexpr std::int64_t ann = 7;
constexpr std::int64_t bert = 8;
constexpr std::int64_t olga = 9;   // an operator
constexpr std::int64_t otto = 10;  // an operator
constexpr std::int64_t group = -100;
constexpr int clock_factor = 10;

constexpr const char* asks_two_parts =
    R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "ask_user", "arguments": {"questions": [
            {"key": "color", "prompt": "Which?", "options": [{"label": "Red", "value": "red"}, {"label": "Teal", "value": "teal"}]},
            {"key": "sizes", "prompt": "Which?", "multi_select": true, "options": [{"label": "S", "value": "s"}, {"label": "L", "value": "l"}]}
        ]}}]}, "Done."]})";

std::string label_of(const FakeMessage& message, std::size_t row, std::size_t column = 0) {
    const Json& button = message.markup.at("inline_keyboard").at(row).at(column);
    return detail::text_member(button.as_object(), "text");
}

class TelegramQuestionsTest : public ::testing::Test {
protected:
    TelegramQuestionsTest() {
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", users: [7], chats: [-100], operators: [9, 10]}}");
        bot.with_api([](FakeBotApi& api) {
            for (const std::int64_t chat : {ann, olga, otto, group}) api.add_chat(chat);
        });
    }

    std::unique_ptr<GatewayProcess> start(const char* script) const {
        auto gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--script", home.script(script)},
            std::vector<std::string>{"CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
        (void)gateway->wait_for("gateway.running");
        return gateway;
    }
    void say(std::int64_t chat, std::string text) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject update;
            update["message"] = api.message_of(ann, chat, std::move(text));
            api.add_update(std::move(update));
        });
    }
    /// Waits for a message of the bot whose text contains `text`.
    FakeMessage wait_for(std::int64_t chat, std::string_view text) {
        FakeMessage found;
        bot.wait_until([&](const FakeBotApi& api) {
            for (FakeMessage& message : api.messages(chat)) {
                if (message.text.find(text) == std::string::npos) continue;
                found = std::move(message);
                return true;
            }
            return false;
        });
        return found;
    }
    void wait_for_refusal() {
        bot.wait_until([](const FakeBotApi& api) {
            const std::vector<std::string> notices = api.notices();
            return !notices.empty() && notices.back().starts_with("You may not answer");
        });
    }
    void press(std::int64_t user, const FakeMessage& message, std::size_t row,
               std::size_t column = 0) {
        bot.with_api([&](FakeBotApi& api) { (void)api.press(user, message.id, row, column); });
    }
    /// Waits until the button has this label.
    void wait_for_label(const FakeMessage& message, std::size_t row, std::string_view label) {
        bot.wait_until([&](const FakeBotApi& api) {
            for (const FakeMessage& one : api.messages(message.chat))
                if (one.id == message.id) return label_of(one, row).starts_with(label);
            return false;
        });
    }

    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(clock_factor)};
};

TEST_F(TelegramQuestionsTest, B25_ButtonAfterKill_AnswersOnlyForAuthorizedUsers) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(writes_a_file);
        say(group, "/write@cubepi_bot the file");
        question = wait_for(group, "(approval)");
        EXPECT_FALSE(wrote(home));
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues);
    press(ann, question, 0);
    wait_for_refusal();
    EXPECT_FALSE(wrote(home));
    press(olga, question, 0);
    (void)wait_for(group, "Done.");
    EXPECT_TRUE(wrote(home));
    wait_for_label(question, 0, "\u2705 Approved");
}

TEST_F(TelegramQuestionsTest, B25_QuestionOfPrivateChat_GoesToTheOperator) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(writes_a_file);
        say(ann, "write the file");
        question = wait_for(olga, "(approval)");
        (void)wait_for(ann, "/abandon withdraws the question");
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues);
    press(olga, question, 0);
    (void)wait_for(ann, "Done.");
    EXPECT_TRUE(wrote(home));
    wait_for_label(question, 0, "\u2705 Approved");
    say(ann, "/abandon");
    (void)wait_for(ann, "No question waits for an answer.");
}

TEST_F(TelegramQuestionsTest, B25_LongQuestion_IsShortenedForItsUser) {
    std::string script = writes_a_file;
    script.replace(script.find("hello"), 5, std::string(9'000, 'x'));
    const std::unique_ptr<GatewayProcess> gateway = start(script.c_str());
    say(ann, "write the file");
    const FakeMessage waiting = wait_for(ann, "/abandon withdraws the question");
    EXPECT_LE(waiting.text.size(), 4'096u);
    EXPECT_NE(waiting.text.find("new.txt"), std::string::npos) << waiting.text;
    say(ann, "And now?");
    const FakeMessage reminder = wait_for(ann, "Your message is read after");
    EXPECT_LE(reminder.text.size(), 4'096u);
    EXPECT_NE(reminder.text.find("/abandon withdraws"), std::string::npos) << reminder.text;
}

TEST_F(TelegramQuestionsTest, D85_SubagentAcrossKill_NeedsApproval) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(has_a_file_written);
        say(group, "/write@cubepi_bot the file");
        const FakeMessage start_question = wait_for(group, "subagent");
        press(olga, start_question, 0);
        question = wait_for(group, "new.txt");
        EXPECT_FALSE(wrote(home));
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues_twice);
    press(ann, question, 0);
    wait_for_refusal();
    EXPECT_FALSE(wrote(home));
    press(olga, question, 0);
    (void)wait_for(group, "Done.");
    EXPECT_TRUE(wrote(home));
}

TEST_F(TelegramQuestionsTest, B25_RefusedReply_IsToldToItsSender) {
    const std::unique_ptr<GatewayProcess> gateway = start(writes_a_file);
    say(ann, "write the file");
    const FakeMessage first = wait_for(olga, "(approval)");
    const FakeMessage second = wait_for(otto, "(approval)");
    // Cards that were sent before a restart keep their buttons after the question was answered elsewhere.
    const JsonObject card =
        bot.with_api([&](FakeBotApi& api) { return api.shown_message(second.id); });
    press(olga, first, 0);
    (void)wait_for(ann, "Done.");
    bot.with_api([&](FakeBotApi& api) {
        JsonObject update;
        JsonObject reply = api.message_of(otto, otto, "yes");
        reply["reply_to_message"] = card;
        update["message"] = std::move(reply);
        api.add_update(std::move(update));
    });
    (void)wait_for(otto, "no question of this session waits for an answer");
    for (const std::string& text : bot.with_api([](FakeBotApi& api) { return api.texts(ann); }))
        EXPECT_EQ(text.find("no question of this session"), std::string::npos) << text;
}

TEST_F(TelegramQuestionsTest, B25_PressesOfOthers_TakeNoQueuePlace) {
    const std::unique_ptr<GatewayProcess> gateway = start(asks_two_parts);
    say(group, "/ask@cubepi_bot me");
    const FakeMessage question = wait_for(group, "Choose and press Done");
    for (int i = 0; i < 20; ++i) press(bert, question, i % 2 == 0 ? 2 : 6);
    wait_for_refusal();
    bot.wait_until([](const FakeBotApi& api) { return api.notices().size() == 20; });
    for (const std::string& notice : bot.with_api([](FakeBotApi& api) { return api.notices(); }))
        EXPECT_TRUE(notice.starts_with("You may not answer")) << notice;
    press(ann, question, 2);
    press(ann, question, 5);
    wait_for_label(question, 5, "\u2611 L");
    press(ann, question, 6);
    (void)wait_for(group, "Done.");
    EXPECT_EQ(bot.with_api([](FakeBotApi& api) { return api.texts(group).size(); }), 2u);
}

TEST_F(TelegramQuestionsTest, FormAcrossKill_IsAnsweredByButtons) {
    FakeMessage question;
    {
        const std::unique_ptr<GatewayProcess> gateway = start(asks_two_parts);
        say(ann, "ask me");
        question = wait_for(ann, "Choose and press Done");
        press(ann, question, 2);
        wait_for_label(question, 2, "\u25CF Teal");
        gateway->kill();
    }
    const std::unique_ptr<GatewayProcess> gateway = start(continues);
    press(ann, question, 5);
    wait_for_label(question, 5, "\u2611 L");
    press(ann, question, 6);
    (void)wait_for(ann, "Done.");
    wait_for_label(question, 0, "\u2705 Answered");
    const CommandResult tape = run_command(home, {"tape", "search", "The user answered"});
    EXPECT_NE(tape.output.find(R"({\"color\":\"teal\",\"sizes\":[\"l\"]})"), std::string::npos)
        << tape.output;
}

}  // namespace
}  // namespace cubepi::gateway_tests

// Sub-agents in the background of a gateway's sessions (D126 to D128): their results and their questions reach the chat, and a kill
// repeats nothing.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>

#include "../joints/task_model.hpp"
#include "fake_bot_server.hpp"
#include "gateway_process.hpp"
#include "two_gateways.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;
using joint_tests::TaskModel;

constexpr int clock_factor = 50;
constexpr std::int64_t ann = 7;
constexpr std::int64_t olga = 9;

constexpr const char* allowed = "rules: [{allow: [\"subagent: *\"]}]";

bool wrote(const GatewayHome& home) {
    for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
        if (std::filesystem::exists(entry.path() / "new.txt")) return true;
    }
    return false;
}

HttpReply post(std::uint16_t port, const std::string& text) {
    return run(post_message(port, {{"session", "s1"}, {"text", text}, {"user", "ann"}}));
}

/// Waits until the session's messages have the text.
std::string wait_for_text(std::uint16_t port, std::string_view text) {
    for (;;) {
        const HttpReply read = run(call_channel(port, "GET", "/v1/sessions/s1"));
        if (read.body.find(text) != std::string::npos) return read.body;
        EXPECT_EQ(read.status, 200) << read.body;
        if (read.status != 200) return read.body;
    }
}

class GatewayTasks : public ::testing::Test {
protected:
    GatewayTasks() {
        home.configure(std::string("{http: {listen: \"127.0.0.1:0\", operators: [olga]}, ") +
                       allowed + "}");
    }

    GatewayHome home;
    TaskModel model;
};

TEST_F(GatewayTasks, D127_ResultWithoutTurn_IsReportedInTheSession) {
    model.hold("look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "background look").text(), "re: background look");
    model.wait_for("look");
    EXPECT_NE(post(port, "/tasks").text().find("helper): running"), std::string::npos);
    model.release();
    (void)wait_for_text(port, "re: re: look");
    EXPECT_EQ(post(port, "/tasks").text(), "There are no sub-agents in the background.");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
}

TEST_F(GatewayTasks, D126_KilledWithTask_ReportsInterruptionOnce) {
    model.hold("look");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        (void)post(port, "background look");
        model.wait_for("look");
        gateway.kill();
    }
    model.release();
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    const std::string session = wait_for_text(port, "it is not repeated");
    const HttpReply next = post(port, "and now?");
    EXPECT_EQ(next.body.find("it is not repeated"), std::string::npos) << next.body;
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(GatewayTasks, D127_KilledBeforeTheReport_ContinuesIt) {
    model.hold("re: look");
    {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        (void)post(port, "background look");
        model.wait_for("re: look");
        gateway.kill();
    }
    model.release();
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)wait_for_text(port, "re: re: look");
    EXPECT_EQ(model.count("look"), 1u);
    EXPECT_EQ(model.count("re: look"), 2u);
}

/// A call of a sub-agent that needs approval, which one process asks for and another one gets.
class ApprovedElsewhere : public GatewayTasks {
protected:
    ApprovedElsewhere() { home.configure("{http: {listen: \"127.0.0.1:0\", operators: [olga]}}"); }
    /// Asks in a process that is killed then. Returns the name of the question.
    std::string ask(const std::string& prompt) {
        GatewayProcess gateway(home, model.flags());
        const std::uint16_t port = gateway.wait_until_running();
        const HttpReply asked = post(port, prompt);
        EXPECT_EQ(asked.json().at("outputs").at(0).at("kind"), "question") << asked.body;
        const JsonObject session =
            boost::json::parse(wait_for_text(port, "\"request_id\"")).as_object();
        gateway.kill();
        EXPECT_EQ(model.count("look"), 0u);
        return std::string(session.at("questions").at(0).at("request_id").as_string());
    }
    void approve(const std::string& name) const {
        const CommandResult answered = run_command(home, {"inbox", "--gateway", "approve", name});
        EXPECT_EQ(answered.status, 0) << answered.output;
    }
    /// Approves in a process that is killed when the sub-agent has asked its model. In the background, the result of its call is
    /// stored by then, too: the model of its caller was asked with it.
    void approve_and_kill(const std::string& prompt) {
        const std::string name = ask(prompt);
        model.hold("look");
        GatewayProcess gateway(home, model.flags());
        (void)gateway.wait_until_running();
        approve(name);
        model.wait_for("look");
        if (prompt.starts_with("background")) model.wait_for(prompt, 2);
        gateway.kill();
        model.release();
    }
};

TEST_F(ApprovedElsewhere, D115_InBackground_StartsAfterRestart) {
    const std::string name = ask("background look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    approve(name);
    (void)wait_for_text(port, "re: re: look");
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(ApprovedElsewhere, D104_Inheriting_WorksAfterRestart) {
    const std::string name = ask("inherit look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    approve(name);
    (void)wait_for_text(port, "re: inherit look");
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(ApprovedElsewhere, D115_KilledInBackground_IsNotRepeated) {
    approve_and_kill("background look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)wait_for_text(port, "re: background look");
    const HttpReply next = post(port, "and now?");
    EXPECT_NE((next.body + model.wait_for("and now?")).find("not repeated"), std::string::npos)
        << next.body;
    EXPECT_EQ(model.count("look"), 1u);
}

TEST_F(ApprovedElsewhere, D104_KilledWhileInheriting_IsNotRepeated) {
    approve_and_kill("inherit look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    // The answer is delivered again, and continues the run.
    (void)wait_for_text(port, "re: inherit look");
    EXPECT_EQ(model.count("look"), 1u);
    EXPECT_NE(model.wait_for("inherit look", 2).find("interrupted"), std::string::npos);
}

TEST_F(GatewayTasks, D128_QuestionOfTask_IsAnsweredOverHttp) {
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "background write new.txt");
    const JsonObject session =
        boost::json::parse(wait_for_text(port, "\"request_id\"")).as_object();
    const Json question = session.at("questions").at(0);
    EXPECT_EQ(question.at("agent_path"), JsonArray{"helper"});
    const std::string name(question.at("request_id").as_string());
    EXPECT_NE(run_command(home, {"inbox", "--gateway"}).output.find(name), std::string::npos);
    const auto answer = [&](const char* user, std::string to) {
        return run(post_message(port, {{"session", "s1"},
                                       {"user", user},
                                       {"answer_to", std::move(to)},
                                       {"answer", {{"decision", "approve"}}}}));
    };
    const HttpReply refused = answer("ann", name);
    EXPECT_EQ(refused.json().at("ok"), false) << refused.body;
    // The id of the endpoint's call names nothing.
    EXPECT_EQ(answer("olga", "call_0").json().at("ok"), false);
    EXPECT_FALSE(wrote(home));
    EXPECT_EQ(answer("olga", name).json().at("ok"), true);
    (void)wait_for_text(port, "re: re: write new.txt");
    EXPECT_TRUE(wrote(home));
    EXPECT_EQ(run_command(home, {"inbox", "--gateway"}).output.find(name), std::string::npos);
}

TEST_F(GatewayTasks, D128_QuestionOfTask_IsAnsweredFromInbox) {
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "background write new.txt");
    const JsonObject session =
        boost::json::parse(wait_for_text(port, "\"request_id\"")).as_object();
    const std::string name(session.at("questions").at(0).at("request_id").as_string());
    const CommandResult answered = run_command(home, {"inbox", "--gateway", "approve", name});
    EXPECT_EQ(answered.status, 0) << answered.output;
    (void)wait_for_text(port, "re: re: write new.txt");
    EXPECT_TRUE(wrote(home));
}

TEST_F(GatewayTasks, D126_Drain_EndsTasks) {
    model.hold("look");
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "background look");
    model.wait_for("look");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
}

class TasksOfTwoGateways : public TwoGateways {
protected:
    TasksOfTwoGateways() {
        for (const GatewayHome* home : {&one, &two}) configure(*home, std::string(", ") + allowed);
        first = std::make_unique<GatewayProcess>(one, tasks.flags());
        port = first->wait_until_running();
        second = std::make_unique<GatewayProcess>(two, tasks.flags());
        second_port = second->wait_until_running();
    }

    TaskModel tasks;
};

TEST_F(TasksOfTwoGateways, D128_MessageElsewhere_ReachesGatewayOfTheTask) {
    tasks.hold("look");
    (void)post(port, "background look");
    tasks.wait_for("look");
    EXPECT_EQ(post(second_port, "hello").text(), "re: hello");
    EXPECT_NE(post(second_port, "/tasks").text().find("helper): running"), std::string::npos);
    tasks.release();
    const std::string session = wait_for_text(second_port, "re: re: look");
    EXPECT_EQ(session.find("interrupted"), std::string::npos) << session;
    EXPECT_EQ(tasks.count("re: look"), 1u);
}

TEST_F(TasksOfTwoGateways, D126_GatewayKilledWithTask_OtherReportsIt) {
    tasks.hold("look");
    (void)post(port, "background look");
    tasks.wait_for("look");
    first->kill();
    (void)wait_for_text(second_port, "it is not repeated");
    tasks.release();
    EXPECT_EQ(post(second_port, "hello").text(), "re: hello");
    EXPECT_EQ(tasks.count("look"), 1u);
}

class TelegramTasks : public ::testing::Test {
protected:
    TelegramTasks() {
        home.configure("{telegram: {token: \"" + bot.token() + "\", api_url: \"" + bot.url() +
                       "\", users: [7], operators: [9]}, " + allowed + "}");
        bot.with_api([](FakeBotApi& api) {
            for (const std::int64_t chat : {ann, olga}) api.add_chat(chat);
        });
        gateway = std::make_unique<GatewayProcess>(
            home, model.flags(),
            std::vector<std::string>{"CUBEPI_TEST_CLOCK=" + std::to_string(clock_factor)});
        (void)gateway->wait_for("gateway.running");
    }
    void say(std::int64_t chat, std::string text) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject update;
            update["message"] = api.message_of(chat, chat, std::move(text));
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

    GatewayHome home;
    FakeBotServer bot{std::make_shared<ScaledClock>(clock_factor)};
    TaskModel model;
    std::unique_ptr<GatewayProcess> gateway;
};

TEST_F(TelegramTasks, D127_Result_ReachesTheChat) {
    model.hold("look");
    say(ann, "background look");
    (void)wait_for(ann, "re: background look");
    model.wait_for("look");
    model.release();
    (void)wait_for(ann, "re: re: look");
}

TEST_F(TelegramTasks, D128_QuestionOfTask_IsAnsweredByOperatorOnly) {
    say(ann, "background write new.txt");
    const FakeMessage question = wait_for(olga, "(approval)");
    EXPECT_NE(question.text.find("helper"), std::string::npos) << question.text;
    bot.with_api([&](FakeBotApi& api) { (void)api.press(ann, question.id, 0, 0); });
    EXPECT_FALSE(wrote(home));
    bot.with_api([&](FakeBotApi& api) { (void)api.press(olga, question.id, 0, 0); });
    (void)wait_for(ann, "re: re: write new.txt");
    EXPECT_TRUE(wrote(home));
}

}  // namespace
}  // namespace cubepi::gateway_tests

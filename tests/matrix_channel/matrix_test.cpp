// The proof that a channel needs no edit outside of its directory: Matrix as a channel of `cubepi gateway`, with its settings, its findings and
// its onboarding, against a homeserver on loopback. The gateway is a process that is killed and restarted.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/onboarding_ui.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>

#include "../gateway/gateway_process.hpp"
#include "channels/channel_kinds.hpp"
#include "fake_homeserver.hpp"

namespace matrix {
namespace {

using cubepi::JsonObject;
using cubepi::gateway_tests::CommandResult;
using cubepi::gateway_tests::GatewayHome;
using cubepi::gateway_tests::GatewayProcess;
using cubepi::gateway_tests::run_command;

constexpr const char* chat = "!lobby:example.org";
constexpr const char* ann = "@ann:example.org";
constexpr const char* olga = "@olga:example.org";
constexpr const char* mallory = "@mallory:example.org";

class Matrix : public ::testing::Test {
protected:
    Matrix() {
        home.configure("{matrix: {homeserver: \"" + server.url() + "\", users: [\"" + ann +
                       "\"], operators: [\"" + olga + "\"]}}");
    }

    /// Starts a gateway, which answers the messages that are sent after this returns.
    std::unique_ptr<GatewayProcess> start(std::vector<std::string> arguments = {}) {
        auto gateway = std::make_unique<GatewayProcess>(
            home, std::move(arguments),
            std::vector<std::string>{std::string("MATRIX_TOKEN=") + FakeHomeserver::token});
        (void)gateway->wait_for("gateway.running");
        server.wait_until([this] { return server.is_read(); });
        return gateway;
    }

    std::size_t count(const std::string& text) {
        const std::vector<std::string> all = server.answers(chat);
        return static_cast<std::size_t>(std::count(all.begin(), all.end(), text));
    }

    /// Waits for an answer that contains the text, and returns it.
    std::string wait_for(const std::string& text) {
        std::string found;
        server.wait_until([&] {
            for (const std::string& one : server.answers(chat)) {
                if (one.find(text) != std::string::npos) found = one;
            }
            return !found.empty();
        });
        return found;
    }

    const GatewayHome home;
    FakeHomeserver server;
};

TEST_F(Matrix, ListedSenders_AreAnsweredWhereTheyInvite) {
    const std::unique_ptr<GatewayProcess> gateway = start();
    server.invite("!other:example.org", mallory);
    server.invite(chat, ann);
    server.wait_until([this] { return server.has_joined(chat); });
    server.say(chat, mallory, "let me in");
    server.say(chat, ann, "hello");
    EXPECT_EQ(wait_for("re: "), "re: hello");
    EXPECT_FALSE(server.has_joined("!other:example.org"));
    // The parts of a new configuration are prepared while the channel runs.
    const CommandResult reloaded = run_command(home, {"gateway", "reload"});
    EXPECT_EQ(reloaded.status, 0) << reloaded.output;
    server.say(chat, olga, "again");
    EXPECT_EQ(wait_for("re: again"), "re: again");
    EXPECT_EQ(server.answers(chat).size(), 2u);
    gateway->send(SIGTERM);
    EXPECT_EQ(gateway->wait(), 0) << gateway->output();
}

TEST_F(Matrix, LostReplyOfSend_MessageIsSentOnce) {
    server.add_chat(chat);
    const std::unique_ptr<GatewayProcess> gateway = start();
    std::size_t sent = 0;
    server.watch([&sent](const std::string& request, bool is_done) {
        if (request != "send") return FakeHomeserver::none;
        if (!is_done) return ++sent == 1 ? FakeHomeserver::rate_limited : FakeHomeserver::none;
        return sent == 2 ? FakeHomeserver::cut : FakeHomeserver::none;
    });
    server.say(chat, ann, "one");
    (void)wait_for("re: one");
    server.say(chat, ann, "two");
    (void)wait_for("re: two");
    EXPECT_EQ(server.answers(chat), (std::vector<std::string>{"re: one", "re: two"}));
    server.watch({});
    EXPECT_GE(sent, 4u);
}

TEST_F(Matrix, QuestionBeforeKill_IsAnsweredByText) {
    server.add_chat(chat);
    std::unique_ptr<GatewayProcess> gateway =
        start({"--script", home.script(R"({"tokens_per_second": 100000, "answers": [{"stop_reason":
            "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "write", "arguments":
            {"path": "new.txt", "content": "hello\n"}}]}, "Done."]})")});
    server.say(chat, ann, "write it");
    const std::string question = wait_for(",approve ");
    const std::string key = question.substr(question.find(",approve ") + 9, 10);
    gateway->kill();
    gateway = start({"--script", home.script(R"(["Done."])")});
    server.say(chat, mallory, ",approve " + key);
    server.say(chat, ann, ",approve " + key);
    (void)wait_for("You may not answer this question");
    server.say(chat, olga, ",approve " + key);
    EXPECT_EQ(wait_for("Done."), "Done.");
    EXPECT_EQ(count("Done."), 1u);
}

/// A point in the exchange with the server: before or after the effect of a request.
using Point = std::pair<std::string, bool>;

TEST_F(Matrix, B18_KillAtEachRequest_AnswersOnceOrMarked) {
    server.add_chat(chat);
    const std::vector<Point> points{
        {"sync", true}, {"store", false}, {"store", true}, {"send", false}, {"send", true}};
    for (const Point& point : points) {
        SCOPED_TRACE(point.first + (point.second ? " is done" : " arrives"));
        const std::size_t before = count("re: hello");
        const std::size_t marked = count("(sent again) re: hello");
        std::unique_ptr<GatewayProcess> gateway = start();
        bool is_killed = false;
        server.watch([&](const std::string& request, bool is_done) {
            if (!is_killed && Point(request, is_done) != point) return FakeHomeserver::none;
            gateway->kill();
            is_killed = true;
            return FakeHomeserver::cut;
        });
        server.say(chat, ann, "hello");
        server.wait_until([&] { return is_killed; });
        server.watch({});
        gateway = start();
        const std::string last = point.first + (point.second ? "-1" : "-0");
        server.say(chat, ann, last);
        (void)wait_for("re: " + last);
        gateway->send(SIGTERM);  // the record of the last answer is complete
        EXPECT_EQ(gateway->wait(), 0);
        const std::size_t unmarked = count("re: hello") - before;
        const std::size_t again = count("(sent again) re: hello") - marked;
        EXPECT_LE(unmarked, 1u);
        EXPECT_GE(unmarked + again, 1u);
        if (point.first == "send") {
            EXPECT_EQ(unmarked, point.second ? 1u : 0u);
        }
    }
}

TEST_F(Matrix, Settings_AreCheckedAndDescribedByTheirKeys) {
    const auto doctor = [this](const std::string& matrix) {
        home.configure("{matrix: {" + matrix + "}}");
        return run_command(home, {"doctor", "--offline"}).output;
    };
    const auto expect = [](const std::string& output, const std::string& text) {
        EXPECT_NE(output.find(text), std::string::npos) << output;
    };
    expect(doctor("homeserver: \"http://x\", users: [\"@a:b\"]"),
           "channel matrix; users: @a:b; operators: none");
    expect(doctor("homeserver: \"http://x\""), "MATRIX_TOKEN is not set");
    expect(doctor("homeserver: \"http://x\""), "no user may write to the bot");
    const std::string configured = doctor("homeserver: \"http://x\", token: very-secret");
    EXPECT_EQ(configured.find("MATRIX_TOKEN"), std::string::npos) << configured;
    EXPECT_EQ(configured.find("very-secret"), std::string::npos) << configured;
    expect(doctor("user: [a]"),
           "unknown key 'gateway.matrix.user' (did you mean 'users'?); the keys of gateway.matrix "
           "are homeserver, token_env, token, users, operators");
    expect(doctor("users: ann"), "gateway.matrix.users must be a list of ids of users");
    expect(doctor("homeserver: \"http://x\", users: [ann]"), "such as @ann:example.org");
    expect(run_command(home, {"onboard", "--help"}).output, "channel matrix: account and");
    expect(run_command(home, {"__man"}).output, ".BR matrix \" (\" homeserver");
}

/// A user with prepared answers.
class User final : public bub::OnboardingUi {
public:
    explicit User(std::string homeserver) : homeserver_(std::move(homeserver)) {}
    void say(std::string) override {}
    cubepi::Task<std::string> ask(std::string question, std::string) override {
        co_return question == "Homeserver" ? homeserver_ : olga;
    }
    cubepi::Task<std::string> ask_secret(std::string) override { co_return FakeHomeserver::token; }
    cubepi::Task<std::size_t> choose(std::string, std::vector<std::string>,
                                     std::size_t value) override {
        co_return value;
    }
    cubepi::Task<bool> confirm(std::string, bool value) override { co_return value; }

private:
    const std::string homeserver_;
};

TEST_F(Matrix, Onboarding_WritesSettingsThatAreValid) {
    const std::vector<const cubepi::app::ChannelKind*>& kinds = cubepi::app::channel_kinds();
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [](const auto* one) { return one->name == "matrix"; });
    ASSERT_NE(kind, kinds.end());
    User user(server.url());
    const JsonObject config =
        cubepi::run((*kind)->onboard(JsonObject(), cubepi::Runtime::standard(), user));
    const cubepi::app::GatewaySettings settings = cubepi::app::gateway_settings(config);
    ASSERT_EQ(settings.configured.size(), 1u);
    EXPECT_EQ(settings.configured[0].list("operators"), std::vector<std::string>{olga});
}

}  // namespace
}  // namespace matrix

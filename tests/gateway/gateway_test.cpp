// The gateway as a service: start, answers, status, drain, reload, failures to start.

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cubepi/core/run.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/process/process_test.hpp>

#include "fake_bot_server.hpp"
#include "gateway_process.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;

JsonObject message(const std::string& session, const std::string& text) {
    return JsonObject{{"session", session}, {"text", text}};
}

HttpReply post(std::uint16_t port, const std::string& session, const std::string& text) {
    return run(post_message(port, message(session, text)));
}

TEST(Gateway, Gateway_AnswersMessagesAndShowsItsState) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "s1", "hello").text(), "re: hello");
    const CommandResult status = run_command(home, {"gateway", "status"});
    EXPECT_EQ(status.status, 0) << status.output;
    for (const char* text : {"State:      running", "Channels:   http", "Held:       nothing"})
        EXPECT_NE(status.output.find(text), std::string::npos) << status.output;
    EXPECT_EQ(run_command(home, {"gateway", "sessions"}).output,
              "No session has a running turn or waiting messages.\n");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
    EXPECT_FALSE(std::filesystem::exists(home.socket()));
}

TEST(Gateway, D87_EmptyAnswer_IsReported) {
    const GatewayHome home;
    GatewayProcess gateway(home, {"--script", home.script(R"([""])")});
    const HttpReply reply = post(gateway.wait_until_running(), "s1", "hello");
    EXPECT_NE(reply.body.find("\"finish\":\"empty\""), std::string::npos) << reply.body;
    EXPECT_NE(reply.body.find("The model returned an empty answer"), std::string::npos);
}

TEST(Gateway, B26_EachSession_HasItsOwnDirectory) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    (void)post(port, "one", "hello");
    (void)post(port, "../two", "hello");
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
        struct stat info = {};
        ASSERT_EQ(::stat(entry.path().c_str(), &info), 0);
        EXPECT_EQ(info.st_mode & 0777U, 0700U) << entry.path();
        ++count;
    }
    EXPECT_EQ(count, 2u);
}

TEST(Gateway, StatusPort_ShowsHealthReadinessAndMetrics) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, status: "127.0.0.1:0"})");
    GatewayProcess gateway(home);
    const JsonObject listening = gateway.wait_for("http_server.listening");
    EXPECT_EQ(listening.at("name"), "status");
    const auto port = listening.at("port").to_number<std::uint16_t>();
    (void)gateway.wait_for("gateway.running");
    EXPECT_EQ(run(http_get(port, "/healthz")).status, 200);
    EXPECT_EQ(run(http_get(port, "/readyz")).status, 200);
    const HttpReply metrics = run(http_get(port, "/metrics"));
    EXPECT_NE(metrics.body.find("\ncubepi_gateway_running_turns 0\n"), std::string::npos);
    EXPECT_EQ(run(http_get(port, "/secrets")).status, 404);
}

/// Reads the notifications of a service to systemd.
class ServiceManager {
public:
    explicit ServiceManager(const GatewayHome& home)
        : path_((home.path() / "notify.sock").string()),
          socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        struct sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast)
        EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    }
    ~ServiceManager() { ::close(socket_); }
    ServiceManager(const ServiceManager&) = delete;
    ServiceManager& operator=(const ServiceManager&) = delete;

    std::string variable() const { return "NOTIFY_SOCKET=" + path_; }
    /// Returns the next notification that contains `text`.
    std::string wait_for(const std::string& text) const {
        for (;;) {
            char buffer[1024];
            const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
            if (size < 0) return {};
            std::string received(buffer, static_cast<std::size_t>(size));
            if (received.find(text) != std::string::npos) return received;
        }
    }

private:
    std::string path_;
    int socket_;
};

TEST(Gateway, ServiceManager_IsNotified) {
    const GatewayHome home;
    const ServiceManager manager(home);
    GatewayProcess gateway(home, {}, {manager.variable(), "WATCHDOG_USEC=1000000"});
    EXPECT_NE(manager.wait_for("READY=1"), "");
    EXPECT_NE(manager.wait_for("WATCHDOG=1"), "");
    gateway.send(SIGHUP);
    EXPECT_NE(manager.wait_for("RELOADING=1").find("MONOTONIC_USEC="), std::string::npos);
    EXPECT_NE(manager.wait_for("READY=1"), "");
    gateway.send(SIGTERM);
    // 30 s to drain, as configured now, and 30 s more.
    EXPECT_NE(manager.wait_for("STOPPING=1").find("EXTEND_TIMEOUT_USEC=60000000"),
              std::string::npos);
    EXPECT_EQ(gateway.wait(), 0);
}

TEST(Gateway, B27_UnendingTurn_IsCancelledAndItsMessageRedelivered) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, drain_timeout: 1})");
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    HttpReply reply;
    run([](const GatewayHome& at, const GatewayProcess& process, std::uint16_t to,
           HttpReply& result) -> Task<> {
        TaskScope scope(co_await this_executor);
        const auto ask = [&result, to]() -> Task<> {
            JsonObject text = message("s1", "wait for ever");
            result = co_await post_message(to, std::move(text), "key-1");
        };
        scope.spawn(ask());
        while (run_command(at, {"gateway", "sessions"}).output.find("\trunning") ==
               std::string::npos)
            co_await yield_now();
        process.send(SIGTERM);
        co_await scope.join();
    }(home, gateway, port, reply));
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
    EXPECT_EQ(reply.status, 202) << reply.body;
    GatewayProcess next(home);
    (void)next.wait_until_running();
    wait_until([&] {
        const std::string listed = run_command(home, {"gateway", "sessions"}).output;
        return listed.find("http:s1\trunning") != std::string::npos;
    });
    next.send(SIGTERM);
    next.send(SIGTERM);
    EXPECT_EQ(next.wait(), 0) << "a second signal does not wait for the turns";
}

/// Waits for the file in which a command of a turn has written its process id.
pid_t command_of_turn(const GatewayHome& home) {
    for (;;) {
        for (const auto& entry : std::filesystem::directory_iterator(home.workspaces())) {
            std::ifstream file(entry.path() / "pid");
            std::string line;
            if (std::getline(file, line) && !file.eof()) return std::stoi(line);
        }
        ::usleep(1000);
    }
}

TEST(Gateway, B12_BackgroundCommand_EndsWithTheGateway) {
    constexpr const char* starts_a_command =
        R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "bash", "arguments": {"cmd": "echo $$ > pid; exec sleep 1000", "background": true}}]}, "Started."]})";
    for (const int signal : {SIGTERM, SIGKILL}) {
        const GatewayHome home;
        GatewayProcess gateway(home, {"--script", home.script(starts_a_command)});
        (void)post(gateway.wait_until_running(), "s1", "start it");
        const CommandResult approved = run_command(home, {"inbox", "--gateway", "approve", "c1"});
        ASSERT_EQ(approved.status, 0) << approved.output;
        const pid_t command = command_of_turn(home);
        EXPECT_TRUE(is_running(command));
        gateway.send(signal);
        EXPECT_EQ(gateway.wait(), signal == SIGTERM ? 0 : 128 + SIGKILL) << gateway.output();
        expect_gone(command);
    }
}

TEST(Gateway, D93_CommandOfSubagent_EndsWithItsSession) {
    const GatewayHome home;
    const std::string starts = "sh " + (home.path() / "start").string();
    std::ofstream(home.path() / "start") << "echo $$ > pid; exec sleep 1000";
    home.configure(
        R"({http: {listen: "127.0.0.1:0", operators: [olga]}, rules: [{allow: ["subagent: *", "shell: cd * && )" +
        starts + "\"]}]}");
    const std::string script =
        R"({"tokens_per_second": 100000, "answers": [{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1",
        "name": "subagent", "arguments": {"prompt": "start it"}}]}, {"stop_reason": "tool_use", "content": [{"type": "tool_call",
        "id": "c1", "name": "bash", "arguments": {"cmd": ")" +
        starts + R"(", "background": true}}]}, "Started.", "It runs."]})";
    GatewayProcess gateway(home, {"--script", home.script(script)});
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "s1", "start it").text(), "It runs.") << gateway.output();
    const pid_t command = command_of_turn(home);
    const auto operators = [port](const std::string& session, const std::string& text) {
        JsonObject sent = message(session, text);
        sent["user"] = "olga";
        return run(post_message(port, std::move(sent)));
    };
    EXPECT_NE(operators("s1", ",shell_output").text().find("sh1: running: sh "), std::string::npos);
    EXPECT_EQ(operators("s1", ",echo more").text(), "more");
    EXPECT_EQ(operators("s2", ",shell_output").text(), "(no background commands)");
    EXPECT_TRUE(is_running(command));
    (void)operators("s1", ",quit");
    expect_gone(command);
}

TEST(Gateway, B28_Reload_AppliesOnlyAValidConfiguration) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "s1", "one").text(), "re: one");

    home.configure(R"({http: {listen: "127.0.0.1:0"}, drain_timeout: "soon"})");
    const CommandResult refused = run_command(home, {"gateway", "reload"});
    EXPECT_NE(refused.status, 0);
    EXPECT_NE(refused.output.find("gateway.drain_timeout must be"), std::string::npos)
        << refused.output;
    home.configure(R"({http: {listen: "127.0.0.1:0", token_env: "NO_SUCH_VARIABLE"}})");
    EXPECT_NE(run_command(home, {"gateway", "reload"}).output.find("NO_SUCH_VARIABLE is not set"),
              std::string::npos);
    EXPECT_EQ(post(port, "s1", "two").text(), "re: two") << "the old configuration continues";

    home.configure(R"({http: {listen: "127.0.0.1:0"}, threads: 1})");
    EXPECT_EQ(run_command(home, {"gateway", "reload"}).status, 0);
    const std::uint16_t new_port = gateway.wait_until_running();
    EXPECT_EQ(post(new_port, "s1", "three").text(), "re: three");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0) << gateway.output();
}

TEST(Gateway, SecondGatewayOfTheUser_IsRefused) {
    const GatewayHome home;
    GatewayProcess gateway(home);
    (void)gateway.wait_until_running();
    GatewayProcess second(home);
    EXPECT_NE(second.wait(), 0);
    EXPECT_NE(second.output().find("another gateway of this user is running"), std::string::npos)
        << second.output();
    EXPECT_EQ(run_command(home, {"gateway", "status"}).status, 0)
        << "the first one is not affected";
}

TEST(Gateway, NoChannelOrToken_NamesTheRemedy) {
    const GatewayHome home;
    home.configure("{}");
    const CommandResult none = run_command(home, {"gateway", "--offline"});
    EXPECT_NE(none.status, 0);
    EXPECT_NE(none.output.find("no channel is enabled"), std::string::npos) << none.output;
    home.configure(R"({http: {token_env: "NO_SUCH_VARIABLE"}})");
    const CommandResult without = run_command(home, {"gateway", "--offline"});
    EXPECT_NE(without.status, 0);
    EXPECT_NE(without.output.find("NO_SUCH_VARIABLE is not set"), std::string::npos)
        << without.output;
    EXPECT_NE(run_command(home, {"gateway", "drain"}).output.find("To start one: cubepi gateway"),
              std::string::npos);
}

TEST(Gateway, SilentConnections_AreReplacedByNewOnes) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, status: "127.0.0.1:0"})");
    GatewayProcess gateway(home);
    const auto status =
        gateway.wait_for("http_server.listening").at("port").to_number<std::uint16_t>();
    const std::uint16_t port = gateway.wait_until_running();
    for (const std::uint16_t to : {status, port}) {
        boost::asio::io_context context;
        std::vector<boost::asio::ip::tcp::socket> silent;
        for (int i = 0; i < 1100; ++i) {
            silent.emplace_back(context);
            silent.back().connect({boost::asio::ip::make_address("127.0.0.1"), to});
        }
        if (to == status) {
            EXPECT_EQ(run(http_get(to, "/healthz")).status, 200);
        } else {
            EXPECT_EQ(post(to, "s1", "hello").text(), "re: hello");
        }
    }
}

TEST(Gateway, EnabledChannel_NeedsNoTokenOfOthers) {
    const GatewayHome home;
    home.configure(R"({http: {listen: "127.0.0.1:0"}, telegram: {users: [7]}})");
    GatewayProcess gateway(home, {"--enable-channel", "http"});
    EXPECT_EQ(post(gateway.wait_until_running(), "s1", "hello").text(), "re: hello");
    EXPECT_NE(gateway.output().find("Serving http.\n"), std::string::npos) << gateway.output();
}

TEST(Gateway, WrongTokenOrSecretOfTelegram_IsNamed) {
    const GatewayHome home;
    const FakeBotServer bot(std::make_shared<SystemClock>());
    const auto output_with = [&](const std::string& settings) {
        home.configure("{telegram: {users: [7], api_url: \"" + bot.url() + "\", " + settings +
                       "}}");
        const CommandResult result = run_command(home, {"gateway", "--offline"});
        EXPECT_NE(result.status, 0);
        return result.output;
    };
    const std::string wrong = output_with("token: \"42:of-another-bot-entirely\"");
    EXPECT_NE(wrong.find("Telegram does not know the bot token"), std::string::npos) << wrong;
    EXPECT_EQ(wrong.find("authentication failed"), std::string::npos) << wrong;
    const std::string without =
        output_with("token: \"" + bot.token() + "\", webhook: {url: \"https://e.org\"}");
    EXPECT_NE(without.find("the channel telegram has no webhook secret, since "
                           "TELEGRAM_WEBHOOK_SECRET is not set"),
              std::string::npos)
        << without;
}

TEST(Gateway, OfflineDoctor_ContactsNoServer) {
    const GatewayHome home;
    const CommandResult doctor = run_command(home, {"doctor", "--offline"});
    EXPECT_EQ(doctor.status, 0) << doctor.output;
    EXPECT_NE(doctor.output.find("not contacted (--offline)"), std::string::npos) << doctor.output;
}

TEST(Gateway, Traceparent_IsTheParentOfTheTurn) {
    const GatewayHome home;
    const std::filesystem::path traces = home.path() / "traces";
    GatewayProcess gateway(home, {}, {"CUBEPI_TRACE=" + traces.string()});
    const std::uint16_t port = gateway.wait_until_running();
    const std::string trace = "0af7651916cd43dd8448eb211c80319c";
    const HttpReply reply =
        run(post_message(port, message("s1", "hello"), "", "00-" + trace + "-b7ad6b7169203331-01"));
    EXPECT_EQ(reply.text(), "re: hello");
    gateway.send(SIGTERM);
    EXPECT_EQ(gateway.wait(), 0);
    std::string recorded;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(traces)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream file(entry.path());
        recorded.append(std::istreambuf_iterator<char>(file), {});
    }
    EXPECT_NE(recorded.find(trace), std::string::npos) << recorded;
}

/// Waits until a user of the bot has received `count` messages, and returns them.
std::vector<std::string> texts(FakeBotServer& bot, std::int64_t user, std::size_t count) {
    bot.wait_until([&](const FakeBotApi& api) { return api.texts(user).size() >= count; });
    return bot.with_api([&](const FakeBotApi& api) { return api.texts(user); });
}

TEST(Gateway, D91_LostTelegramReply_IsRepeatedWithAMark) {
    constexpr std::int64_t ann = 7;
    const GatewayHome home;
    FakeBotServer bot(std::make_shared<ScaledClock>(20));
    bot.with_api([](FakeBotApi& api) { api.add_chat(ann); });
    home.configure("{telegram: {users: [7], progress: false, api_url: \"" + bot.url() + "\"}}");
    GatewayProcess gateway(home, {}, {"TELEGRAM_BOT_TOKEN=" + bot.token(), "CUBEPI_TEST_CLOCK=20"});
    const auto say = [&](const std::string& text) {
        bot.with_api([&](FakeBotApi& api) { (void)api.say(ann, text); });
    };
    std::vector<std::string> expected;
    for (int i = 0; i < 5; ++i) {
        say("m" + std::to_string(i));
        expected.push_back("re: m" + std::to_string(i));
        EXPECT_EQ(texts(bot, ann, expected.size()), expected);
    }
    // At most three at a time: updates, the answer, the indicator that the turn runs.
    EXPECT_LE(bot.connections(), 3u);
    bot.with_api(
        [](FakeBotApi& api) { api.fail("sendMessage", {bub::telegram::Fault::cut_after}); });
    say("lost");
    expected.emplace_back("re: lost");
    expected.emplace_back("(sent again) re: lost");
    EXPECT_EQ(texts(bot, ann, expected.size()), expected);
}

}  // namespace
}  // namespace cubepi::gateway_tests

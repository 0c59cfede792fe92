// `cubepi onboard`, at a terminal and in scripts, against servers on this machine.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "../wire/net/raw_server.hpp"
#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

/// Lists two models to who has the key; answers every question with "Hello from MODEL." but those to `gone`.
class ModelServer {
public:
    explicit ModelServer(std::string key = {})
        : server_([key = std::move(key)](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  if (!connection.send(answer(request, key))) return;
              }
          }) {}
    std::string url() const { return server_.url("/v1"); }

private:
    static std::string answer(const std::string& request, const std::string& key) {
        if (!key.empty() && request.find("Bearer " + key) == std::string::npos)
            return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}";
        if (request.starts_with("GET /v1/models"))
            return wire::ok(R"({"data":[{"id":"small"},{"id":"large"}]})");
        if (request.find("\"gone\"") != std::string::npos) {
            const std::string body =
                R"({"error":{"message":"gone","type":"x","code":"model_not_found"}})";
            return "HTTP/1.1 404 Not Found\r\nContent-Length: " + std::to_string(body.size()) +
                   "\r\n\r\n" + body;
        }
        const bool small = request.find("\"small\"") != std::string::npos;
        const std::string text = small ? "Hello from small." : "Hello from large.";
        return wire::ok(R"(data: {"choices":[{"index":0,"delta":{"content":")" + text +
                            "\"}}]}\n\ndata: "
                            R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
                            "\n\ndata: [DONE]\n\n",
                        "Content-Type: text/event-stream\r\n");
    }

    wire::RawServer server_;
};

/// The number before an option that is shown.
std::string number_of(const Terminal& terminal, const std::string& option) {
    const std::string shown = terminal.shown();
    const std::size_t at = shown.rfind(option);
    const std::size_t line = shown.rfind('\n', at);
    return std::to_string(std::atoi(shown.c_str() + line + 1));
}

constexpr const char* other = "Another OpenAI-compatible server";

/// A question that is shown, and what is typed at it. "#" stands for the number of the other server.
struct Step {
    std::string question;
    std::string answer;
};

std::vector<Step> steps_to(const std::string& url) {
    return {{"number [", "#"},
            {"Base URL", url},
            {"API key", "sk-typed-secret"},
            {"Model: a number", "2"},
            {"Write it?", ""}};
}

/// Answers the first `count` questions, and waits for the next one.
void answer_steps(Terminal& terminal, const std::vector<Step>& steps, std::size_t count) {
    for (std::size_t i = 0; i <= count && i < steps.size(); ++i) {
        ASSERT_TRUE(terminal.expect(steps[i].question)) << terminal.shown();
        ASSERT_TRUE(terminal.expect(" > ")) << terminal.shown();
        if (i == count) return;
        const std::string& answer = steps[i].answer;
        terminal.type((answer == "#" ? number_of(terminal, other) : answer) + "\r");
    }
}

TEST(Onboard, NewUser_GetsAModelThatAnswers) {
    const Home home;
    const ModelServer server("sk-typed-secret");
    Terminal onboard(home, {"onboard"});
    answer_steps(onboard, steps_to(server.url()), 5);
    EXPECT_EQ(onboard.wait(), 0) << onboard.shown();
    const std::string shown = onboard.shown();
    EXPECT_NE(shown.find("Written."), std::string::npos) << shown;
    EXPECT_NE(shown.find(" answers."), std::string::npos) << shown;
    EXPECT_NE(shown.find("Next: cubepi chat"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("sk-typed"), std::string::npos) << "the key was shown: " << shown;
    EXPECT_NE(shown.find("...cret"), std::string::npos) << shown;
    EXPECT_EQ(read_file(home.config()),
              "provider: 127.0.0.1\nproviders:\n  127.0.0.1:\n"
              "    base_url: " +
                  server.url() + "\n    model: large\n    api_key: sk-typed-secret\n");
    struct stat info = {};
    ASSERT_EQ(stat(home.config().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const Piped run = run_piped(home, {"run", "hi"});
    EXPECT_EQ(run.out, "Hello from large.\n") << run.err;
}

/// The page docs/captures/onboard.txt, from a real terminal: written when CUBEPI_WRITE_CAPTURE is set.
TEST(Onboard, NamesAndTheirBeginnings_AreAccepted) {
    for (const char* name : {"another", "Another OpenAI-compatible server"}) {
        const Home home;
        const ModelServer server("sk-typed-secret");
        Terminal onboard(home, {"onboard"});
        ASSERT_TRUE(onboard.answer("number [", "o\r")) << onboard.shown();
        ASSERT_TRUE(onboard.expect("the beginning of one name only")) << onboard.shown();
        ASSERT_TRUE(onboard.answer("number [", std::string(name) + "\r")) << onboard.shown();
        ASSERT_TRUE(onboard.answer("Base URL", server.url() + "\r")) << onboard.shown();
        ASSERT_TRUE(onboard.answer("API key", "sk-typed-secret\r")) << onboard.shown();
        ASSERT_TRUE(onboard.answer("Model: a number", "lar\r")) << onboard.shown();
        ASSERT_TRUE(onboard.answer("Write it?", "\r")) << onboard.shown();
        EXPECT_EQ(onboard.wait(), 0) << onboard.shown();
        EXPECT_NE(read_file(home.config()).find("model: large"), std::string::npos);
    }
}

TEST(Onboard, Channel_IsAskedAboutAtATerminalOnly) {
    const Home home;
    const Piped piped = run_piped(home, {"onboard", "telegram"});
    EXPECT_EQ(piped.status, 2) << piped.err;
    EXPECT_NE(piped.err.find("gateway.telegram in the configuration"), std::string::npos);
    Terminal onboard(home, {"onboard", "--yes", "telegram"});
    ASSERT_TRUE(onboard.answer("Bot token:", "\x03")) << onboard.shown();
    EXPECT_EQ(onboard.wait(), 130) << onboard.shown();
}

TEST(Onboard, TwoServersOnOneHost_HaveTheirEntries) {
    const Home home;
    const ModelServer one("sk-one");
    const ModelServer two("sk-two");
    const auto add = [&home](const ModelServer& server, const char* key) {
        return run_piped(
            home,
            {"onboard", "--base-url", server.url(), "--model", "large", "--key-stdin", "--yes"},
            key);
    };
    EXPECT_EQ(add(one, "sk-one").status, 0);
    EXPECT_EQ(add(two, "sk-two").status, 0);
    const std::string file = read_file(home.config());
    for (const std::string& part :
         {one.url(), two.url(), std::string("sk-one"), std::string("sk-two")})
        EXPECT_NE(file.find(part), std::string::npos) << file;
}

TEST(Onboard, Capture_ShowsEveryStep) {
    Home home;
    home.set("NO_COLOR", "1");
    const ModelServer server("sk-typed-secret");
    Terminal onboard(home, {"onboard"});
    answer_steps(onboard, steps_to(server.url()), 5);
    EXPECT_EQ(onboard.wait(), 0) << onboard.shown();
    if (std::getenv("CUBEPI_WRITE_CAPTURE")) {
        std::string text = "$ cubepi onboard\n" + onboard.shown();
        const std::string host = server.url().substr(7, server.url().rfind('/') - 7);
        const std::vector<std::pair<std::string, std::string>> names = {
            {(home.root() / "home").string(), "/home/you"},
            {host, "box.example:8000"},
            {"127.0.0.1:\n", "box.example:\n"},
            {"provider: 127.0.0.1\n", "provider: box.example\n"},
            {".127.0.0.1.", ".box.example."},
            {"127.0.0.1 (", "box.example ("}};
        for (const auto& [from, to] : names) {
            for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
                text.replace(at, from.size(), to);
        }
        write_file(cubepi::testing::source_path("docs/captures/onboard.txt"), text);
    }
    EXPECT_TRUE(std::filesystem::exists(cubepi::testing::source_path("docs/captures/onboard.txt")));
}

TEST(Onboard, LeavingEarly_WritesNothingAndSaysSo) {
    const ModelServer server;
    const std::vector<Step> steps = steps_to(server.url());
    for (const char* leave : {"\x03", "\x04"}) {
        for (std::size_t count = 0; count < steps.size(); ++count) {
            const Home home;
            Terminal onboard(home, {"onboard"});
            answer_steps(onboard, steps, count);
            onboard.type(leave);
            EXPECT_EQ(onboard.wait(), *leave == '\x03' ? 130 : 1) << onboard.shown();
            EXPECT_NE(onboard.shown().find("nothing was written"), std::string::npos)
                << steps[count].question << onboard.shown();
            EXPECT_FALSE(std::filesystem::exists(home.config())) << steps[count].question;
        }
    }
}

TEST(Onboard, No_LeavesTheFileUnchanged) {
    const Home home;
    const ModelServer server;
    const std::string before = "# mine\nmodel: gpt-x\n";
    write_file(home.config(), before);
    Terminal onboard(home, {"onboard"});
    const std::vector<Step> steps = steps_to(server.url());
    answer_steps(onboard, steps, 4);
    onboard.type("n\r");
    EXPECT_EQ(onboard.wait(), 1) << onboard.shown();
    EXPECT_NE(onboard.shown().find("nothing was written"), std::string::npos) << onboard.shown();
    EXPECT_EQ(read_file(home.config()), before);
}

TEST(Onboard, ChatWithoutModel_BeginsAfterIt) {
    const Home home;
    const ModelServer server;
    Terminal chat(home, {"say hello, please"});
    ASSERT_TRUE(chat.expect("no model: ")) << chat.shown();
    ASSERT_TRUE(chat.answer("Choose one now? [Y/n] > ", "\r")) << chat.shown();
    answer_steps(chat, steps_to(server.url()), 5);
    ASSERT_TRUE(chat.expect("Hello from large.")) << chat.shown();
    EXPECT_EQ(chat.shown().find("Next: cubepi chat"), std::string::npos) << chat.shown();
    chat.type("\x04");
    EXPECT_EQ(chat.wait(), 0) << chat.shown();
}

TEST(Onboard, ChatWithoutModel_EndsWhenOfferIsDeclined) {
    for (const auto& [keys, status] : {std::pair("n\r", 3), std::pair("\x03", 130)}) {
        const Home home;
        Terminal chat(home, {"chat"});
        ASSERT_TRUE(chat.answer("Choose one now? [Y/n] > ", keys)) << chat.shown();
        EXPECT_EQ(chat.wait(), status) << chat.shown();
        EXPECT_FALSE(std::filesystem::exists(home.config()));
    }
}

TEST(Onboard, ChatWithoutModel_EndsAtInterruptDuringTest) {
    const Home home;
    std::atomic<int> lists = 0;
    const wire::RawServer server([&lists](wire::Connection& connection) {
        while (connection.read_request().starts_with("GET /v1/models")) {
            // The second request is the test, which gets no answer.
            if (++lists == 1) (void)connection.send(wire::ok(R"({"data":[{"id":"large"}]})"));
        }
    });
    Terminal chat(home, {"say hello, please"});
    ASSERT_TRUE(chat.answer("Choose one now? [Y/n] > ", "\r")) << chat.shown();
    std::vector<Step> steps = steps_to(server.url("/v1"));
    steps[3].answer = "1";
    answer_steps(chat, steps, steps.size());
    ASSERT_TRUE(chat.expect("Written.")) << chat.shown();
    while (lists < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    chat.type("\x03");
    EXPECT_EQ(chat.wait(), 130) << chat.shown();
}

TEST(Onboard, OtherSettings_AreRetained) {
    const Home home;
    const ModelServer server;
    write_file(home.config(),
               "# mine\nmodel: gpt-x   # was good\napi_key: sk-old-secret-key\n"
               "allow:            # what may be done\n  - \"shell: git status\"\n");
    Terminal onboard(home, {"onboard", "--base-url", server.url(), "--model", "small"});
    ASSERT_TRUE(onboard.answer("API key", "\r")) << onboard.shown();
    ASSERT_TRUE(onboard.answer("Write it?", "y\r")) << onboard.shown();
    EXPECT_EQ(onboard.wait(), 0) << onboard.shown();
    EXPECT_NE(onboard.shown().find("api_key: removed"), std::string::npos) << onboard.shown();
    EXPECT_EQ(
        read_file(home.config()),
        "# mine\n# was good\nallow:            # what may be done\n  - \"shell: git status\"\n"
        "provider: 127.0.0.1\nproviders:\n  127.0.0.1:\n    base_url: " +
            server.url() + "\n    model: small\n");
}

TEST(Onboard, AllFlags_ConfigureWithoutWritingTheEnvironmentKey) {
    Home home;
    const ModelServer server("sk-env-secret");
    home.set("OPENAI_API_KEY", "sk-env-secret");
    const Piped named =
        run_piped(home, {"onboard", "--provider", "openai", "--base-url", server.url(),
                         "--api-key-env", "OPENAI_API_KEY", "--model", "large", "--yes"});
    EXPECT_EQ(named.status, 0) << named.err;
    EXPECT_NE(named.out.find("openai (127.0.0.1"), std::string::npos) << named.out;
    const std::string file = read_file(home.config());
    EXPECT_EQ(file.find("sk-env"), std::string::npos) << file;
    EXPECT_NE(file.find("model: large"), std::string::npos) << file;
    EXPECT_EQ(run_piped(home, {"run", "hi"}).out, "Hello from large.\n");
    const Piped again = run_piped(home, {"onboard", "--yes"});
    EXPECT_NE(again.out.find("No changes"), std::string::npos) << again.out << again.err;
}

TEST(Onboard, StandardInput_ProvidesTheKey) {
    const Home home;
    const ModelServer server("sk-piped");
    const Piped onboard =
        run_piped(home, {"onboard", "--base-url", server.url(), "-m", "small", "--key-stdin", "-y"},
                  "sk-piped\n");
    EXPECT_EQ(onboard.status, 0) << onboard.err;
    EXPECT_EQ(onboard.out.find("sk-piped"), std::string::npos);
    EXPECT_EQ(run_piped(home, {"run", "hi"}).out, "Hello from small.\n");
    EXPECT_EQ(run_piped(home, {"onboard", "--key-stdin", "-y"}, "\n").status, 2);
}

TEST(Onboard, NoTerminal_NamesTheRemedy) {
    const Home home;
    const Piped asked = run_piped(home, {"onboard"});
    EXPECT_EQ(asked.status, 2);
    EXPECT_NE(asked.err.find("there is no terminal to ask the user"), std::string::npos)
        << asked.err;
    EXPECT_NE(asked.err.find("--key-stdin"), std::string::npos) << asked.err;
    const Piped nothing = run_piped(home, {"onboard", "--yes"});
    EXPECT_EQ(nothing.status, 2);
    EXPECT_NE(nothing.err.find("--provider"), std::string::npos) << nothing.err;
    EXPECT_NE(nothing.err.find("nothing was written"), std::string::npos) << nothing.err;
    EXPECT_FALSE(std::filesystem::exists(home.config()));
}

TEST(Onboard, SilentAddress_IsSavedWithAWarning) {
    const Home home;
    const Piped down = run_piped(
        home, {"onboard", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--yes"});
    EXPECT_EQ(down.status, 0) << down.err;
    EXPECT_NE(down.out.find("The configuration was written, but: cannot reach 127.0.0.1:9"),
              std::string::npos)
        << down.out;
    write_file(home.config(), "model: [broken\n");
    const Piped broken = run_piped(home, {"onboard", "--provider", "ollama", "-m", "m", "--yes"});
    EXPECT_NE(broken.status, 0);
    EXPECT_NE(broken.err.find("config.yaml:"), std::string::npos) << broken.err;
    EXPECT_EQ(read_file(home.config()), "model: [broken\n");
}

TEST(Fallback, FailedModel_NextConfiguredModelAnswers) {
    Home home;
    const ModelServer server;
    write_file(home.config(),
               "provider: box\nproviders: {box: {base_url: \"" + server.url() +
                   "\", model: gone}}\nfallback_models: [anthropic/claude-x, small]\n");
    const Piped run = run_piped(home, {"run", "hi"});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, "Hello from small.\n");
    EXPECT_NE(run.err.find("anthropic/claude-x is not used"), std::string::npos) << run.err;
    const Piped alone = run_piped(home, {"run", "--model", "gone", "hi"});
    EXPECT_NE(alone.status, 0);
    EXPECT_NE(alone.err.find("model not found"), std::string::npos) << alone.err;
}

TEST(Bub, Settings_AreUsedAndABrokenFileWarns) {
    Home home;
    const ModelServer server("bub-secret");
    const std::filesystem::path file = home.root() / "home/.bub/config.yml";
    write_file(file, "model: lab:small\napi_base: " + server.url() + "\nmax_steps: 4\n");
    home.set("BUB_LAB_API_KEY", "bub-secret");
    EXPECT_EQ(run_piped(home, {"run", "hi"}).out, "Hello from small.\n");
    const Piped doctor = run_piped(home, {"doctor"});
    EXPECT_EQ(doctor.status, 0) << doctor.out;
    for (const std::string& text :
         {"provider: lab (" + file.string() + ")", std::string("key: set (BUB_LAB_API_KEY)"),
          "model: small (" + file.string() + ")", "max_turns: 4 (" + file.string() + ")"})
        EXPECT_NE(doctor.out.find(text), std::string::npos) << text << doctor.out;
    EXPECT_EQ(doctor.out.find("bub-secret"), std::string::npos);
    write_file(file, "model: [lab\n");
    write_file(home.config(), "provider: box\nproviders: {box: {base_url: \"" + server.url() +
                                  "\", api_key: bub-secret, model: large}}\n");
    const Piped warned = run_piped(home, {"run", "hi"});
    EXPECT_EQ(warned.out, "Hello from large.\n");
    EXPECT_NE(warned.err.find("cannot read " + file.string()), std::string::npos) << warned.err;
    std::filesystem::remove(home.config());
    const Piped needed = run_piped(home, {"run", "hi"});
    EXPECT_EQ(needed.status, 3) << needed.err;
    EXPECT_NE(needed.err.find("cannot read " + file.string()), std::string::npos) << needed.err;
    EXPECT_NE(needed.err.find("cubepi onboard"), std::string::npos) << needed.err;
}

}  // namespace
}  // namespace cubepi::terminal_tests

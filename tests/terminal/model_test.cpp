// Which model a conversation uses, and that what is shown is what is used; incomplete answers.

#include <gtest/gtest.h>

#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "../wire/net/raw_server.hpp"
#include "terminal.hpp"
#include "terminal/text_layout.hpp"

namespace cubepi::terminal_tests {
namespace {

/// Answers each prompt with "Hello from NAME.", lists its models, and keeps all requests.
class RecordingServer {
public:
    RecordingServer(std::string name, std::vector<std::string> models)
        : name_(std::move(name)),
          models_(std::move(models)),
          server_([this](wire::Connection& connection) {
              for (;;) {
                  const std::string request = connection.read_request();
                  if (request.empty()) return;
                  {
                      const std::lock_guard lock(mutex_);
                      requests_.push_back(request);
                  }
                  if (!connection.send(answer(request))) return;
              }
          }) {}

    std::string url() const { return server_.url("/v1"); }
    std::string host() const { return "127.0.0.1:" + std::to_string(server_.port()); }
    /// The number of connections and the requests so far.
    int connections() const { return server_.accepted(); }
    std::vector<std::string> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    bool has_seen(const std::string& text) const {
        for (const std::string& request : requests()) {
            if (request.find(text) != std::string::npos) return true;
        }
        return false;
    }

private:
    std::string answer(const std::string& request) const {
        if (request.starts_with("GET /v1/models")) {
            std::string list;
            for (const std::string& id : models_)
                list += (list.empty() ? "" : ",") + (R"({"id":")" + id + "\"}");
            return wire::ok(R"({"data":[)" + list + "]}");
        }
        return wire::ok(R"(data: {"choices":[{"index":0,"delta":{"content":"Hello from )" + name_ +
                            ".\"}}]}\n\ndata: "
                            R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
                            "\n\ndata: [DONE]\n\n",
                        "Content-Type: text/event-stream\r\n");
    }

    std::string name_;
    std::vector<std::string> models_;
    mutable std::mutex mutex_;
    std::vector<std::string> requests_;
    wire::RawServer server_;  // last: its handlers use the others
};

/// A company's server and a private one; the configuration knows both, and the company's is the default.
class TwoServers : public ::testing::Test {
protected:
    TwoServers() {
        write_file(home.config(),
                   "provider: other\nproviders:\n  ant: {base_url: \"" + company.url() +
                       "\", api_key: company-key, model: claude}\n  other: {base_url: \"" +
                       own.url() + "\", model: own-one}\n");
        chmod(home.config().c_str(), 0600);
    }

    /// `,model ID` in a chat with the session.
    void choose(const std::string& id) {
        Terminal chat(home, {"chat", "-s", "S"});
        ASSERT_TRUE(chat.answer_on_screen("talks to", ",model " + id + "\r"))
            << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("Session model set to " + id, "/quit\r"))
            << chat.screen().text();
        EXPECT_EQ(chat.wait(), 0);
    }

    Home home;
    RecordingServer company{"company", {"claude", "claude-2"}};
    RecordingServer own{"own", {"own-one", "own-two"}};
};

TEST_F(TwoServers, TextForPrivateServer_NeverReachesSessionServer) {
    choose("ant/claude");
    const Piped stored = run_piped(home, {"run", "-s", "S", "hello"});
    ASSERT_EQ(stored.out, "Hello from company.\n") << stored.err;
    const RecordingServer vault("vault", {"private"});
    const int before = company.connections();
    const std::vector<std::vector<std::string>> flags{
        {"--base-url", vault.url(), "--model", "private"},
        {"--base-url", vault.url()},
        {"--provider", "other"},
        {"--model", "own-two"},
        {"--model", "other/own-two"}};
    for (const std::vector<std::string>& given : flags) {
        std::vector<std::string> arguments{"run", "-s", "S"};
        arguments.insert(arguments.end(), given.begin(), given.end());
        arguments.emplace_back("the secret of " + given.front());
        const Piped run = run_piped(home, arguments);
        EXPECT_EQ(run.status, 0) << given.front() << ": " << run.err;
        EXPECT_EQ(run.out.find("company"), std::string::npos) << run.out;
    }
    EXPECT_EQ(company.connections(), before) << "no request at all";
    EXPECT_FALSE(company.has_seen("secret"));
    EXPECT_TRUE(vault.has_seen("the secret of --base-url"));
    EXPECT_TRUE(own.has_seen("the secret of --model"));
    EXPECT_FALSE(vault.has_seen("company-key"));
}

TEST_F(TwoServers, ModelFromFlags_IsShownAndUsed) {
    choose("ant/claude");
    const int before = company.connections();
    Terminal chat(home, {"chat", "-s", "S", "--provider", "other"});
    ASSERT_TRUE(chat.answer_on_screen("talks to own-one at " + own.host(), "the secret\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Hello from own.")) << chat.shown();
    EXPECT_EQ(chat.screen().text().find("claude"), std::string::npos) << chat.screen().text();
    chat.type(",model own-two\r");
    ASSERT_TRUE(chat.answer_on_screen("own-two · S", "and this\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("> and this", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_EQ(company.connections(), before);
}

TEST_F(TwoServers, StoredModel_IsShownAndCanBeChanged) {
    choose("ant/claude");
    Terminal chat(home, {"chat", "-s", "S"});
    ASSERT_TRUE(chat.answer_on_screen("talks to claude at " + company.host(), "first\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("Hello from company.")) << chat.shown();
    const std::size_t count = company.requests().size();
    chat.type(",model other/own-two\r");
    ASSERT_TRUE(chat.answer_on_screen("own-two · S", "the secret\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("Hello from own.", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_EQ(company.requests().size(), count);
    EXPECT_TRUE(own.has_seen("\"own-two\""));
}

TEST_F(TwoServers, ModelCommand_ListsAndRefuses) {
    Terminal chat(home, {"chat"});
    ASSERT_TRUE(chat.answer_on_screen("talks to", ",model\r")) << chat.screen().text();
    ASSERT_TRUE(chat.expect_on_screen("* own-one")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("  own-two", ",model own-three\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("unknown model 'own-three'", ",model unknown/x\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("'unknown' is not a provider", "/quit\r"))
        << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
    EXPECT_EQ(company.connections(), 0);
}

TEST_F(TwoServers, D185_Effort_IsPickedShownAndSent) {
    Terminal chat(home, {"chat", "--session", "s"});
    ASSERT_TRUE(chat.answer("> ", "/effort\r")) << chat.shown();
    ASSERT_TRUE(chat.answer_on_screen("How hard the model thinks", "hig\r"))
        << chat.screen().text();
    ASSERT_TRUE(chat.expect("reasoning effort set to high")) << chat.shown();
    chat.type("/status\r");
    ASSERT_TRUE(chat.expect("effort     high")) << chat.shown();
    chat.type("/effort enormous\r");
    ASSERT_TRUE(chat.expect("is one of default, minimal")) << chat.shown();
    chat.type("hello\r");
    ASSERT_TRUE(chat.expect("Hello from")) << chat.shown();
    EXPECT_TRUE(own.has_seen(R"("reasoning_effort":"high")"));
}

/// At a server that only flags name, whose provider has another address, and at a configured one.
TEST_F(TwoServers, CopiesOfChosenModel_HaveItWithoutRequests) {
    const RecordingServer vault("vault", {"private", "other-one"});
    const std::vector<std::string> flags{"--provider", "other",   "--base-url",
                                         vault.url(),  "--model", "private"};
    for (const bool has_flags : {true, false}) {
        const RecordingServer& server = has_flags ? vault : own;
        const std::string id = has_flags ? "other-one" : "own-two";
        std::vector<std::string> arguments{"chat", "-s", has_flags ? "by-flags" : "plain"};
        if (has_flags) arguments.insert(arguments.end(), flags.begin(), flags.end());
        Terminal chat(home, arguments, 200);
        ASSERT_TRUE(chat.answer_on_screen("talks to", "/model " + id + "\r"))
            << chat.screen().text();
        ASSERT_TRUE(chat.answer_on_screen("Session model set to " + id, "hello\r"))
            << chat.screen().text();
        ASSERT_TRUE(chat.expect("Hello from")) << chat.shown();
        ASSERT_TRUE(chat.expect_gone("Esc stops ·")) << chat.screen().text();
        const std::size_t before = server.requests().size();
        chat.type("/context\r");
        ASSERT_TRUE(chat.expect_on_screen("The next request has about")) << chat.screen().text();
        EXPECT_EQ(server.requests().size(), before) << "no model is asked";
        chat.type("/btw what\r");
        ASSERT_TRUE(chat.answer_on_screen("(not a part of the session)", "/quit\r"))
            << chat.screen().text();
        EXPECT_EQ(chat.wait(), 0);
        const std::string last = server.requests().back();
        EXPECT_NE(last.find("\"" + id + "\""), std::string::npos) << last;
        const bool has_hint =
            chat.shown().find("--session by-flags --provider other --base-url " + vault.url() +
                              " --model other-one") != std::string::npos;
        EXPECT_EQ(has_hint, has_flags) << chat.shown();
    }
}

TEST_F(TwoServers, MissingStoredProvider_IsAnError) {
    choose("ant/claude");
    const std::size_t before = own.requests().size();
    write_file(home.config(), "provider: other\nproviders: {other: {base_url: \"" + own.url() +
                                  "\", model: m}}\n");
    const Piped run = run_piped(home, {"run", "-s", "S", "the secret"});
    EXPECT_EQ(run.status, 3) << run.err;
    EXPECT_NE(run.err.find("provider 'ant' is not configured"), std::string::npos) << run.err;
    EXPECT_EQ(own.requests().size(), before) << "not sent to another provider";
}

TEST(IncompleteAnswer, Run_HasANoticeAndAnExitStatus) {
    const Home home;
    struct Case {
        std::string script;
        std::string notice;
    };
    for (const Case& one :
         {Case{R"([{"stop_reason": "length", "content": [{"type": "text", "text": "Once upon"}]}])",
               "cut off"},
          Case{R"([{"stop_reason": "content_filter", "content": [{"type": "text", "text": "I"}]}])",
               "filtered"},
          Case{R"([{"stop_reason": "stop", "content": []}])", "empty answer"}}) {
        const Piped run = run_piped(home, {"run", "--script", home.script(one.script), "go"});
        EXPECT_EQ(run.status, 6) << run.err;
        EXPECT_NE(run.err.find(one.notice), std::string::npos) << run.err;
        const Piped json =
            run_piped(home, {"run", "--json", "--script", home.script(one.script), "go"});
        EXPECT_EQ(json.status, 6) << json.err;
        EXPECT_NE(json.err.find(one.notice), std::string::npos) << json.err;
        EXPECT_NE(json.out.find(R"("status":"incomplete","error":")"), std::string::npos)
            << json.out;
        const Piped result = run_piped(
            home, {"run", "--output-format", "json", "--script", home.script(one.script), "go"});
        EXPECT_EQ(boost::json::parse(result.out).at("status"), "incomplete") << result.out;
    }
}

TEST(IncompleteAnswer, Chat_HasANotice) {
    const Home home;
    Terminal chat(
        home,
        {"chat", "--script",
         home.script(
             R"([{"stop_reason": "length", "content": [{"type": "text", "text": "Once upon"}]}])")});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("the answer was cut off", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
}

TEST(Limits, ReachedLimit_NamesTheFlag) {
    const Home home;
    const std::string script = home.script(
        R"([{"stop_reason": "tool_use", "content": [{"type": "tool_call", "id": "c1", "name": "list",
             "arguments": {"path": "."}}]}, "Done."])");
    const Piped run = run_piped(home, {"run", "--max-turns", "1", "--script", script, "go"});
    EXPECT_EQ(run.status, 5) << run.err;
    EXPECT_NE(run.err.find("--max-turns"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("limits."), std::string::npos) << run.err;
    Terminal chat(home, {"chat", "--max-turns", "1", "--script", script});
    ASSERT_TRUE(chat.answer_on_screen("talks to", "go\r")) << chat.screen().text();
    ASSERT_TRUE(chat.answer_on_screen("--max-turns NUMBER", "/quit\r")) << chat.screen().text();
    EXPECT_EQ(chat.wait(), 0);
}

TEST(KeyFile, FileReadableByOthers_IsReportedAtUse) {
    const Home home;
    write_file(home.config(), "provider: openai\napi_key: sk-secret\n");
    const std::string advice = "chmod 600 " + home.config().string();
    chmod(home.config().c_str(), 0644);
    const Piped open = run_piped(home, {"run", "--offline", "hello"});
    EXPECT_EQ(open.status, 0);
    EXPECT_NE(open.err.find(advice), std::string::npos) << open.err;
    EXPECT_EQ(open.err.find("sk-secret"), std::string::npos);
    EXPECT_NE(run_piped(home, {"doctor"}).out.find(advice), std::string::npos);
    chmod(home.config().c_str(), 0600);
    EXPECT_EQ(run_piped(home, {"run", "--offline", "hello"}).err.find("chmod"), std::string::npos);
}

TEST(Doctor, MissingKeyAndPrice_AreReportedOffline) {
    const Home home;
    write_file(home.config(),
               "model: openrouter/some/model\nsubagents: {max_spend: 1}\n"
               "gateway: {http: {}, limits: {total: {money: 5}}}\n");
    const Piped unknown = run_piped(home, {"doctor", "--offline"});
    EXPECT_EQ(unknown.status, 0);
    for (const char* text :
         {"there is no key for openrouter (openrouter.ai)", "export OPENROUTER_API_KEY=...",
          "the price of the model some/model is unknown",
          "gateway.limits has amounts of money, but the price of the model 'some/model'"})
        EXPECT_NE(unknown.out.find(text), std::string::npos) << text << "\n" << unknown.out;
    write_file(home.config(),
               "model: openai/gpt-5.1\napi_key: k\nsubagents: {max_spend: 1}\n"
               "gateway: {http: {}, limits: {total: {money: 5}}}\n");
    const std::string known = run_piped(home, {"doctor", "--offline"}).out;
    EXPECT_EQ(known.find("there is no key"), std::string::npos) << known;
    EXPECT_EQ(known.find("price"), std::string::npos) << known;
}

TEST(NarrowTerminal, LongLines_BreakBetweenWords) {
    const Home home;
    const auto words_at = [&home](unsigned short columns) {
        Terminal terminal(home, {"run", "hello"}, columns, 50);
        EXPECT_NE(terminal.wait(), 0);
        std::vector<std::string> words;
        std::istringstream rows(terminal.shown());
        for (std::string row; std::getline(rows, row);) {
            // A command to copy is not broken.
            if (!row.starts_with("  cubepi") && !row.starts_with("  export")) {
                EXPECT_LE(app::display_width(row), columns) << row;
            }
            std::istringstream in(row);
            for (std::string word; in >> word;) words.push_back(word);
        }
        return words;
    };
    const std::vector<std::string> wide = words_at(200);
    EXPECT_GT(wide.size(), 20u);
    EXPECT_EQ(words_at(40), wide);
}

}  // namespace
}  // namespace cubepi::terminal_tests

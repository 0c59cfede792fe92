// `cubepi web` as a process: a gateway for the user of one directory, with the sessions and the rules of the terminal there.

#include <csignal>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "../joints/task_model.hpp"
#include "console_browser.hpp"

namespace cubepi::gateway_tests {
namespace {

void put(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
}

void wait_until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    // A text in progress may be nowhere for a moment, before it is stored.
    bool held = holds();
    while (!held && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        held = holds();
    }
    EXPECT_TRUE(held);
}

class Web : public ::testing::Test {
protected:
    Web() { put(project / "notes.md", "a note\n"); }

    /// Writes the configuration: YAML.
    void configure(const std::string& text) const {
        put(home.path() / ".config/cubepi/config.yaml", text);
    }
    void start(std::vector<std::string> more = {}) {
        for (const char* word : {"-C", project.c_str()}) more.emplace_back(word);
        for (std::string& flag : model.flags()) more.push_back(std::move(flag));
        std::vector<std::string> no_variables;
        web =
            std::make_unique<GatewayProcess>(home, std::move(more), std::move(no_variables), "web");
        (void)web->wait_for("gateway.running");
    }
    /// Returns the output of another `cubepi web` in the directory.
    std::string run_again(std::vector<std::string> more = {}) const {
        more.insert(more.begin(), {"web", "-C", project.string()});
        const CommandResult second = run_command(home, std::move(more));
        EXPECT_EQ(second.status, 0) << second.output;
        return second.output;
    }
    /// Returns a browser that has opened the link in an output.
    static Browser open_link(const std::string& output) {
        Browser browser;
        const std::string begin = "http://127.0.0.1:";
        const std::size_t at = output.find(begin);
        if (at == std::string::npos) {
            ADD_FAILURE() << "no link: " << output;
            return browser;
        }
        const std::string link = output.substr(at, output.find('\n', at) - at);
        browser.port = static_cast<std::uint16_t>(std::stoul(link.substr(begin.size())));
        browser.headers["origin"] = link.substr(0, link.find("/console"));
        EXPECT_EQ(browser.log_in(link).status, 200);
        return browser;
    }
    Browser browser() const { return open_link(run_again()); }
    /// Begins a session; returns its id.
    static std::string begin(const Browser& of, const std::string& text) {
        const Answered sent =
            of.post("v1/admin/sessions", boost::json::serialize(JsonObject{{"text", text}}));
        EXPECT_EQ(sent.status, 200) << sent.body;
        return detail::text_member(sent.json(), "session");
    }
    /// Begins a session with a message as it is typed.
    static Answered type(const Browser& of, const std::string& text) {
        return of.post("v1/admin/sessions",
                       boost::json::serialize(JsonObject{{"text", text}, {"typed", true}}));
    }
    /// Waits for a question, and returns its id.
    static std::string question(const Browser& of) {
        wait_until([&] { return has_question(of); });
        const JsonObject open = of.get("v1/admin/questions").json();
        return std::string(open.at("questions").at(0).at("id").as_string());
    }
    static std::string questions(const Browser& of) { return of.get("v1/admin/questions").body; }
    static bool has_question(const Browser& of) {
        return questions(of).find("\"summary\"") != std::string::npos;
    }
    static bool has_answer(const Browser& of, const std::string& session, const std::string& text) {
        const std::string history = of.get("v1/admin/sessions/" + session).body;
        return history.find("\"re: " + text) != std::string::npos;
    }

    const GatewayHome home;
    const std::filesystem::path project = home.path() / "project";
    joint_tests::TaskModel model;
    std::unique_ptr<GatewayProcess> web;
};

TEST_F(Web, D240_Sessions_AreThoseOfTheTerminal) {
    configure("gateway: {}\n");
    std::vector<std::string> words = {"run", "first", "--session", "plan", "-C", project.string()};
    for (std::string& flag : model.flags()) words.push_back(std::move(flag));
    const CommandResult ran = run_command(home, std::move(words));
    EXPECT_EQ(ran.status, 0) << ran.output;
    start();
    const Browser olga = browser();
    const std::string stored = olga.get("v1/admin/stored-sessions").body;
    EXPECT_NE(stored.find("\"cli:plan\""), std::string::npos) << stored;
    const Answered sent = olga.post("v1/admin/sessions/cli:plan/messages", R"({"text": "second"})");
    EXPECT_EQ(sent.status, 200) << sent.body;
    wait_until([&] { return has_answer(olga, "cli:plan", "second"); });
    const std::string begun = begin(olga, "third");
    EXPECT_TRUE(begun.starts_with("cli:web-")) << begun;
    wait_until([&] { return has_answer(olga, begun, "third"); });
    const CommandResult listed = run_command(home, {"sessions", "list", "-C", project.string()});
    EXPECT_NE(listed.output.find("plan\t"), std::string::npos) << listed.output;
    EXPECT_NE(listed.output.find(begun.substr(4) + "\t"), std::string::npos) << listed.output;
    EXPECT_NE(listed.output.find("4 messages"), std::string::npos) << listed.output;
}

TEST_F(Web, D240_SecondStart_PrintsAnotherLink) {
    configure("gateway: {}\n");
    start();
    EXPECT_EQ(web->output().find("#login="), std::string::npos) << "a log must not have a link";
    const std::string output = run_again({"--viewer", "--name", "vera"});
    EXPECT_NE(output.find("Another cubepi web serves " + project.string()), std::string::npos)
        << output;
    const Browser vera = open_link(output);
    EXPECT_EQ(vera.get("session").json().at("role"), "viewer");
    EXPECT_EQ(vera.post("v1/admin/sessions", R"({"text": "hi"})").status, 403);
}

TEST_F(Web, D240_Call_IsAskedAboutUnlessAllowed) {
    configure("allow: ['shell: make *']\ndeny: ['write: secrets/*']\n");
    start();
    const Browser olga = browser();
    const std::string session = begin(olga, "write made.txt");
    wait_until([&] { return has_question(olga); });
    EXPECT_FALSE(std::filesystem::exists(project / "made.txt"));
    const JsonObject open = olga.get("v1/admin/questions").json();
    const std::string id(open.at("questions").at(0).at("id").as_string());
    EXPECT_EQ(olga.post("v1/admin/questions/" + id + "/approve").status, 200);
    wait_until([&] { return has_answer(olga, session, "write made.txt"); });
    EXPECT_TRUE(std::filesystem::exists(project / "made.txt"));
    const std::string denied = begin(olga, "write secrets/key");
    wait_until([&] { return has_answer(olga, denied, "write secrets/key"); });
    EXPECT_FALSE(std::filesystem::exists(project / "secrets/key"));
}

TEST_F(Web, D240_RulesOfProject_NeedTrust) {
    configure("gateway: {rules: [{allow: ['write: *']}], console: false}\n");
    put(project / ".cubepi/config.yaml", "allow: ['write: *']\n");
    start();
    EXPECT_NE(web->output().find("To trust: cubepi trust add"), std::string::npos);
    {
        const Browser olga = browser();
        (void)begin(olga, "write made.txt");
        wait_until([&] { return has_question(olga); });
    }
    web->send(SIGTERM);
    EXPECT_EQ(web->wait(), 0) << web->output();
    const CommandResult trusted = run_command(home, {"trust", "add", project.string()});
    EXPECT_EQ(trusted.status, 0) << trusted.output;
    start();
    const Browser olga = browser();
    const std::string session = begin(olga, "write other.txt");
    wait_until([&] { return has_answer(olga, session, "write other.txt"); });
    EXPECT_TRUE(std::filesystem::exists(project / "other.txt"));
    EXPECT_TRUE(has_question(olga)) << "the question of the process before is lost";
}

TEST_F(Web, D142_RunUnderTrustedHooks_ContinuesUnderThem) {
    configure("gateway: {}\n");
    put(project / ".cubepi/config.yaml",
        "hooks: {PreToolUse: [{matcher: list, hooks: [{command: exit 2}]}]}\n");
    start({"--trust"});
    (void)begin(browser(), "write made.txt");
    std::string id = question(browser());
    for (const bool is_trusted : {false, true}) {
        web->send(SIGTERM);
        EXPECT_EQ(web->wait(), 0) << web->output();
        if (is_trusted) EXPECT_EQ(run_command(home, {"trust", "add", project.string()}).status, 0);
        start();
        const Browser olga = browser();
        const Answered answered = olga.post("v1/admin/questions/" + id + "/approve");
        EXPECT_EQ(answered.status == 200, is_trusted) << answered.body;
        EXPECT_EQ(has_question(olga), !is_trusted);
        if (is_trusted) (void)model.wait_for("write made.txt", 2);
        EXPECT_EQ(std::filesystem::exists(project / "made.txt"), is_trusted);
    }
}

TEST_F(Web, D241_TypedFile_IsPutIntoTheMessage) {
    configure("gateway: {}\n");
    put(home.path() / "secret.txt", "a secret\n");
    std::filesystem::create_symlink(home.path() / "secret.txt", project / "link.txt");
    start();
    const Browser olga = browser();
    const Answered sent = type(olga, "read @notes.md.");
    EXPECT_EQ(detail::text_member(sent.json(), "attached"), "notes.md 7 bytes") << sent.body;
    const std::string asked = model.wait_for("</file-1>");
    EXPECT_NE(asked.find("a note"), std::string::npos) << asked;
    for (const std::string& name :
         {std::string("../secret.txt"), std::string("link.txt"),
          (home.path() / "secret.txt").string(), std::string("~/secret.txt"),
          std::string("missing.txt"), std::string("\"../secret.txt\"")}) {
        const Answered other = type(olga, "read @" + name);
        // Whether such a file exists is not stated.
        EXPECT_TRUE(detail::text_member(other.json(), "attached").ends_with("not attached"))
            << other.body;
        const std::string request = model.wait_for("read @" + name);
        EXPECT_EQ(request.find("a secret"), std::string::npos) << request;
    }
    const Answered plain = olga.post("v1/admin/sessions", R"({"text": "as it is: @notes.md"})");
    EXPECT_EQ(plain.status, 200) << plain.body;
    (void)model.wait_for("as it is: @notes.md");
}

TEST_F(Web, D241_SlashCommands_AreThoseOfTheTerminal) {
    configure("gateway: {}\n");
    put(home.path() / ".config/cubepi/prompts/greet.md", "Greet $1 in one word");
    start();
    const Browser olga = browser();
    const std::string commands = olga.get("v1/admin/commands").body;
    for (const char* name : {"\"/compact\"", "\"/greet\"", "\"/review\"", "\"/help\""})
        EXPECT_NE(commands.find(name), std::string::npos) << name << commands;
    for (const char* name : {"\"/undo\"", "\"/rename\"", "\"/btw\"", "\"/quit\""})
        EXPECT_EQ(commands.find(name), std::string::npos) << name << commands;
    EXPECT_EQ(type(olga, "/greet ann").status, 200);
    (void)model.wait_for("Greet ann in one word");
    EXPECT_EQ(type(olga, "//undo").status, 200);
    (void)model.wait_for("/undo");
    const Answered undo = type(olga, "/undo");
    EXPECT_EQ(undo.status, 400) << undo.body;
    EXPECT_EQ(undo.error(), "'/undo' is a command of the terminal");
    const Answered unknown = type(olga, "/comapct");
    EXPECT_EQ(unknown.status, 400) << unknown.body;
    EXPECT_NE(unknown.error().find("Did you mean /compact?"), std::string::npos) << unknown.body;
    EXPECT_EQ(model.count("/comapct"), 0u);
}

TEST_F(Web, D241_Files_AreCompletedForOperators) {
    configure("gateway: {}\n");
    put(project / "src/main notes.cpp", "");
    start();
    const Browser olga = browser();
    EXPECT_EQ(olga.get("v1/admin/files?search=notes").body,
              "{\"files\":[\"notes.md\",\"src/main notes.cpp\"]}\n");
    EXPECT_EQ(olga.get("v1/admin/files?search=nothing-like-it").body, "{\"files\":[]}\n");
    const Browser vera = open_link(run_again({"--viewer"}));
    EXPECT_EQ(vera.get("v1/admin/files").status, 403);
}

TEST_F(Web, D242_ChangedCall_RunsAsChanged) {
    configure("gateway: {}\n");
    start();
    const Browser olga = browser();
    const std::string session = begin(olga, "write made.txt");
    const std::string path = "v1/admin/questions/" + question(olga) + "/edit";
    for (const char* wrong : {"{}", R"({"arguments": {}})", R"({"arguments": {"path": 1}})",
                              R"({"arguments": "text"})"}) {
        const Answered refused = olga.post(path, wrong);
        EXPECT_EQ(refused.status, 400) << wrong << refused.body;
    }
    const Answered edited =
        olga.post(path, R"({"arguments": {"path": "other.txt", "content": "changed"}})");
    EXPECT_EQ(edited.status, 200) << edited.body;
    wait_until([&] { return has_answer(olga, session, "write made.txt"); });
    EXPECT_FALSE(std::filesystem::exists(project / "made.txt"));
    EXPECT_TRUE(std::filesystem::exists(project / "other.txt"));
    const std::string logged = R"("operation":"answer","action":"edit")";
    wait_until([&] { return web->output().find(logged) != std::string::npos; });
}

TEST_F(Web, D240_OtherParts_AreNotServed) {
    configure(
        "gateway: {http: {listen: '127.0.0.1:0', operators: [olga]}, status: '127.0.0.1:0', "
        "admin: {listen: '127.0.0.1:0', operator_token_env: ADMIN}}\n");
    start();
    const std::string output = web->output();
    std::size_t listening = 0;
    for (std::size_t at = 0; (at = output.find("http_server.listening", at)) != std::string::npos;
         ++at)
        ++listening;
    EXPECT_EQ(listening, 5u) << "the five parts of the console: " << output;
    const Browser olga = browser();
    const std::string status = olga.get("v1/admin/status").body;
    EXPECT_NE(status.find(R"("channels":["console"])"), std::string::npos) << status;
}

}  // namespace
}  // namespace cubepi::gateway_tests

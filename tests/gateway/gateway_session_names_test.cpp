// The sessions of a gateway: what separates them, what hosts share, and what earlier versions have left (D100, D101).

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_entry.hpp>

#include "config/store_locations.hpp"
#include "echo_model.hpp"
#include "gateway/gateway_instance.hpp"
#include "wait_until.hpp"

namespace cubepi::gateway_tests {
namespace {

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Makes what an earlier version has left of the session "http:s1": a workspace with a file, and a tape at `place`.
void add_earlier_session(const GatewayHome& home, const std::string& place) {
    const std::string session = "http:s1";
    const std::filesystem::path directory =
        app::session_workspace(home.workspaces(), session).earlier;
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "note") << "from the past";
    std::vector<bub::TapeEntry> entries;
    entries.push_back(bub::anchor_entry("session/start"));
    entries.push_back(bub::message_entry("user", "the earliest"));
    entries.push_back(bub::message_entry("assistant", "an answer of it"));
    const std::shared_ptr<bub::SessionTapeStore> tapes = app::open_tapes(place);
    run(tapes->append(bub::tape_name(directory, session), std::move(entries), bub::TapeAppend()));
}

void use_database(const GatewayHome& home, const std::string& database,
                  const std::string& more = "") {
    home.configure("{http: {listen: \"127.0.0.1:0\", operators: [olga]}" + more +
                   "}\ndatabase: \"" + database + "\"");
}

TEST(GatewaySessions, D100_EarlierSession_KeepsTapeAndWorkspace) {
    const GatewayHome home;
    home.configure(
        R"({http: {listen: "127.0.0.1:0"}, rules: [{allow: ["shell: cd * && cat note"]}]})");
    add_earlier_session(home, home.tapes().string());
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_EQ(post(port, "run cat note").text(), "re: run cat note");
    const std::string request = model.wait_for("run cat note", 2);
    EXPECT_TRUE(has(request, "the earliest")) << request;
    EXPECT_TRUE(has(request, "from the past")) << request;
    (void)post_later(port, "other", "s2").get();
    EXPECT_FALSE(has(model.wait_for("other"), "the earliest"));
}

TEST(GatewaySessions, D100_TapeOfEarlierSession_IsShownAndCopied) {
    const GatewayHome home;
    add_earlier_session(home, home.tapes().string());
    const std::vector<std::string> show = {"tape", "show", "--session", "http:s1"};
    // Not linked before a turn of this version.
    EXPECT_TRUE(has(run_command(home, show).output, "the earliest"));
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    EXPECT_EQ(post(gateway.wait_until_running(), "one").text(), "re: one");
    const CommandResult shown = run_command(home, show);
    EXPECT_TRUE(has(shown.output, "the earliest")) << shown.output;
    EXPECT_TRUE(has(shown.output, "re: one")) << shown.output;

    const GatewayHome other;
    const CommandResult copied =
        run_command(home, {"tape", "copy", "--session", "http:s1", other.tapes().string()});
    EXPECT_EQ(copied.status, 0) << copied.output;
    const CommandResult elsewhere = run_command(other, show);
    EXPECT_TRUE(has(elsewhere.output, "the earliest")) << elsewhere.output;
}

TEST(GatewaySessions, D100_HostsWithOneDatabase_ShareSessions) {
    const GatewayHome first;
    const GatewayHome second;
    const GatewayHome stranger;
    const std::string database = new_database(first);
    use_database(first, database);
    use_database(second, database);
    use_database(stranger, database, ", tape_namespace: others");
    EchoModel model;
    GatewayProcess one(first, model.flags());
    GatewayProcess two(second, model.flags());
    GatewayProcess three(stranger, model.flags());
    EXPECT_EQ(post(one.wait_until_running(), "one").text(), "re: one");
    EXPECT_EQ(post(two.wait_until_running(), "two").text(), "re: two");
    EXPECT_TRUE(has(model.wait_for("two"), "re: one"));
    EXPECT_EQ(post(three.wait_until_running(), "three").text(), "re: three");
    EXPECT_FALSE(has(model.wait_for("three"), "re: one"));
    const CommandResult shown = run_command(second, {"tape", "show", "--session", "http:s1"});
    EXPECT_TRUE(has(shown.output, "re: one")) << shown.output;
}

TEST(GatewaySessions, D100_EarlierSessionOfOneHost_IsShared) {
    const GatewayHome first;
    const GatewayHome second;
    const std::string database = new_database(first);
    use_database(first, database);
    use_database(second, database);
    add_earlier_session(first, database);
    EchoModel model;
    GatewayProcess one(first, model.flags());
    GatewayProcess two(second, model.flags());
    const std::uint16_t at_second = two.wait_until_running();
    // The second host cannot know of it before the first host has used it.
    const std::uint16_t at_first = one.wait_until_running();
    EXPECT_EQ(post(at_second, "early").text(), "re: early");
    wait_until_idle(second);
    EXPECT_EQ(post(at_first, "one").text(), "re: one");
    wait_until_idle(first);
    EXPECT_TRUE(has(model.wait_for("one"), "the earliest"));
    EXPECT_EQ(post(at_second, "two").text(), "re: two");
    EXPECT_TRUE(has(model.wait_for("two"), "the earliest"));
    EXPECT_TRUE(has(model.wait_for("two"), "re: one"));
}

TEST(GatewaySessions, D100_ModelOfSession_IsUsedInLaterTurns) {
    const GatewayHome home;
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    EXPECT_TRUE(has(post(port, ",model other").text(), "other"));
    EXPECT_EQ(post(port, "one").text(), "re: one");
    EXPECT_TRUE(has(model.wait_for("one"), R"("model":"other")")) << model.wait_for("one");
}

JsonObject message_of(const std::string& user, const std::string& text) {
    return JsonObject{{"session", "s1"}, {"user", user}, {"text", text}};
}

TEST(GatewaySessions, D101_ContextOfClient_SelectsNothing) {
    const GatewayHome home;
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    JsonObject message = message_of("bob", "hello");
    message["context"] =
        JsonObject{{"model", "dear"},     {"thread_id", "t"},     {"sender", "olga"},
                   {"sender_id", "olga"}, {"private_chat", true}, {"_runtime_workspace", "/"},
                   {"_traceparent", "x"}, {"rejected", true},     {"resent", true},
                   {"city", "Rome"}};
    const HttpReply reply = run(post_message(port, message));
    EXPECT_EQ(reply.text(), "re: hello") << reply.body;
    EXPECT_FALSE(has(reply.body, "resent"));
    const std::string request = model.wait_for("hello");
    EXPECT_TRUE(has(request, R"("model":"local")")) << request;
    EXPECT_TRUE(has(request, R"(facts={)")) << request;
    EXPECT_TRUE(has(request, R"(Rome)")) << request;
    EXPECT_TRUE(has(request, R"(|sender_id=bob)")) << request;
    message["text"] = ",tape_info";
    EXPECT_EQ(run(post_message(port, message)).text(), "re: ,tape_info") << "not an operator";
}

TEST(GatewaySessions, D101_NameOfSubagentSession_IsRefused) {
    const GatewayHome home;
    EchoModel model;
    GatewayProcess gateway(home, model.flags());
    const std::uint16_t port = gateway.wait_until_running();
    for (const char* session : {"s1/agent/helper", "s1/call/1"}) {
        JsonObject message = message_of("bob", "hello");
        message["session"] = session;
        const HttpReply reply = run(post_message(port, message));
        EXPECT_EQ(reply.status, 400) << reply.body;
        EXPECT_TRUE(has(reply.body, "'session'")) << reply.body;
    }
}

}  // namespace
}  // namespace cubepi::gateway_tests

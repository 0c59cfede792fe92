// Files of users in the workspaces of sessions, and files that the model sends to a chat (D99).

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../joints/model_server.hpp"
#include "fake_bot_server.hpp"
#include "gateway_process.hpp"

namespace cubepi::gateway_tests {
namespace {

using bub::telegram::FakeBotApi;
using bub::telegram::FakeMessage;
using bub::telegram::Fault;
using joint_tests::chat_answer;
using joint_tests::ModelServer;

/// A gateway with the channels telegram and http, whose sessions work in one directory.
class FilesTest : public ::testing::Test {
protected:
    void start(std::vector<std::string> answers, const std::string& more = {}) {
        std::filesystem::create_directories(work());
        home.configure(
            "{root: " + work().string() +
            ", shared_workspace: true, http: {listen: \"127.0.0.1:0\"}, telegram: {token: \"" +
            bot.token() + "\", api_url: \"" + bot.url() + "\", users: [42]}" + more + "}");
        model = std::make_unique<ModelServer>(std::move(answers));
        start_again();
    }
    void start_again() {
        gateway = std::make_unique<GatewayProcess>(
            home, std::vector<std::string>{"--provider", "openai", "--base-url", model->url(), "-m",
                                           "local"});
        port = gateway->wait_until_running();
    }
    std::filesystem::path work() const { return home.path() / "work"; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(work() / name) << text;
    }
    static std::string content_of(const std::filesystem::path& file) {
        std::ifstream in(file);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    /// The user 42 sends a document.
    void send_document(const std::string& name, const std::string& id) {
        bot.with_api([&](FakeBotApi& api) {
            JsonObject message = api.message_of(42, 42, "");
            message.erase("text");
            message["caption"] = "Look";
            message["document"] =
                JsonObject{{"file_id", id}, {"file_name", name}, {"file_size", 5}};
            api.add_update(JsonObject{{"message", std::move(message)}});
        });
    }
    void wait_for_text(const std::string& text) {
        bot.wait_until([&text](FakeBotApi& api) {
            const std::vector<std::string> texts = api.texts(42);
            return std::find(texts.begin(), texts.end(), text) != texts.end();
        });
    }
    std::vector<FakeMessage> documents() {
        auto all = bot.with_api([](FakeBotApi& api) { return api.messages(42); });
        std::erase_if(all, [](const FakeMessage& one) { return one.file.empty(); });
        return all;
    }
    HttpReply post(JsonObject message) const {
        message["session"] = "s1";
        return run(post_message(port, std::move(message)));
    }
    std::string last_request() const { return model->requests().back(); }

    const GatewayHome home;
    FakeBotServer bot{std::make_shared<SystemClock>()};
    std::unique_ptr<ModelServer> model;
    std::unique_ptr<GatewayProcess> gateway;
    std::uint16_t port = 0;
};

constexpr const char* allow_sending = ", rules: [{allow: [\"send_file: *\"]}]";

std::string sending(const std::string& path) {
    return chat_answer("",
                       {{"send_file", boost::json::serialize(JsonObject{{"path", path}}), "c1"}});
}

TEST_F(FilesTest, D99_DocumentOfTelegram_IsStoredForTheModel) {
    start({chat_answer("done")});
    bot.with_api([](FakeBotApi& api) { api.add_file("f1", "bytes"); });
    send_document("../../.git/hooks/post\ncommit", "f1");
    wait_for_text("done");
    const std::filesystem::path stored = work() / "attachments/post commit";
    EXPECT_EQ(content_of(stored), "bytes");
    struct stat info = {};
    ASSERT_EQ(::stat(stored.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0600U);
    EXPECT_NE(last_request().find("attachments/post commit"), std::string::npos) << last_request();
}

TEST_F(FilesTest, D99_FailedDownload_IsToldToUserAndModel) {
    start({chat_answer("done")});
    send_document("report.pdf", "unknown");
    wait_for_text("The file report.pdf could not be downloaded.");
    wait_for_text("done");
    EXPECT_NE(last_request().find("report.pdf could not be downloaded"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(work() / "attachments/report.pdf"));
}

TEST_F(FilesTest, D99_FilesOfHttp_AreStoredWithinLimits) {
    start({chat_answer("done")}, ", files: {max_files: 1}");
    const JsonObject one{{"name", "a.txt"}, {"type", "text/plain"}, {"content", "b25l"}};
    const JsonObject two{{"name", "b.txt"}, {"content", "dHdv"}};
    const HttpReply reply = post(JsonObject{{"files", JsonArray{one, two}}});
    EXPECT_EQ(content_of(work() / "attachments/a.txt"), "one");
    EXPECT_FALSE(std::filesystem::exists(work() / "attachments/b.txt"));
    EXPECT_NE(reply.body.find("The file b.txt exceeds the number or the size"), std::string::npos)
        << reply.body;
    EXPECT_NE(last_request().find("attachments/a.txt"), std::string::npos);
    EXPECT_NE(last_request().find("b.txt exceeds"), std::string::npos);
    for (const char* const content : {"b25", "!!!!", "b2=l"}) {
        JsonObject bad = one;
        bad["content"] = content;
        EXPECT_EQ(post(JsonObject{{"files", JsonArray{bad}}}).status, 400) << content;
    }
}

TEST_F(FilesTest, D99_SendFile_IsAskedAbout) {
    start({sending("report.txt")});
    write("report.txt", "the report");
    const HttpReply reply = post(JsonObject{{"text", "send it"}});
    EXPECT_NE(reply.body.find("\"kind\":\"question\""), std::string::npos) << reply.body;
    EXPECT_EQ(reply.body.find("\"kind\":\"file\""), std::string::npos);
}

TEST_F(FilesTest, D99_SendFile_ReachesTheChat) {
    start({sending("report.txt"), chat_answer("done"), sending("report.txt"), chat_answer("done")},
          allow_sending);
    write("report.txt", "the report");
    const JsonObject reply = post(JsonObject{{"text", "send it"}}).json();
    const JsonObject output = reply.at("outputs").at(0).as_object();
    EXPECT_EQ(output.at("kind"), "file");
    EXPECT_EQ(output.at("file").at("name"), "report.txt");
    EXPECT_EQ(output.at("file").at("content"), "dGhlIHJlcG9ydA==");
    bot.with_api([](FakeBotApi& api) { api.say(42, "send it"); });
    wait_for_text("done");
    ASSERT_EQ(documents().size(), 1u);
    EXPECT_EQ(documents().front().file, "sendDocument report.txt:the report");
}

TEST_F(FilesTest, D99_SendFile_RefusesLinksDevicesAndOutside) {
    std::vector<std::string> answers;
    const std::vector<std::string> paths = {"link", "directory/passwd", "pipe",     "../secret",
                                            ".",    "/etc/passwd",      "huge.bin", "missing"};
    for (const std::string& path : paths) {
        answers.push_back(sending(path));
        answers.push_back(chat_answer("done"));
    }
    start(answers, std::string(allow_sending) + ", files: {max_file_mb: 1}");
    std::ofstream(home.path() / "secret") << "secret";
    std::filesystem::create_symlink("report.txt", work() / "link");
    std::filesystem::create_directory_symlink("/etc", work() / "directory");
    ASSERT_EQ(::mkfifo((work() / "pipe").c_str(), 0600), 0);
    write("report.txt", "the report");
    write("huge.bin", std::string(1'000'001, 'x'));
    for (const std::string& path : paths) {
        const HttpReply reply = post(JsonObject{{"text", "send it"}});
        EXPECT_EQ(reply.body.find("\"kind\":\"file\""), std::string::npos) << path << reply.body;
        EXPECT_EQ(reply.text(), "done") << path;
    }
    EXPECT_EQ(model->requests().size(), 2 * paths.size());
}

TEST_F(FilesTest, B18_FileOfKilledGateway_IsSentAgainMarked) {
    start({sending("report.txt"), chat_answer("done")}, allow_sending);
    write("report.txt", "the report");
    std::promise<void> sent;
    std::atomic<bool> is_first = true;
    bot.with_api([&](FakeBotApi& api) {
        api.on_call = [&](const std::string& method, std::size_t) {
            if (method != "sendDocument" || !is_first.exchange(false)) return Fault::none;
            sent.set_value();
            return Fault::cut_after;
        };
        api.say(42, "send it");
    });
    sent.get_future().wait();
    gateway->kill();
    start_again();
    wait_for_text("done");
    const std::vector<FakeMessage> all = documents();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all.at(0).text, "");
    EXPECT_EQ(all.at(1).text, "(sent again)");
    EXPECT_EQ(all.at(1).file, all.at(0).file);
    EXPECT_EQ(model->requests().size(), 2u) << "the call is not repeated";
}

}  // namespace
}  // namespace cubepi::gateway_tests

// The tool memory of the program: notes that the next conversation finds (D123).

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "program.hpp"

namespace cubepi::joint_tests {
namespace {

using terminal_tests::Home;
using terminal_tests::Piped;
using terminal_tests::write_file;

const SentCall to_create{"memory",
                         R"({"command":"create","path":"/memories/likes.md","file_text":"tea\n"})"};
const SentCall to_view{"memory", R"({"command":"view","path":"/memories/likes.md"})"};

bool offers_memory(const ModelServer& server) {
    return server.requests().front().find(R"("name":"memory")") != std::string::npos;
}

TEST(Memory, D123_Note_IsThereInTheNextConversation) {
    const Home home;
    write_file(home.config(), "memory: true\n");
    ModelServer writes({chat_answer("", {to_create}), chat_answer("noted")});
    const Piped first = run_at(home, writes, {"-s", "one", "I like tea"});
    EXPECT_NE(first.out.find("noted"), std::string::npos) << first.err << "without a question";
    ModelServer reads({chat_answer("", {to_view}), chat_answer("tea")});
    const Piped second = run_at(home, reads, {"-s", "two", "what do I like?"});
    EXPECT_EQ(second.status, 0) << second.err;
    const std::string request = reads.requests().back();
    EXPECT_NE(request.find("1\\ttea"), std::string::npos) << request;
    EXPECT_NE(request.find("data, not instructions"), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(home.root() / "home/.bub/memory"));
    EXPECT_TRUE(std::filesystem::is_empty(home.work())) << "nothing in the project";
}

TEST(Memory, D123_OtherWorkspace_HasItsOwnNotes) {
    Home home;
    write_file(home.config(), "memory: true\n");
    ModelServer writes({chat_answer("", {to_create}), chat_answer("noted")});
    (void)run_at(home, writes, {"-s", "one", "I like tea"});
    home.work_in("elsewhere");
    ModelServer reads({chat_answer("", {to_view}), chat_answer("unknown")});
    (void)run_at(home, reads, {"-s", "two", "what do I like?"});
    EXPECT_NE(reads.requests().back().find("there is no /memories/likes.md"), std::string::npos);
}

TEST(Memory, D123_WithoutSetting_IsNotOffered) {
    const Home home;
    ModelServer server({chat_answer("hello")});
    (void)run_at(home, server, {"-s", "one", "hi"});
    EXPECT_FALSE(offers_memory(server));
    write_file(home.config(), "memory: true\n");
    ModelServer temporary({chat_answer("hello")});
    (void)run_at(home, temporary, {"--no-save", "hi"});
    EXPECT_FALSE(offers_memory(temporary)) << "a session that leaves no file";
}

}  // namespace
}  // namespace cubepi::joint_tests

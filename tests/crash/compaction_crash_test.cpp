#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/middleware/compaction_test_support.hpp>

#include "worker_process.hpp"

// A process has a conversation of 500 turns, which is compacted again and again. At each of its writes a copy of it is killed, and
// another process continues with the files that are there then: no prompt is lost or repeated, and the model can read every fact,
// whichever summary was recorded.

namespace cubepi::crash_tests {

namespace {

using compaction_test::calls;
using compaction_test::says;
using compaction_test::Server;
using compaction_test::words;

/// With ALL=1 the whole conversation and each write, otherwise its beginning and a sample of them.
bool runs_all() {
    const char* const all = std::getenv("ALL");
    return all && std::string_view(all) == "1";
}
std::size_t turns() { return runs_all() ? 500 : 12; }
std::size_t stride() { return under_sanitizer ? 29 : runs_all() ? 1 : 8; }

std::string fact(std::size_t number) { return "fact-" + std::to_string(number) + "-end"; }

SQLiteOptions database(const std::filesystem::path& directory) {
    SQLiteOptions options;
    options.path = (directory / "t.db").string();
    options.synchronous = SQLiteSynchronous::off;
    return options;
}

/// Another summarizer of the same conversation loses all of it.
AssistantMessage summary(const ModelRequest&) { return says("They have talked."); }

struct Session {
    Session(const std::filesystem::path& directory, Server::Answer answer, std::int64_t limit)
        : main(std::move(answer)) {
        CompactionOptions compaction;
        compaction.summary_model = helper.model("helper");
        compaction.max_tokens_before_compact = limit;
        compaction.keep_tail_tokens = 300;
        AgentOptions options;
        options.model = main.model();
        options.middleware.emplace_back(CompactionMiddleware(std::move(compaction)));
        options.tools = {tool("read", "Reads a file.", Json({{"type", "object"}}),
                              [](JsonObject) { return words("file", 800); })};
        options.checkpointer = std::make_shared<SQLiteCheckpointer>(database(directory));
        options.thread_id = "t";
        agent = std::make_unique<Agent>(std::move(options));
    }

    Server main;
    Server helper{summary};
    std::unique_ptr<Agent> agent;
};

/// Every second prompt makes the model read a file.
AssistantMessage answer(const ModelRequest& request) {
    const Message& last = request.messages.back();
    if (last.tool_result() || last.text().find("look") == std::string::npos)
        return says(words("answer", 200));
    return calls("read", {}, "c1");
}

Message prompt_of(std::size_t turn) {
    Message input = user_message(words(turn % 2 == 0 ? "look" : "note", 150) + fact(turn));
    return std::move(input).with_id("input-" + std::to_string(turn));
}

constexpr std::int64_t tokens_before_compaction = 1'200;

/// So many processes are killed before the files that they leave are checked, while the next ones are killed.
constexpr std::size_t batch = 64;

/// The process of the whole conversation, in the first directory. Each time it has killed a batch of its copies, it stops until the
/// files in the second directory were taken.
int converse(const std::vector<std::string>& arguments) {
    const std::filesystem::path files = arguments.at(0);
    const std::filesystem::path copies = arguments.at(1);
    std::size_t turn = 0;
    std::size_t kills = 0;
    arm([&](std::size_t step) {
        if (step % stride() != 0) return;
        // The thread that writes is the only one of the copy.
        const pid_t pid = fork();
        if (pid == 0) (void)raise(SIGKILL);
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) std::abort();
        std::filesystem::copy(files, copies / (std::to_string(step) + "." + std::to_string(turn)));
        if (++kills % batch == 0) (void)raise(SIGSTOP);
    });
    {
        Session session(files, answer, tokens_before_compaction);
        for (; turn < turns(); ++turn) {
            if (!run(session.agent->prompt(prompt_of(turn)))) return 1;
        }
    }
    disarm();
    return 0;
}

/// The files that a killed process has left.
struct Remnant {
    std::filesystem::path directory = {};
    std::size_t step = 0;
    std::size_t turn = 0;
};

std::vector<Remnant> remnants_in(const std::filesystem::path& directory) {
    std::vector<Remnant> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        const std::size_t dot = name.find('.');
        found.push_back(
            {entry.path(), std::stoul(name.substr(0, dot)), std::stoul(name.substr(dot + 1))});
    }
    std::sort(found.begin(), found.end(),
              [](const Remnant& a, const Remnant& b) { return a.step < b.step; });
    return found;
}

using Database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

Database opened(const std::filesystem::path& directory) {
    sqlite3* file = nullptr;
    EXPECT_EQ(sqlite3_open((directory / "t.db").c_str(), &file), SQLITE_OK);
    return Database(file, sqlite3_close);
}

/// Returns the pages of the database as its last transaction has left them. Does not change its files.
std::string committed_pages(const std::filesystem::path& directory) {
    const Database file = opened(directory);
    EXPECT_EQ(sqlite3_db_config(file.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr),
              SQLITE_OK);
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, void (*)(void*)> pages(
        sqlite3_serialize(file.get(), "main", &size, 0), sqlite3_free);
    EXPECT_TRUE(pages || size == 0) << sqlite3_errmsg(file.get());
    return pages ? std::string(pages.get(), pages.get() + size) : std::string();
}

/// Lets the claim be that of the copy, which is dead, and not that of the process, which runs. There is none before its table.
void bury_owner(const std::filesystem::path& directory) {
    const Database file = opened(directory);
    (void)sqlite3_exec(file.get(), "UPDATE cubepi_native_claims SET process_start = 0", nullptr,
                       nullptr, nullptr);
}

/// Runs the work in a process of its own: a copy of this one, which has a single thread.
int run_copy(const std::function<void()>& work) {
    (void)std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        work();
        (void)std::fflush(nullptr);
        _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/// Returns the number of facts of the first `count` turns that the model finds with `recall`.
std::size_t recalled_facts(const std::filesystem::path& directory, std::size_t count) {
    const auto ask = [count](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        AssistantMessage made = says("");
        for (std::size_t i = 0; i < count; ++i) {
            AssistantMessage one =
                calls("recall", JsonObject{{"find", fact(i)}}, "r" + std::to_string(i));
            made.content.push_back(std::move(one.content.back()));
            made.stop_reason = std::move(one.stop_reason);
        }
        return made;
    };
    Session session(directory, ask, 1'000'000);
    EXPECT_TRUE(run(session.agent->prompt("recall all of them")));
    std::set<std::string> found;
    for (const Message& message : session.agent->state().messages) {
        const ToolResultMessage* const result = message.tool_result();
        if (result && result->tool_name == "recall" && message.text().starts_with("Message "))
            found.insert(result->tool_call_id.str());
    }
    return found.size();
}

/// Checks the conversation after so many turns, with the tool result of every second one.
void expect_turns(const MessageList& messages, std::size_t count) {
    EXPECT_TRUE(is_legal_transcript(messages)) << "D1";
    std::size_t prompts = 0;
    std::size_t files = 0;
    for (const Message& message : messages) {
        if (message.tool_result()) ++files;
        if (!message.user() || is_synthetic_message(message)) continue;
        EXPECT_EQ(message.id(), "input-" + std::to_string(prompts));
        EXPECT_TRUE(message.text().ends_with(fact(prompts))) << message.text();
        ++prompts;
    }
    EXPECT_EQ(prompts, count);
    EXPECT_EQ(files, (count + 1) / 2) << "each call has one result";
}

/// Continues the turn, and reads all facts if it is the first time that the files have the turn.
void continue_turn(const Remnant& left, bool recalls) {
    bury_owner(left.directory);
    {
        Session session(left.directory, answer, tokens_before_compaction);
        EXPECT_TRUE(run(session.agent->prompt(prompt_of(left.turn))));
        expect_turns(session.agent->state().messages, left.turn + 1);
    }
    if (!recalls) return;
    {
        SQLiteCheckpointer store(database(left.directory));
        const std::optional<CheckpointData> stored = run(store.load("t"));
        expect_turns(stored->messages, left.turn + 1);
    }
    EXPECT_EQ(recalled_facts(left.directory, left.turn + 1), left.turn + 1);
}

/// Continues what killed processes have left. Processes that were killed in one transaction leave the same pages; one of them is
/// continued.
class Checks {
public:
    void check(const Remnant& left) {
        SCOPED_TRACE("killed at step " + std::to_string(left.step) + ", in turn " +
                     std::to_string(left.turn));
        ++kills;
        std::string pages = committed_pages(left.directory);
        const bool is_new_turn = turn_ != left.turn;
        if (!is_new_turn && pages == pages_) return;
        pages_ = std::move(pages);
        turn_ = left.turn;
        ++continued;
        EXPECT_EQ(run_copy([&] { continue_turn(left, is_new_turn); }), 0);
    }

    std::size_t kills = 0;
    std::size_t continued = 0;

private:
    std::string pages_;
    std::optional<std::size_t> turn_;
};

TEST(CompactionCrash, D110_KillAtEachWrite_ContinuesAndForgetsNothing) {
    const TestDirectory files;
    const TestDirectory copies;
    Checks checks;
    WorkerProcess process({"--converse", files.path().string(), copies.path().string()});
    for (bool runs = true; runs && !HasFailure();) {
        runs = process.wait_until_frozen();
        const TestDirectory taken;
        const std::filesystem::path states = taken.path() / "states";
        std::filesystem::rename(copies.path(), states);
        std::filesystem::create_directory(copies.path());
        if (runs) process.thaw();
        const std::vector<Remnant> left = remnants_in(states);
        for (const Remnant& one : left) {
            checks.check(one);
            if (HasFailure()) break;
            std::filesystem::remove_all(one.directory);
        }
    }
    if (!HasFailure()) {
        EXPECT_EQ(process.wait().status, 0);
    }
    EXPECT_GT(checks.kills, turns() * 50 / stride());
    EXPECT_GT(checks.continued, turns());
    RecordProperty("kills", std::to_string(checks.kills));
    RecordProperty("continued", std::to_string(checks.continued));
    if (HasFailure()) return;
    SQLiteCheckpointer store(database(files.path()));
    const std::optional<CheckpointData> last = run(store.load("t"));
    ASSERT_TRUE(last);
    expect_turns(last->messages, turns());
    EXPECT_TRUE(last->extra.contains("compaction"));
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    return cubepi::crash_tests::tests_or_worker(argc, argv,
                                                {{"--converse", cubepi::crash_tests::converse}});
}

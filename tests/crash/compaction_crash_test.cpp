#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/middleware/compaction_test_support.hpp>

#include "worker_process.hpp"

// A process with a long conversation, which is compacted again and again, is killed at its writes; a second one continues. No prompt is
// lost or repeated, and the model can read every fact, whichever summary was recorded.

namespace cubepi::crash_tests {

namespace {

using compaction_test::calls;
using compaction_test::says;
using compaction_test::Server;
using compaction_test::words;

/// With ALL=1 a whole conversation, otherwise the beginning of one.
bool runs_all() {
    const char* const all = std::getenv("ALL");
    return all && std::string_view(all) == "1";
}
std::size_t turns() { return runs_all() ? 500 : 12; }
std::size_t stride() { return runs_all() ? 211 : under_sanitizer ? 23 : 5; }

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

int converse(const std::vector<std::string>& arguments) {
    arm(std::stoul(arguments.at(1)));
    {
        Session session(arguments.at(0), answer, 1'200);
        for (std::size_t i = 0; i < turns(); ++i) {
            Message input = user_message(words(i % 2 == 0 ? "look" : "note", 150) + fact(i));
            input = std::move(input).with_id("input-" + std::to_string(i));
            if (!run(session.agent->prompt(std::move(input)))) return 1;
        }
    }
    disarm();
    return 0;
}

/// Returns the facts that the model finds with `recall`.
std::size_t recalled_facts(const std::filesystem::path& directory) {
    const auto ask = [](const ModelRequest& request) {
        if (request.messages.back().tool_result()) return says("done");
        AssistantMessage made = says("");
        for (std::size_t i = 0; i < turns(); ++i) {
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

TEST(CompactionCrash, D110_Kill_ContinuesAndForgetsNothing) {
    std::size_t compacted = 0;
    const auto check = [&](const Remains& remains) {
        ASSERT_EQ(run_worker({"--converse", remains.directory.string(), "0"}).status, 0);
        std::optional<CheckpointData> stored;
        {
            SQLiteCheckpointer store(database(remains.directory));
            stored = run(store.load("t"));
        }
        EXPECT_TRUE(is_legal_transcript(stored->messages)) << "D1";
        std::vector<std::string> prompts;
        for (const Message& message : stored->messages) {
            if (message.user() && !is_synthetic_message(message)) prompts.push_back(message.id());
        }
        ASSERT_EQ(prompts.size(), turns());
        for (std::size_t i = 0; i < prompts.size(); ++i)
            EXPECT_EQ(prompts[i], "input-" + std::to_string(i));
        if (stored->extra.contains("compaction")) ++compacted;
        EXPECT_EQ(recalled_facts(remains.directory), turns());
    };
    EXPECT_GT(kill_at_each_step("--converse", check, stride()), 20u);
    EXPECT_GT(compacted, 0u);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    return cubepi::crash_tests::tests_or_worker(argc, argv,
                                                {{"--converse", cubepi::crash_tests::converse}});
}

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "open_calls.hpp"
#include "worker.hpp"
#include "worker_process.hpp"

// A process is killed at every step of a run; a second one continues from the database.

namespace cubepi::crash_tests {

namespace {

MessageList stored_messages(const Places& places) {
    SQLiteCheckpointer store(places.database());
    const std::optional<CheckpointData> data = run(store.load(thread_id));
    return data ? data->messages : MessageList();
}

bool is_finished(const MessageList& messages) {
    return !messages.empty() && messages.back().assistant() && unanswered(messages).empty();
}

/// The process after the crash. It has the same tool, which must not be called again.
class Successor {
public:
    explicit Successor(const std::filesystem::path& crashed) : places_{directory_.path()} {
        // The journal of an interrupted transaction is part of the remains.
        std::filesystem::copy(crashed, directory_.path(),
                              std::filesystem::copy_options::recursive |
                                  std::filesystem::copy_options::overwrite_existing);
        before_ = stored_messages(places_);
        effects_before_ = effects_of(places_);
        AgentOptions options;
        faux_.set_responses({FauxStep([this](const ModelRequest& request) {
            requests_.push_back(request.messages);
            return faux_assistant_message("I see");
        })});
        options.model = faux_.model("offline");
        options.checkpointer = std::make_shared<SQLiteCheckpointer>(places_.database());
        options.thread_id = thread_id;
        options.tools.push_back(lasting_tool(places_, [] {}));
        agent_ = std::make_unique<Agent>(std::move(options));
        (void)agent_->subscribe([this](const AgentEvent& event) {
            if (event.get_if<ToolExecutionStartEvent>()) ++executions_;
            const auto* notice = event.get_if<NoticeEvent>();
            if (notice && notice->notice.code == "claim_taken_over") reclaimed_ = true;
        });
    }

    Agent& agent() { return *agent_; }
    const MessageList& before() const { return before_; }
    bool reclaimed() const { return reclaimed_; }
    std::size_t requests() const { return requests_.size(); }

    void expect_continuation(const RunResult& result) const {
        EXPECT_EQ(to_string(result.outcome), "completed");
        EXPECT_EQ(result.text(), "I see");
        ASSERT_EQ(requests_.size(), 1u);
        EXPECT_TRUE(is_legal_transcript(requests_.front())) << "D1";
        expect_unknown_outcomes(requests_.front(), unanswered(before_));
        expect_log();
    }

    /// Checks that no call was repeated, and that the log was only extended.
    void expect_log() const {
        EXPECT_EQ(executions_, 0) << "a call was executed again";
        EXPECT_EQ(effects_of(places_), effects_before_);
        const MessageList after = stored_messages(places_);
        EXPECT_TRUE(is_legal_transcript(after)) << "D1";
        EXPECT_TRUE(after == agent_->state().messages) << "D20";
        ASSERT_GE(after.size(), before_.size());
        for (std::size_t i = 0; i < before_.size(); ++i) {
            EXPECT_TRUE(after[i] == before_[i]) << "message " << i << " changed";
        }
    }

private:
    TestDirectory directory_;
    Places places_;
    MessageList before_;
    std::vector<std::string> effects_before_;
    FauxProvider faux_;
    std::vector<MessageList> requests_;
    int executions_ = 0;
    bool reclaimed_ = false;
    std::unique_ptr<Agent> agent_;
};

void expect_each_effect_once(const Places& places) {
    std::vector<std::string> effects = effects_of(places);
    std::sort(effects.begin(), effects.end());
    EXPECT_EQ(std::adjacent_find(effects.begin(), effects.end()), effects.end())
        << "a call took effect twice";
}

/// Kills a process at each step and passes its remains to `check`. Returns the number of steps.
std::size_t kill_everywhere(const std::function<void(const Places&)>& check) {
    return kill_at_each_step("--worker", [&check](const Remains& remains) {
        const Places places{remains.directory};
        expect_each_effect_once(places);
        if (remains.killed && !::testing::Test::HasFailure()) check(places);
    });
}

}  // namespace

TEST(Crash, D1_TheNextPromptWorks) {
    bool reclaimed = false;
    bool completed = false;
    const std::size_t steps = kill_everywhere([&](const Places& places) {
        Successor successor(places.directory);
        completed = completed || !unanswered(successor.before()).empty();
        successor.expect_continuation(run(successor.agent().prompt("What happened?")));
        reclaimed = reclaimed || successor.reclaimed();
    });
    EXPECT_GT(steps, 40u);
    EXPECT_TRUE(completed) << "no step was in the middle of a call";
    EXPECT_TRUE(reclaimed) << "D50: another process claims the run of a dead process";
}

TEST(Crash, D2_ResumeContinuesFromTheStore) {
    (void)kill_everywhere([](const Places& places) {
        Successor successor(places.directory);
        std::optional<ErrorCode> refused;
        std::optional<RunResult> result;
        try {
            result.emplace(run(successor.agent().resume()));
        } catch (const Error& error) {
            refused = error.code();
        }
        if (successor.before().empty()) {
            EXPECT_EQ(refused, ErrorCode::no_messages);
        } else if (is_finished(successor.before())) {
            EXPECT_EQ(refused, ErrorCode::cannot_continue);
        } else {
            ASSERT_TRUE(result) << "resume threw";
            successor.expect_continuation(*result);
        }
    });
}

TEST(Crash, D42_ARepeatedInputIsStoredOnce) {
    (void)kill_everywhere([](const Places& places) {
        Successor successor(places.directory);
        const bool finished = is_finished(successor.before());
        Message input = user_message("Do three things.", input_id);
        const RunResult result = run(successor.agent().prompt(std::move(input)));
        if (finished) {
            EXPECT_EQ(result.text(), "All done") << "the stored answer";
            EXPECT_EQ(successor.requests(), 0u);
            successor.expect_log();
        } else {
            successor.expect_continuation(result);
        }
        const MessageList& messages = successor.agent().state().messages;
        const auto same = [](const Message& message) { return message.id() == input_id; };
        EXPECT_EQ(std::count_if(messages.begin(), messages.end(), same), 1);
    });
}

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    return tests_or_worker(argc, argv, {{"--worker", [](const std::vector<std::string>& arguments) {
                                             return run_tool_turns(Places{arguments.at(0)},
                                                                   std::stoul(arguments.at(1)));
                                         }}});
}

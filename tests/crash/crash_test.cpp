#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

#include "crash_store.hpp"
#include "open_calls.hpp"
#include "worker_process.hpp"

// A process is killed at every step of a run; a second one continues from the database.

namespace cubepi::crash_tests {

namespace {

constexpr const char* thread_id = "t";
constexpr const char* input_id = "input-1";

/// Called at each step of a run.
using StepHook = std::function<void()>;

/// The files of one run, in a directory of its own.
struct Places {
    std::filesystem::path directory;
    std::filesystem::path effects() const { return directory / "effects"; }
};

struct EffectArgs {
    std::string what;
};

Task<std::string> leave_effect(Places places, StepHook step, std::string call_id) {
    co_await yield_now();
    step();
    const std::string line = call_id + "\n";
    const int fd = open(places.effects().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const bool written =
        fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    if (fd >= 0) close(fd);
    if (!written) throw std::runtime_error("cannot write the effect");
    step();
    co_await yield_now();
    co_return "done: " + call_id;
}

/// The database, with a step before and after each change.
class SteppingStore final : public Checkpointer, public RunStore, public MessageIndex {
public:
    SteppingStore(const Places& places, StepHook step)
        : inner_(open_crash_store(places.directory)),
          runs_(dynamic_cast<RunStore&>(*inner_)),
          index_(dynamic_cast<MessageIndex&>(*inner_)),
          step_(std::move(step)) {}

    Task<std::optional<CheckpointData>> load(std::string thread) override {
        return inner_->load(std::move(thread));
    }
    Task<std::int64_t> append(std::string thread, MessageList messages,
                              AppendOptions options) override {
        step_();
        const std::int64_t position =
            co_await inner_->append(std::move(thread), std::move(messages), std::move(options));
        step_();
        co_return position;
    }
    Task<void> save_extra(std::string thread, JsonObject extra) override {
        step_();
        co_await inner_->save_extra(std::move(thread), std::move(extra));
        step_();
    }
    Task<ClaimResult> claim_run(std::string thread, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override {
        step_();
        ClaimResult result =
            co_await runs_.claim_run(std::move(thread), std::move(run_id), std::move(owner), kind);
        step_();
        co_return result;
    }
    Task<void> renew_claim(std::string thread, std::string run_id, std::string owner_id) override {
        return runs_.renew_claim(std::move(thread), std::move(run_id), std::move(owner_id));
    }
    Task<void> release_claim(std::string thread, std::string run_id,
                             std::string owner_id) override {
        return runs_.release_claim(std::move(thread), std::move(run_id), std::move(owner_id));
    }
    Task<void> mark_run_complete(std::string thread, std::string run_id) override {
        step_();
        co_await runs_.mark_run_complete(std::move(thread), std::move(run_id));
        step_();
    }
    Task<bool> is_run_complete(std::string thread, std::string run_id) override {
        return runs_.is_run_complete(std::move(thread), std::move(run_id));
    }
    Task<std::optional<Message>> find_message(std::string thread, std::string message_id) override {
        return index_.find_message(std::move(thread), std::move(message_id));
    }

private:
    const std::shared_ptr<Checkpointer> inner_;
    RunStore& runs_;
    MessageIndex& index_;
    StepHook step_;
};

AssistantContent call(std::string id) {
    JsonObject arguments;
    arguments["what"] = id;
    return faux_tool_call("lasting", std::move(arguments), std::move(id));
}

std::vector<FauxStep> script() {
    ContentList<AssistantContent> two;
    two.emplace_back(faux_text("Two at once."));
    two.push_back(call("c1"));
    two.push_back(call("c2"));
    std::vector<FauxStep> steps;
    steps.emplace_back(faux_assistant_message(std::move(two), stop_reason::tool_use));
    steps.emplace_back(faux_assistant_message(call("c3"), stop_reason::tool_use));
    steps.emplace_back("All done");
    return steps;
}

/// The calls that took effect, in order.
std::vector<std::string> effects_of(const Places& places) {
    std::ifstream in(places.effects());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// A tool that appends a line to the file of effects for each call. A step before and one after.
AgentTool lasting_tool(Places places, StepHook step) {
    return tool<EffectArgs>("lasting", "Has an effect that lasts.",
                            [places, step](EffectArgs, ToolContext& context) {
                                return leave_effect(places, step, context.tool_call_id());
                            });
}

/// A tool with the same effect, whose body may begin again. `fatal`: its process ends in it.
AgentTool repeatable_tool(Places places, StepHook step, bool fatal = false) {
    auto body = [places, step, fatal](EffectArgs, ToolContext& context) {
        const std::string id = context.tool_call_id().str();
        Task<std::string> effect =
            leave_effect(places, step, id + (context.is_repeated() ? " again" : ""));
        if (fatal) (void)raise(SIGKILL);
        return effect;
    };
    return tool<EffectArgs>("repeatable", "Has the same effect each time.", std::move(body))
        .replay(ReplayPolicy::idempotent);
}

/// Answers with a call of each tool, and then with the end.
AssistantMessage call_both(const ModelRequest& request) {
    if (request.messages.back().tool_result()) return faux_assistant_message("All done");
    ContentList<AssistantContent> both;
    both.push_back(call("c1"));
    JsonObject arguments;
    arguments["what"] = "c2";
    both.push_back(faux_tool_call("repeatable", std::move(arguments), "c2"));
    return faux_assistant_message(std::move(both), stop_reason::tool_use);
}

/// Runs or repeats a prompt whose answer calls a tool that must not run twice, and one that may.
int run_both_tools(const Places& places, std::size_t kill_at, bool fatal) {
    std::size_t steps = 0;
    const StepHook step = [&steps, kill_at] {
        if (++steps == kill_at) (void)raise(SIGKILL);
    };
    FauxProvider faux;
    faux.set_responses({FauxStep(call_both), FauxStep(call_both)});
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<SteppingStore>(places, step);
    options.thread_id = thread_id;
    options.tools.push_back(lasting_tool(places, step));
    options.tools.push_back(repeatable_tool(places, step, fatal));
    Agent agent(std::move(options));
    Message input = user_message("Do both.", input_id);
    const RunResult result = run(agent.prompt(std::move(input)));
    return result ? 0 : 3;
}

/// Runs a prompt with three calls in two turns on the database, and kills itself at step `kill_at` (with SIGKILL; nothing is
/// cleaned up). Returns the exit status if there are fewer steps.
int run_tool_turns(const Places& places, std::size_t kill_at) {
    std::size_t steps = 0;
    const StepHook step = [&steps, kill_at] {
        if (++steps == kill_at) (void)raise(SIGKILL);
    };
    FauxProvider faux;
    faux.set_responses(script());
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<SteppingStore>(places, step);
    options.thread_id = thread_id;
    options.tools.push_back(lasting_tool(places, step));
    Agent agent(std::move(options));
    (void)agent.subscribe([&step](const AgentEvent&) { step(); });
    Message input = user_message("Do three things.", input_id);
    const RunResult result = run(agent.prompt(std::move(input)));
    return result ? 0 : 3;
}

MessageList stored_messages(const Places& places) {
    const auto store = open_crash_store(places.directory);
    const std::optional<CheckpointData> data = run(store->load(thread_id));
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
        options.checkpointer = open_crash_store(places_.directory);
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

TEST(Crash, D1_KillAtAnyStep_NextPromptWorks) {
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

TEST(Crash, D2_ResumeAfterKill_ContinuesFromTheStore) {
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

TEST(Crash, D42_RepeatedInput_IsStoredOnce) {
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

std::size_t times_in(const std::vector<std::string>& effects, const std::string& effect) {
    return static_cast<std::size_t>(std::count(effects.begin(), effects.end(), effect));
}

/// The text of the result of this call, of which there must be one.
std::string result_of(const MessageList& messages, const std::string& call_id) {
    std::vector<std::string> texts;
    for (const Message& message : messages) {
        const ToolResultMessage* result = message.tool_result();
        if (result && result->tool_call_id == call_id) texts.push_back(message.text());
    }
    EXPECT_EQ(texts.size(), 1u) << call_id;
    return texts.empty() ? std::string() : texts.front();
}

std::size_t repeated_after_kills(std::size_t kills) {
    std::size_t repeated = 0;
    (void)kill_at_each_step("--both", [&](const Remains& remains) {
        const Places places{remains.directory};
        const auto again = [&](std::size_t kill_at) {
            return run_worker({"--both", remains.directory.string(), std::to_string(kill_at)});
        };
        for (std::size_t kill = 1; remains.killed && kill < kills; ++kill)
            (void)again(remains.step * 7 % 13 + 1);
        EXPECT_EQ(again(0).status, 0);
        const std::vector<std::string> effects = effects_of(places);
        const MessageList messages = stored_messages(places);
        EXPECT_TRUE(is_legal_transcript(messages)) << "D1";
        EXPECT_LE(times_in(effects, "c1"), 1u) << "a call took effect twice";
        EXPECT_EQ(times_in(effects, "c1 again"), 0u);
        const std::string lasting = result_of(messages, "c1");
        EXPECT_EQ(lasting, lasting == "done: c1" ? lasting : std::string(interrupted_call_text));
        if (times_in(effects, "c1") == 0) {
            EXPECT_EQ(lasting, interrupted_call_text);
        }
        EXPECT_EQ(result_of(messages, "c2").substr(0, 8), "done: c2");
        EXPECT_LE(times_in(effects, "c2"), 1u);
        repeated += times_in(effects, "c2 again");
    });
    return repeated;
}

TEST(Crash, D104_IdempotentCall_RunsAgainAfterKill) { EXPECT_GT(repeated_after_kills(1), 4u); }

TEST(Crash, D104_SecondKill_RunsIdempotentCallAgain) { EXPECT_GT(repeated_after_kills(2), 4u); }

TEST(Crash, D104_FatalCall_IsRepeatedThreeTimes) {
    const TestDirectory directory;
    const Places places{directory.path()};
    std::size_t killed = 0;
    while (killed < 10 && run_worker({"--fatal", directory.path().string()}).killed) ++killed;
    EXPECT_EQ(killed, 4u);
    EXPECT_EQ(times_in(effects_of(places), "c1"), 0u);
    EXPECT_EQ(result_of(stored_messages(places), "c2"), interrupted_call_text);
}

}  // namespace

}  // namespace cubepi::crash_tests

int main(int argc, char** argv) {
    using namespace cubepi::crash_tests;
    using Arguments = std::vector<std::string>;
    return tests_or_worker(
        argc, argv,
        {{"--worker",
          [](const Arguments& arguments) {
              return run_tool_turns(Places{arguments.at(0)}, std::stoul(arguments.at(1)));
          }},
         {"--both",
          [](const Arguments& arguments) {
              return run_both_tools(Places{arguments.at(0)}, std::stoul(arguments.at(1)), false);
          }},
         {"--fatal", [](const Arguments& arguments) {
              return run_both_tools(Places{arguments.at(0)}, 0, true);
          }}});
}

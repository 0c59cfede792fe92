#include "worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <utility>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::crash_tests {

namespace {

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
    SteppingStore(SQLiteOptions database, StepHook step)
        : inner_(std::move(database)), step_(std::move(step)) {}

    Task<std::optional<CheckpointData>> load(std::string thread) override {
        return inner_.load(std::move(thread));
    }
    Task<std::int64_t> append(std::string thread, MessageList messages,
                              AppendOptions options) override {
        step_();
        const std::int64_t position =
            co_await inner_.append(std::move(thread), std::move(messages), std::move(options));
        step_();
        co_return position;
    }
    Task<void> save_extra(std::string thread, JsonObject extra) override {
        step_();
        co_await inner_.save_extra(std::move(thread), std::move(extra));
        step_();
    }
    Task<ClaimResult> claim_run(std::string thread, std::string run_id, ClaimOwner owner,
                                ClaimKind kind) override {
        step_();
        ClaimResult result =
            co_await inner_.claim_run(std::move(thread), std::move(run_id), std::move(owner), kind);
        step_();
        co_return result;
    }
    Task<void> renew_claim(std::string thread, std::string run_id, std::string owner_id) override {
        return inner_.renew_claim(std::move(thread), std::move(run_id), std::move(owner_id));
    }
    Task<void> release_claim(std::string thread, std::string run_id,
                             std::string owner_id) override {
        return inner_.release_claim(std::move(thread), std::move(run_id), std::move(owner_id));
    }
    Task<void> mark_run_complete(std::string thread, std::string run_id) override {
        step_();
        co_await inner_.mark_run_complete(std::move(thread), std::move(run_id));
        step_();
    }
    Task<bool> is_run_complete(std::string thread, std::string run_id) override {
        return inner_.is_run_complete(std::move(thread), std::move(run_id));
    }
    Task<std::optional<Message>> find_message(std::string thread, std::string message_id) override {
        return inner_.find_message(std::move(thread), std::move(message_id));
    }

private:
    SQLiteCheckpointer inner_;
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

}  // namespace

std::vector<std::string> effects_of(const Places& places) {
    std::ifstream in(places.effects());
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

AgentTool lasting_tool(Places places, StepHook step) {
    return tool<EffectArgs>("lasting", "Has an effect that lasts.",
                            [places, step](EffectArgs, ToolContext& context) {
                                return leave_effect(places, step, context.tool_call_id());
                            });
}

int run_tool_turns(const Places& places, std::size_t kill_at) {
    std::size_t steps = 0;
    const StepHook step = [&steps, kill_at] {
        if (++steps == kill_at) (void)raise(SIGKILL);
    };
    FauxProvider faux;
    faux.set_responses(script());
    AgentOptions options;
    options.model = faux.model("offline");
    options.checkpointer = std::make_shared<SteppingStore>(places.database(), step);
    options.thread_id = thread_id;
    options.tools.push_back(lasting_tool(places, step));
    Agent agent(std::move(options));
    (void)agent.subscribe([&step](const AgentEvent&) { step(); });
    Message input = user_message("Do three things.", input_id);
    const RunResult result = run(agent.prompt(std::move(input)));
    return result ? 0 : 3;
}

}  // namespace cubepi::crash_tests

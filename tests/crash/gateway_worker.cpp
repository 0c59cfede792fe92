#include "gateway_worker.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/turn_shards.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_context.hpp>
#include <cubepi/agent/tool.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/provider/faux.hpp>

#include "directory_channel.hpp"
#include "worker_process.hpp"

namespace cubepi::crash_tests {

namespace {

struct NoArgs {};

std::filesystem::path looks_in(const std::filesystem::path& directory) {
    return directory / "looks";
}

AgentTool look(const std::filesystem::path& directory, bool kills) {
    return tool<NoArgs>("look", "Looks something up.", [file = looks_in(directory), kills](NoArgs) {
        step();
        const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0) throw std::runtime_error("cannot write the effect");
        write_without_step(fd, "looked\n");
        close(fd);
        if (kills) (void)raise(SIGKILL);
        step();
        return std::string("found");
    });
}

/// The update in the newest message of the user: its last line.
std::string update_in(const MessageList& messages) {
    std::string update;
    for (const Message& message : messages) {
        if (message.user()) update = message.text();
    }
    return update.substr(update.rfind('\n') + 1);
}

AssistantMessage model(const ModelRequest& request) {
    const std::string update = update_in(request.messages);
    if (update != with_tool || request.messages.back().tool_result())
        return faux_assistant_message("re: " + update);
    ContentList<AssistantContent> content;
    content.emplace_back(faux_text("Looking."));
    content.emplace_back(faux_tool_call("look", JsonObject(), "c1"));
    return faux_assistant_message(std::move(content), stop_reason::tool_use);
}

std::shared_ptr<bub::FileTapeStore> tapes_in(const std::filesystem::path& directory) {
    bub::FileTapeOptions options;
    options.directory = directory / "tapes";
    options.sync = bub::TapeSync::never;
    return std::make_shared<bub::FileTapeStore>(std::move(options));
}

Task<ApprovalDecision> ask_about_each_call(const BeforeToolCallContext&) {
    co_return ApprovalDecision(AskUser());
}

bub::TurnQuestions questions() {
    bub::TurnQuestions questions;
    questions.policy = ask_about_each_call;
    questions.may_answer = [](const bub::Envelope&, const HitlRequest&) { return true; };
    return questions;
}

bub::BuiltinOptions agent_in(const std::filesystem::path& directory, FauxProvider& faux,
                             std::shared_ptr<AsyncEvent> brought, bool asks, bool kills,
                             ReplayPolicy replay) {
    bub::BuiltinOptions options;
    options.model = faux.model("offline");
    options.home = directory;
    options.tape_store = tapes_in(directory);
    options.with_user_skills = false;
    options.with_tools = false;
    options.tools.push_back(look(directory, kills).replay(replay));
    if (asks) options.questions = questions();
    options.channels = [directory, brought, asks](bub::ProvideChannelsCall& call) {
        std::vector<std::shared_ptr<bub::Channel>> channels;
        channels.push_back(directory_channel(directory, call.handler, brought,
                                             asks ? updates_with_answer : updates));
        return channels;
    };
    return options;
}

}  // namespace

std::string answer_to(const std::string& update) {
    return update == with_tool ? "Looking.  re: " + update : "re: " + update;
}

MessageList messages_of_chat(const std::filesystem::path& directory, const std::string& chat) {
    const std::string tape = bub::tape_name(directory, "platform:" + chat);
    return bub::agent_messages(run(tapes_in(directory)->fetch(tape, bub::TapeQuery())));
}

std::size_t times_looked(const std::filesystem::path& directory) {
    return lines_of(looks_in(directory)).size();
}

std::size_t recorded_answers(const std::filesystem::path& directory) {
    bub::TapeCheckpointer memory(tapes_in(directory));
    return run(memory.load_answer_records(bub::tape_name(directory, "platform:long"), "")).size();
}

int run_gateway_worker(const std::filesystem::path& directory, std::size_t kill_at, bool asks,
                       std::size_t threads, ReplayPolicy replay) {
    FauxProvider faux;
    std::vector<FauxStep> script;
    for (std::size_t i = 0; i < 2 * updates.size(); ++i) script.emplace_back(FauxStep(model));
    faux.set_responses(std::move(script));
    const auto brought = std::make_shared<AsyncEvent>();
    const auto make = [&] {
        bub::FrameworkOptions around;
        around.workspace = directory;
        auto framework = std::make_unique<bub::Framework>(std::move(around));
        framework->add(bub::builtin_plugin(
            *framework, agent_in(directory, faux, brought, asks, kill_at == after_effect, replay)));
        return framework;
    };
    const std::unique_ptr<bub::Framework> front = make();
    bub::Framework& framework = *front;
    bub::ChannelManagerOptions options;
    if (threads > 0) options.shards = std::make_shared<bub::TurnShards>(threads, make);
    options.deliveries = deliveries_in(directory);
    options.stream_output = true;
    bub::ChannelManager manager(framework, std::move(options));
    arm(kill_at == after_effect ? 0 : kill_at);
    run(serve_until_idle(manager, brought));
    disarm();
    return 0;
}

}  // namespace cubepi::crash_tests

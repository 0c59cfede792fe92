#include "live_chat.hpp"

#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <bub/builtin/builtin.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/framework.hpp>
#include <bub/tape/memory_tape_store.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

#include "cli_channel.hpp"
#include "config/paths.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "session.hpp"
#include "terminal/chat_view.hpp"
#include "terminal/console.hpp"

namespace cubepi::app {

namespace {

void greet(Console& console, const SessionPlan& plan) {
    const Style& style = console.style();
    std::string text = std::string(style.bold()) + "cubepi" + std::string(style.off()) +
                       " talks to " + plan.model.where + ".";
    if (!plan.name.empty()) text += " Session: " + printable(plan.name) + ".";
    text += "\n" + std::string(style.dim()) +
            "Esc stops an answer, Ctrl-D or /quit leaves, /help says more." +
            std::string(style.off()) + "\n\n";
    console.print(text);
}

/// The pipeline of a chat: the builtin plugin with the plan's model, tools and memory, and the console as its channel.
class ChatPipeline {
public:
    ChatPipeline(SessionPlan plan, std::shared_ptr<Console> console, ChatView& view)
        : plan_(std::move(plan)),
          console_(std::move(console)),
          view_(view),
          framework_(framework_options()),
          manager_(framework_, manager_options()) {
        framework_.add(bub::builtin_plugin(framework_, builtin_options()));
    }
    ChatPipeline(const ChatPipeline&) = delete;
    ChatPipeline& operator=(const ChatPipeline&) = delete;

    Task<> run() { return manager_.run(); }

private:
    bub::FrameworkOptions framework_options() {
        bub::FrameworkOptions options;
        options.runtime = Runtime::standard();
        options.on_warning = [this](std::string text) { view_.note(text); };
        return options;
    }

    bub::ChannelManagerOptions manager_options() {
        bub::ChannelManagerOptions options;
        options.channels = {"cli"};
        options.stream_output = true;
        return options;
    }

    bub::BuiltinOptions builtin_options() {
        bub::BuiltinOptions options;
        options.model = plan_.model.model;
        options.system_prompt = plan_.system_prompt;
        options.with_tools = false;  // the plan has its own, which ask first
        options.tape_store = std::make_shared<bub::MemoryTapeStore>();
        options.configure = [this](AgentOptions& agent, const bub::AgentOccasion&) {
            plan_.equip(agent);
        };
        options.channels = [this](bub::ProvideChannelsCall& call) {
            std::vector<std::shared_ptr<bub::Channel>> channels;
            channels.push_back(make_channel(call.handler));
            return channels;
        };
        return options;
    }

    std::shared_ptr<bub::Channel> make_channel(bub::MessageHandler handler) {
        CliChannel::Parts parts;
        parts.console = console_;
        parts.view = &view_;
        parts.handler = std::move(handler);
        if (!plan_.name.empty()) parts.session_id = "cli:" + plan_.name;
        const std::string id = parts.session_id;
        parts.abort = [this, id] { return manager_.abort_session(id); };
        parts.leave = [this] { manager_.request_stop(); };
        parts.explain = [this](const std::exception_ptr& failure) {
            FailureContext context;
            context.where = plan_.model.where;
            context.key_variable = plan_.model.key_variable;
            return explain(failure, context).text;
        };
        return std::make_shared<CliChannel>(std::move(parts));
    }

    SessionPlan plan_;
    std::shared_ptr<Console> console_;
    ChatView& view_;
    bub::Framework framework_;
    bub::ChannelManager manager_;
};

Task<> stop_on_interrupt(std::shared_ptr<Console> console, std::stop_source stop) {
    co_await console->interrupted();
    stop.request_stop();
}

/// The plan, or a cancellation when the person does not want to wait for it.
Task<SessionPlan> plan_unless_interrupted(ConversationFlags flags, SessionParts parts,
                                          std::shared_ptr<Console> console) {
    const Executor executor = co_await this_executor;
    std::stop_source stop;
    BackgroundScope keys(executor);
    keys.spawn(stop_on_interrupt(console, stop));
    std::optional<SessionPlan> plan;
    std::exception_ptr failure;
    try {
        plan =
            co_await cancel_on(stop.get_token(), plan_session(std::move(flags), std::move(parts)));
    } catch (...) {
        failure = std::current_exception();
    }
    co_await shield();
    co_await keys.close();
    co_await unshield();
    if (failure) std::rethrow_exception(failure);
    co_return std::move(*plan);
}

}  // namespace

Task<int> live_chat(CommandLine line) {
    const Executor executor = co_await this_executor;
    Clock& clock = *Runtime::standard()->clock;
    make_private_folder(history_path());
    auto console = std::make_shared<Console>(executor, clock, history_path());
    ChatView view(*console, clock, executor);
    SessionParts parts;
    parts.style = console->style();
    parts.asker = console;
    parts.before_question = [&view] { view.end_text(); };
    SessionPlan plan =
        co_await plan_unless_interrupted(line.conversation, std::move(parts), console);
    greet(*console, plan);
    view.introduce(plan.model.model.spec().id, plan.name, plan.model.model.shared_spec());
    {
        ChatPipeline pipeline(std::move(plan), console, view);
        co_await pipeline.run();
    }
    console->close();
    const int signal = console->ended_by();
    co_return signal == 0 ? exit_ok : 128 + signal;
}

}  // namespace cubepi::app

#include <cubepi/acp/agent_host.hpp>

#include <exception>
#include <utility>
#include <vector>

#include <cubepi/acp/updates.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

namespace cubepi {

namespace {

class AgentSession final : public AcpSession {
public:
    AgentSession(AgentOptions options, std::shared_ptr<AcpEditor> editor, std::string id,
                 std::string directory, AcpQuestions::Options how, Executor executor)
        : editor_(std::move(editor)),
          id_(std::move(id)),
          updates_(std::make_shared<AcpUpdates>(std::move(directory))),
          questions_(std::make_shared<AcpQuestions>(editor_, id_, updates_, std::move(how))),
          channel_(with_channel(options)),
          agent_(std::move(options)),
          background_(std::move(executor)) {
        subscription_ = agent_.subscribe([this](const AgentEvent& event) { show(event); });
        background_.spawn(serve(questions_, channel_));
    }

    Task<AcpStop> prompt(AcpPrompt prompt) override {
        ContentList<Content> blocks;
        for (ImageContent& image : prompt.images) blocks.emplace_back(std::move(image));
        Message message = user_message(std::move(prompt.text), std::move(blocks));
        while (is_running_) {
            const Receipt receipt = agent_.steer(message);
            updates_->expect(receipt.message_id(), prompt.on_inserted);
            while (is_running_) co_await ended_.wait();
            updates_->forget(receipt.message_id());
            // The run may have ended before it took the message.
            if (!agent_.cancel_steer(receipt.message_id()) || last_ == AcpStop::cancelled)
                co_return last_;
        }
        struct Running {
            AgentSession& session;
            explicit Running(AgentSession& its_session) : session(its_session) {
                session.is_running_ = true;
                session.last_ = AcpStop::cancelled;
            }
            ~Running() {
                session.is_running_ = false;
                session.ended_.pulse();
            }
        };
        const Running running(*this);
        updates_->expect({}, std::move(prompt.on_inserted));
        const RunResult result = co_await agent_.prompt(std::move(message));
        const bool failed = result.outcome == RunOutcome::failed;
        // A failure is reported to this prompt; one that has arrived meanwhile is not cancelled by it.
        last_ = failed ? AcpStop::end_turn : acp_stop_of(result);
        if (failed) throw Error(result.error());
        co_return last_;
    }

    void cancel() noexcept override {
        if (is_running_) agent_.abort();
    }

    Task<> close() override { return background_.close(); }

private:
    static Task<> serve(std::shared_ptr<AcpQuestions> questions,
                        std::shared_ptr<HitlChannel> channel) {
        co_await questions->serve(std::move(channel));
    }
    static std::shared_ptr<HitlChannel> with_channel(AgentOptions& options) {
        if (!options.channel) options.channel = std::make_shared<InMemoryChannel>();
        return options.channel;
    }

    void show(const AgentEvent& event) {
        questions_->refresh();
        for (JsonObject& update : updates_->of(event, agent_.state().model.get()))
            editor_->update(id_, std::move(update));
    }

    const std::shared_ptr<AcpEditor> editor_;
    const std::string id_;
    const std::shared_ptr<AcpUpdates> updates_;
    const std::shared_ptr<AcpQuestions> questions_;
    const std::shared_ptr<HitlChannel> channel_;
    Agent agent_;
    BackgroundScope background_;
    Subscription subscription_;
    bool is_running_ = false;
    AcpStop last_ = AcpStop::cancelled;
    AsyncEvent ended_;
};

class AgentHost final : public AcpHost {
public:
    explicit AgentHost(AcpAgentHostOptions options) : options_(std::move(options)) {
        if (!options_.make_agent)
            throw Error(ErrorCode::invalid_argument, "acp_agent_host() needs make_agent");
        options_.abilities.opens = false;
        options_.abilities.lists = false;
        options_.abilities.removes = false;
    }

    AcpAbilities abilities() const override { return options_.abilities; }
    Task<std::shared_ptr<AcpSession>> create(std::shared_ptr<AcpEditor> editor, std::string id,
                                             AcpSetup setup) override {
        Executor executor = co_await this_executor;
        AgentOptions agent = options_.make_agent(editor, id, setup);
        std::shared_ptr<AcpSession> session = std::make_shared<AgentSession>(
            std::move(agent), std::move(editor), std::move(id), std::move(setup.directory),
            options_.questions, std::move(executor));
        co_return session;
    }

private:
    AcpAgentHostOptions options_;
};

}  // namespace

std::shared_ptr<AcpHost> acp_agent_host(AcpAgentHostOptions options) {
    return std::make_shared<AgentHost>(std::move(options));
}

}  // namespace cubepi

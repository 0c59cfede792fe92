#include "round.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>

#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>

namespace cubepi::abort_tests {

namespace {

class WaitingSource final : public StreamSource {
public:
    WaitingSource(MessageStream inner, Points& points, std::shared_ptr<Clock> clock)
        : inner_(std::move(inner)), points_(points), clock_(std::move(clock)) {}

    Task<StreamEvent> next() override {
        if (!interrupted_) {
            std::exception_ptr failure;
            try {
                co_await points_.wait(*clock_);
            } catch (...) {
                failure = std::current_exception();
            }
            if (failure) {
                interrupted_ = true;
                std::rethrow_exception(failure);
            }
        }
        std::optional<StreamEvent> event = co_await inner_.next();
        if (!event) throw std::logic_error("read beyond the end");
        co_return std::move(*event);
    }

private:
    MessageStream inner_;
    Points& points_;
    std::shared_ptr<Clock> clock_;
    bool interrupted_ = false;
};

class WaitingProvider final : public Provider {
public:
    WaitingProvider(FauxProvider faux, Points& points) : faux_(std::move(faux)), points_(points) {}
    MessageStream stream(ModelRequest request) override {
        EXPECT_TRUE(is_legal_transcript(request.messages)) << "D1: a request is always legal";
        auto clock = request.options.runtime()->clock;
        return MessageStream(std::make_unique<WaitingSource>(faux_.stream(std::move(request)),
                                                             points_, std::move(clock)));
    }

private:
    FauxProvider faux_;
    Points& points_;
};

/// Whether events come in pairs, one run has one end, and numbers have no gaps.
class EventOrder {
public:
    void see(const AgentEvent& event) {
        EXPECT_EQ(event.seq, ++seq_) << "D8";
        EXPECT_FALSE(ended_) << "an event after agent_end: " << to_string(event.type());
        switch (event.type()) {
            case AgentEventType::agent_start: ++starts_; break;
            case AgentEventType::agent_end: ended_ = true; break;
            case AgentEventType::turn_start: ++open_turns_; break;
            case AgentEventType::turn_end: --open_turns_; break;
            case AgentEventType::message_start:
                // An answer that could not be stored is followed by the one that reports the failure.
                open_messages_ = 1;
                break;
            case AgentEventType::message_end:
                EXPECT_EQ(open_messages_, 1) << "a message ends that has not begun";
                open_messages_ = 0;
                break;
            case AgentEventType::tool_execution_start: ++open_tools_; break;
            case AgentEventType::tool_execution_end: --open_tools_; break;
            default: break;
        }
    }
    void expect_closed() const {
        EXPECT_EQ(starts_, 1);
        EXPECT_TRUE(ended_) << "D7: exactly one agent_end";
        EXPECT_EQ(open_turns_, 0) << "D31";
        EXPECT_EQ(open_messages_, 0);
        EXPECT_EQ(open_tools_, 0);
    }

private:
    std::uint64_t seq_ = 0;
    int starts_ = 0;
    int open_turns_ = 0;
    int open_messages_ = 0;
    int open_tools_ = 0;
    bool ended_ = false;
};

class Player {
public:
    Player(const Situation& situation, std::size_t target, Way way)
        : situation_(situation), way_(way), points_(target, [this] { end_the_run(); }) {}

    Task<Round> perform();

private:
    void end_the_run();
    void make_agent();
    Task<> run_and_check();
    void check_result(const RunResult& result);
    Task<> check_history(std::string_view when);
    Task<> prompt_again();

    const Situation& situation_;
    Way way_;
    Points points_;
    std::stop_source cancel_;
    std::shared_ptr<Checkpointer> store_;
    FauxProvider faux_{faux_options()};
    std::unique_ptr<EventOrder> order_;
    std::unique_ptr<Agent> agent_;
    Round round_;

    static FauxOptions faux_options() {
        FauxOptions options;
        options.token_size_min = options.token_size_max = 1;
        return options;
    }
};

void Player::end_the_run() {
    if (way_ == Way::abort) {
        agent_->abort();
    } else if (way_ == Way::abort_from_thread) {
        std::jthread([this] { agent_->abort(); }).join();
    } else {
        cancel_.request_stop();
    }
}

void Player::make_agent() {
    store_ = situation_.store ? situation_.store(points_) : std::make_shared<MemoryCheckpointer>();
    faux_.set_responses(situation_.script());
    AgentOptions options;
    options.model = situation_.model ? situation_.model(points_) : waiting_model(faux_, points_);
    options.checkpointer = store_;
    options.thread_id = "t";
    options.limits.abort_grace = std::chrono::milliseconds(5);
    situation_.equip(options, points_);
    agent_ = std::make_unique<Agent>(std::move(options));
    (void)agent_->subscribe([this](const AgentEvent& event) {
        order_->see(event);
        situation_.at_event(*agent_, event);
        points_.pass();
    });
}

Task<> Player::check_history(std::string_view when) {
    const MessageList& messages = agent_->state().messages;
    EXPECT_TRUE(is_legal_transcript(messages)) << "D1, " << when;
    const std::optional<CheckpointData> stored = co_await store_->load("t");
    const MessageList nothing;
    const MessageList& loaded = stored ? stored->messages : nothing;
    EXPECT_EQ(loaded.size(), messages.size()) << "D20, " << when;
    EXPECT_TRUE(loaded == messages) << "D20, " << when;
    EXPECT_FALSE(agent_->state().is_streaming) << when;
    EXPECT_TRUE(agent_->state().pending_tool_calls.empty()) << when;
}

void Player::check_result(const RunResult& result) {
    if (!points_.fired()) {
        EXPECT_EQ(to_string(result.outcome), "completed");
        return;
    }
    // A completion that is already stored beats a late abort (D51).
    if (result.outcome == RunOutcome::completed) {
        EXPECT_FALSE(result.new_messages.empty());
        const AssistantMessage* last =
            result.new_messages.empty() ? nullptr : result.new_messages.back().assistant();
        EXPECT_TRUE(last && last->stop_reason == stop_reason::stop)
            << "completed without an answer";
        return;
    }
    EXPECT_EQ(to_string(result.outcome), "aborted");
    EXPECT_FALSE(agent_->state().error_message.empty());
}

Task<> Player::run_and_check() {
    order_ = std::make_unique<EventOrder>();
    Task<RunResult> prompt = agent_->prompt(situation_.input());
    Task<RunResult> run = cancel_on(cancel_.get_token(), std::move(prompt));
    std::optional<RunResult> result;
    std::exception_ptr failure;
    try {
        result.emplace(co_await std::move(run));
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        EXPECT_TRUE(way_ == Way::cancel && is_cancellation(failure))
            << "D38: only cancelling throws";
    }
    if (result) check_result(*result);
    order_->expect_closed();
    co_await check_history("after the run");
}

Task<> Player::prompt_again() {
    order_ = std::make_unique<EventOrder>();
    faux_.set_responses({"fine"});
    // Queued responses that were not reached make the run longer.
    for (int i = 0; i < 3; ++i) faux_.append_responses({"fine"});
    Task<RunResult> prompt = agent_->prompt("again");
    const RunResult result = co_await std::move(prompt);
    EXPECT_EQ(to_string(result.outcome), "completed") << "the next prompt works";
    EXPECT_EQ(result.text(), "fine");
    order_->expect_closed();
    co_await check_history("after the next run");
}

Task<Round> Player::perform() {
    make_agent();
    co_await run_and_check();
    round_.points = points_.count();
    points_.disarm();
    co_await prompt_again();
    agent_.reset();
    co_return round_;
}

Task<> perform_into(Player& player, Round& round, bool& ended) {
    round = co_await player.perform();
    ended = true;
}

std::size_t entries(const char* directory) {
    const std::filesystem::directory_iterator begin(directory);
    return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

std::size_t count_children() {
    std::size_t count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream in(task.path() / "children");
        for (long pid = 0; in >> pid;) ++count;
    }
    return count;
}

}  // namespace

BoundModel waiting_model(FauxProvider faux, Points& points) {
    Model model;
    model.id = "faux-1";
    return BoundModel(std::make_shared<WaitingProvider>(std::move(faux), points), std::move(model));
}

Round play_round(const Situation& situation, std::size_t target, Way way) {
    // Pending work of the context after a run is a leaked coroutine, timer or descriptor.
    auto context = std::make_unique<boost::asio::io_context>(1);
    auto player = std::make_unique<Player>(situation, target, way);
    Round round;
    bool ended = false;
    std::exception_ptr failure;
    auto scope = std::make_unique<BackgroundScope>(
        context->get_executor(),
        [&failure](std::exception_ptr thrown) { failure = std::move(thrown); });
    scope->spawn(perform_into(*player, round, ended));
    (void)context->run_for(std::chrono::seconds(20));
    if (failure) {
        ADD_FAILURE() << "the round threw";
    } else if (!ended || !context->stopped()) {
        ADD_FAILURE() << (ended ? "something still waits after the run" : "hang");
        (void)scope.release();
        (void)player.release();
        (void)context.release();
    }
    return round;
}

void abort_everywhere(const Situation& situation) {
    const Round whole = play_round(situation, 0, Way::abort);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "not even undisturbed";
    ASSERT_GT(whole.points, 5u);
    const Holdings before = holdings();
    for (const Way way : {Way::abort, Way::abort_from_thread, Way::cancel}) {
        for (std::size_t target = 1; target <= whole.points; ++target) {
            SCOPED_TRACE(situation.name + ", point " + std::to_string(target) + " of " +
                         std::to_string(whole.points) + ", way " +
                         std::to_string(static_cast<int>(way)));
            (void)play_round(situation, target, way);
            EXPECT_TRUE(back_to(before))
                << "before: " << describe(before) << "; after: " << describe(holdings());
            if (::testing::Test::HasFailure()) return;
        }
    }
}

Holdings holdings() {
    Holdings now;
    now.files = entries("/proc/self/fd");
    // The pools keep their threads; their number depends on the load of the machine.
    const auto runtime = Runtime::standard();
    const std::size_t pooled =
        runtime->workers->stats().threads + runtime->resolvers->stats().threads;
    const std::size_t all = entries("/proc/self/task");
    now.threads = all > pooled ? all - pooled : 0;
    now.children = count_children();
    return now;
}

std::string describe(const Holdings& holdings) {
    return std::to_string(holdings.files) + " files, " + std::to_string(holdings.threads) +
           " threads, " + std::to_string(holdings.children) + " children";
}

bool back_to(const Holdings& before) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (true) {
        const Holdings now = holdings();
        if (now.files <= before.files && now.threads <= before.threads &&
            now.children <= before.children) {
            return true;
        }
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace cubepi::abort_tests

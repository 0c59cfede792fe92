#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel.hpp>
#include <bub/channel/channel_manager.hpp>
#include <bub/framework.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/event_signal.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace bub::channel_tests {

using cubepi::testing::ManualClock;

/// The failure mode of a test's channel or hook.
enum class Trouble { none, fails, hangs };

inline Task<> meet(Trouble trouble, std::string where) {
    if (trouble == Trouble::fails) throw std::runtime_error(where + " failed");
    if (trouble == Trouble::hangs) {
        cubepi::AsyncEvent never;
        co_await never.wait();
    }
}

class TestChannel : public Channel {
public:
    explicit TestChannel(std::string name, ChannelRole role = ChannelRole::service)
        : name_(std::move(name)), role_(role) {}
    const std::string& name() const noexcept override { return name_; }
    ChannelRole role() const noexcept override { return role_; }
    bool enabled() const override { return is_enabled; }
    bool needs_debounce() const override { return debounced; }
    Task<> start(std::stop_token) override {
        co_await meet(on_start, "start");
        if (log) log->push_back("start " + name_);
    }
    Task<> stop() override {
        if (log) log->push_back("stop " + name_);
        co_await meet(on_stop, "stop");
    }
    Task<> send(Envelope message) override {
        ++sends;
        co_await meet(on_send, "send");
        sent.push_back(std::move(message));
    }
    Task<std::optional<AdmitDecision>> admit_message(std::string, const Envelope& message,
                                                     TurnSnapshot turn) override {
        snapshots.push_back(std::move(turn));
        std::optional<AdmitDecision> decision;
        if (admit) decision = admit(message);
        co_return decision;
    }

    std::vector<std::string> texts() const {
        std::vector<std::string> all;
        for (const Envelope& message : sent) all.push_back(message.content_text());
        return all;
    }

    bool is_enabled = true;
    bool debounced = false;
    Trouble on_start = Trouble::none;
    Trouble on_stop = Trouble::none;
    Trouble on_send = Trouble::none;
    std::function<std::optional<AdmitDecision>(const Envelope&)> admit;
    std::vector<std::string>* log = nullptr;
    std::vector<Envelope> sent;
    std::size_t sends = 0;  ///< that were begun
    std::vector<TurnSnapshot> snapshots;

private:
    std::string name_;
    ChannelRole role_;
};

inline Envelope from(const std::string& channel, const std::string& chat, const std::string& text) {
    Envelope message(text);
    message.channel = channel;
    message.chat_id = chat;
    message.is_active = true;
    return message;
}

/// A pipeline whose model echoes its prompt when the test releases it.
struct Gateway {
    Gateway() {
        FrameworkOptions options;
        options.workspace = "/";
        options.runtime = std::make_shared<const cubepi::Runtime>(
            cubepi::Runtime().with_clock(clock).with_log(operator_log.logger()));
        framework = std::make_unique<Framework>(std::move(options));
        channel = std::make_shared<TestChannel>("chat");
        channels.push_back(channel);
    }

    /// Adds the plugins; call it after everything is set.
    void furnish() {
        Plugin model;
        model.name = "model";
        model.run_model = [this](RunModelCall& call) -> Task<std::string> {
            const std::string text = call.prompt.text();
            begun.push_back(text);
            started.pulse();
            if (held.contains(text)) co_await held[text]->wait();
            if (asks && asks(call)) co_return "";
            if (text.starts_with("fail")) throw std::runtime_error("no answer");
            done.push_back(text);
            co_return "re: " + text;
        };
        model.dispatch_outbound = [this](DispatchOutboundCall& call) -> Task<bool> {
            TurnOutput output = call.output();
            const auto router = framework->router();
            const bool taken = router && co_await router->dispatch_output(std::move(output));
            co_return taken;
        };
        model.on_error = [this](OnErrorCall& call) { errors.emplace_back(call.stage); };
        model.provide_steering_inbox = [this](ProvideCall&) -> std::shared_ptr<SteeringInbox> {
            return inbox;
        };
        model.admit_message = [this](AdmitMessageCall& call) -> Task<std::optional<AdmitDecision>> {
            co_await meet(on_admit, "admission");
            const auto router = framework->router();
            std::optional<AdmitDecision> decision;
            if (router)
                decision = co_await router->admit_message(call.session_id, call.message, call.turn);
            co_return decision;
        };
        model.resolve_session =
            [this](ResolveSessionCall& call) -> Task<std::optional<std::string>> {
            if (call.message.content_text() == "lost") co_await meet(on_resolve, "resolving");
            co_return std::nullopt;
        };
        model.provide_channels = [this](ProvideChannelsCall& call) {
            handler = call.handler;
            std::vector<std::shared_ptr<Channel>> all(channels.begin(), channels.end());
            return all;
        };
        framework->add(std::move(model));
        options.on_warning = [this](std::string text) { warnings.push_back(std::move(text)); };
        manager = std::make_unique<ChannelManager>(*framework, options);
    }

    void hold(const std::string& text) { held[text] = std::make_unique<cubepi::AsyncEvent>(); }
    void release(const std::string& text) { held[text]->set(); }
    Task<> until_begun(std::size_t count) {
        while (begun.size() < count) co_await started.wait();
    }

    /// Runs `script` while the manager runs, then stops the manager.
    void run(std::function<Task<>(Gateway&)> script) {
        if (!manager) furnish();
        cubepi::testing::run_advancing(*clock, together(*this, std::move(script)));
    }

    std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
    cubepi::testing::MemoryLog operator_log;
    std::unique_ptr<Framework> framework;
    std::shared_ptr<TestChannel> channel;
    std::vector<std::shared_ptr<TestChannel>> channels;
    std::shared_ptr<SteeringInbox> inbox = std::make_shared<MemorySteeringInbox>(4);
    ChannelManagerOptions options;
    std::unique_ptr<ChannelManager> manager;
    MessageHandler handler;
    std::map<std::string, std::unique_ptr<cubepi::AsyncEvent>> held;
    cubepi::AsyncEvent started;
    std::vector<std::string> begun;
    std::vector<std::string> done;
    std::vector<std::string> errors;
    std::vector<std::string> warnings;
    Trouble on_admit = Trouble::none;
    Trouble on_resolve = Trouble::none;
    /// Returns true if the turn ends without an answer because the session waits for the user.
    std::function<bool(RunModelCall&)> asks;

private:
    static Task<> together(Gateway& gateway, std::function<Task<>(Gateway&)> script) {
        const cubepi::Executor executor = co_await cubepi::this_executor;
        cubepi::TaskScope scope(executor);
        scope.spawn(gateway.manager->run());
        scope.spawn(act(gateway, std::move(script)));
        co_await scope.join();
    }
    static Task<> act(Gateway& gateway, std::function<Task<>(Gateway&)> script) {
        const cubepi::Outcome<> done = co_await cubepi::outcome_of(script(gateway));
        gateway.manager->request_stop();
        done.rethrow();
    }
};

class DecidedChannel final : public TestChannel, public SettlesDeliveries {
public:
    DecidedChannel(std::string name, UnsettledPolicy policy)
        : TestChannel(std::move(name)), policy_(policy) {}
    UnsettledPolicy unsettled_policy() const noexcept override { return policy_; }
    void restore(Envelope& message) override {
        restored.push_back(message.content_text());
        if (on_restore == Trouble::fails) throw std::runtime_error("restore failed");
    }

    std::vector<std::string> restored;
    Trouble on_restore = Trouble::none;

private:
    UnsettledPolicy policy_;
};

/// A log that records the order of calls and simulates a crash on request: from then on nothing is written, and every
/// call fails. The next process finds the contents of the inner log.
class WatchedLog final : public DeliveryLog {
public:
    explicit WatchedLog(std::shared_ptr<DeliveryLog> stored = std::make_shared<MemoryDeliveryLog>())
        : inner(std::move(stored)) {}

    Task<std::optional<std::string>> receive(Envelope message) override {
        note("receive " + message.content_text());
        std::optional<std::string> id = co_await inner->receive(std::move(message));
        after();
        co_return id;
    }
    Task<> record(DeliveryNote what, std::vector<std::string> ids, std::string reason) override {
        constexpr std::array names{"begin ",  "put_back ",    "hold ",  "finish ",
                                   "leave ",  "hold_answer ", "wait ",  "try ",
                                   "resend ", "sent ",        "failed "};
        static_assert(names.size() == static_cast<std::size_t>(DeliveryNote::failed) + 1);
        if (what == DeliveryNote::resent && failing_resends > 0) {
            --failing_resends;
            throw cubepi::CheckpointerError(cubepi::ErrorCode::storage_full, "the disk is full");
        }
        note(names.at(static_cast<std::size_t>(what)) + join(ids));
        co_await inner->record(what, std::move(ids), std::move(reason));
        after();
    }
    Task<std::vector<StoredInbound>> unfinished() override {
        if (readable) co_await readable->wait();
        std::vector<StoredInbound> all = co_await inner->unfinished();
        co_return all;
    }
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override {
        note("plan " + std::to_string(outputs.size()));
        co_await inner->plan(std::move(outputs), std::move(answers));
        after();
    }
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override {
        note("intend " + output.message.content_text());
        std::string id = co_await inner->intend_output(std::move(output), std::move(answers));
        after();
        co_return id;
    }
    Task<std::vector<Delivery>> unsettled() override { return inner->unsettled(); }

    std::shared_ptr<DeliveryLog> inner;
    std::vector<std::string> order;
    /// If set, messages are read only after this event.
    cubepi::AsyncEvent* readable = nullptr;
    int failing_resends = 0;  ///< the next calls of resend()
    /// The crash point; each call has two: before it is written, and after it. Zero: no crash.
    std::size_t dies_at = 0;
    bool dead() const noexcept { return dies_at > 0 && steps_ >= dies_at; }

private:
    static std::string join(const std::vector<std::string>& ids) {
        std::string text;
        for (const std::string& id : ids) text += (text.empty() ? "" : " ") + id;
        return text;
    }
    void after() {
        if (dead()) throw std::runtime_error("the process is over");
        ++steps_;
        if (dead()) throw std::runtime_error("the process is over");
    }
    void note(std::string what) {
        after();
        order.push_back(std::move(what));
    }

    std::size_t steps_ = 0;
};

}  // namespace bub::channel_tests

#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>

namespace bub::channel_tests {

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
class WatchedLog final : public DeliveryLog, public PlansAnswers {
public:
    explicit WatchedLog(std::shared_ptr<DeliveryLog> stored = std::make_shared<MemoryDeliveryLog>())
        : inner(std::move(stored)) {}

    Task<std::optional<std::string>> receive(Envelope message) override {
        note("receive " + message.content_text());
        std::optional<std::string> id = co_await inner->receive(std::move(message));
        after();
        co_return id;
    }
    Task<> begin(std::vector<std::string> ids) override {
        note("begin " + join(ids));
        co_await inner->begin(std::move(ids));
        after();
    }
    Task<> put_back(std::vector<std::string> ids) override {
        note("put_back " + join(ids));
        co_await inner->put_back(std::move(ids));
        after();
    }
    Task<> finish(std::vector<std::string> ids) override {
        note("finish " + join(ids));
        co_await inner->finish(std::move(ids));
        after();
    }
    Task<std::vector<StoredInbound>> unfinished() override {
        if (readable) co_await readable->wait();
        std::vector<StoredInbound> all = co_await inner->unfinished();
        co_return all;
    }
    Task<std::string> intend(Envelope message, std::vector<std::string> answers) override {
        note("intend " + message.content_text());
        std::string id = co_await inner->intend(std::move(message), std::move(answers));
        after();
        co_return id;
    }
    Task<> plan(std::vector<TurnOutput> outputs, std::vector<std::string> answers) override {
        note("plan " + std::to_string(outputs.size()));
        auto& plans = dynamic_cast<PlansAnswers&>(*inner);
        co_await plans.plan(std::move(outputs), std::move(answers));
        after();
    }
    Task<std::string> intend_output(TurnOutput output, std::vector<std::string> answers) override {
        note("intend " + output.message.content_text());
        auto& plans = dynamic_cast<PlansAnswers&>(*inner);
        std::string id = co_await plans.intend_output(std::move(output), std::move(answers));
        after();
        co_return id;
    }
    Task<> resend(std::string id) override {
        note("resend " + id);
        co_await inner->resend(std::move(id));
        after();
    }
    Task<> sent(std::string id) override {
        note("sent " + id);
        co_await inner->sent(std::move(id));
        after();
    }
    Task<> failed(std::string id, std::string reason) override {
        note("failed " + id);
        co_await inner->failed(std::move(id), std::move(reason));
        after();
    }
    Task<std::vector<Delivery>> unsettled() override { return inner->unsettled(); }

    std::shared_ptr<DeliveryLog> inner;
    std::vector<std::string> order;
    /// If set, messages are read only after this event.
    cubepi::AsyncEvent* readable = nullptr;
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

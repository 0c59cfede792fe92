#include <bub/limits/metered_model.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/stream_event.hpp>
#include <cubepi/provider/cost.hpp>

namespace bub {

namespace {

using cubepi::BoundModel;
using cubepi::MessageStream;
using cubepi::ModelRequest;
using cubepi::StreamEvent;
using cubepi::Task;

/// One call, which is charged once.
class MeteredCall final : public cubepi::StreamSource {
public:
    MeteredCall(MessageStream stream, cubepi::Model asked, ChargeCall charge)
        : stream_(std::move(stream)), asked_(std::move(asked)), charge_(std::move(charge)) {}
    MeteredCall(const MeteredCall&) = delete;
    MeteredCall& operator=(const MeteredCall&) = delete;
    ~MeteredCall() override { charge(); }

    Task<StreamEvent> next() override {
        std::optional<StreamEvent> event = co_await stream_.next();
        if (!event) cubepi::throw_cancelled();
        note(*event);
        co_return std::move(*event);
    }
    std::optional<StreamEvent> ready() override {
        std::optional<StreamEvent> event = stream_.ready();
        if (event) note(*event);
        return event;
    }
    bool honors_stop_token() const noexcept override { return stream_.honors_stop_token(); }

private:
    void note(const StreamEvent& event) {
        if (event.partial) answer_ = event.partial;
        if (event.is_terminal()) charge();
    }
    void charge() noexcept {
        const ChargeCall charge = std::exchange(charge_, nullptr);
        if (!charge || !answer_) return;
        try {
            const cubepi::AssistantMessage answer = answer_.get();
            answer_ = cubepi::PartialMessage();
            if (answer.usage) charge(*answer.usage, cubepi::cost_of(answer, asked_));
        } catch (...) {
            // A call does not depend on what is counted of it.
        }
    }

    MessageStream stream_;
    const cubepi::Model asked_;
    ChargeCall charge_;
    cubepi::PartialMessage answer_;
};

/// Appears as a chain of one model, so that prices, limits and observers are those of the model.
class MeteredProvider final : public cubepi::Provider {
public:
    MeteredProvider(BoundModel model, ChargeCall charge)
        : model_(std::move(model)), charge_(std::move(charge)) {}

    MessageStream stream(ModelRequest request) override {
        cubepi::Model asked = request.model;
        return MessageStream(std::make_unique<MeteredCall>(
            model_.provider()->call(std::move(request)), std::move(asked), charge_));
    }
    const std::string& provider_id() const noexcept override {
        return model_.provider()->provider_id();
    }
    bool takes_response_format(const cubepi::Model& model) const override {
        return model_.provider()->takes_response_format(model);
    }
    std::vector<BoundModel> inner_models() const override {
        const std::vector<BoundModel> inner = model_.provider()->inner_models();
        return inner.empty() ? std::vector<BoundModel>(1, model_) : inner;
    }

private:
    const BoundModel model_;
    const ChargeCall charge_;
};

}  // namespace

BoundModel metered_model(const BoundModel& model, ChargeCall charge) {
    if (!model.provider()) return model;
    return BoundModel(std::make_shared<MeteredProvider>(model, std::move(charge)),
                      model.shared_spec());
}

}  // namespace bub

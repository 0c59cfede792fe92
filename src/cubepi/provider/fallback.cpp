#include <cubepi/provider/fallback.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <cubepi/provider/fallback/fallback_source.hpp>

namespace cubepi {

namespace {

class FallbackProvider final : public Provider {
public:
    FallbackProvider(std::vector<BoundModel> chain, FallbackOptions options)
        : chain_(std::make_shared<detail::FallbackChain>(std::move(chain), std::move(options))) {}

    MessageStream stream(ModelRequest request) override {
        return MessageStream(std::make_unique<detail::FallbackSource>(chain_, std::move(request)));
    }
    const std::string& provider_id() const noexcept override {
        return legs().front().provider()->provider_id();
    }
    std::vector<BoundModel> inner_models() const override { return legs(); }
    bool takes_response_format(const Model&) const override {
        return std::all_of(legs().begin(), legs().end(), [](const BoundModel& leg) {
            return leg.provider()->takes_response_format(leg.spec());
        });
    }
    const std::vector<BoundModel>& legs() const noexcept { return chain_->legs(); }

private:
    std::shared_ptr<detail::FallbackChain> chain_;
};

std::shared_ptr<Provider> make_chain(std::vector<BoundModel> chain, FallbackOptions options) {
    if (chain.empty()) {
        throw Error(ErrorCode::invalid_argument,
                    "FallbackBoundModel: the chain is empty; give it at least one model");
    }
    for (const BoundModel& leg : chain) {
        if (leg) continue;
        throw Error(ErrorCode::invalid_argument,
                    "FallbackBoundModel: model '" + leg.spec().id +
                        "' has no provider: take it from one (provider.model(\"" + leg.spec().id +
                        "\"))");
    }
    return std::make_shared<FallbackProvider>(std::move(chain), std::move(options));
}

Model first_spec(const std::vector<BoundModel>& chain) {
    return chain.empty() ? Model() : chain.front().spec();
}

}  // namespace

std::string_view to_string(Failover::Cause cause) noexcept {
    switch (cause) {
        case Failover::Cause::failed: return "failed";
        case Failover::Cause::cooling_down: return "cooling_down";
        case Failover::Cause::context_window: return "context_window";
    }
    return "failed";
}

FallbackBoundModel::FallbackBoundModel(std::vector<BoundModel> chain, FallbackOptions options)
    : BoundModel([&chain, &options]() {
          Model first = first_spec(chain);
          return BoundModel(make_chain(std::move(chain), std::move(options)), std::move(first));
      }()) {}

const std::vector<BoundModel>& FallbackBoundModel::chain() const noexcept {
    return static_cast<const FallbackProvider&>(*provider()).legs();
}

}  // namespace cubepi

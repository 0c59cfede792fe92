#include "recording_provider.hpp"

#include <optional>
#include <utility>

namespace conformance {

namespace {

class YieldingSource final : public cubepi::StreamSource {
public:
    explicit YieldingSource(cubepi::MessageStream inner) : inner_(std::move(inner)) {}

    cubepi::Task<cubepi::StreamEvent> next() override {
        co_await cubepi::yield_now();
        std::optional<cubepi::StreamEvent> event = co_await inner_.next();
        if (!event) throw std::logic_error("the model's stream was read beyond its end");
        co_return std::move(*event);
    }

private:
    cubepi::MessageStream inner_;
};

cubepi::FauxOptions faux_options(int token_size) {
    cubepi::FauxOptions options;
    options.token_size_min = token_size;
    options.token_size_max = token_size;
    options.provider_id = "faux";
    return options;
}

}  // namespace

RecordingProvider::RecordingProvider(const std::vector<ScriptItem>& script, int token_size,
                                     Sink sink)
    : faux_(faux_options(token_size)), sink_(std::move(sink)) {
    std::vector<cubepi::FauxStep> steps;
    for (const ScriptItem& item : script) {
        if (item.thrown) {
            steps.push_back(cubepi::faux_failure(*item.thrown));
        } else {
            steps.emplace_back(item.message);
        }
    }
    faux_.set_responses(std::move(steps));
}

cubepi::MessageStream RecordingProvider::stream(cubepi::ModelRequest request) {
    if (!request.options.stop_token().stop_requested()) sink_(request);
    return cubepi::MessageStream(
        std::make_unique<YieldingSource>(faux_.stream(std::move(request))));
}

}  // namespace conformance

// A custom provider: a coroutine that writes the answer in pieces.
#include <cubepi/cubepi.hpp>
#include <cubepi/provider/stream_from.hpp>

#include <iostream>
#include <memory>
#include <string>

using namespace cubepi;

/// Returns the prompt backwards, word by word. A real provider would call a model.
class BackwardsProvider final : public BaseProvider {
public:
    BackwardsProvider() : BaseProvider("backwards") {}

    BoundModel model() const {
        Model model;
        model.id = "backwards-1";
        model.provider_id = provider_id();
        return BoundModel(std::make_shared<BackwardsProvider>(*this), std::move(model));
    }

    MessageStream stream(ModelRequest request) override {
        // For subscribe_request(), subscribe_chunk() and subscribe_response().
        auto call = observe(request);
        return observed(source_from(std::move(request), answer), std::move(call));
    }

private:
    // Starts when the first event is pulled, waits when no event is requested, is cancelled when the call is aborted.
    static Task<> answer(StreamWriter& out) {
        std::string text = out.request().messages.back().text();
        if (text.empty()) throw Error(ErrorCode::bad_request, "there is nothing to say backwards");
        int words = 0;
        while (!text.empty()) {
            const auto space = text.rfind(' ');
            std::string word = space == std::string::npos ? text : text.substr(space + 1);
            text.resize(space == std::string::npos ? 0 : space);
            ++words;
            if (!text.empty()) word += ' ';
            co_await out.text(std::move(word));
        }
        Usage usage;
        usage.output_tokens = words;
        out.usage(usage);
    }
};

int main() {
    BackwardsProvider provider;
    Agent agent(AgentOptions{.model = provider.model()});
    agent.subscribe([](const AgentEvent& event) {
        if (auto* delta = event.text_delta()) std::cout << '[' << *delta << ']' << std::flush;
    });
    const RunResult result = run(agent.prompt("hello to the world"));
    std::cout << '\n';

    // A failure is an outcome, with a typed error.
    const RunResult failed = run(agent.prompt(""));
    std::cout << to_string(failed.outcome) << ": " << failed.error().what() << '\n';
    return result.text() == "world the to hello" && !failed ? 0 : 1;
}

// A provider for a local engine that calls back on a thread of its own, as llama.cpp and its kind do.
#include <cubepi/core/thread_queue.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/provider/stream_from.hpp>

#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

using namespace cubepi;

/// Stands for the engine. generate() blocks and calls `on_token` on its thread, until it returns false.
class Engine {
public:
    using OnToken = std::function<bool(std::string token)>;

    void generate(const std::string& prompt, const OnToken& on_token) {
        const std::lock_guard one_at_a_time(mutex_);
        for (int i = 0;; ++i) {
            const bool last = prompt != "forever" && i == 4;
            if (!on_token(last ? "word." : "word ")) {
                ++cancelled;
                return;
            }
            if (last) return;
        }
    }

    std::atomic<int> cancelled{0};

private:
    std::mutex mutex_;
};

class EngineProvider final : public BaseProvider {
public:
    explicit EngineProvider(std::shared_ptr<Engine> engine)
        : BaseProvider("engine"), engine_(std::move(engine)) {}

    BoundModel model() const {
        Model model;
        model.id = "engine-1";
        model.provider_id = provider_id();
        return BoundModel(std::make_shared<EngineProvider>(*this), std::move(model));
    }

    MessageStream stream(ModelRequest request) override {
        auto call = observe(request);
        auto producer = [engine = engine_](StreamWriter& out) { return answer(engine, out); };
        return observed(source_from(std::move(request), std::move(producer)), std::move(call));
    }

private:
    static Task<> answer(std::shared_ptr<Engine> engine, StreamWriter& out) {
        // The engine waits while 16 tokens have not been read. When the call is aborted, this coroutine is cancelled, the
        // queue is destroyed, and push() returns false: the engine stops at its next token.
        ThreadQueue<std::string> tokens(co_await this_executor, 16);
        std::thread thread(generate, std::move(engine), out.request().messages.back().text(),
                           tokens.writer());
        thread.detach();  // owns all it uses, and may end after this coroutine
        while (auto token = co_await tokens.next()) co_await out.text(std::move(*token));
    }

    static void generate(std::shared_ptr<Engine> engine, std::string prompt,
                         ThreadQueue<std::string>::Writer tokens) {
        std::exception_ptr failure;
        try {
            engine->generate(prompt,
                             [&](std::string token) { return tokens.push(std::move(token)); });
        } catch (...) {
            failure = std::current_exception();  // becomes the error of the call
        }
        tokens.close(failure);
    }

    std::shared_ptr<Engine> engine_;
};

int main() {
    auto engine = std::make_shared<Engine>();
    EngineProvider provider(engine);
    Agent agent(AgentOptions{.model = provider.model()});
    int deltas = 0;
    agent.subscribe([&](const AgentEvent& event) {
        auto* delta = event.text_delta();
        if (!delta) return;
        std::cout << *delta << std::flush;
        if (++deltas == 50) agent.abort();
    });
    const RunResult result = run(agent.prompt("five words"));
    std::cout << '\n';
    const RunResult endless = run(agent.prompt("forever"));
    std::cout << '\n' << to_string(endless.outcome) << '\n';
    while (engine->cancelled == 0) std::this_thread::yield();  // the engine has noticed
    return result.text() == "word word word word word." && endless.outcome == RunOutcome::aborted
               ? 0
               : 1;
}

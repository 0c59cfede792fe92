// A chat that survives restarts: sqlite_chat FILE, one prompt per line on standard input. Start it again with the same file
// to resume it. With OPENAI_API_KEY it uses a real model, otherwise a scripted one.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/cubepi.hpp>

#include <iostream>
#include <memory>
#include <string>

using namespace cubepi;

/// Answers every prompt with a list of the previous prompts.
class OfflineModel {
public:
    OfflineModel() { refill(); }
    BoundModel model() const { return faux_.model("offline"); }
    void refill() {
        faux_.set_responses({[](const ModelRequest& request) {
            std::size_t prompts = 0;
            for (const Message& message : request.messages) prompts += message.user() != nullptr;
            return faux_assistant_message(
                "You sent " + std::to_string(prompts) +
                " messages; the first was: " + request.messages.front().text());
        }});
    }

private:
    FauxProvider faux_;
};

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " FILE\n";
        return 2;
    }
    const std::string key = env("OPENAI_API_KEY");
    OfflineModel offline;
    BoundModel model = offline.model();
    if (!key.empty()) model = OpenAIProvider({.api_key = key}).model("gpt-5.1");

    try {
        auto store = std::make_shared<SQLiteCheckpointer>(argv[1]);
        run(store->open());  // optional: reports early that the file cannot be used
        Agent agent(AgentOptions{.model = model, .checkpointer = store, .thread_id = "chat"});
        agent.subscribe([](const AgentEvent& event) { std::cout << event.text() << std::flush; });
        std::string line;
        while (std::getline(std::cin, line)) {
            offline.refill();
            const RunResult result = run(agent.prompt(line));
            std::cout << '\n';
            if (!result) std::cerr << result.error().what() << '\n';
        }
    } catch (const Error& failure) {  // the store failed: earlier messages are safe
        std::cerr << failure.what() << '\n';
        return 1;
    }
}

// A message with a text, pictures and an id, in one expression.
#include <iostream>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

Task<RunResult> ask(Agent& agent) {
    // Without braces, which g++ 12 does not compile correctly in an awaited expression.
    co_return co_await agent.prompt(user_message("Which of these is the cat?",
                                                 image_url("https://example.com/cat.png"),
                                                 image_bytes("\x89PNG", "image/png"))
                                        .with_id("question-1"));
}

int main() {
    FauxProvider faux;
    faux.set_responses({[](const MessageList& messages, const Model&) {
        const auto blocks = messages.back().user()->content.size();
        return faux_assistant_message("I see " + std::to_string(blocks - 1) + " pictures.");
    }});
    Agent agent(AgentOptions{.model = faux.model()});
    const RunResult result = run(ask(agent));
    std::cout << result.text() << '\n';
    return result.text() == "I see 2 pictures." ? 0 : 1;
}

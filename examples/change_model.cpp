// A conversation that changes to a model of another vendor and back. Signed thinking goes only to the vendor that signed it.
#include <iostream>
#include <cubepi/cubepi.hpp>
#include <cubepi/testing/memory_transport.hpp>
using namespace cubepi;

int main() {
    // The answers of two endpoints, without a network.
    const testing::MemoryResponse claude_says(200,
                                              R"({"type":"message","role":"assistant","content":[
                   {"type":"thinking","thinking":"A greeting.","signature":"signed-by-claude"},
                   {"type":"text","text":"Hello"}],
                 "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}})");
    const testing::MemoryResponse gpt_says(
        200, R"({"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]})");
    auto network = std::make_shared<testing::MemoryTransport>(
        std::vector<testing::MemoryResponse>{claude_says, gpt_says, claude_says});

    AnthropicProvider anthropic({.api_key = "key"});
    OpenAIProvider openai({.api_key = "key"});
    Agent agent(AgentOptions{
        .model = anthropic.model("claude-opus-4-1"),
        .runtime = std::make_shared<const Runtime>(Runtime().with_transport(network)),
    });
    run(agent.prompt("Hello"));
    agent.set_model(openai.model("gpt-5.1"));
    run(agent.prompt("Hello to you"));
    agent.set_model(anthropic.model("claude-opus-4-1"));
    run(agent.prompt("And to you"));

    const auto requests = network->requests();
    const auto has_signature = [&](std::size_t index) {
        return requests.at(index).body.find("signed-by-claude") != std::string::npos;
    };
    std::cout << "to GPT: " << (has_signature(1) ? "with" : "without") << " the signed thinking\n"
              << "to Claude: " << (has_signature(2) ? "with" : "without") << " it\n";
    return !has_signature(1) && has_signature(2) ? 0 : 1;
}

// Edit and regenerate: an earlier message is replaced. A stored thread is not changed; its beginning is forked.
#include <iostream>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/cubepi.hpp>
using namespace cubepi;

int main() {
    FauxProvider faux;
    faux.set_responses({"Ask away.", "Oslo is in Norway.", "Rome is in Italy."});
    auto store = std::make_shared<MemoryCheckpointer>();
    Agent agent(AgentOptions{.model = faux.model(), .checkpointer = store, .thread_id = "chat"});
    run(agent.prompt("I have a question."));
    run(agent.prompt(user_message("Where is Oslo?", "question")));

    run(agent.rewind("question", "chat, edited"));
    run(agent.prompt("Where is Rome?"));

    std::cout << "thread '" << agent.thread_id() << "':\n";
    for (const Message& message : agent.state().messages)
        std::cout << "  " << to_string(message.role()) << ": " << message.text() << '\n';
    const auto original = run(store->load("chat"));
    std::cout << "thread 'chat' still has " << original->messages.size() << " messages\n";
    return agent.state().messages.size() == 4 && original->messages.size() == 4 ? 0 : 1;
}

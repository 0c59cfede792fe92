// A key that expires (OAuth, Azure AD), and a signature over the body: set right before each request is sent.
#include <iostream>
#include <cubepi/cubepi.hpp>
#include <cubepi/testing/memory_transport.hpp>
using namespace cubepi;

// Returns tokens that expire. A real source would send a request for the next one, and co_await it.
class TokenSource {
public:
    Task<std::string> token() {
        if (uses_left_ == 0) {
            ++generation_;
            uses_left_ = 2;
        }
        --uses_left_;
        co_return "token-" + std::to_string(generation_);
    }

private:
    int generation_ = 0;
    int uses_left_ = 0;
};

Task<void> sign(TokenSource& tokens, HttpRequest& request) {
    const std::string token = co_await tokens.token();
    request.headers.set("authorization", "Bearer " + token);
    // Stands for a signature of method, URL and body, such as SigV4.
    request.headers.set("x-signature", std::to_string(std::hash<std::string>()(request.body)));
}

int main() {
    const testing::MemoryResponse answer(
        200, R"({"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]})");
    auto endpoint = std::make_shared<testing::MemoryTransport>(
        std::vector<testing::MemoryResponse>{answer, answer, answer});

    TokenSource tokens;
    OpenAIProvider provider({
        .base_url = "https://models.example.com/v1",
        .sign_request = [&tokens](HttpRequest& request) { return sign(tokens, request); },
    });
    Agent agent(AgentOptions{
        .model = provider.model("gpt-5.1"),
        .runtime = std::make_shared<const Runtime>(Runtime().with_transport(endpoint)),
    });
    for (int i = 0; i < 3; ++i) {
        if (!run(agent.prompt("Hi"))) return 1;
        const auto requests = endpoint->requests();
        std::cout << requests.back().headers.get("authorization") << '\n';
    }
    const auto requests = endpoint->requests();
    return requests.back().headers.get("authorization") == "Bearer token-2" ? 0 : 1;
}

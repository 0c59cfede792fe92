// A form: the model asks several questions at once with the tool `ask_user`. The host shows them, reads the answers from
// standard input, one line each, and shows the form again if an answer does not fit.
#include <cubepi/core/task_scope.hpp>
#include <cubepi/cubepi.hpp>
#include <cubepi/hitl/ask_user_tool.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

using namespace cubepi;

void show(const HitlQuestion& question) {
    std::cout << question.prompt << (question.required ? "" : " (may be left empty)") << '\n';
    if (!question.options) return;
    for (const HitlOption& option : *question.options)
        std::cout << "  " << option.value << ": " << option.label << '\n';
    if (question.multi_select) std::cout << "  (several, separated by spaces)\n";
}

/// Reads the answer to a question; empty if there is none.
std::optional<Json> read_answer(const HitlQuestion& question) {
    std::string line;
    std::getline(std::cin, line);
    if (line.empty()) return std::nullopt;
    if (!question.multi_select) return Json(line);
    JsonArray values;
    std::istringstream words(line);
    for (std::string word; words >> word;) values.emplace_back(word);
    return Json(std::move(values));
}

JsonObject fill_in(const AskRequest& form) {
    JsonObject answers;
    for (const HitlQuestion& question : form.questions) {
        show(question);
        if (std::optional<Json> answer = read_answer(question))
            answers[question.key] = std::move(*answer);
    }
    return answers;
}

Task<> answer_forms(std::shared_ptr<HitlChannel> channel, HitlRequestStream requests) {
    while (std::optional<HitlRequest> request = co_await requests.next()) {
        bool answered = false;
        while (!answered && std::cin) {
            std::string refusal;
            try {
                Json answers(fill_in(std::get<AskRequest>(request->payload)));
                co_await channel->answer(request->request_id, std::move(answers));
                answered = true;
            } catch (const Error& error) {  // bad_answer: the request stays open
                refusal = error.what();
            }
            if (!answered) std::cout << "Please try again: " << refusal << '\n';
        }
        if (!answered) co_await channel->cancel(request->request_id, "the input ended");
    }
}

Task<RunResult> ask_agent(Agent& agent, std::shared_ptr<HitlChannel> channel) {
    BackgroundScope host(co_await this_executor);
    host.spawn(answer_forms(channel, channel->subscribe()));
    RunResult result = co_await agent.prompt("Set up a project");
    co_await host.close();
    co_return result;
}

JsonArray project_form() {
    const auto option = [](const char* value, const char* label) {
        return Json(JsonObject{{"value", value}, {"label", label}});
    };
    const JsonArray features{option("docs", "Documentation"),
                             option("ci", "Continuous integration")};
    const JsonArray licenses{option("mit", "MIT License"), option("apache", "Apache License 2.0")};
    return {JsonObject{{"key", "name"}, {"prompt", "What is the name of the project?"}},
            JsonObject{{"key", "license"}, {"prompt", "Which license?"}, {"options", licenses}},
            JsonObject{{"key", "features"},
                       {"prompt", "What should it have?"},
                       {"options", features},
                       {"multi_select", true},
                       {"required", false}}};
}

int main() {
    // A model without a network: it asks, and repeats the answers.
    FauxProvider faux;
    const FauxStep ask = faux_assistant_message(
        faux_tool_call("ask_user", {{"questions", project_form()}}), stop_reason::tool_use);
    const FauxStep repeat = [](const MessageList& messages, const Model&) {
        return faux_assistant_message(messages.back().text());
    };
    faux.set_responses({ask, repeat});

    auto channel = std::make_shared<InMemoryChannel>();
    Agent agent(
        AgentOptions{.model = faux.model(), .tools = {ask_user_tool(channel)}, .channel = channel});
    const RunResult result = run(ask_agent(agent, channel));
    std::cout << result.text() << '\n';
    return result ? 0 : 1;
}

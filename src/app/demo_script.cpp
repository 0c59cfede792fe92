#include "demo_script.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <cubepi/core/message.hpp>

namespace cubepi::app {

namespace {

AssistantMessage calls(std::string text, std::vector<ToolCall> made) {
    ContentList<AssistantContent> blocks;
    blocks.emplace_back(faux_text(std::move(text)));
    for (ToolCall& call : made) blocks.emplace_back(std::move(call));
    return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
}

const ToolResultMessage* last_result(const ModelRequest& request, std::string_view tool) {
    const ToolResultMessage* found = nullptr;
    for (const Message& message : request.messages) {
        const ToolResultMessage* result = message.tool_result();
        if (result && std::string_view(result->tool_name) == tool) found = result;
    }
    return found;
}

std::string text_of(const ToolResultMessage& result) {
    std::string text;
    for (const Content& block : result.content) {
        if (const auto* part = std::get_if<TextContent>(&block)) text += part->text;
    }
    return text;
}

AssistantMessage report_on_files(const ModelRequest& request) {
    const ToolResultMessage* list = last_result(request, "list");
    const ToolResultMessage* notes = last_result(request, "read");
    if (!list || !notes || list->is_error || notes->is_error) {
        return faux_assistant_message("One of the tools failed; I would ask you how to continue.");
    }
    const bool inspector = text_of(*notes).find("Friday") != std::string::npos;
    const bool files = text_of(*list).find("todo.txt") != std::string::npos;
    return faux_assistant_message(std::string("- The directory holds ") +
                                  (files ? "`notes.md`, `todo.txt` and `costs.csv`.\n"
                                         : "something that I did not expect.\n") +
                                  "- The notes say that the inspector comes on **" +
                                  (inspector ? "Friday" : "some day") +
                                  "**, and that the log book must be complete.\n");
}

AssistantMessage report_on_write(const ModelRequest& request) {
    const ToolResultMessage* written = last_result(request, "write");
    if (!written || written->is_error) {
        return faux_assistant_message(
            "You refused, so `plan.md` does not exist. I will not try another way.");
    }
    return faux_assistant_message("Done: `plan.md` is written, because you allowed it.");
}

AssistantMessage report_on_letter(const ModelRequest& request) {
    const ToolResultMessage* sent = last_result(request, "send_letter");
    if (!sent) return faux_assistant_message("There is no result of `send_letter` at all.");
    return faux_assistant_message(
        "I was cut off while `send_letter` ran. The letter **may or may not** have gone out, so I "
        "did not send it a "
        "second time. Please check the outbox.");
}

}  // namespace

FauxOptions demo_voice(bool fast) {
    FauxOptions options;
    options.provider_id = "scripted";
    options.token_size_min = 1;
    options.token_size_max = 2;
    if (!fast) options.tokens_per_second = 16;
    options.yield_every_chunk = true;
    return options;
}

std::vector<FauxStep> markdown_scene() {
    return {faux_assistant_message(
        "# Good morning\n\n"
        "I am a **script**, not a mind: no network, no key. Everything around me is *real*.\n\n"
        "- text is shown **while it arrives**, with `code` and lists\n"
        "- tables wait for their last row:\n\n"
        "| part | does |\n| --- | --- |\n| agent | runs the loop |\n| tools | touch files |\n\n"
        "```cpp\nAgent agent({.model = provider.model(\"gpt-5.1\")});\n```\n")};
}

std::vector<FauxStep> tools_scene() {
    const JsonObject here{{"path", "."}};
    const JsonObject notes{{"path", "notes.md"}};
    std::vector<ToolCall> both;
    both.push_back(faux_tool_call("list", here));
    both.push_back(faux_tool_call("read", notes));
    return {calls("I look at both at once.", std::move(both)), FauxStep(report_on_files)};
}

std::vector<FauxStep> approval_scene() {
    const JsonObject plan{{"path", "plan.md"},
                          {"content", "# Until Friday\n\n1. copy the log book\n2. order grease\n"}};
    std::vector<ToolCall> write;
    write.push_back(faux_tool_call("write", plan));
    return {calls("I write that to a file.", std::move(write)), FauxStep(report_on_write)};
}

std::vector<FauxStep> abort_scene() {
    return {
        faux_assistant_message("It was a dark night, and the lamp had stopped. The keeper climbed "
                               "the stairs, counting them as he always did, "
                               "and at step one hundred and twelve he heard something that he had "
                               "not heard in thirty years: nothing at all. "
                               "This is a very long story, and you did not ask for all of it, "
                               "which is why you will not read how it ends.")};
}

std::vector<FauxStep> after_abort_scene() {
    return {faux_assistant_message(
        "The keeper repaired the lamp. (The answer that you stopped is saved up to there.)")};
}

std::vector<FauxStep> killed_scene() {
    const JsonObject to{{"to", "the inspector"}};
    std::vector<ToolCall> send;
    send.push_back(faux_tool_call("send_letter", to));
    return {calls("I send it.", std::move(send))};
}

std::vector<FauxStep> continued_scene() { return {FauxStep(report_on_letter)}; }

}  // namespace cubepi::app

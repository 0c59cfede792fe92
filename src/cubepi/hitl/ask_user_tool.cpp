#include <cubepi/hitl/ask_user_tool.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/agent/run_account.hpp>
#include <cubepi/agent/subagent_channel.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/number_text.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/schema/json_text.hpp>

namespace cubepi {

namespace {

struct OptionArgs {
    std::string label;
    std::string value;
    std::optional<std::string> description;
    bool allow_input = false;
};

struct QuestionArgs {
    std::string key;
    std::string prompt;
    std::optional<std::vector<OptionArgs>> options;
    bool multi_select = false;
    bool required = true;

    static void describe_fields(FieldNotes& fields) {
        fields.describe("key", "A short name for the answer, unique in this call.")
            .describe("prompt", "The question, as the user sees it.")
            .describe("options", "The choices; without them the answer is free text.");
    }
};

struct AskArgs {
    std::vector<QuestionArgs> questions;
};

HitlQuestion question_of(QuestionArgs args) {
    HitlQuestion question;
    question.key = std::move(args.key);
    question.prompt = std::move(args.prompt);
    question.multi_select = args.multi_select;
    question.required = args.required;
    if (!args.options) return question;
    question.options.emplace();
    for (OptionArgs& one : *args.options) {
        HitlOption option;
        option.label = std::move(one.label);
        option.value = std::move(one.value);
        option.description = std::move(one.description);
        option.allow_input = one.allow_input;
        question.options->push_back(std::move(option));
    }
    return question;
}

AgentToolResult answered(JsonObject answers) {
    AgentToolResult result("The user answered:\n" + json_text(answers));
    result.details =
        JsonObject{{"hitl", JsonObject{{"kind", "ask"}, {"answers", std::move(answers)}}}};
    return result;
}

/// The result of a request that ended without an answer. Rethrows any other failure.
AgentToolResult unanswered(const std::exception_ptr& failure) {
    AgentToolResult result;
    try {
        std::rethrow_exception(failure);
    } catch (const HitlTimedOut& error) {
        const double seconds = std::chrono::duration<double>(error.limit()).count();
        result = AgentToolResult::error("The user did not answer within " +
                                        seconds_text(error.limit()) + ".");
        result.details =
            JsonObject{{"hitl", JsonObject{{"outcome", "timed_out"}, {"seconds", seconds}}}};
    } catch (const HitlCancelled& error) {
        result = AgentToolResult::error("The user did not answer: " + error.reason());
        result.details =
            JsonObject{{"hitl", JsonObject{{"outcome", "cancelled"}, {"reason", error.reason()}}}};
    }
    return result;
}

Task<AgentToolResult> ask_user(std::shared_ptr<HitlChannel> channel, AskArgs args,
                               std::string tool_call_id) {
    std::vector<HitlQuestion> questions;
    for (QuestionArgs& one : args.questions) questions.push_back(question_of(std::move(one)));
    HitlOptions options;
    options.asking_call = std::move(tool_call_id);
    Task<JsonObject> asking = channel->ask(std::move(questions), std::move(options));
    Outcome<JsonObject> answers = co_await outcome_of(std::move(asking));
    if (answers.ok()) co_return answered(std::move(answers).value());
    co_return unanswered(answers.failure());
}

}  // namespace

AgentTool ask_user_tool(std::shared_ptr<HitlChannel> channel) {
    if (!channel) throw Error(ErrorCode::invalid_argument, "ask_user_tool needs a channel");
    return tool<AskArgs>(
               "ask_user",
               "Asks the user questions and waits for the answers. Give each question a "
               "short key, under which its answer is returned, and options if there is "
               "a choice.",
               [channel](AskArgs args, ToolContext& context) {
                   // A sub-agent that shares the tool has a channel of its own (D114).
                   const auto& run = context.account();
                   auto asked = detail::channel_for_call(channel, run ? run->channel() : nullptr);
                   return ask_user(std::move(asked), std::move(args), context.tool_call_id().str());
               })
        .sequential()
        .replay(ReplayPolicy::idempotent)
        .risk(ToolRisk::read_only);
}

}  // namespace cubepi

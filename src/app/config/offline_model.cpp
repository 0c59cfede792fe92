#include "offline_model.hpp"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/provider/faux.hpp>

namespace cubepi::app {

namespace {

FauxOptions typing_speed(double tokens_per_second) {
    FauxOptions options;
    options.provider_id = "offline";
    if (tokens_per_second > 0) options.tokens_per_second = tokens_per_second;
    return options;
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* word : words) {
        if (text.find(word) != std::string::npos) return true;
    }
    return false;
}

/// The answer of the offline model without a script.
AssistantMessage improvise(const ModelRequest& request) {
    const Message& last = request.messages.back();
    if (last.role() == Role::tool_result) {
        return faux_assistant_message(
            "That is what the tool found. I am the **offline model**: a script, not a mind. "
            "Everything around me (tools, "
            "approvals, sessions, this terminal) is real.");
    }
    const bool has_tools = request.tools && !request.tools->empty();
    const std::string text = last.text();
    if (has_tools && mentions(text, {"file", "directory", "list", "project"})) {
        ContentList<AssistantContent> blocks;
        blocks.emplace_back(faux_text("Let me look."));
        blocks.emplace_back(faux_tool_call("list", {{"path", "."}}));
        return faux_assistant_message(std::move(blocks), stop_reason::tool_use);
    }
    return faux_assistant_message(
        "You wrote: *" + text +
        "*\n\nI am the **offline model**: a script, not a mind. Ask me about the files of this "
        "directory to see a tool run, or set `OPENAI_API_KEY` to talk to a real model.");
}

/// A script without an end.
class OfflineProvider final : public Provider {
public:
    OfflineProvider() : faux_(typing_speed(200)) {}
    MessageStream stream(ModelRequest request) override {
        faux_.append_responses(
            {FauxStep([](const ModelRequest& seen) { return improvise(seen); })});
        return faux_.stream(std::move(request));
    }
    std::shared_ptr<ObserverRegistry> observer_registry() const override {
        return faux_.observer_registry();
    }

private:
    FauxProvider faux_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                path + ": " + what + "; 'man cubepi' describes the format of a script");
}

FauxStep step_from_json(const std::string& path, const Json& json) {
    if (json.is_string()) return faux_assistant_message(std::string(json.get_string()));
    if (!json.is_object()) refuse(path, "an answer must be a string or an object");
    JsonObject message = json.get_object();
    if (const Json* error = message.if_contains("error"); error && error->is_string()) {
        return faux_failure(std::string(error->get_string()));
    }
    if (Json* content = message.if_contains("content"); content && content->is_string()) {
        const JsonObject block{{"type", "text"}, {"text", content->get_string()}};
        *content = JsonArray{block};
    }
    message["role"] = "assistant";
    return assistant_message_from_json(message);
}

BoundModel scripted_model(const std::string& path) {
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path)) {
        throw Error(ErrorCode::not_found,
                    "cannot read the script " + path +
                        "; --script takes a JSON file in the format that 'man cubepi' describes");
    }
    std::stringstream text;
    text << file.rdbuf();
    boost::system::error_code failed;
    const Json json = boost::json::parse(text.str(), failed);
    if (failed) refuse(path, "is not valid JSON");
    double speed = 0;
    const Json* answers = &json;
    if (json.is_object()) {
        if (const Json* rate = json.get_object().if_contains("tokens_per_second"))
            speed = rate->to_number<double>();
        answers = json.get_object().if_contains("answers");
    }
    if (!answers || !answers->is_array()) refuse(path, "expected a list of answers");
    std::vector<FauxStep> steps;
    for (const Json& answer : answers->get_array()) steps.push_back(step_from_json(path, answer));
    FauxProvider faux(typing_speed(speed));
    faux.set_responses(std::move(steps));
    return faux.model("script");
}

}  // namespace

BoundModel offline_model(const std::string& script_path) {
    if (!script_path.empty()) return scripted_model(script_path);
    Model model;
    model.id = "offline";
    model.provider_id = "offline";
    return BoundModel(std::make_shared<OfflineProvider>(), std::move(model));
}

}  // namespace cubepi::app

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/transcript.hpp>
#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/middleware/compaction.hpp>
#include <cubepi/provider/prefix_guard.hpp>

namespace cubepi::compaction_test {

/// Returns the size of the text that a server would count.
inline std::size_t bytes_of(const ModelRequest& request) {
    std::size_t bytes = request.system_prompt.str().size();
    for (const Message& message : request.messages) {
        bytes += message.text().size();
        if (const AssistantMessage* answer = message.assistant()) {
            for (const ToolCall* call : answer->tool_calls())
                bytes += boost::json::serialize(call->arguments).size();
        }
    }
    return bytes;
}

/// A model at a server that counts tokens and has a window.
class Server final : public Provider {
public:
    using Answer = std::function<AssistantMessage(const ModelRequest&)>;
    explicit Server(Answer answer) : answer_(std::move(answer)) {}

    BoundModel model(std::string id = "m") {
        Model spec;
        spec.id = std::move(id);
        spec.context_window = known_window;
        return BoundModel(std::shared_ptr<Provider>(this, [](Provider*) {}), std::move(spec));
    }

    MessageStream stream(ModelRequest request) override {
        class Source final : public StreamSource {
        public:
            explicit Source(AssistantMessage answer) : answer_(std::move(answer)) {}
            Task<StreamEvent> next() override {
                StreamEvent event;
                const bool failed = answer_.stop_reason == stop_reason::error;
                event.type = failed ? StreamEventType::error : StreamEventType::done;
                event.partial = PartialMessage(Message(std::move(answer_)));
                co_return event;
            }

        private:
            AssistantMessage answer_;
        };
        std::int64_t tokens = fixed + static_cast<std::int64_t>(
                                          static_cast<double>(bytes_of(request)) / bytes_per_token);
        seen.push_back(request);
        AssistantMessage answer;
        if (window > 0 && tokens > window && !cuts) {
            answer.stop_reason = stop_reason::shared(stop_reason::error);
            answer.error_message = "maximum context length exceeded";
            ErrorInfo info;
            info.code = ErrorCode::context_length;
            if (names_window) info.context_window = window;
            answer.error = SharedValue<ErrorInfo>(std::move(info));
        } else {
            if (window > 0 && tokens > window) tokens = window - 7;
            answer = answer_(request);
            answer.usage.emplace();
            answer.usage->input_tokens = tokens;
            answer.usage->output_tokens = 10;
        }
        answer.model_id = request.model.id;
        return MessageStream(std::make_unique<Source>(std::move(answer)));
    }

    std::vector<ModelRequest> seen;
    std::int64_t window = 0;
    std::optional<std::int64_t> known_window = {};
    std::int64_t fixed = 300;
    double bytes_per_token = 4;
    bool cuts = false;
    bool names_window = true;

private:
    Answer answer_;
};

inline AssistantMessage says(std::string text) {
    AssistantMessage answer;
    answer.content.emplace_back(TextContent{std::move(text)});
    return answer;
}

inline AssistantMessage calls(std::string name, JsonObject arguments, std::string id) {
    AssistantMessage answer;
    ToolCall call;
    call.id = std::move(id);
    call.name = std::move(name);
    call.arguments = std::move(arguments);
    answer.content.emplace_back(std::move(call));
    answer.stop_reason = stop_reason::shared(stop_reason::tool_use);
    return answer;
}

/// The request as text: what the model can read.
inline std::string text_of(const ModelRequest& request) {
    std::string text;
    for (const Message& message : request.messages) text += message.text() + "\n";
    return text;
}

/// The notices of an agent with one code.
class Notices {
public:
    explicit Notices(Agent& agent)
        : subscription_(agent.subscribe([this](const AgentEvent& event) {
              if (const auto* one = event.get_if<NoticeEvent>()) all.push_back(one->notice);
          })) {}
    std::vector<Notice> with(std::string_view code) const {
        std::vector<Notice> found;
        for (const Notice& one : all) {
            if (one.code == code) found.push_back(one);
        }
        return found;
    }
    std::vector<Notice> all;

private:
    Subscription subscription_;
};

inline std::string words(std::string_view word, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += std::string(word) + " ";
    return text;
}

}  // namespace cubepi::compaction_test

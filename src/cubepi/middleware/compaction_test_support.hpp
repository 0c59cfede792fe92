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
            Source(AssistantMessage answer, bool begins)
                : answer_(std::move(answer)), begins_(begins) {}
            Task<StreamEvent> next() override {
                StreamEvent event;
                if (std::exchange(begins_, false)) {
                    event.type = StreamEventType::start;
                    event.partial = PartialMessage(Message(AssistantMessage()));
                    co_return event;
                }
                const bool failed = answer_.stop_reason == stop_reason::error;
                event.type = failed ? StreamEventType::error : StreamEventType::done;
                event.partial = PartialMessage(Message(std::move(answer_)));
                co_return event;
            }

        private:
            AssistantMessage answer_;
            bool begins_;
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
            if (counts) tokens = counts(seen.size());
            answer = answer_(request);
            answer.usage.emplace();
            answer.usage->input_tokens = tokens;
            answer.usage->output_tokens = 10;
        }
        answer.model_id = request.model.id;
        return MessageStream(std::make_unique<Source>(std::move(answer), begins));
    }

    std::vector<ModelRequest> seen;
    std::int64_t window = 0;
    std::optional<std::int64_t> known_window = {};
    std::int64_t fixed = 300;
    double bytes_per_token = 4;
    bool cuts = false;
    bool names_window = true;
    bool begins = false;  ///< answers and refusals have a start
    std::function<std::int64_t(std::size_t call)> counts = {};  ///< what it reports instead

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

/// A conversation whose history is compacted.
struct CompactedChat {
    explicit CompactedChat(CompactionOptions chosen = {}) : options(std::move(chosen)) {
        options.summary_model = helper.model("helper");
        if (options.max_tokens_before_compact == 0 && !options.context_window)
            options.max_tokens_before_compact = 2'000;
        if (options.keep_tail_tokens == 8'000) options.keep_tail_tokens = 300;
    }
    void open() {
        notices.reset();
        AgentOptions how;
        how.model = main.model();
        how.middleware = more;
        how.middleware.emplace_back(CompactionMiddleware(options));
        how.system_prompt = system_prompt;
        how.tools = {tool("read", "Reads.", Json({{"type", "object"}}),
                          [this](JsonObject) { return file; })};
        how.checkpointer = store;
        how.thread_id = "t";
        how.runtime = runtime;
        agent = std::make_unique<Agent>(std::move(how));
        notices = std::make_unique<Notices>(*agent);
    }
    RunResult prompt(std::string text) {
        if (!agent) open();
        return run(agent->prompt(std::move(text)));
    }
    /// Prompts until a compaction was reported; returns its notice.
    Notice fill() {
        for (int i = 0; i < 100; ++i) {
            EXPECT_TRUE(prompt(words("item" + std::to_string(i), 400)));
            const std::vector<Notice> done = notices->with("compaction");
            if (!done.empty()) return done.back();
        }
        ADD_FAILURE() << "not compacted";
        return {};
    }
    JsonObject extra() { return run(store->load("t"))->extra; }
    std::string last_request() const { return text_of(main.seen.back()); }

    Server main{[](const ModelRequest&) { return says(words("answer", 300)); }};
    Server helper{[](const ModelRequest&) { return says("The summary of rivers."); }};
    CompactionOptions options;
    std::string file = words("file", 3'000);
    std::string system_prompt = {};
    std::vector<Middleware> more = {};
    std::shared_ptr<const Runtime> runtime = Runtime::standard();
    std::shared_ptr<MemoryCheckpointer> store = std::make_shared<MemoryCheckpointer>();
    std::unique_ptr<Agent> agent;
    std::unique_ptr<Notices> notices;
};

}  // namespace cubepi::compaction_test

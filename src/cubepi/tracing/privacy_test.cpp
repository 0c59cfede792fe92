// Without content recording, no word of a prompt, argument, result, error or secret leaves the process by any exporter (D26).

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/hitl/confirm_tool_calls.hpp>
#include <cubepi/hitl/in_memory_channel.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/testing/manual_clock.hpp>
#include <cubepi/testing/memory_log.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/tracing/console_exporter.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/memory_exporters.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/otlp_exporter.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi {
namespace {

using testing::MemoryResponse;
using testing::MemoryTransport;

/// The beginning of every word that must not be found.
constexpr std::string_view marker = "zqxsecret";

/// Words that look like nothing else.
class Words {
public:
    std::string next() {
        std::string word(marker);
        for (int i = 0; i < 8; ++i) word += static_cast<char>('a' + random_() % 26);
        ++count_;
        return word;
    }
    std::size_t count() const noexcept { return count_; }

private:
    std::mt19937 random_{20261124};
    std::size_t count_ = 0;
};

struct Args {
    std::string text;
};

/// A tracer with every exporter, and a meter. Everything that they export ends up in exported().
class Exported {
public:
    explicit Exported(TracerOptions options, std::size_t requests) {
        MeterOptions measured;
        add(options, std::make_shared<JsonlSpanExporter>(directory_.path()));
        add(options, std::make_shared<ConsoleSpanExporter>(console_));
        for (const OTLPProtocol protocol : {OTLPProtocol::http_protobuf, OTLPProtocol::http_json}) {
            add(options, std::make_shared<OTLPSpanExporter>(collector(protocol, requests)));
            measured.exporters.push_back(
                std::make_shared<OTLPMetricExporter>(collector(protocol, 10)));
        }
        measured.on_notice = notice_receiver();
        meter_.emplace(std::move(measured));
        options.stream_directory = directory_.path() / "streams";
        options.on_notice = notice_receiver();
        tracer_.emplace(std::move(options));
    }

    Tracer& tracer() { return *tracer_; }
    Meter& meter() { return *meter_; }
    /// A runtime whose log is part of what is exported.
    std::shared_ptr<Runtime> runtime() const {
        return std::make_shared<Runtime>(Runtime(*Runtime::standard()).with_log(log_.logger()));
    }
    std::string logged() const { return log_.text(); }

    std::string exported() {
        EXPECT_TRUE(tracer_->shutdown());
        EXPECT_TRUE(meter_->shutdown());
        std::ostringstream all;
        all << console_.str() << meter_->prometheus_text() << notices_ << log_.text();
        for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
            if (entry.is_regular_file()) all << std::ifstream(entry.path()).rdbuf();
            all << entry.path();
        }
        for (const auto& transport : transports_) {
            for (const HttpRequest& request : transport->requests())
                all << request.url << request.body;
        }
        return all.str();
    }

private:
    OTLPOptions collector(OTLPProtocol protocol, std::size_t requests) {
        std::vector<MemoryResponse> answers(requests, MemoryResponse(200));
        auto transport = std::make_shared<MemoryTransport>(std::move(answers));
        OTLPOptions otlp;
        otlp.protocol = protocol;
        otlp.headers = {HttpHeader("authorization", std::string(marker) + "header")};
        otlp.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport));
        transports_.push_back(std::move(transport));
        return otlp;
    }
    std::function<void(const Notice&)> notice_receiver() {
        return [this](const Notice& notice) {
            log_notice(log_.logger(), notice);
            const std::lock_guard lock(mutex_);
            notices_ += notice.text + boost::json::serialize(notice.details);
        };
    }
    static void add(TracerOptions& options, std::shared_ptr<SpanExporter> exporter) {
        SpanSink::Output output;
        output.exporter = std::move(exporter);
        output.limits.queue_spans = 1U << 20U;
        output.limits.queue_bytes = std::size_t{1} << 30U;
        output.limits.delay = std::chrono::milliseconds(1);
        options.exporters.push_back(std::move(output));
    }

    const ScopedTestDirectory directory_;
    std::ostringstream console_;
    std::vector<std::shared_ptr<MemoryTransport>> transports_;
    std::mutex mutex_;
    std::string notices_;
    const testing::MemoryLog log_;
    std::optional<Meter> meter_;
    std::optional<Tracer> tracer_;
};

AssistantMessage calling(std::string text, std::string argument) {
    ContentList<AssistantContent> content;
    content.emplace_back(TextContent{std::move(text)});
    ToolCall call = faux_tool_call("work", JsonObject{{"text", std::move(argument)}});
    call.id = "c1";
    content.emplace_back(std::move(call));
    return faux_assistant_message(std::move(content), stop_reason::tool_use);
}

/// An agent whose texts are all words, and which fails in several ways.
struct Speaker {
    explicit Speaker(Words& source) : words(source) {
        std::vector<FauxStep> steps;
        for (int i = 0; i < prompts; ++i) {
            steps.emplace_back(calling(words.next(), words.next()));
            if (i % 10 == 3) {
                steps.push_back(faux_failure(words.next()));
            } else {
                steps.emplace_back(faux_assistant_message(words.next()));
            }
        }
        faux.set_responses(std::move(steps));
    }

    AgentOptions options() {
        AgentOptions made;
        made.model = faux.model("m");
        made.system_prompt = words.next();
        made.tools = {tool<Args>("work", "Works.", [this](Args) -> std::string {
            if (++calls % 7 == 0) throw Error(ErrorCode::io, words.next());
            return words.next();
        })};
        return made;
    }

    static constexpr int prompts = 1000;
    Words& words;
    FauxProvider faux;
    int calls = 0;
};

void expect_absent(const std::string& exported) {
    const std::size_t found = exported.find(marker);
    EXPECT_EQ(found, std::string::npos) << exported.substr(found < 200 ? 0 : found - 200, 400);
}

TEST(Privacy, D26_ThousandPrompts_ExportNoWord) {
    Words words;
    Exported exported(TracerOptions(), Speaker::prompts + 100);
    Speaker speaker(words);
    AgentOptions options = speaker.options();
    options.runtime = exported.runtime();
    Agent agent(std::move(options));
    const TraceAttachment trace = exported.tracer().attach(agent);
    const MeterAttachment meter = exported.meter().attach(agent);
    for (int i = 0; i < Speaker::prompts; ++i) {
        run(agent.prompt(words.next()));
        if (i % 20 == 0) agent.reset();
    }
    const std::string all = exported.exported();
    EXPECT_GE(words.count(), 4 * static_cast<std::size_t>(Speaker::prompts));
    EXPECT_NE(all.find("execute_tool work"), std::string::npos);
    EXPECT_NE(all.find("gen_ai_client_token_usage"), std::string::npos);
    expect_absent(all);
}

TEST(Privacy, D26_ProviderKeysAndTexts_AreNotExported) {
    Words words;
    for (const bool content : {false, true}) {
        TracerOptions options;
        options.record_content = content;
        Exported exported(std::move(options), 100);
        auto transport = std::make_shared<MemoryTransport>(std::vector<MemoryResponse>{
            MemoryResponse(401, R"({"error":{"message":"wrong key"}})"),
            MemoryResponse(200).with_event(
                R"({"id":"1","choices":[{"delta":{"content":"ok"}}]})")});
        OpenAIOptions openai;
        openai.api_key = words.next();
        openai.extra_headers.emplace_back("x-account", words.next());
        AgentOptions agent_options;
        agent_options.model = OpenAIProvider(std::move(openai)).model("m");
        agent_options.runtime =
            std::make_shared<const Runtime>(Runtime().with_transport(transport));
        Agent agent(std::move(agent_options));
        const TraceAttachment trace = exported.tracer().attach(agent);
        run(agent.prompt("hello"));
        run(agent.prompt("hello"));
        expect_absent(exported.exported());
    }
}

TEST(Privacy, D26_EchoedPrompt_IsNeitherExportedNorLogged) {
    Words words;
    Exported exported(TracerOptions(), 100);
    const std::string prompt = words.next();
    const auto echo = [&prompt](int status, const std::string& rest) {
        return MemoryResponse(status, R"({"error":{"message":"cannot answer )" + prompt +
                                          R"(","type":"invalid_request_error","code":")" + rest +
                                          "\"}}");
    };
    std::vector<MemoryResponse> answers{echo(400, prompt), echo(500, "x"), echo(429, "y"),
                                        MemoryResponse(200, "<html>" + prompt + "</html>")};
    for (int i = 0; i < 20; ++i) answers.push_back(echo(400, prompt));
    auto transport = std::make_shared<MemoryTransport>(std::move(answers));
    OpenAIOptions openai;
    openai.api_key = words.next();
    AgentOptions options;
    options.model = OpenAIProvider(std::move(openai)).model("m");
    const auto runtime = exported.runtime();
    runtime->transport = transport;
    const auto clock = std::make_shared<testing::ManualClock>();
    runtime->clock = clock;
    options.runtime = runtime;
    Agent agent(std::move(options));
    const TraceAttachment trace = exported.tracer().attach(agent);
    const MeterAttachment meter = exported.meter().attach(agent);
    for (int i = 0; i < 5; ++i) testing::run_advancing(*clock, agent.prompt(prompt));
    const std::string all = exported.exported();
    EXPECT_NE(exported.logged(), "") << "the retries are logged";
    EXPECT_NE(all.find("invoke_agent"), std::string::npos);
    expect_absent(all);
}

TEST(Privacy, D26_AbortedAndNestedRuns_ExportNoWord) {
    Words words;
    Exported exported(TracerOptions(), 100);
    Speaker inner(words);
    Speaker outer(words);
    AgentOptions options = outer.options();
    options.runtime = exported.runtime();
    int calls = 0;
    Agent* running = nullptr;
    options.tools = {
        tool<Args>("work", "Works.", [&](Args, ToolContext& context) -> Task<std::string> {
            AgentOptions nested_options = inner.options();
            nested_options.runtime = exported.runtime();
            Agent nested(std::move(nested_options));
            const TraceAttachment trace = exported.tracer().attach(nested);
            const MeterAttachment meter = exported.meter().attach(nested);
            if (++calls % 3 == 0) running->abort();
            PromptOptions prompt = PromptOptions().parent(context);
            Task<RunResult> prompting = nested.prompt(words.next(), std::move(prompt));
            const RunResult result = co_await std::move(prompting);
            co_return result.text();
        })};
    Agent agent(std::move(options));
    running = &agent;
    const TraceAttachment trace = exported.tracer().attach(agent);
    const MeterAttachment meter = exported.meter().attach(agent);
    std::map<RunOutcome, int> outcomes;
    for (int i = 0; i < 20; ++i) ++outcomes[run(agent.prompt(words.next())).outcome];
    EXPECT_GT(outcomes[RunOutcome::aborted], 2);
    EXPECT_GT(outcomes[RunOutcome::completed], 2);
    const std::string all = exported.exported();
    EXPECT_NE(all.find("cubepi.parent_run_id"), std::string::npos);
    EXPECT_NE(all.find("cubepi.aborted"), std::string::npos);
    expect_absent(all);
}

TEST(Privacy, D26_QuestionsAndAnswers_AreNotExported) {
    Words words;
    Exported exported(TracerOptions(), 100);
    FauxProvider faux;
    faux.set_responses({calling(words.next(), words.next()), faux_assistant_message("ok")});
    AgentOptions options;
    options.model = faux.model("m");
    auto channel = std::make_shared<InMemoryChannel>();
    options.channel = channel;
    options.tools = {tool<Args>("work", "Works.", [](Args args) { return args.text; })};
    options.middleware.emplace_back(ConfirmToolCallMiddleware(channel));
    Agent agent(std::move(options));
    const TraceAttachment trace = exported.tracer().attach(agent);
    const Subscription answering = agent.subscribe([&](const AgentEvent& event) -> Task<> {
        const auto* asked = event.get_if<HitlRequestEvent>();
        if (!asked) co_return;
        JsonObject answer;
        answer["decision"] = "deny";
        answer["reason"] = words.next();
        std::string id = asked->request.question_id;
        co_await channel->answer(std::move(id), std::move(answer));
    });
    run(agent.prompt(words.next()));
    const std::string all = exported.exported();
    EXPECT_NE(all.find("hitl.approve"), std::string::npos);
    expect_absent(all);
}

TEST(Privacy, D26_Redact_SeesEveryRecordedText) {
    Words words;
    TracerOptions options;
    options.record_content = true;
    options.redact = [](std::string_view, Json value) -> std::optional<Json> {
        std::string text = boost::json::serialize(value);
        for (std::size_t at = 0; (at = text.find(marker, at)) != std::string::npos;)
            text.replace(at, marker.size(), "hidden");
        return boost::json::parse(text);
    };
    Exported exported(std::move(options), 2 * Speaker::prompts);
    Speaker speaker(words);
    Agent agent(speaker.options());
    const TraceAttachment trace = exported.tracer().attach(agent);
    for (int i = 0; i < 40; ++i) run(agent.prompt(words.next()));
    const std::string all = exported.exported();
    EXPECT_NE(all.find("hidden"), std::string::npos);
    expect_absent(all);
}

}  // namespace
}  // namespace cubepi

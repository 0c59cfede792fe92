// An exporter of one's own: prints one line for each run, with the slowest span and the tokens. Runs offline.
#include <cubepi/cubepi.hpp>
#include <cubepi/tracing/otel_environment.hpp>
#include <cubepi/tracing/tracer.hpp>

#include <iostream>
#include <map>
#include <string>
#include <variant>

using namespace cubepi;

struct AddArgs {
    int a;
    int b;
};

/// Called on the tracer's export thread, one call at a time, so its members need no lock. Children come before their parents.
class RunLines final : public SpanExporter {
public:
    explicit RunLines(std::ostream& out) : out_(out) {}

    Task<ExportResult> export_spans(SpanBatch batch, std::shared_ptr<const Resource>) override {
        for (const auto& span : batch) add(*span);
        ExportResult
            result;  // a span that could not be exported would count as `rejected`, with an `error`
        co_return result;
    }
    std::string name() const override { return "run lines"; }

private:
    struct Trace {
        std::string slowest = "-";
        std::chrono::nanoseconds slowest_time{0};
        std::int64_t tokens = 0;
        int spans = 0;
    };

    void add(const SpanData& span) {
        Trace& trace = traces_[span.context.trace_id];
        ++trace.spans;
        if (span.name == "invoke_agent" && !span.parent.valid()) {
            out_ << trace.spans << " spans, " << trace.tokens
                 << " tokens, slowest: " << trace.slowest
                 << (span.status == SpanStatus::error ? ", failed" : "") << std::endl;
            traces_.erase(span.context.trace_id);
            return;
        }
        if (span.name.str().starts_with("chat ")) {
            for (const char* key : {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"}) {
                const AttributeValue* value = span.attributes.find(key);
                if (const std::int64_t* count = value ? value->if_integer() : nullptr)
                    trace.tokens += *count;
            }
        }
        const auto time = span.end - span.start;
        if (span.name != "cubepi.turn" && time > trace.slowest_time) {
            trace.slowest = span.name.str();
            trace.slowest_time = time;
        }
    }

    std::ostream& out_;
    std::map<TraceId, Trace> traces_;
};

int main() {
    TracerOptions options;
    options.service_name = "own_exporter";
    SpanSink::Output lines;
    lines.exporter = std::make_shared<RunLines>(std::cout);
    options.exporters.push_back(std::move(lines));
    // OTEL_EXPORTER_OTLP_ENDPOINT and its relatives add an exporter to a collector.
    const OtelEnvironment environment = process_otel_environment();
    for (const Notice& notice : environment.notices) std::cerr << notice.text << '\n';
    apply(environment, options, std::cerr);
    Tracer tracer(std::move(options));

    FauxProvider faux;
    faux.set_responses({faux_assistant_message(faux_tool_call("add", {{"a", 17}, {"b", 25}}),
                                               stop_reason::tool_use),
                        "It is 42."});
    AgentOptions agent_options;
    agent_options.model = faux.model("offline");
    agent_options.tools = {tool<AddArgs>(
        "add", "Adds two numbers.", [](AddArgs args) { return std::to_string(args.a + args.b); })};
    Agent agent(std::move(agent_options));
    const TraceAttachment traced = tracer.attach(agent);

    const RunResult result = run(agent.prompt("What is 17 + 25?"));
    std::cout << result.text() << std::endl;
    // Exports what is in the queues; after the limit it is dropped and counted.
    const bool all = tracer.shutdown(std::chrono::seconds(5));
    return result && all && tracer.export_counts().front().exported == 6 ? 0 : 1;
}

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/testing/memory_transport.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/otlp/otlp_samples_test.hpp>
#include <cubepi/tracing/otlp_exporter.hpp>
#include <cubepi/tracing/tracer.hpp>

// otlp_requests DIRECTORY: writes the bodies of OTLP requests, as the exporters send them, to files: `samples.*` with every kind of
// field, and `run.*` of an agent's run, whose spans are also in `jsonl/` in CubePi's format. tools/check-otlp decodes them.

namespace cubepi {
namespace {

struct AddArgs {
    int a = 0;
    int b = 0;
};

/// A collector that accepts everything.
class Collector {
public:
    Collector()
        : transport_(std::make_shared<testing::MemoryTransport>(
              [](const HttpRequest&) { return testing::MemoryResponse(200); })) {}

    OTLPOptions options(OTLPProtocol protocol) const {
        OTLPOptions options;
        options.protocol = protocol;
        options.runtime = std::make_shared<const Runtime>(Runtime().with_transport(transport_));
        return options;
    }
    /// Writes the body of the only request.
    void write(const std::filesystem::path& file) const {
        const std::vector<HttpRequest> requests = transport_->requests();
        if (requests.size() != 1) throw std::runtime_error(file.string() + ": not one request");
        std::ofstream(file, std::ios::binary) << requests.front().body;
    }

private:
    std::shared_ptr<testing::MemoryTransport> transport_;
};

constexpr std::pair<OTLPProtocol, const char*> protocols[] = {{OTLPProtocol::http_protobuf, ".pb"},
                                                              {OTLPProtocol::http_json, ".json"}};

void expect_accepted(const ExportResult& result) {
    if (!result.ok()) throw std::runtime_error(result.error);
}

void write_samples(const std::filesystem::path& directory) {
    const auto resource = std::make_shared<const Resource>(otlp_test::sample_resource());
    for (const auto& [protocol, ending] : protocols) {
        const Collector traces;
        OTLPSpanExporter spans(traces.options(protocol));
        const SpanBatch batch = {otlp_test::sample_span(), otlp_test::plain_span()};
        expect_accepted(run(spans.export_spans(batch, resource)));
        traces.write(directory / ("samples.traces" + std::string(ending)));
        const Collector metrics;
        OTLPMetricExporter points(metrics.options(protocol));
        const auto snapshot = std::make_shared<const MetricSnapshot>(otlp_test::sample_metrics());
        expect_accepted(run(points.export_metrics(snapshot, resource)));
        metrics.write(directory / ("samples.metrics" + std::string(ending)));
    }
}

SpanSink::Output output(std::shared_ptr<SpanExporter> exporter) {
    SpanSink::Output output;
    output.exporter = std::move(exporter);
    return output;
}

/// A run with a tool call that succeeds, one that fails, and an answer.
void run_agent(Tracer& tracer, Meter& meter) {
    FauxProvider faux;
    ToolCall good = faux_tool_call("add", {{"a", 17}, {"b", 25}});
    ToolCall unknown = faux_tool_call("subtract", {{"a", 1}});
    good.id = "c1";
    unknown.id = "c2";
    faux.set_responses({FauxStep(faux_assistant_message({good, unknown}, stop_reason::tool_use)),
                        FauxStep(faux_assistant_message("It is 42. \xc3\xbc"))});
    AgentOptions options;
    options.model = faux.model("faux-1");
    options.tools = {tool<AddArgs>("add", "Adds two numbers.",
                                   [](AddArgs args) { return std::to_string(args.a + args.b); })};
    Agent agent(std::move(options));
    const TraceAttachment traced = tracer.attach(agent);
    const MeterAttachment measured = meter.attach(agent);
    PromptOptions prompt = PromptOptions().tags({"one", "two"}).metadata({{"tenant", "t-1"}});
    if (!run(agent.prompt("17 + 25?", std::move(prompt))))
        throw std::runtime_error("the run failed");
}

void write_run(const std::filesystem::path& directory) {
    Collector traces[2];
    Collector metrics[2];
    TracerOptions tracer_options;
    tracer_options.service_name = "check-otlp";
    tracer_options.record_content = true;
    tracer_options.exporters.push_back(
        output(std::make_shared<JsonlSpanExporter>(directory / "jsonl")));
    MeterOptions meter_options;
    for (std::size_t i = 0; i < 2; ++i) {
        tracer_options.exporters.push_back(
            output(std::make_shared<OTLPSpanExporter>(traces[i].options(protocols[i].first))));
        meter_options.exporters.push_back(
            std::make_shared<OTLPMetricExporter>(metrics[i].options(protocols[i].first)));
    }
    Tracer tracer(tracer_options);
    meter_options.resource = tracer.resource();
    Meter meter(meter_options);
    run_agent(tracer, meter);
    if (!tracer.shutdown() || !meter.shutdown()) throw std::runtime_error("not all was exported");
    for (std::size_t i = 0; i < 2; ++i) {
        const std::string ending = protocols[i].second;
        traces[i].write(directory / ("run.traces" + ending));
        metrics[i].write(directory / ("run.metrics" + ending));
    }
}

}  // namespace
}  // namespace cubepi

int main(int count, char** arguments) {
    if (count != 2) {
        std::cerr << "usage: otlp_requests DIRECTORY\n";
        return 2;
    }
    try {
        const std::filesystem::path directory = arguments[1];
        std::filesystem::create_directories(directory);
        cubepi::write_samples(directory);
        cubepi::write_run(directory);
    } catch (const std::exception& error) {
        std::cerr << "otlp_requests: " << error.what() << '\n';
        return 1;
    }
    return 0;
}

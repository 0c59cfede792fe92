#include <atomic>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/run.hpp>
#include <cubepi/tracing/traced_test.hpp>

// Runs on several threads, and export threads that are slow, stuck or gone.

namespace cubepi {
namespace {

using tracing_test::answering;
using tracing_test::calling;
using tracing_test::Traced;

struct NoArgs {};

std::vector<FauxStep> answers(std::size_t count) {
    std::vector<FauxStep> steps;
    for (std::size_t i = 0; i < count; ++i) steps.emplace_back("answer");
    return steps;
}

SpanSink::Output to_memory(const std::shared_ptr<InMemorySpanExporter>& exporter) {
    SpanSink::Output output;
    output.exporter = exporter;
    output.limits.queue_spans = 100'000;
    return output;
}

TEST(Tracer, D26_LosesNothingOfManyRunsOnSeveralThreads) {
    constexpr std::size_t threads = 4;
    constexpr std::size_t runs = 400;
    auto exporter = std::make_shared<InMemorySpanExporter>();
    TracerOptions options;
    options.exporters.push_back(to_memory(exporter));
    Tracer tracer(std::move(options));
    std::vector<std::thread> all;
    for (std::size_t i = 0; i < threads; ++i) {
        all.emplace_back([&tracer] {
            FauxProvider faux = answering(answers(runs));
            for (std::size_t done = 0; done < runs; ++done) {
                Agent agent({.model = faux.model("m")});
                const TraceAttachment attachment = tracer.attach(agent);
                run(agent.prompt("hi"));
            }
        });
    }
    for (std::thread& one : all) one.join();
    EXPECT_TRUE(tracer.force_flush());
    std::size_t spans = 0;
    std::size_t completed = 0;
    for (const auto& span : exporter->spans()) {
        ++spans;
        if (tracing_test::text(*span, "cubepi.run.outcome") == "completed") ++completed;
    }
    EXPECT_EQ(spans, threads * runs * 3);
    EXPECT_EQ(completed, threads * runs);
}

TEST(Tracer, ExportsTheSpansOfARunThatIsInProgress) {
    Traced it;
    FauxProvider faux = answering({calling("look"), "done"});
    std::size_t seen = 0;
    AgentTool look = tool<NoArgs>("look", "Looks.", [&](NoArgs, ToolContext&) -> Task<std::string> {
        // Without a flush: they come by themselves.
        while (it.exporter->spans().empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        seen = it.exporter->spans().size();
        co_return "seen";
    });
    Agent agent({.model = faux.model("m"), .tools = {look}});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_EQ(seen, 1u) << "the model call of the first turn";
    EXPECT_EQ(it.spans().size(), 6u);
}

TEST(Tracer, ShutdownExportsTheRunsBeforeIt) {
    Traced it;
    FauxProvider faux = answering(answers(2));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = it.tracer->attach(agent);
    run(agent.prompt("hi"));
    EXPECT_TRUE(it.tracer->shutdown());
    EXPECT_EQ(it.exporter->spans().size(), 3u);
    run(agent.prompt("hi"));
    EXPECT_EQ(it.tracer->export_counts().at(0).dropped, 3u);
}

/// Blocks its thread instead of suspending.
class BlockingExporter final : public SpanExporter {
public:
    Task<ExportResult> export_spans(SpanBatch, std::shared_ptr<const Resource>) override {
        if (!entered_.exchange(true)) entered.set_value();
        while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        co_return ExportResult();
    }
    std::string name() const override { return "blocking"; }

    std::promise<void> entered;
    std::atomic<bool> leave = false;

private:
    std::atomic<bool> entered_ = false;
};

TEST(Tracer, D26_RunsContinueWhileAnExporterBlocksTheExportThread) {
    constexpr std::size_t runs = 1000;
    auto blocking = std::make_shared<BlockingExporter>();
    auto memory = std::make_shared<InMemorySpanExporter>();
    TracerOptions options;
    SpanSink::Output blocked;
    blocked.exporter = blocking;
    blocked.limits.delay = std::chrono::milliseconds(1);
    options.exporters.push_back(std::move(blocked));
    options.exporters.push_back(to_memory(memory));
    Tracer tracer(std::move(options));
    FauxProvider faux = answering(answers(runs));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = tracer.attach(agent);
    run(agent.prompt("hi"));
    blocking->entered.get_future().wait();
    for (std::size_t i = 1; i < runs; ++i) run(agent.prompt("hi"));
    blocking->leave = true;
    EXPECT_TRUE(tracer.force_flush());
    EXPECT_EQ(memory->spans().size(), runs * 3);
}

/// A test that fails does not end.
TEST(Tracer, ALaterShutdownDoesNotWaitForAThreadThatWasAbandoned) {
    auto blocking = std::make_shared<BlockingExporter>();
    TracerOptions options;
    SpanSink::Output output;
    output.exporter = blocking;
    options.exporters.push_back(std::move(output));
    Tracer tracer(std::move(options));
    FauxProvider faux = answering(answers(1));
    Agent agent({.model = faux.model("m")});
    const TraceAttachment attachment = tracer.attach(agent);
    run(agent.prompt("hi"));
    EXPECT_FALSE(tracer.shutdown(std::chrono::milliseconds(20)));
    EXPECT_FALSE(tracer.shutdown(std::chrono::hours(1)));
    EXPECT_FALSE(tracer.force_flush(std::chrono::hours(1)));
    blocking->leave = true;
}

TEST(Tracer, AnAttachmentOutlivesItsTracerDuringARun) {
    auto it = std::make_unique<Traced>();
    const std::shared_ptr<InMemorySpanExporter> exporter = it->exporter;
    FauxProvider faux = answering({calling("end"), "done"});
    AgentTool end = tool<NoArgs>("end", "Ends the tracer.", [&](NoArgs, ToolContext&) {
        it.reset();
        return std::string("ended");
    });
    Agent agent({.model = faux.model("m"), .tools = {end}});
    const TraceAttachment attachment = it->tracer->attach(agent);
    EXPECT_EQ(run(agent.prompt("hi")).text(), "done");
    EXPECT_EQ(exporter->spans().size(), 1u) << "what had ended then";
}

}  // namespace
}  // namespace cubepi

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/memory_exporters.hpp>
#include <cubepi/tracing/tracer.hpp>

namespace cubepi::tracing_test {

/// A tracer that exports to memory.
struct Traced {
    explicit Traced(TracerOptions options = TracerOptions())
        : exporter(std::make_shared<InMemorySpanExporter>()) {
        SpanSink::Output output;
        output.exporter = exporter;
        output.limits.delay = std::chrono::milliseconds(1);
        options.exporters.push_back(std::move(output));
        tracer.emplace(std::move(options));
    }
    SpanBatch spans() {
        EXPECT_TRUE(tracer->force_flush());
        return exporter->spans();
    }
    /// The spans of a name, in the order of their ends.
    SpanBatch spans(std::string_view name) {
        SpanBatch found;
        for (const auto& span : spans()) {
            if (span->name == name) found.push_back(span);
        }
        return found;
    }
    std::shared_ptr<const SpanData> span(std::string_view name) {
        const SpanBatch found = spans(name);
        EXPECT_EQ(found.size(), 1u) << name;
        return found.empty() ? std::make_shared<SpanData>() : found.front();
    }

    std::shared_ptr<InMemorySpanExporter> exporter;
    std::optional<Tracer> tracer;
};

inline std::string text(const SpanData& span, std::string_view key) {
    const AttributeValue* value = span.attributes.find(key);
    if (!value) return "(absent)";
    if (const auto one = value->if_text()) return std::string(*one);
    if (const bool* flag = value->if_boolean()) return *flag ? "true" : "false";
    if (const std::int64_t* number = value->if_integer()) return std::to_string(*number);
    if (const double* real = value->if_number()) return std::to_string(*real);
    std::string all;
    for (const SharedString& one : *value->if_list()) all += (all.empty() ? "" : ",") + one.str();
    return all;
}

inline FauxProvider answering(std::vector<FauxStep> steps) {
    FauxOptions options;
    options.provider_id = "faux";
    FauxProvider faux(options);
    faux.set_responses(std::move(steps));
    return faux;
}

inline AssistantMessage calling(std::string tool, std::string id = "c1") {
    ToolCall call = faux_tool_call(std::move(tool), JsonObject());
    call.id = id;
    return faux_assistant_message(std::move(call), stop_reason::tool_use);
}

}  // namespace cubepi::tracing_test

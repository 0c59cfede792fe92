#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <cubepi/tracing/exporter.hpp>
#include <cubepi/tracing/span_sink.hpp>

namespace cubepi {

/// Writes spans to files in CubePi's format, one JSON object a line: `DIRECTORY/YYYY-MM-DD/TRACE_ID.jsonl`. All spans of a trace are in
/// one file; the date is the UTC date on which the trace started, as far as this process knows it. `cubepi trace`, CubePi and
/// CubeLoop read these files.
///
/// Directories are created with mode 0700 and files with 0600. The spans of a batch that belong to one file are appended with one
/// write, so that several processes can write to one directory, and to one trace. A line that a failed write (a full disk) left
/// incomplete is ended by the next write to the file. Numbers that JSON does not have are the strings "NaN", "Infinity" and
/// "-Infinity"; invalid UTF-8 is replaced.
class JsonlSpanExporter final : public SpanExporter {
public:
    /// Does not access the file system before the first export.
    explicit JsonlSpanExporter(std::filesystem::path directory = "cubepi-traces");
    ~JsonlSpanExporter() override;

    /// The limits for SpanSink: spans are in the file after 200 ms, so that `cubepi trace follow` can show them.
    static ExportLimits limits();

    Task<ExportResult> export_spans(SpanBatch batch,
                                    std::shared_ptr<const Resource> resource) override;
    std::string name() const override { return "jsonl"; }

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace cubepi

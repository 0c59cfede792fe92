#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "traces.hpp"

namespace cubepi::app {

/// The remedy for a trace without content.
inline constexpr char how_to_record_content[] =
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true; in a program "
    "TracerOptions::record_content, in Python record_content=True.";

/// A part of recorded content: "user", "assistant", "call add", "result".
struct ContentBlock {
    std::string label = {};
    std::string text = {};
};

/// The recorded content of the spans of a trace. A call of a model records the whole conversation before it; each message is
/// returned once per run. Blocks must be requested in the order of the spans.
class SpanContent {
public:
    explicit SpanContent(const Trace& trace);

    /// `span` is its index, `line` the line of the span. The messages of runs and turns, which those of their model calls
    /// repeat, are returned only if `all`, or if the trace has no model call.
    std::vector<ContentBlock> blocks(std::size_t span, const JsonObject& line, bool all);

private:
    using Hashes = std::unordered_set<std::size_t>;
    std::vector<ContentBlock> call_blocks(std::size_t span, const JsonObject& attributes);
    /// Adds the messages that are not in `shown`, and returns the number of the others.
    static std::size_t add_new_messages(std::vector<ContentBlock>& blocks, const Json& messages,
                                        Hashes& shown);

    const Trace& trace_;
    bool has_chat_ = false;
    std::vector<std::size_t> runs_;                  // by span: the span of the run it belongs to
    std::unordered_map<std::size_t, Hashes> shown_;  // by the span of the run
};

/// The facts of a span for `trace view -v`: ids, times, attributes without content, events and links; one line each.
std::vector<std::string> attribute_lines(const TraceSpan& span, const JsonObject& line);

}  // namespace cubepi::app

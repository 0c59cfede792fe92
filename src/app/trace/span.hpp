#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/json.hpp>

namespace cubepi::app {

/// The kind of work that a span stands for.
enum class SpanOperation : std::uint8_t {
    agent,  ///< a run of an agent
    turn,
    chat,  ///< a call of a model
    tool,
    mcp,  ///< the request of an MCP client, which is a part of a tool call
    other
};

/// Where a span is stored: a line of one of the files of a TraceSet.
struct SpanPlace {
    std::uint32_t file = 0;
    std::uint32_t bytes = 0;
    std::uint64_t offset = 0;
};

struct TokenCounts {
    std::int64_t input = 0;  ///< the whole prompt, cached tokens included
    std::int64_t output = 0;
    std::int64_t cache_read = 0;
    std::int64_t cache_write = 0;

    TokenCounts& operator+=(const TokenCounts& other) noexcept;
    friend bool operator==(const TokenCounts&, const TokenCounts&) = default;
};

/// A span of a trace file, without the recorded content: that is read again from its place when it is shown, so that a
/// long trace needs little memory.
struct TraceSpan {
    std::string name = {};
    std::string trace_id = {};  ///< hexadecimal digits, without 0x
    std::string span_id = {};
    std::string parent_id = {};  ///< empty: none
    SpanOperation operation = SpanOperation::other;
    bool error = false;
    bool aborted = false;
    bool has_remote_parent = false;  ///< the parent is a span of another program
    bool suspended = false;
    std::int64_t start = 0;  ///< microseconds since 1970
    std::int64_t end = 0;
    std::string model = {};
    std::string tool = {};
    std::string session = {};  ///< the pipeline's session, or the thread
    std::string thread = {};
    std::string error_text = {};  ///< why it failed; may be empty although it did
    std::string input = {};       ///< of a run: the beginning of the last text of the user
    std::optional<TokenCounts> tokens = {};
    std::optional<double> cost = {};  ///< USD
    std::vector<std::pair<std::string, std::string>> metadata = {};
    SpanPlace place = {};

    // The place in the tree of its trace, set by make_trace().
    std::optional<std::size_t> parent = {};  ///< index into Trace::spans; none: a root
    std::size_t depth = 0;
    bool last = false;    ///< the last child of its parent
    bool orphan = false;  ///< its parent is not in the file
    bool cycle = false;   ///< its parent is one of its descendants

    std::int64_t duration() const noexcept { return end - start; }
};

/// Parses a line of a trace file. Empty if the line is not a span.
std::optional<TraceSpan> parse_span(std::string_view line);

/// Returns the attribute `cubepi.NAME`, or `cubeloop.NAME` of newer Python versions; null: none.
const Json* own_attribute(const JsonObject& attributes, std::string_view name);

/// The value of a content attribute: a list or an object that was recorded as JSON text. A text that is not JSON (it was
/// redacted) is a JSON string. Null if there is none.
Json content_attribute(const JsonObject& attributes, std::string_view name);

/// An attribute's value as text: a string as it is, anything else as JSON.
std::string attribute_text(const Json& value);

}  // namespace cubepi::app

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <cubepi/agent/hitl_channel.hpp>
#include <cubepi/agent/tool.hpp>

namespace cubepi::detail {

/// Replaces invalid UTF-8 with U+FFFD in the texts and details of `result`, so that memory, events, requests and stores
/// hold the same text. Valid text is only read.
void sanitize(AgentToolResult& result);
/// Does the same for every string and key of `value`. A value that no store takes, because it is nested deeper than
/// max_json_depth, becomes {"omitted": REASON}.
void sanitize(Json& value);
void sanitize(std::string& text);
/// Does the same for the texts and the metadata of a message of the caller or of a hook.
Message sanitized(Message message);

/// Returns true if the texts of `result` have more than `limit` Unicode code points in total.
bool is_longer(const AgentToolResult& result, std::size_t limit);

/// Returns `result` with its texts shortened to `limit` code points, with a notice of what is missing. The full text is written to
/// `spill`, if there is one, and the notice states how to read it (D24). A failure of the spill is reported in the
/// notice, not thrown.
Task<AgentToolResult> cut_tool_output(std::shared_ptr<const Runtime> runtime,
                                      std::shared_ptr<SpillSink> spill, SharedString tool_name,
                                      std::string tool_call_id, std::size_t limit,
                                      AgentToolResult result);

/// Adds who answered, and from where, to the trace of an approval; does nothing if the origin is empty.
void add_origin(Json& trace, AnswerOrigin origin);
/// Returns `details` with an approval's trace under "hitl" (D54).
Json with_trace(Json details, const Json& trace);

}  // namespace cubepi::detail

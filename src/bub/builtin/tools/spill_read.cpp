#include <algorithm>
#include <optional>
#include <utility>

#include <bub/builtin/turn/agent_turn.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>

namespace bub::detail {

namespace {

using cubepi::ErrorCode;

constexpr std::int64_t most_chunks = 4;

struct SpillReadArgs {
    std::string handle;
    std::int64_t cursor = 0;
    std::int64_t count = 1;
    std::optional<bool> from_end;
};

struct Manifest {
    std::int64_t chunks = 0;
    std::int64_t bytes = 0;
};

/// Returns the entries after the anchor with this name; empty if there is none.
Task<std::vector<TapeEntry>> entries_after(Tape tape, std::string anchor) {
    TapeQuery query = TapeQuery().after_anchor(std::move(anchor)).limit(1);
    std::vector<TapeEntry> found;
    try {
        found = co_await tape.query(std::move(query));
    } catch (const cubepi::Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
    }
    co_return found;
}

Task<std::optional<Manifest>> read_manifest(Tape spilled, std::string handle) {
    const std::vector<TapeEntry> found =
        co_await entries_after(std::move(spilled), "spill/" + handle + "/manifest");
    std::optional<Manifest> manifest;
    if (found.empty() || entry_name(found[0]) != "spill.manifest") co_return manifest;
    const Json* data = found[0].payload.if_contains("data");
    if (!data || !data->is_object()) co_return manifest;
    manifest.emplace();
    manifest->chunks = cubepi::detail::integer_member(data->get_object(), "chunks").value_or(0);
    manifest->bytes = cubepi::detail::integer_member(data->get_object(), "bytes").value_or(0);
    co_return manifest;
}

Task<std::optional<std::string>> read_chunk(Tape spilled, std::string handle, std::int64_t number) {
    std::string anchor = "spill/" + handle + "/chunk/" + std::to_string(number);
    const std::vector<TapeEntry> found =
        co_await entries_after(std::move(spilled), std::move(anchor));
    std::optional<std::string> text;
    if (found.empty()) co_return text;
    const Json* results = found[0].payload.if_contains("results");
    const JsonArray* list = results ? results->if_array() : nullptr;
    if (list && list->size() == 1 && list->front().is_string()) {
        text = std::string(list->front().get_string());
    }
    co_return text;
}

Task<std::string> spill_read(Tape spilled, SpillReadArgs args) {
    if (args.cursor < 0) co_return std::string("[cursor is 0 or more]");
    if (args.count < 1) co_return std::string("[count is 1 or more]");
    const std::optional<Manifest> manifest = co_await read_manifest(spilled, args.handle);
    if (!manifest) co_return "[no such spilled result: " + args.handle + "]";
    const std::int64_t count = std::min(args.count, most_chunks);
    const bool from_end = args.from_end.value_or(false);
    // From the end, the cursor is the number of chunks already read.
    const std::int64_t to = from_end ? std::max<std::int64_t>(manifest->chunks - args.cursor, 0)
                                     : std::min(args.cursor + count, manifest->chunks);
    const std::int64_t from =
        from_end ? std::max<std::int64_t>(to - count, 0) : std::min(args.cursor, to);
    std::string content;
    for (std::int64_t number = from; number < to; ++number) {
        const std::optional<std::string> chunk = co_await read_chunk(spilled, args.handle, number);
        if (!chunk) co_return "[the spilled result " + args.handle + " is not complete]";
        content += *chunk;
    }
    const bool complete = from_end ? from == 0 : to == manifest->chunks;
    std::string text = "bytes: " + std::to_string(manifest->bytes) + " in " +
                       std::to_string(manifest->chunks) + " chunks\nchunks: ";
    text += from < to ? std::to_string(from) + "-" + std::to_string(to - 1) : "none";
    text += "\nnext_cursor: " + std::to_string(from_end ? manifest->chunks - from : to);
    text += std::string("\ncomplete: ") + (complete ? "true" : "false");
    co_return text + "\ncontent:\n" + content;
}

}  // namespace

cubepi::AgentTool spill_read_tool(const Tape& tape) {
    const Tape spilled(tape.store(), sidecar_tape_name(tape.name(), "spill"));
    return cubepi::tool<SpillReadArgs>(
               "spill_read",
               "Reads a long result that was put aside with a handle. Results that name a file are "
               "read with the tool for files.",
               [spilled](SpillReadArgs args) { return spill_read(spilled, std::move(args)); })
        .describe("cursor",
                  "How many chunks to skip; `next_cursor` of the previous result continues.")
        .describe("count", "How many chunks to read, 4 at most.")
        .describe("from_end", "Begin with the last chunk.")
        .risk(cubepi::ToolRisk::read_only);
}

}  // namespace bub::detail

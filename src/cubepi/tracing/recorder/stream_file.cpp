#include <cubepi/tracing/recorder/stream_file.hpp>

#include <cmath>
#include <utility>

#include <cubepi/net/utf8.hpp>

namespace cubepi::detail {

namespace {

constexpr std::size_t preview_size = 80;

/// The run id is the caller's: it must not lead out of the directory.
std::string file_name(const std::string& run_id) {
    std::string name;
    for (const char c : run_id) {
        const bool safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
        name.push_back(safe ? c : '_');
    }
    return name + ".stream.jsonl";
}

const ToolCall* call_at(const AssistantMessage& message, std::int32_t index) {
    const auto at = static_cast<std::size_t>(index);
    if (index < 0 || at >= message.content.size()) return nullptr;
    return std::get_if<ToolCall>(&message.content[at]);
}

}  // namespace

StreamFile::StreamFile(StreamWriter& writer, const std::string& run_id,
                       const ContentFilter& content, Time start)
    : writer_(writer), content_(content), start_(start), file_(writer.open(file_name(run_id))) {}

void StreamFile::write(const StreamEvent& event, Time now) {
    switch (event.type) {
        case StreamEventType::text_delta:
        case StreamEventType::thinking_delta: {
            JsonObject line = line_of(to_string(event.type).data(), now);
            line["chars"] = event.delta.size();
            write_line(std::move(line));
            break;
        }
        case StreamEventType::toolcall_start:
            write_call_start(event, line_of("toolcall_start", now));
            break;
        case StreamEventType::toolcall_delta: {
            JsonObject line = line_of("toolcall_delta", now);
            std::size_t& size = argument_sizes_[event.content_index];
            size += event.delta.size();
            line["ci"] = event.content_index;
            line["chars"] = event.delta.size();
            line["accumulated"] = size;
            add_preview(line, "preview", event.delta);
            write_line(std::move(line));
            break;
        }
        case StreamEventType::toolcall_end:
            write_call_end(event, line_of("toolcall_end", now));
            break;
        default: break;
    }
}

JsonObject StreamFile::line_of(const char* type, Time now) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    return JsonObject{{"t", std::round(seconds * 1000) / 1000}, {"type", type}};
}

void StreamFile::write_call_start(const StreamEvent& event, JsonObject line) {
    argument_sizes_[event.content_index] = 0;
    const AssistantMessage message = event.partial.get();
    const ToolCall* call = call_at(message, event.content_index);
    line["ci"] = event.content_index;
    line["id"] = call ? std::string_view(call->id) : std::string_view();
    line["name"] = call ? std::string_view(call->name) : std::string_view();
    write_line(std::move(line));
}

void StreamFile::write_call_end(const StreamEvent& event, JsonObject line) {
    const AssistantMessage message = event.partial.get();
    const ToolCall* call = call_at(message, event.content_index);
    line["ci"] = event.content_index;
    line["id"] = call ? std::string_view(call->id) : std::string_view();
    line["name"] = call ? std::string_view(call->name) : std::string_view();
    line["args_chars"] = argument_sizes_[event.content_index];
    if (call && content_.enabled())
        add_preview(line, "args_preview", boost::json::serialize(call->arguments));
    write_line(std::move(line));
}

void StreamFile::add_preview(JsonObject& line, const char* key, std::string_view text) const {
    if (!content_.enabled()) return;
    const std::string_view begin = text.substr(0, preview_size);
    line[key] = replace_broken_utf8(begin.substr(0, complete_utf8_prefix(begin)));
}

void StreamFile::write_line(JsonObject line) {
    if (content_.enabled()) {
        std::optional<Json> recorded = content_.value("cubepi.stream", Json(std::move(line)));
        if (!recorded || !recorded->is_object()) return;
        line = std::move(recorded->get_object());
    }
    writer_.write(file_, boost::json::serialize(line) + "\n");
}

}  // namespace cubepi::detail

#include "traces.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <bub/tape/prompt_context.hpp>
#include <bub/tape/support/encoding.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/posix_file.hpp>
#include <cubepi/schema/json_text.hpp>
#include <cubepi/schema/python_json.hpp>

#include "../terminal/terminal_text.hpp"

namespace cubepi::app {

namespace {

using detail::object_member;
using detail::string_member;

constexpr std::array<const char*, 2> own_prefixes = {"cubepi.", "cubeloop."};
constexpr std::size_t longest_input = 400;
constexpr std::size_t longest_error = 4000;

/// The boost::json parser is several times faster than parse_lenient(), which reads what only Python writes.
Json parse_line(std::string_view line) {
    boost::system::error_code failed;
    Json value = boost::json::parse(line, failed);
    return failed ? parse_lenient(line) : std::move(value);
}

std::string cut(std::string_view text, std::size_t bytes) {
    if (text.size() <= bytes) return std::string(text);
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80) --bytes;
    return std::string(text.substr(0, bytes));
}

bool is_true(const Json* value) { return value && value->is_bool() && value->get_bool(); }

std::optional<std::int64_t> count_of(const JsonObject& attributes, std::string_view key) {
    const Json* value = attributes.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->to_number<double>();
    if (!(number >= 0) || number > 1e15) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::optional<TokenCounts> tokens_of(const JsonObject& attributes) {
    const auto input = count_of(attributes, "gen_ai.usage.input_tokens");
    const auto output = count_of(attributes, "gen_ai.usage.output_tokens");
    if (!input && !output) return std::nullopt;
    TokenCounts counts;
    counts.input = input.value_or(0);
    counts.output = output.value_or(0);
    counts.cache_read = count_of(attributes, "gen_ai.usage.cache_read.input_tokens").value_or(0);
    counts.cache_write =
        count_of(attributes, "gen_ai.usage.cache_creation.input_tokens").value_or(0);
    return counts;
}

SpanOperation operation_of(const JsonObject& attributes, std::string_view name) {
    // An MCP client's span has the operation of the tool call that it belongs to.
    if (attributes.contains("mcp.method.name")) return SpanOperation::mcp;
    const std::string_view operation = string_member(attributes, "gen_ai.operation.name");
    if (operation == "invoke_agent") return SpanOperation::agent;
    if (operation == "chat") return SpanOperation::chat;
    if (operation == "execute_tool") return SpanOperation::tool;
    const bool is_turn = name == "cubepi.turn" || name == "cubeloop.turn";
    return is_turn ? SpanOperation::turn : SpanOperation::other;
}

/// The last text of a user among messages of the form of the GenAI conventions.
std::string last_user_text(const Json& messages) {
    const JsonArray* list = messages.if_array();
    for (std::size_t i = list ? list->size() : 0; i-- > 0;) {
        const JsonObject* message = (*list)[i].if_object();
        if (!message || string_member(*message, "role") != "user") continue;
        const JsonArray* parts = detail::array_member(*message, "parts");
        std::string text;
        for (const Json& part : parts ? *parts : JsonArray()) {
            const JsonObject* object = part.if_object();
            if (!object || string_member(*object, "type") != "text") continue;
            if (!text.empty()) text += ' ';
            text += bub::without_context(string_member(*object, "content"));
        }
        if (!text.empty()) return cut(text, longest_input);
    }
    return {};
}

std::string exception_of(const JsonObject& line) {
    const JsonArray* events = detail::array_member(line, "events");
    for (const Json& event : events ? *events : JsonArray()) {
        const JsonObject* object = event.if_object();
        const JsonObject* attributes = object ? object_member(*object, "attributes") : nullptr;
        if (!attributes) continue;
        const std::string_view text = string_member(*attributes, "exception.message");
        if (!text.empty()) return cut(text, longest_error);
    }
    return {};
}

std::string error_text_of(const JsonObject& line, const JsonObject& attributes,
                          SpanOperation operation) {
    std::string text = exception_of(line);
    if (text.empty()) {
        if (const JsonObject* status = object_member(line, "status"))
            text = cut(string_member(*status, "description"), longest_error);
    }
    if (operation == SpanOperation::tool) {
        std::string reason;
        if (const Json* blocked = own_attribute(attributes, "tool.block_reason"))
            reason = attribute_text(*blocked);
        const Json result = content_attribute(attributes, "gen_ai.tool.call.result");
        if (reason.empty() && result.is_object()) reason = cut(result_text(result), longest_error);
        if (!reason.empty() && reason != text) text += (text.empty() ? "" : ": ") + reason;
    }
    if (text.empty()) text = string_member(attributes, "error.type");
    return text;
}

void read_metadata(TraceSpan& span, const JsonObject& attributes) {
    for (const auto& [key, value] : attributes) {
        const std::string_view name = key;
        for (const char* const own : own_prefixes) {
            const std::string prefix = own + std::string("metadata.");
            if (name.starts_with(prefix))
                span.metadata.emplace_back(name.substr(prefix.size()), attribute_text(value));
        }
    }
}

void read_identity(TraceSpan& span, const JsonObject& attributes) {
    if (const Json* thread = own_attribute(attributes, "thread_id"))
        span.thread = attribute_text(*thread);
    if (const Json* session = own_attribute(attributes, "session_id"))
        span.session = attribute_text(*session);
    if (span.session.empty()) span.session = span.thread;
    if (span.session.empty()) span.session = string_member(attributes, "gen_ai.conversation.id");
}

void read_attributes(TraceSpan& span, const JsonObject& line, const JsonObject& attributes) {
    span.operation = operation_of(attributes, span.name);
    span.aborted = is_true(own_attribute(attributes, "aborted"));
    span.has_remote_parent = is_true(own_attribute(attributes, "remote_parent"));
    const Json* outcome = own_attribute(attributes, "run.outcome");
    span.suspended = outcome && outcome->is_string() && outcome->get_string() == "suspended";
    span.model = string_member(attributes, "gen_ai.request.model");
    span.tool = string_member(attributes, "gen_ai.tool.name");
    span.tokens = tokens_of(attributes);
    const Json* cost = own_attribute(attributes, "usage.cost");
    if (cost && cost->is_number() && cost->to_number<double>() >= 0)
        span.cost = cost->to_number<double>();
    read_identity(span, attributes);
    if (span.error) span.error_text = error_text_of(line, attributes, span.operation);
    if (span.operation == SpanOperation::agent)
        span.input = last_user_text(content_attribute(attributes, "gen_ai.input.messages"));
    read_metadata(span, attributes);
}

/// Empty if the line is not a span.
std::optional<TraceSpan> read_span(const Json& value) {
    const JsonObject* object = value.if_object();
    const JsonObject* context = object ? object_member(*object, "context") : nullptr;
    if (!context) return std::nullopt;
    std::optional<TraceSpan> read(std::in_place);
    TraceSpan& span = *read;
    span.name = string_member(*object, "name");
    span.trace_id = without_0x(string_member(*context, "trace_id"));
    span.span_id = without_0x(string_member(*context, "span_id"));
    span.parent_id = without_0x(string_member(*object, "parent_id"));
    const auto start = bub::detail::parse_date(string_member(*object, "start_time"));
    if (span.trace_id.empty() || span.span_id.empty() || !start) return std::nullopt;
    span.start = *start;
    span.end = std::max(
        span.start, bub::detail::parse_date(string_member(*object, "end_time")).value_or(*start));
    if (const JsonObject* status = object_member(*object, "status"))
        span.error = string_member(*status, "status_code") == "ERROR";
    const JsonObject none;
    const JsonObject* attributes = object_member(*object, "attributes");
    read_attributes(span, *object, attributes ? *attributes : none);
    return read;
}

constexpr std::string_view extension = ".jsonl";
/// Files of record_stream, which are not spans.
constexpr std::string_view stream_extension = ".stream.jsonl";

detail::UniqueFd open_trace(const std::filesystem::path& path) {
    if (const std::string_view kind = detail::kind_if_not_regular(path); !kind.empty())
        throw Error(ErrorCode::invalid_argument,
                    "'" + path.string() + "' is " + std::string(kind) + ", not a trace file");
    detail::UniqueFd file = detail::open_file(path.c_str(), O_RDONLY);
    if (!file)
        throw Error(ErrorCode::io,
                    "cannot read '" + path.string() + "': " + detail::errno_text(errno));
    return file;
}

bool is_day(std::string_view name) {
    return name.size() == 10 && bub::detail::parse_date(name).has_value();
}

void add_files_of(const std::filesystem::path& directory, const std::string& day,
                  std::map<std::string, TraceFiles>& found) {
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
        const std::string file = entry.path().filename().string();
        if (!file.ends_with(extension) || file.ends_with(stream_extension)) continue;
        const std::string name = file.substr(0, file.size() - extension.size());
        // Only an id is the same trace in several directories.
        const std::string key = is_trace_id(name) ? name : day + "/" + name;
        TraceFiles& files = found[key];
        if (files.paths.empty() || day < files.day) files.day = day;
        files.name = name;
        files.paths.push_back(entry.path());
    }
}

std::uint64_t size_of(const std::filesystem::path& path) {
    std::error_code failed;
    const std::uintmax_t size = std::filesystem::file_size(path, failed);
    return failed ? 0 : size;
}

}  // namespace

TokenCounts& TokenCounts::operator+=(const TokenCounts& other) noexcept {
    input += other.input;
    output += other.output;
    cache_read += other.cache_read;
    cache_write += other.cache_write;
    return *this;
}

const Json* own_attribute(const JsonObject& attributes, std::string_view name) {
    for (const char* const prefix : own_prefixes) {
        if (const Json* value = attributes.if_contains(prefix + std::string(name))) return value;
    }
    return nullptr;
}

Json content_attribute(const JsonObject& attributes, std::string_view name) {
    const Json* value = attributes.if_contains(name);
    if (!value) return {};
    if (!value->is_string()) return *value;
    try {
        return parse_lenient(value->get_string());
    } catch (const Error&) {
        return *value;
    }
}

std::string attribute_text(const Json& value) {
    return value.is_string() ? std::string(value.get_string()) : json_text(value);
}

std::string result_text(const Json& result) {
    const JsonObject* object = result.if_object();
    const JsonArray* content = object ? detail::array_member(*object, "content") : nullptr;
    if (!content) return result.is_null() ? std::string() : attribute_text(result);
    std::string text;
    for (const Json& block : *content) {
        const JsonObject* one = block.if_object();
        if (!one) continue;
        const std::string_view type = string_member(*one, "type");
        if (!text.empty()) text += '\n';
        text += type == "text" ? detail::text_member(*one, "text") : "[" + std::string(type) + "]";
    }
    return text;
}

std::optional<TraceSpan> parse_span(std::string_view line) {
    try {
        return read_span(parse_line(line));
    } catch (const Error&) {
        return std::nullopt;
    }
}

LineProblems& LineProblems::operator+=(const LineProblems& other) noexcept {
    malformed += other.malformed;
    incomplete += other.incomplete;
    too_long += other.too_long;
    repeated += other.repeated;
    return *this;
}

std::string describe(const LineProblems& problems) {
    std::string text;
    const auto add = [&text](std::size_t count, const std::string& one, const std::string& many) {
        if (count == 0) return;
        text +=
            (text.empty() ? "" : ", ") + std::to_string(count) + " " + (count == 1 ? one : many);
    };
    add(problems.malformed, "line that is not a span", "lines that are not spans");
    add(problems.incomplete, "incomplete line at the end", "incomplete lines at the end of files");
    add(problems.too_long, "line of more than 128 MiB", "lines of more than 128 MiB");
    if (!text.empty()) text = "skipped " + text;
    add(problems.repeated, "span occurs more than once", "spans occur more than once");
    return text;
}

LineRest read_lines(int file, const std::filesystem::path& path, std::uint64_t offset,
                    const std::function<void(std::string_view, std::uint64_t)>& line,
                    std::size_t longest, std::size_t piece) {
    LineRest rest;
    rest.offset = offset;
    bool skips = false;  // the current line is too long
    std::string buffer(piece, '\0');
    while (true) {
        const auto count = detail::read_at(file, offset, buffer.data(), buffer.size());
        if (!count)
            throw Error(ErrorCode::io,
                        "cannot read '" + path.string() + "': " + detail::errno_text(errno));
        std::string_view bytes = std::string_view(buffer).substr(0, *count);
        while (!bytes.empty()) {
            const std::size_t end = bytes.find('\n');
            const std::string_view part = bytes.substr(0, end);
            if (!skips && rest.text.size() + part.size() > longest) {
                skips = true;
                ++rest.too_long;
                rest.text = std::string();
            }
            if (!skips && (end == std::string_view::npos || !rest.text.empty())) rest.text += part;
            if (end == std::string_view::npos) break;
            if (!skips) line(rest.text.empty() ? part : rest.text, rest.offset);
            skips = false;
            rest.text.clear();
            bytes.remove_prefix(end + 1);
            rest.offset = offset + *count - bytes.size();
        }
        offset += *count;
        if (*count < buffer.size()) return rest;
    }
}

void read_spans(const std::filesystem::path& path, std::uint32_t file,
                const std::function<void(TraceSpan&&)>& add, LineProblems& problems) {
    const auto use = [&](std::string_view line, std::uint64_t offset) {
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
        std::optional<TraceSpan> span = parse_span(line);
        if (!span) return false;
        span->place = SpanPlace{file, static_cast<std::uint32_t>(line.size()), offset};
        add(std::move(*span));
        return true;
    };
    const detail::UniqueFd descriptor = open_trace(path);
    const LineRest rest =
        read_lines(descriptor.get(), path, 0, [&](std::string_view line, std::uint64_t offset) {
            if (!use(line, offset)) ++problems.malformed;
        });
    if (!use(rest.text, rest.offset)) ++problems.incomplete;
    problems.too_long += rest.too_long;
}

JsonObject read_line(const std::filesystem::path& path, const SpanPlace& place) {
    const detail::UniqueFd descriptor = open_trace(path);
    std::string line(place.bytes, '\0');
    const auto count = detail::read_at(descriptor.get(), place.offset, line.data(), line.size());
    if (!count || *count != line.size()) return {};
    try {
        Json value = parse_lenient(line);
        return value.is_object() ? std::move(value.get_object()) : JsonObject();
    } catch (const Error&) {
        return {};
    }
}

std::vector<TraceFiles> list_trace_files(const std::filesystem::path& directory) {
    std::error_code failed;
    std::filesystem::directory_iterator entries(directory, failed);
    if (failed)
        throw Error(ErrorCode::not_found, "cannot read the directory of traces '" +
                                              directory.string() + "': " + failed.message() +
                                              "; name it with --dir or CUBEPI_TRACE.\n  To record "
                                              "traces: `trace: DIR` in the configuration, or "
                                              "CUBEPI_TRACE=DIR cubepi run ...");
    std::map<std::string, TraceFiles> found;
    add_files_of(directory, "", found);
    for (const auto& entry : entries) {
        const std::string name = entry.path().filename().string();
        if (entry.is_directory(failed)) add_files_of(entry.path(), is_day(name) ? name : "", found);
    }
    std::vector<TraceFiles> list;
    list.reserve(found.size());
    for (auto& [key, files] : found) {
        std::sort(files.paths.begin(), files.paths.end());
        list.push_back(std::move(files));
    }
    // Files without a day can be of any time: they come first, so that nothing newer is found after them.
    std::sort(list.begin(), list.end(), [](const TraceFiles& a, const TraceFiles& b) {
        if (a.day.empty() != b.day.empty()) return a.day.empty();
        return a.day != b.day ? a.day > b.day : a.name < b.name;
    });
    return list;
}

std::string_view without_0x(std::string_view id) noexcept {
    if (id.starts_with("0x")) id.remove_prefix(2);
    return id;
}

bool is_trace_id(std::string_view name) noexcept {
    return name.size() == 32 && std::all_of(name.begin(), name.end(),
                                            [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::vector<TraceSpan> FollowedTrace::poll() {
    for (std::filesystem::path& path : search()) offsets_.try_emplace(std::move(path), 0);
    std::vector<TraceSpan> spans;
    const auto add = [&spans](std::string_view line, std::uint64_t) {
        if (std::optional<TraceSpan> span = parse_span(line)) spans.push_back(std::move(*span));
    };
    for (auto& [path, offset] : offsets_) {
        const detail::UniqueFd file = detail::open_file(path.c_str(), O_RDONLY);
        if (!file || size_of(path) < offset) offset = 0;
        if (file) offset = read_lines(file.get(), path, offset, add).offset;
    }
    for (const TraceSpan& span : spans)
        ended_ = ended_ || span.parent_id.empty() || span.has_remote_parent;
    return spans;
}

std::vector<std::filesystem::path> FollowedTrace::search() {
    if (name_.ends_with(extension)) return {name_};
    std::error_code failed;
    std::vector<TraceFiles> all;
    if (std::filesystem::is_directory(directory_, failed)) all = list_trace_files(directory_);
    const bool begins = !std::exchange(has_begun_, true);
    std::vector<TraceFiles> found;
    for (TraceFiles& files : all) {
        if (files.name == name_) return std::move(files.paths);
        bool is_chosen = !name_.empty() && files.name.starts_with(name_);
        for (const std::filesystem::path& path : files.paths) {
            const std::uint64_t size = size_of(path);
            if (begins) sizes_[path] = size;
            is_chosen = is_chosen || (name_.empty() && size > sizes_[path]);
        }
        if (is_chosen) found.push_back(std::move(files));
    }
    if (found.empty()) return {};
    if (found.size() > 1 && !name_.empty())
        throw Error(ErrorCode::invalid_argument, "several traces begin with '" + printable(name_) +
                                                     "'; name one of them with more digits");
    name_ = found.front().name;
    return std::move(found.front().paths);
}

std::vector<std::filesystem::path> FollowedTrace::paths() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& [path, offset] : offsets_) paths.push_back(path);
    return paths;
}

}  // namespace cubepi::app

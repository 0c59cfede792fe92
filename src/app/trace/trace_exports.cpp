#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/random_word.hpp>

#include "../config/provider_kinds.hpp"
#include "../process.hpp"
#include "../terminal/terminal_text.hpp"
#include "trace_views.hpp"

namespace cubepi::app {

namespace {

/// Arguments of the Python SDKs for a call, which are not a part of the body. Headers may have keys.
constexpr std::array<std::string_view, 3> call_arguments = {"extra_headers", "extra_query",
                                                            "timeout"};

JsonObject body_of(const JsonObject& attributes) {
    for (const std::string_view key : {"cubepi.llm.raw_request", "cubeloop.llm.raw_request"}) {
        Json recorded = content_attribute(attributes, key);
        if (!recorded.is_object()) continue;
        JsonObject body = std::move(recorded.get_object());
        for (const std::string_view name : call_arguments) body.stable_erase(name);
        if (const JsonObject* more = detail::object_member(body, "extra_body")) {
            const JsonObject members = *more;
            body.stable_erase("extra_body");
            for (const auto& [name, value] : members) body[name] = value;
        }
        return body;
    }
    return {};
}

/// The protocol of a recorded request; null if it is none of them.
const ProviderKind* protocol_of(const JsonObject& body, std::string_view provider) {
    for (const ProviderKind& kind : provider_kinds()) {
        if (kind.wrote(body, provider)) return &kind;
    }
    return nullptr;
}

/// The server and its key, as words of a shell. A name of the trace is never a part of them.
struct Server {
    std::string url;           // before the path
    std::string key_variable;  // empty: none
};

Server server_of(const std::string& provider, const ProviderKind& kind) {
    const auto all = known_providers();
    const auto known = std::find_if(all.begin(), all.end(), [&](const KnownProvider& one) {
        return one.type == kind.api && same_service(one.name, provider);
    });
    if (known == all.end()) return {"${BASE_URL:?}", "API_KEY"};
    Server server{std::string(known->base_url), std::string(known->key_variable)};
    if (!known->base_url_variable.empty())
        server.url = "${" + std::string(known->base_url_variable) + ":-" + server.url + "}";
    return server;
}

std::string command_text(const Server& server, const ProviderKind& kind, const std::string& path,
                         const JsonObject& body) {
    std::string text = "curl -sS";
    const bool streams =
        detail::flag_member(body, "stream") || path.find(":stream") != std::string::npos;
    if (streams) text += " --no-buffer";
    text += " \"" + server.url + path + "\"";
    const auto header = [&text](const std::string& line) { text += " \\\n  -H \"" + line + "\""; };
    if (!server.key_variable.empty())
        header(std::string(kind.key_header) + "$" + server.key_variable);
    if (!kind.version_header.empty()) header(std::string(kind.version_header));
    header("Content-Type: application/json");
    // A document, because the arguments of a command are limited. Its lines are JSON, so that none of them ends it.
    text += " \\\n  --data-binary @- <<'END'\n" + safe_json_lines(body) + "\nEND\n";
    return text;
}

/// trace_page.html, with {{nonce}} and {{data}} in place of what differs from page to page.
constexpr std::string_view page_template =
#include "trace_page_html.inc"
    ;

const char* kind_of(const TraceSpan& span) {
    switch (span.operation) {
        case SpanOperation::agent: return "agent";
        case SpanOperation::turn: return "turn";
        case SpanOperation::chat: return "chat";
        case SpanOperation::tool: return "tool";
        case SpanOperation::mcp: return "mcp";
        case SpanOperation::other: break;
    }
    return "other";
}

JsonObject span_json(const TraceSpan& span) {
    JsonObject form;
    form["name"] = name_of(span);
    form["kind"] = kind_of(span);
    form["depth"] = span.depth;
    form["parent"] = span.parent ? Json(*span.parent) : Json();
    form["start"] = span.start;
    form["end"] = span.end;
    form["time"] = span_time_text(span.duration());
    form["tokens"] = token_text(span.tokens);
    form["cost"] = cost_text(span.cost);
    form["failed"] = span.error;
    form["error"] = span.error ? span.error_text : std::string();
    const std::vector<const char*> marks = marks_of(span);
    form["marks"] = JsonArray(marks.begin(), marks.end());
    return form;
}

/// The data of the page, with the content of all spans.
JsonObject page_data(const TraceSet& set, const Trace& trace) {
    const TraceSummary& summary = trace.summary;
    const std::string identity = identity_text(summary);
    JsonObject data;
    data["id"] = summary.id;
    data["status"] = status_name(summary.status);
    data["start"] = summary.start;
    data["end"] = summary.end;
    data["facts"] = summary_text(summary) + (identity.empty() ? "" : ", ") + identity;
    SpanContent all_content(trace);
    JsonArray spans;
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
        const JsonObject line = set.line_of(trace.spans[i]);
        JsonObject form = span_json(trace.spans[i]);
        const std::vector<std::string> attributes = attribute_lines(trace.spans[i], line);
        form["facts"] = JsonArray(attributes.begin(), attributes.end());
        JsonArray content;
        for (ContentBlock& block : all_content.blocks(i, line, false))
            content.emplace_back(JsonArray{std::move(block.label), std::move(block.text)});
        form["content"] = std::move(content);
        spans.emplace_back(std::move(form));
    }
    data["spans"] = std::move(spans);
    return data;
}

/// JSON as the text of a script element, which nothing in it can end.
std::string embedded(const JsonObject& data) {
    std::string text;
    for (const char c : safe_json(data)) text += c == '<' ? "\\u003c" : std::string(1, c);
    return text;
}

std::string filled(std::string_view text, std::string_view nonce, std::string_view data) {
    std::string page;
    while (true) {
        const std::size_t at = text.find("{{");
        page += text.substr(0, at);
        if (at == std::string_view::npos) return page;
        const bool is_data = text.substr(at).starts_with("{{data}}");
        page += is_data ? data : nonce;
        text.remove_prefix(text.find("}}", at) + 2);
    }
}

}  // namespace

std::vector<const TraceSpan*> model_calls(const Trace& trace, const std::string& span) {
    std::vector<const TraceSpan*> calls;
    std::vector<bool> chosen;  // by span: it or one above it has the id
    for (const TraceSpan& one : trace.spans) {
        chosen.push_back(one.span_id.starts_with(span) || (one.parent && chosen[*one.parent]));
        if (chosen.back() && one.operation == SpanOperation::chat) calls.push_back(&one);
    }
    std::sort(calls.begin(), calls.end(), [](const TraceSpan* a, const TraceSpan* b) {
        return a->start != b->start ? a->start < b->start : a->span_id < b->span_id;
    });
    return calls;
}

CurlCommand curl_command(const JsonObject& attributes) {
    std::string provider = detail::text_member(attributes, "gen_ai.provider.name");
    if (provider == "gcp.gemini") provider = "gemini";
    constexpr std::string_view unknown = "unknown:";
    if (provider.starts_with(unknown)) provider.erase(0, unknown.size());
    const JsonObject body = body_of(attributes);
    const ProviderKind* const kind = protocol_of(body, provider);
    if (!kind && provider == "faux")
        throw Error(ErrorCode::not_found,
                    "this call was answered by the scripted model, whose requests are of no API");
    if (!kind)
        throw Error(ErrorCode::not_found,
                    std::string("the request of this call was not recorded, or was redacted\n"
                                "  Requests are content. To record it: ") +
                        how_to_record_content);
    const Server server = server_of(provider, *kind);
    const std::string path =
        kind->call_path(detail::string_member(attributes, "gen_ai.request.model"));
    CurlCommand command{command_text(server, *kind, path, body), {}};
    if (server.key_variable == "API_KEY")
        command.note = "the address of '" + provider +
                       "' was not recorded: set BASE_URL to the URL before " + path +
                       ", and API_KEY";
    return command;
}

std::string trace_page(const TraceSet& set, const Trace& trace) {
    const std::string nonce = std::to_string(detail::random_word());
    return filled(page_template, nonce, embedded(page_data(set, trace)));
}

}  // namespace cubepi::app

#include "trace_convert.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "../terminal/safe_json.hpp"

namespace cubepi::app {

namespace {

struct Form {
    std::string_view name;
    ProviderType type;
};
constexpr std::array<Form, 3> bodies = {{{"anthropic", ProviderType::anthropic},
                                         {"openai", ProviderType::openai},
                                         {"responses", ProviderType::openai_responses}}};

std::string_view path_of(ProviderType type) {
    switch (type) {
        case ProviderType::anthropic: return "/v1/messages";
        case ProviderType::openai_responses: return "/responses";
        case ProviderType::openai: break;
    }
    return "/chat/completions";
}

/// The server and its key, as words of a shell. A name of the trace is never a part of them.
struct Server {
    std::string url;           // before the path
    std::string key_variable;  // empty: none
};

Server server_of(const std::string& provider, ProviderType type) {
    const KnownProvider* known = known_provider(provider);
    if (known && provider == "openai") known = known_provider(name_of(type));
    if (!known || known->type != type) return {"${BASE_URL:?}", "API_KEY"};
    Server server{std::string(known->base_url), std::string(known->key_variable)};
    if (!known->base_url_variable.empty())
        server.url = "${" + std::string(known->base_url_variable) + ":-" + server.url + "}";
    return server;
}

std::string curl_command(const Server& server, ProviderType type, const JsonObject& body) {
    std::string text = "curl -sS";
    const Json* stream = body.if_contains("stream");
    if (stream && stream->is_bool() && stream->get_bool()) text += " --no-buffer";
    text += " \"" + server.url + std::string(path_of(type)) + "\"";
    const auto header = [&text](const std::string& line) { text += " \\\n  -H \"" + line + "\""; };
    const bool is_anthropic = type == ProviderType::anthropic;
    if (!server.key_variable.empty())
        header((is_anthropic ? "x-api-key: $" : "Authorization: Bearer $") + server.key_variable);
    if (is_anthropic) header("anthropic-version: 2023-06-01");
    header("Content-Type: application/json");
    // A document, because the arguments of a command are limited. Its lines are JSON, so that none of them ends it.
    text += " \\\n  --data-binary @- <<'END'\n" + safe_json_lines(body) + "\nEND\n";
    return text;
}

ConvertedRequest as_curl(const RecordedRequest& request) {
    const ProviderType type = request.api().value_or(ProviderType::openai);
    RecordedRequest::Body body = request.body(type);
    const Server server = server_of(request.provider(), type);
    ConvertedRequest converted;
    converted.text = curl_command(server, type, body.json);
    converted.notes = std::move(body.notes);
    if (server.key_variable == "API_KEY")
        converted.notes.push_back("the address of '" + request.provider() +
                                  "' was not recorded: set BASE_URL to the URL before " +
                                  std::string(path_of(type)) + ", and API_KEY");
    return converted;
}

}  // namespace

std::vector<const TraceSpan*> model_calls(const TraceTree& tree, const std::string& span) {
    const std::vector<TreeRow>& rows = tree.rows();
    std::vector<bool> chosen(rows.size(), span.empty());
    std::vector<const TraceSpan*> calls;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const TraceSpan& one = tree.span(rows[i]);
        const auto parent = tree.parent(i);
        if ((parent && chosen[*parent]) || one.span_id.starts_with(span)) chosen[i] = true;
        if (chosen[i] && one.operation == SpanOperation::chat) calls.push_back(&one);
    }
    std::sort(calls.begin(), calls.end(), [](const TraceSpan* a, const TraceSpan* b) {
        return a->start != b->start ? a->start < b->start : a->span_id < b->span_id;
    });
    return calls;
}

bool is_request_form(const std::string& form) noexcept {
    return form == "curl" || std::any_of(bodies.begin(), bodies.end(),
                                         [&form](const Form& one) { return one.name == form; });
}

ConvertedRequest convert_request(const RecordedRequest& request, const std::string& form) {
    for (const Form& one : bodies) {
        if (one.name != form) continue;
        RecordedRequest::Body body = request.body(one.type);
        return {safe_json_lines(body.json) + "\n", std::move(body.notes)};
    }
    return as_curl(request);
}

}  // namespace cubepi::app

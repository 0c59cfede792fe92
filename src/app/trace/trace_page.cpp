#include <string_view>
#include <utility>

#include <cubepi/core/support/random_word.hpp>

#include "../process.hpp"
#include "../terminal/safe_json.hpp"
#include "span_content.hpp"
#include "trace_exports.hpp"
#include "trace_text.hpp"

namespace cubepi::app {

namespace {

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

JsonArray marks_of(const TraceSpan& span) {
    JsonArray marks;
    const auto add = [&marks](bool set, const char* mark) {
        if (set) marks.emplace_back(mark);
    };
    add(span.error, "ERROR");
    add(span.aborted, "aborted");
    add(span.suspended, "suspended");
    add(span.orphan, "orphan");
    add(span.cycle, "cycle");
    return marks;
}

/// The data of the page, with the content of all spans.
class PageData {
public:
    PageData(const TraceSet& set, const Trace& trace) : set_(set), trace_(trace), content_(trace) {}

    JsonObject json() {
        const TraceSummary& summary = trace_.summary;
        JsonObject data;
        data["id"] = summary.id;
        data["status"] = status_name(summary.status);
        data["start"] = summary.start;
        data["end"] = summary.end;
        data["facts"] = facts_of(summary);
        JsonArray spans;
        for (std::size_t i = 0; i < trace_.spans.size(); ++i) spans.emplace_back(span_json(i));
        data["spans"] = std::move(spans);
        return data;
    }

private:
    static std::string facts_of(const TraceSummary& summary) {
        std::string text = local_time(static_cast<double>(summary.start) / 1e6);
        const auto add = [&text](const std::string& fact) {
            if (!fact.empty()) text += ", " + fact;
        };
        add(span_time_text(summary.duration()));
        add(std::to_string(summary.spans) + (summary.spans == 1 ? " span" : " spans"));
        add(token_sums(summary.tokens).str());
        add(cost_text(summary.cost));
        if (!summary.session.empty()) add("session " + summary.session);
        for (const auto& [key, value] : summary.metadata) add(key + "=" + value);
        return text;
    }

    JsonObject span_json(std::size_t index) {
        const TraceSpan& span = trace_.spans[index];
        const JsonObject line = set_.line_of(span);
        JsonObject form;
        form["name"] = span.name.empty() ? "(no name)" : span.name;
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
        form["marks"] = marks_of(span);
        JsonArray facts;
        for (std::string& fact : attribute_lines(span, line)) facts.emplace_back(std::move(fact));
        form["facts"] = std::move(facts);
        JsonArray content;
        for (ContentBlock& block : content_.blocks(index, line, false))
            content.emplace_back(JsonArray{std::move(block.label), std::move(block.text)});
        form["content"] = std::move(content);
        return form;
    }

    const TraceSet& set_;
    const Trace& trace_;
    SpanContent content_;
};

/// JSON as the text of a script element, which nothing in it can end.
std::string embedded(const JsonObject& data) {
    std::string text;
    for (const char c : safe_json(data)) {
        if (c == '<') {
            text += "\\u003c";
        } else {
            text += c;
        }
    }
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

std::string trace_page(const TraceSet& set, const Trace& trace) {
    const std::string nonce = std::to_string(detail::random_word());
    return filled(page_template, nonce, embedded(PageData(set, trace).json()));
}

}  // namespace cubepi::app

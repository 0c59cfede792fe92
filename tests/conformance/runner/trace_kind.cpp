#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/schema/python_json.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "loopback.hpp"
#include "scenario.hpp"
#include "support.hpp"
#include "wire_provider.hpp"

namespace conformance {

namespace {

/// Reads the trace files below a directory in the normal form of the recorded ones (README-fixtures.md, section 2.1), by the
/// times at which the traces start. Throws std::runtime_error for a line that is not a span.
JsonArray read_traces(const std::filesystem::path& directory);

/// Changes both where our traces may differ from the recorded ones, `want` (section 2.2): they are equal if ours are right.
/// `model`: the settings of a real provider's model; null for Faux.
void fit_traces(JsonArray& got, JsonArray& want, const JsonObject* model);

/// The spans of one file by the ids of their parents.
struct Spans {
    std::vector<JsonObject> all;
    std::map<std::string, std::vector<std::size_t>> children;
};

std::string id_of(const JsonObject& span) {
    return as_text(as_object(span.at("context"), "context").at("span_id"), "span_id");
}

Spans read_spans(const std::filesystem::path& file) {
    std::vector<std::pair<std::string, JsonObject>> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        JsonObject span = as_object(cubepi::parse_lenient(line), "span");
        std::string start = as_text(span.at("start_time"), "start_time");
        // Siblings that start at the same time keep the order of their ends.
        start += std::to_string(1'000'000 + lines.size());
        lines.emplace_back(std::move(start), std::move(span));
    }
    std::sort(lines.begin(), lines.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    Spans spans;
    for (auto& [start, span] : lines) spans.all.push_back(std::move(span));
    std::map<std::string, bool> known;
    for (const JsonObject& span : spans.all) known[id_of(span)] = true;
    for (std::size_t i = 0; i < spans.all.size(); ++i) {
        const Json& parent = spans.all[i].at("parent_id");
        const std::string id = parent.is_string() ? as_text(parent, "parent_id") : std::string();
        spans.children[known.contains(id) ? id : std::string()].push_back(i);
    }
    return spans;
}

JsonObject form_of(const JsonObject& span) {
    JsonObject form;
    for (const char* key : {"name", "kind", "status", "attributes"}) form[key] = span.at(key);
    JsonArray events;
    for (const Json& event : as_array(span.at("events"), "events")) {
        const JsonObject& object = as_object(event, "event");
        events.emplace_back(
            JsonObject{{"name", object.at("name")}, {"attributes", object.at("attributes")}});
    }
    if (!events.empty()) form["events"] = std::move(events);
    const std::size_t links = as_array(span.at("links"), "links").size();
    if (links != 0) form["links"] = links;
    return form;
}

/// Questions are spans of this library only.
void add_tree(const Spans& spans, const std::string& id, Json parent, JsonArray& to) {
    const auto children = spans.children.find(id);
    if (children == spans.children.end()) return;
    for (const std::size_t child : children->second) {
        const JsonObject& span = spans.all[child];
        if (as_text(span.at("name"), "name").starts_with("hitl.")) continue;
        JsonObject form = form_of(span);
        form["parent"] = parent;
        const Json index = static_cast<std::int64_t>(to.size());
        to.emplace_back(std::move(form));
        add_tree(spans, id_of(span), index, to);
    }
}

void name_runs(JsonArray& traces) {
    std::map<std::string, std::string> names;
    for (Json& trace : traces) {
        for (Json& span : trace.get_object().at("spans").get_array()) {
            JsonObject& attributes = span.get_object().at("attributes").get_object();
            for (const char* key : {"cubepi.run_id", "hitl.run_id", "cubepi.parent_run_id"}) {
                Json* run = attributes.if_contains(key);
                if (!run) continue;
                std::string& name = names[as_text(*run, key)];
                if (name.empty()) name = "<run " + std::to_string(names.size()) + ">";
                *run = name;
            }
        }
    }
}

/// Returns the mask if `got` is of its kind, else `got`.
Json masked(const Json& want, Json got) {
    if (!want.is_string()) return got;
    const std::string mask = as_text(want, "mask");
    const bool fits = mask == "<volatile>" || (mask == "<text>" && got.is_string()) ||
                      (mask == "<integer>" && (got.is_int64() || got.is_uint64())) ||
                      (mask == "<number>" && got.is_number());
    return fits ? want : got;
}

/// Replaces values at masks, and drops keys that ours has in addition.
Json fitted(const Json& want, Json got) {
    if (want.is_object() && got.is_object()) {
        JsonObject fit;
        for (const auto& [key, value] : want.get_object()) {
            Json* own = got.get_object().if_contains(key);
            if (own) fit[key] = fitted(value, std::move(*own));
        }
        return fit;
    }
    if (want.is_array() && got.is_array()) {
        JsonArray& list = got.get_array();
        const std::size_t count = std::min(list.size(), want.get_array().size());
        for (std::size_t i = 0; i < count; ++i)
            list[i] = fitted(want.get_array()[i], std::move(list[i]));
        return got;
    }
    return masked(want, std::move(got));
}

bool is_raw(std::string_view key) {
    return key == "cubepi.llm.raw_request" || key == "cubepi.llm.raw_response";
}

/// Of a scenario with compaction: CubePi records the history as the messages of each call, and the instructions of a summary as those
/// of the run. Here each call has what it was sent.
void drop_sent_messages(JsonArray& spans) {
    for (Json& span : spans) {
        JsonObject& form = span.get_object();
        const bool is_call = as_text(form.at("name"), "name").starts_with("chat ");
        JsonObject& attributes = form.at("attributes").get_object();
        if (is_call) attributes.erase("gen_ai.input.messages");
        attributes.erase("gen_ai.system_instructions");
    }
}

/// Returns true for what a call of Faux does not have here: Faux's own id, which is the same for all its answers, and, if it
/// was aborted or failed, body and estimated usage.
bool is_left_out_of_faux(std::string_view key, bool is_whole) {
    return key == "gen_ai.response.id" ||
           (!is_whole && (key == "cubepi.llm.raw_response" || key.starts_with("gen_ai.usage.")));
}

/// Returns true for attributes of a real provider's call that differ by design: what is sent if the user sets nothing
/// (README-fixtures.md, section 3).
bool is_default_of_request(std::string_view key, const JsonObject& model) {
    if (key == "gen_ai.request.max_tokens") return !model.contains("max_tokens");
    if (key == "gen_ai.request.temperature") return !model.contains("temperature");
    return key == "cubepi.llm.thinking_level";
}

/// Removes the titles that Python's schemas have, and the item ids that follow the call ids of the Responses API.
void drop_foreign_parts(Json& want, Json& got) {
    if (JsonObject* object = want.if_object()) {
        JsonObject* own = got.if_object();
        if (!own) return;
        if (!own->contains("title")) object->erase("title");
        for (auto& [key, value] : *object) {
            if (Json* other = own->if_contains(key)) drop_foreign_parts(value, *other);
        }
    } else if (JsonArray* list = want.if_array()) {
        JsonArray* own = got.if_array();
        for (std::size_t i = 0; own && i < std::min(list->size(), own->size()); ++i)
            drop_foreign_parts((*list)[i], (*own)[i]);
    } else if (want.is_string() && got.is_string()) {
        const std::string call = as_text(want, "") + "|";
        if (as_text(got, "").starts_with(call)) got = want;
    }
}

void fit_attributes(JsonObject& got, JsonObject& want, const JsonObject* model) {
    JsonObject fit;
    const bool is_whole = !got.contains("error.type");
    std::vector<std::string> left_out;
    for (auto& [key, value] : want) {
        Json* own = got.if_contains(key);
        const bool differs =
            model ? is_default_of_request(key, *model) : !own && is_left_out_of_faux(key, is_whole);
        if (differs) {
            left_out.emplace_back(key);
            continue;
        }
        if (!own) continue;
        Json form = std::move(*own);
        if ((value.is_object() || value.is_array()) && form.is_string())
            form = cubepi::parse_lenient(as_text(form, key));
        // A result that was made of an exception is one of an error here.
        if (key == "gen_ai.tool.call.result" && value.is_object())
            value.get_object().erase("is_error");
        // The product describes its own tool in its own words.
        const Json* const tool = want.if_contains("gen_ai.tool.name");
        const bool is_own =
            is_raw(key) || (key == "gen_ai.tool.description" && tool && *tool == Json("subagent"));
        if (is_own) {
            fit[key] = value;
        } else {
            drop_foreign_parts(value, form);
            fit[key] = fitted(value, std::move(form));
        }
    }
    for (const std::string& key : left_out) want.erase(key);
    got = std::move(fit);
}

/// The framework's own texts need only be there; those without content are fixed.
void fit_status(JsonObject& got, JsonObject& want, bool may_fail) {
    // A failed run has failed here, and so has the call (D26).
    if (may_fail && got.at("status_code") == "ERROR" && want.at("status_code") == "UNSET")
        want = got;
    constexpr std::array fixed{"tool error", "model error", "provider error"};
    const Json* text = want.if_contains("description");
    Json* own = got.if_contains("description");
    if (!text) {
        got.erase("description");
    } else if (own && std::find(fixed.begin(), fixed.end(), as_text(*text, "")) == fixed.end()) {
        *own = *text;
    }
}

/// Types of exceptions are names of the language, and stack traces are Python's.
void fit_events(JsonObject& got, const JsonObject& want) {
    const Json* expected = want.if_contains("events");
    if (!expected) {
        got.erase("events");
        return;
    }
    Json* own = got.if_contains("events");
    if (!own || own->get_array().size() != expected->get_array().size()) return;
    for (std::size_t i = 0; i < own->get_array().size(); ++i) {
        const JsonObject& named = as_object(expected->get_array()[i], "event");
        JsonObject& event = own->get_array()[i].get_object();
        JsonObject& attributes = event.at("attributes").get_object();
        const JsonObject& wanted = as_object(named.at("attributes"), "attributes");
        std::vector<std::string> added;
        for (const auto& [key, value] : wanted) {
            if (attributes.contains(key) || key == "exception.stacktrace") attributes[key] = value;
        }
        for (auto& [key, value] : attributes) {
            if (!wanted.contains(key)) added.emplace_back(key);
        }
        for (const std::string& key : added) attributes.erase(key);
    }
}

/// `model`: of a real provider; null for Faux.
void fit_span(JsonObject& got, JsonObject& want, const JsonObject* model, bool run_failed) {
    const std::string name = as_text(want.at("name"), "name");
    JsonObject& attributes = want.at("attributes").get_object();
    // Here the messages of a suspended run are counted when it continues.
    if (attributes.contains("cubepi.run.outcome")) attributes.erase("cubepi.output.messages.count");
    fit_attributes(got.at("attributes").get_object(), attributes, model);
    const bool may_fail = run_failed && (name == "invoke_agent" || name.starts_with("chat "));
    fit_status(got.at("status").get_object(), want.at("status").get_object(), may_fail);
    fit_events(got, want);
    if (!want.contains("links")) got.erase("links");
}

bool has_failed_turn(const JsonArray& spans) {
    return std::any_of(spans.begin(), spans.end(), [](const Json& span) {
        const JsonObject& form = as_object(span, "span");
        return form.at("name") == "cubepi.turn" &&
               as_object(form.at("status"), "status").at("status_code") == "ERROR";
    });
}

JsonArray read_traces(const std::filesystem::path& directory) {
    std::vector<std::pair<std::string, JsonObject>> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        if (entry.path().extension() != ".jsonl" || name.ends_with(".stream.jsonl")) continue;
        const Spans spans = read_spans(entry.path());
        if (spans.all.empty()) throw std::runtime_error(name + ": no spans");
        JsonArray tree;
        add_tree(spans, "", Json(), tree);
        found.emplace_back(
            as_text(spans.all.front().at("start_time"), "start_time"),
            JsonObject{{"resource", spans.all.front().at("resource")}, {"spans", std::move(tree)}});
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    JsonArray traces;
    for (auto& [start, trace] : found) traces.emplace_back(std::move(trace));
    name_runs(traces);
    return traces;
}

void fit_traces(JsonArray& got, JsonArray& want, const JsonObject* model) {
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
        JsonObject& expected = want[i].get_object();
        JsonObject& trace = got[i].get_object();
        trace["resource"] = fitted(expected.at("resource"), std::move(trace["resource"]));
        JsonArray& spans = expected.at("spans").get_array();
        JsonArray& ours = trace.at("spans").get_array();
        const bool run_failed = has_failed_turn(spans);
        for (std::size_t k = 0; k < std::min(ours.size(), spans.size()); ++k)
            fit_span(ours[k].get_object(), spans[k].get_object(), model, run_failed);
    }
}

/// Does what the scenario says about content: keeps a key out, replaces its value, or throws.
cubepi::Redact parse_redact(const JsonObject& form) {
    only_keys(form, "redact", {"drop", "replace", "throw"});
    return [form](std::string_view key, Json value) -> std::optional<Json> {
        const auto lists = [&](const char* name) {
            const Json* list = form.if_contains(name);
            const Json text(key);
            return list && std::find(list->get_array().begin(), list->get_array().end(), text) !=
                               list->get_array().end();
        };
        if (lists("throw")) throw std::runtime_error("redact");
        if (lists("drop")) return std::nullopt;
        const Json* replace = form.if_contains("replace");
        const Json* other = replace ? replace->get_object().if_contains(key) : nullptr;
        return other ? *other : value;
    };
}

cubepi::TracerOptions parse_tracer(const JsonObject& form, const std::filesystem::path& directory) {
    only_keys(form, "tracer",
              {"service_name", "service_version", "service_namespace", "deployment_environment",
               "agent_name", "agent_id", "agent_description", "agent_version", "record_content",
               "record_stream", "redact"});
    cubepi::TracerOptions options;
    options.service_name = text_or(form, "service_name", "unknown_service");
    options.service_version = text_or(form, "service_version", "");
    options.service_namespace = text_or(form, "service_namespace", "");
    options.deployment_environment = text_or(form, "deployment_environment", "");
    options.agent_name = text_or(form, "agent_name", "");
    options.agent_id = text_or(form, "agent_id", "");
    options.agent_description = text_or(form, "agent_description", "");
    options.agent_version = text_or(form, "agent_version", "");
    options.record_content = flag_or(form, "record_content", false);
    if (flag_or(form, "record_stream", false)) options.stream_directory = directory / "streams";
    if (const Json* redact = form.if_contains("redact"))
        options.redact = parse_redact(as_object(*redact, "redact"));
    cubepi::SpanSink::Output output;
    output.exporter = std::make_shared<cubepi::JsonlSpanExporter>(directory);
    output.limits = cubepi::JsonlSpanExporter::limits();
    options.exporters.push_back(std::move(output));
    return options;
}

void end(cubepi::Tracer& tracer) {
    if (!tracer.shutdown()) throw std::runtime_error("the traces were not written");
}

/// The scenario without the keys of section 2.1.
struct TracedScenario {
    explicit TracedScenario(const JsonObject& form) : rest(form) {
        for (const char* key : {"tracer", "provider", "model", "answers"}) {
            if (const Json* value = form.if_contains(key)) own[key] = *value;
            rest.erase(key);
        }
    }
    JsonObject own;
    JsonObject rest;
};

bool has_middleware(const JsonObject& scenario, std::string_view key) {
    const Json* list = scenario.if_contains("middleware");
    if (!list) return false;
    const JsonArray& all = as_array(*list, "middleware");
    return std::any_of(all.begin(), all.end(), [key](const Json& one) {
        return as_object(one, "middleware").contains(key);
    });
}

cubepi::BoundModel make_model(const JsonObject& own, std::uint16_t port) {
    std::shared_ptr<cubepi::Provider> provider =
        make_wire_provider(text_or(own, "provider", ""), JsonObject(), port);
    JsonObject form = as_object(own.at("model"), "model");
    std::string id = text_or(form, "id", "");
    form.erase("id");
    return cubepi::BoundModel(std::move(provider), parse_wire_model(std::move(id), form));
}

void play_oneshot(const std::filesystem::path& directory) {
    cubepi::FauxOptions faux_options;
    faux_options.provider_id = "faux";
    cubepi::FauxProvider faux(std::move(faux_options));
    faux.set_responses({"A title"});
    cubepi::Tracer tracer(
        parse_tracer(JsonObject{{"service_name", "demo"}, {"record_content", true}}, directory));
    cubepi::OneshotOptions options;
    options.operation = "title";
    options.trace.metadata["conversation_id"] = "conv-1";
    cubepi::MessageList messages;
    messages.push_back(cubepi::user_message("Long talk"));
    (void)cubepi::run(tracer.oneshot(faux.model("faux-1"), "Make a title.", std::move(messages),
                                     std::move(options)));
    end(tracer);
}

void play_traced(const JsonObject& form, const std::filesystem::path& directory) {
    TracedScenario traced(form);
    const Json* tracer_form = traced.own.if_contains("tracer");
    const JsonObject none;
    cubepi::Tracer tracer(
        parse_tracer(tracer_form ? as_object(*tracer_form, "tracer") : none, directory));
    std::unique_ptr<Loopback> server;
    PlayOptions options;
    options.attach = [&tracer](cubepi::Agent& agent) { return tracer.attach(agent); };
    if (traced.own.contains("provider")) {
        server = std::make_unique<Loopback>(parse_answers(traced.own, 0));
        options.model = make_model(traced.own, server->port());
    }
    (void)play(parse_scenario(traced.rest), std::move(options));
    end(tracer);
}

}  // namespace

void play_trace(const Json& content, const std::string& directory) {
    const JsonObject& file = as_object(content, "file");
    const Json* scenario = file.if_contains("scenario");
    if (scenario) {
        play_traced(as_object(*scenario, "scenario"), directory);
    } else if (text_or(file, "name", "") == "oneshot") {
        play_oneshot(directory);
    } else {
        play_traced(file, directory);
    }
}

std::vector<std::string> check_trace(const Json& content) {
    const cubepi::ScopedTestDirectory directory;
    play_trace(content, directory.path().string());
    const JsonObject& file = as_object(content, "file");
    JsonArray got = read_traces(directory.path());
    JsonArray want = as_array(file.at("traces"), "traces");
    for (Json& trace : want) {
        trace.get_object().erase("file");
        trace.get_object().erase("path");
    }
    const Json* scenario = file.if_contains("scenario");
    const bool is_faux = !scenario || !scenario->get_object().contains("provider");
    const JsonObject* model = is_faux ? nullptr : &as_object(scenario->at("model"), "model");
    if (scenario && has_middleware(scenario->get_object(), "compaction")) {
        for (JsonArray* traces : {&got, &want}) {
            for (Json& trace : *traces) drop_sent_messages(trace.at("spans").as_array());
        }
    }
    fit_traces(got, want, model);
    Json left(JsonObject{{"traces", std::move(want)}});
    Json right(JsonObject{{"traces", std::move(got)}});
    if (const Json* list = file.if_contains("ignore")) {
        std::vector<std::string> ignore;
        for (const Json& pointer : as_array(*list, "ignore"))
            ignore.push_back(as_text(pointer, "ignore"));
        blank_out(left, ignore);
        blank_out(right, ignore);
    }
    return differences(left, right);
}

}  // namespace conformance

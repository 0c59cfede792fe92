#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/tracing/jsonl_exporter.hpp>
#include <cubepi/tracing/tracer.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "loopback.hpp"
#include "play.hpp"
#include "reading.hpp"
#include "trace_form.hpp"
#include "wire_provider.hpp"

namespace conformance {

namespace {

/// Keys of middleware that is not built yet. A scenario with one is refused, as tests/conformance/CMakeLists.txt expects.
constexpr std::array unbuilt_middleware = {"compaction", "goal", "subagent"};

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
        for (const char* key : {"tracer", "provider", "model", "answers", "helper_script"}) {
            if (const Json* value = form.if_contains(key)) own[key] = *value;
            rest.erase(key);
        }
    }
    JsonObject own;
    JsonObject rest;
};

void refuse_unbuilt(const JsonObject& scenario) {
    const Json* list = scenario.if_contains("middleware");
    if (!list) return;
    for (const Json& one : as_array(*list, "middleware")) {
        for (const char* key : unbuilt_middleware) {
            if (as_object(one, "middleware").contains(key))
                throw Unsupported("middleware " + std::string(key));
        }
    }
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
    refuse_unbuilt(form);
    const TracedScenario traced(form);
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

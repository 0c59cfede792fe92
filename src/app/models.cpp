#include "models.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/support/lower_case.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/schema/parse_json.hpp>

#include "config/config_file.hpp"
#include "config/model_choice.hpp"
#include "config/paths.hpp"
#include "failure.hpp"
#include "program.hpp"
#include "terminal/terminal_stream.hpp"
#include "terminal/terminal_text.hpp"
#include "terminal/text_table.hpp"

namespace cubepi::app {

namespace {

constexpr int max_pages = 50;

/// The URL of the list. Addresses may contain the version with which its path begins. `page`: the query for a further page.
std::string list_url(const Endpoint& endpoint, const std::string& page) {
    const ProviderKind& kind = provider_kind(endpoint.type);
    const std::size_t query = endpoint.base_url.find('?');
    std::string url = endpoint.base_url.substr(0, query);
    std::string parameters =
        query == std::string::npos ? std::string() : endpoint.base_url.substr(query + 1);
    while (url.ends_with('/')) url.pop_back();
    const std::string_view version = kind.list_path.substr(0, kind.list_path.find('/', 1));
    const bool has_version = version != kind.list_path && url.ends_with(version);
    url += has_version ? kind.list_path.substr(version.size()) : kind.list_path;
    for (const std::string_view more : {kind.list_query, std::string_view(page)}) {
        if (more.empty()) continue;
        if (!parameters.empty()) parameters += '&';
        parameters += more;
    }
    return parameters.empty() ? url : url + "?" + parameters;
}

/// Adds "Name: value".
void add_header(HttpRequest& request, const std::string& line) {
    const std::size_t colon = line.find(": ");
    request.headers.set(detail::lower_case(line.substr(0, colon)), line.substr(colon + 2));
}

HttpRequest list_request(const Endpoint& endpoint, const std::string& page) {
    HttpTimeouts timeouts;
    timeouts.connect = std::chrono::seconds(5);
    timeouts.first_byte = std::chrono::seconds(10);
    timeouts.total = std::chrono::seconds(30);
    if (!endpoint.title.empty()) {
        // A server on the local machine answers at once.
        timeouts.connect = std::chrono::milliseconds(700);
        timeouts.first_byte = std::chrono::seconds(2);
        timeouts.total = std::chrono::seconds(5);
    }
    HttpRequest request("GET", list_url(endpoint, page));
    request.timeouts = timeouts;
    request.max_response_bytes = std::size_t{1} << 23;
    request.headers.set("accept", "application/json");
    request.headers.set("user-agent", "cubepi-cpp");
    const ProviderKind& kind = provider_kind(endpoint.type);
    if (!kind.version_header.empty()) add_header(request, std::string(kind.version_header));
    if (!endpoint.api_key.empty())
        add_header(request, std::string(kind.key_header) + endpoint.api_key);
    return request;
}

[[noreturn]] void throw_refused(const Endpoint& endpoint, const HttpResponse& response,
                                const std::string& body) {
    const EndpointFailure failure =
        read_endpoint_failure(response.status, response.headers, body,
                              read_retry_hints(response.headers, std::chrono::system_clock::now()));
    ErrorInfo info = classify_failure(failure, std::nullopt, std::nullopt);
    std::string text = endpoint.host() + " answered the request for its models with HTTP status " +
                       std::to_string(response.status);
    if (!failure.message.empty()) text += ": " + failure.message;
    if (response.status == 404) {
        const std::string_view path = provider_kind(endpoint.type).list_path;
        const std::size_t end = path.find('/', 1);
        text += ". Check the end of the address (" +
                (end == std::string_view::npos ? std::string("with /v1")
                                               : "without " + std::string(path.substr(0, end))) +
                ").";
    }
    // A missing list does not mean that a model is missing.
    if (response.status == 404) info.code = ErrorCode::protocol;
    throw_provider_error(std::move(info), text);
}

Task<Json> get_page(std::shared_ptr<HttpTransport> transport, Endpoint endpoint,
                    std::string after) {
    endpoint.check_address();
    HttpRequest request = list_request(endpoint, after);
    HttpResponse response = co_await transport->send(std::move(request));
    std::string body;
    bool more = true;
    while (more) more = co_await response.body->read(body);
    if (response.status < 200 || response.status > 299)
        throw_refused(endpoint, response, without_secret(std::move(body), endpoint.api_key));
    if (is_web_page(response.headers, body)) throw_web_page(response.status);
    JsonTextError failed;
    Json page = parse_json(body, failed);
    if (failed)
        throw Error(ErrorCode::protocol, endpoint.host() + " did not answer with a list of models");
    co_return page;
}

std::optional<std::int64_t> number_of(const JsonObject& object, std::string_view key) {
    const Json* value = object.if_contains(key);
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->to_number<double>();
    if (!(std::abs(number) < 1e15)) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

std::string date_of(const JsonObject& model) {
    const std::string written = detail::text_member(model, "created_at");
    if (written.size() >= 10) return written.substr(0, 10);
    const std::optional<std::int64_t> seconds = number_of(model, "created");
    if (!seconds || *seconds <= 0) return {};
    const std::time_t time = *seconds;
    std::tm date = {};
    std::array<char, 16> text = {};
    if (!gmtime_r(&time, &date)) return {};
    return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d", &date));
}

/// Returns false for a model of Google that is for something else, such as embeddings.
bool answers_prompts(const JsonObject& json) {
    const JsonArray* const methods = detail::array_member(json, "supportedGenerationMethods");
    return !methods ||
           std::find(methods->begin(), methods->end(), Json("generateContent")) != methods->end();
}

OfferedModel read_model(const JsonObject& json) {
    OfferedModel model;
    if (!answers_prompts(json)) return model;
    model.id = detail::text_member(json, "id");
    model.name = detail::text_member(json, "display_name");
    if (model.name.empty()) model.name = detail::text_member(json, "name");
    // Google names the resource.
    constexpr std::string_view resource = "models/";
    if (model.id.empty() && model.name.starts_with(resource)) {
        model.id = model.name.substr(resource.size());
        model.name = detail::text_member(json, "displayName");
    }
    if (model.name == model.id) model.name.clear();
    model.created = date_of(json);
    for (const char* key : {"context_length", "context_window", "max_model_len", "max_input_tokens",
                            "inputTokenLimit"}) {
        if (!model.context_window) model.context_window = number_of(json, key);
    }
    return model;
}

/// The list: `data` of an object or, for some servers, the whole response.
const JsonArray* rows_of(const Json& page) {
    if (page.is_array()) return &page.get_array();
    if (!page.is_object()) return nullptr;
    const JsonArray* data = detail::array_member(page.get_object(), "data");
    return data ? data : detail::array_member(page.get_object(), "models");
}

/// The query for the next page; empty at the end.
std::string next_page(const Endpoint& endpoint, const Json& page) {
    const JsonObject* object = page.if_object();
    return object ? provider_kind(endpoint.type).next_page(*object) : std::string();
}

Task<LocalServer> ask_server(std::shared_ptr<HttpTransport> transport, Endpoint endpoint) {
    LocalServer server;
    server.endpoint = endpoint;
    server.models = co_await list_models(std::move(transport), std::move(endpoint));
    co_return server;
}

/// Keeps the models that have every word in their id or name.
void keep_matching(std::vector<OfferedModel>& models, const std::vector<std::string>& words) {
    std::erase_if(models, [&](const OfferedModel& model) {
        const std::string text = detail::lower_case(model.id + " " + model.name);
        return !std::all_of(words.begin(), words.end(), [&](const std::string& word) {
            return text.find(detail::lower_case(word)) != std::string::npos;
        });
    });
}

void print_json(const Endpoint& endpoint, const std::vector<OfferedModel>& models) {
    JsonArray rows;
    for (const OfferedModel& model : models) {
        JsonObject row{{"id", model.id}, {"provider", endpoint.provider}};
        if (!model.name.empty()) row["name"] = model.name;
        if (!model.created.empty()) row["created"] = model.created;
        if (model.context_window) row["context_window"] = *model.context_window;
        rows.push_back(std::move(row));
    }
    data_output(safe_json(rows) + "\n");
}

/// Columns at a terminal; elsewhere separated by tabs, for scripts.
void print_table(const std::vector<OfferedModel>& models) {
    const Style style = Style::of(STDOUT_FILENO);
    TextTable table;
    table.columns = {{"model"}, {"context", true, 2}, {"since", false, 1}, {"name"}};
    for (const OfferedModel& model : models) {
        const auto& window = model.context_window;
        table.rows.push_back({line_for_terminal(model.id, 120),
                              window ? TerminalText::number(*window) : TerminalText(),
                              line_for_terminal(model.created, 10),
                              line_for_terminal(model.name, 60)});
    }
    if (style.terminal) {
        out() << table.text(style);
        return;
    }
    for (const auto& row : table.rows)
        out() << row[0] << "\t" << row[1] << "\t" << row[2] << "\t" << row[3] << "\n";
}

/// The endpoint of a conversation with these flags.
Task<Endpoint> endpoint_to_ask(ModelSources sources, std::shared_ptr<HttpTransport> transport) {
    Endpoint endpoint = choose_endpoint(sources);
    if (!endpoint.provider.empty()) co_return endpoint;
    std::vector<LocalServer> servers = co_await find_local_servers(std::move(transport));
    if (servers.empty()) {
        throw NoModelError(
            "no model: nothing is configured, and no local server answers.\n"
            "  Choose and save one: cubepi onboard\n"
            "  Name one for this command: cubepi models --provider NAME, or --base-url URL");
    }
    co_return std::move(servers.front().endpoint);
}

Task<int> list(CommandLine line) {
    const std::shared_ptr<HttpTransport> transport = transport_of(*Runtime::standard());
    const ConfigFile config = read_config(config_path());
    if (config.too_open)
        err() << "cubepi: " << for_terminal(open_key_file_note(config_path())) << "\n";
    ModelSources sources = model_sources(line.conversation.model, config, false);
    const Endpoint endpoint = co_await endpoint_to_ask(std::move(sources), transport);
    std::vector<OfferedModel> models;
    std::exception_ptr failure;
    try {
        models = co_await list_models(transport, endpoint);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) {
        const FailureContext context = failure_context(endpoint);
        const Failure shown_failure = explain(failure, context);
        err() << "cubepi: " << for_terminal(shown_failure.text) << "\n";
        co_return shown_failure.exit_code;
    }
    const std::size_t offered = models.size();
    keep_matching(models, line.words);
    if (line.conversation.json) {
        print_json(endpoint, models);
        co_return exit_ok;
    }
    print_table(models);
    if (isatty(STDERR_FILENO) == 1 || models.empty()) {
        err() << spelled_out(endpoint.provider) << " (" << spelled_out(endpoint.host())
              << ") offers " << offered
              << (offered == 1 ? TerminalView(" model") : TerminalView(" models"));
        if (models.size() != offered) err() << ", " << models.size() << " of them shown";
        err() << ".\n";
    }
    co_return exit_ok;
}

}  // namespace

Task<std::vector<OfferedModel>> list_models(std::shared_ptr<HttpTransport> transport,
                                            Endpoint endpoint) {
    std::vector<OfferedModel> models;
    std::string after;
    for (int count = 0; count < max_pages; ++count) {
        const Json page = co_await get_page(transport, endpoint, after);
        const JsonArray* rows = rows_of(page);
        if (!rows) {
            throw Error(ErrorCode::protocol,
                        endpoint.host() + " did not answer with a list of models");
        }
        for (const Json& row : *rows) {
            if (!row.is_object()) continue;
            OfferedModel model = read_model(row.get_object());
            if (!model.id.empty()) models.push_back(std::move(model));
        }
        const std::string next = next_page(endpoint, page);
        if (next.empty() || next == after) break;
        after = next;
    }
    co_return models;
}

Task<std::vector<LocalServer>> find_local_servers(std::shared_ptr<HttpTransport> transport) {
    const char* wanted = std::getenv("CUBEPI_LOCAL_SERVERS");
    if (wanted && std::string_view(wanted) == "off") co_return std::vector<LocalServer>();
    std::vector<Task<LocalServer>> asking;
    for (const KnownProvider& known : known_providers()) {
        if (known.local) asking.push_back(ask_server(transport, endpoint_of(known, {})));
    }
    std::vector<Outcome<LocalServer>> answers = co_await collect_all(std::move(asking));
    std::vector<LocalServer> servers;
    for (Outcome<LocalServer>& answer : answers) {
        if (answer.ok()) servers.push_back(std::move(answer).value());
    }
    co_return servers;
}

int models_command(const CommandLine& line) { return run(list(line)); }

}  // namespace cubepi::app

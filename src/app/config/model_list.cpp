#include "model_list.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include <cubepi/core/error.hpp>
#include <cubepi/core/support/json_member.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/provider/error_classification.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi::app {

namespace {

constexpr int max_pages = 50;

/// The URL of the list. Anthropic's addresses do not contain the version, all others do.
std::string list_url(const Endpoint& endpoint, const std::string& after) {
    const std::size_t query = endpoint.base_url.find('?');
    std::string url = endpoint.base_url.substr(0, query);
    std::string parameters =
        query == std::string::npos ? std::string() : endpoint.base_url.substr(query + 1);
    while (url.ends_with('/')) url.pop_back();
    const bool anthropic = endpoint.type == ProviderType::anthropic;
    if (anthropic && !url.ends_with("/v1")) url += "/v1";
    url += "/models";
    if (anthropic) parameters += (parameters.empty() ? "limit=1000" : "&limit=1000");
    if (!after.empty()) parameters += "&after_id=" + after;
    return parameters.empty() ? url : url + "?" + parameters;
}

HttpRequest list_request(const Endpoint& endpoint, const std::string& after) {
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
    HttpRequest request("GET", list_url(endpoint, after));
    request.timeouts = timeouts;
    request.max_response_bytes = std::size_t{1} << 23;
    request.headers.set("accept", "application/json");
    request.headers.set("user-agent", "cubepi-cpp");
    if (endpoint.type == ProviderType::anthropic)
        request.headers.set("anthropic-version", "2023-06-01");
    if (endpoint.api_key.empty()) return request;
    if (endpoint.type == ProviderType::anthropic) {
        request.headers.set("x-api-key", endpoint.api_key);
    } else {
        request.headers.set("authorization", "Bearer " + endpoint.api_key);
    }
    return request;
}

[[noreturn]] void throw_refused(const Endpoint& endpoint, const HttpResponse& response,
                                const std::string& body) {
    const EndpointFailure failure = read_endpoint_failure(response.status, response.headers, body);
    ErrorInfo info = classify_failure(failure, std::nullopt, std::nullopt);
    std::string text = endpoint.host() + " answered the request for its models with HTTP status " +
                       std::to_string(response.status);
    if (!failure.message.empty()) text += ": " + failure.message;
    if (response.status == 404) {
        text += ". Check the end of the address (" +
                std::string(endpoint.type == ProviderType::anthropic ? "without" : "with") +
                " /v1).";
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

OfferedModel read_model(const JsonObject& json) {
    OfferedModel model;
    model.id = detail::text_member(json, "id");
    model.name = detail::text_member(json, "display_name");
    if (model.name.empty()) model.name = detail::text_member(json, "name");
    if (model.name == model.id) model.name.clear();
    model.created = date_of(json);
    for (const char* key :
         {"context_length", "context_window", "max_model_len", "max_input_tokens"}) {
        if (!model.context_window) model.context_window = number_of(json, key);
    }
    return model;
}

/// The list: `data` of an object or, for some servers, the whole response.
const JsonArray* rows_of(const Json& page) {
    if (page.is_array()) return &page.get_array();
    const Json* data = page.is_object() ? page.get_object().if_contains("data") : nullptr;
    return data && data->is_array() ? &data->get_array() : nullptr;
}

/// The id after which the next page begins; empty at the end.
std::string next_page(const Endpoint& endpoint, const Json& page) {
    if (endpoint.type != ProviderType::anthropic || !page.is_object()) return {};
    const Json* more = page.get_object().if_contains("has_more");
    if (!more || !more->is_bool() || !more->get_bool()) return {};
    return detail::text_member(page.get_object(), "last_id");
}

Task<LocalServer> ask_server(std::shared_ptr<HttpTransport> transport, Endpoint endpoint) {
    LocalServer server;
    server.endpoint = endpoint;
    server.models = co_await list_models(std::move(transport), std::move(endpoint));
    co_return server;
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

}  // namespace cubepi::app

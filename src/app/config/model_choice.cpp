#include "model_choice.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/provider/env.hpp>
#include <cubepi/provider/openai.hpp>

#include "offline_model.hpp"

namespace cubepi::app {

namespace {

constexpr std::string_view openai_url = "https://api.openai.com/v1";
constexpr std::string_view default_openai_model = "gpt-5.1";

struct KnownServer {
    const char* name;
    const char* base_url;
};
constexpr std::array<KnownServer, 4> known_servers{{
    {"Ollama", "http://127.0.0.1:11434/v1"},
    {"llama.cpp", "http://127.0.0.1:8080/v1"},
    {"vLLM", "http://127.0.0.1:8000/v1"},
    {"LM Studio", "http://127.0.0.1:1234/v1"},
}};

std::string host_of(const std::string& url) {
    const std::size_t begin = url.find("://");
    const std::string rest = begin == std::string::npos ? url : url.substr(begin + 3);
    return rest.substr(0, rest.find('/'));
}

std::string first_of(std::initializer_list<std::string> values) {
    for (const std::string& value : values) {
        if (!value.empty()) return value;
    }
    return {};
}

Task<std::string> get_text(std::shared_ptr<HttpTransport> transport, std::string url,
                           std::string api_key) {
    HttpClocks clocks;
    clocks.connect = std::chrono::milliseconds(700);
    clocks.first_byte = std::chrono::seconds(2);
    clocks.total = std::chrono::seconds(5);
    HttpRequest request =
        HttpRequest("GET", std::move(url)).with_clocks(clocks).with_max_response_bytes(1 << 22);
    if (!api_key.empty()) request.headers.add("authorization", "Bearer " + api_key);
    HttpResponse response = co_await transport->send(std::move(request));
    if (response.status != 200) {
        const bool refused = response.status == 401 || response.status == 403;
        throw Error(
            refused ? ErrorCode::auth : ErrorCode::protocol,
            "the list of models was answered with HTTP status " + std::to_string(response.status));
    }
    std::string text;
    bool more = true;
    while (more) more = co_await response.body->read(text);
    co_return text;
}

Task<LocalServer> ask_server(std::shared_ptr<HttpTransport> transport, KnownServer known) {
    LocalServer server;
    server.name = known.name;
    server.base_url = known.base_url;
    server.models = co_await list_models(std::move(transport), server.base_url, std::string());
    co_return server;
}

BoundModel openai_model(const std::string& base_url, const std::string& key,
                        const std::string& id) {
    OpenAIOptions options;
    options.api_key = key;
    options.base_url = base_url;
    return OpenAIProvider(std::move(options)).model(id);
}

Task<std::string> pick(std::vector<std::string> models, std::string where, bool interactive,
                       ChooseModel choose) {
    if (models.empty())
        throw Error(ErrorCode::not_found,
                    where + " offers no model; load one there, or name one with --model");
    if (models.size() == 1) co_return models.front();
    if (!interactive) {
        std::string list;
        for (const std::string& id : models) list += "\n  " + id;
        throw Error(ErrorCode::invalid_argument,
                    where + " offers several models; name one with --model:" + list);
    }
    const std::size_t index = co_await choose("Which model of " + where + "?", models);
    co_return models.at(index);
}

}  // namespace

ModelSources model_sources(const ModelFlags& flags, const ConfigFile& config, bool interactive) {
    ModelSources sources;
    sources.flags = flags;
    sources.config = config;
    sources.openai_api_key = env("OPENAI_API_KEY");
    sources.openai_base_url = env("OPENAI_BASE_URL");
    if (!config.api_key_env.empty()) sources.configured_key = env(config.api_key_env.c_str());
    sources.interactive = interactive;
    return sources;
}

Task<std::vector<std::string>> list_models(std::shared_ptr<HttpTransport> transport,
                                           std::string base_url, std::string api_key) {
    const std::string text =
        co_await get_text(std::move(transport), base_url + "/models", std::move(api_key));
    boost::system::error_code failed;
    const Json json = boost::json::parse(text, failed);
    const Json* data =
        !failed && json.is_object() ? json.get_object().if_contains("data") : nullptr;
    if (!data || !data->is_array()) {
        throw Error(ErrorCode::protocol, base_url + "/models did not answer with a list of models");
    }
    std::vector<std::string> ids;
    for (const Json& model : data->get_array()) {
        const Json* id = model.is_object() ? model.get_object().if_contains("id") : nullptr;
        if (id && id->is_string()) ids.emplace_back(id->get_string());
    }
    co_return ids;
}

Task<std::vector<LocalServer>> find_local_servers(std::shared_ptr<HttpTransport> transport) {
    std::vector<Task<LocalServer>> asking;
    for (const KnownServer& known : known_servers) asking.push_back(ask_server(transport, known));
    std::vector<Outcome<LocalServer>> answers = co_await collect_all(std::move(asking));
    std::vector<LocalServer> servers;
    for (Outcome<LocalServer>& answer : answers) {
        if (answer.ok()) servers.push_back(std::move(answer).value());
    }
    co_return servers;
}

Task<ModelChoice> choose_model(ModelSources sources, std::shared_ptr<HttpTransport> transport,
                               ChooseModel choose) {
    ModelChoice choice;
    const ModelFlags& flags = sources.flags;
    if (flags.offline || !flags.script.empty()) {
        choice.model = offline_model(flags.script);
        choice.where = "the offline model (scripted, no network)";
        choice.offline = true;
        co_return choice;
    }
    const std::string provider = first_of({flags.provider, sources.config.provider});
    if (!provider.empty() && provider != "openai") {
        throw Error(ErrorCode::invalid_argument,
                    "unknown provider '" + provider +
                        "'; known is: openai (every OpenAI-compatible server, with --base-url)");
    }
    const std::string key =
        first_of({sources.openai_api_key, sources.config.api_key, sources.configured_key});
    const std::string url =
        first_of({flags.base_url, sources.openai_base_url, sources.config.base_url});
    const std::string id = first_of({flags.model, sources.config.model});
    if (!url.empty() || !key.empty()) {
        const std::string base = url.empty() ? std::string(openai_url) : url;
        std::string model = id;
        if (model.empty() && base == openai_url) model = default_openai_model;
        if (model.empty()) {
            std::vector<std::string> models = co_await list_models(transport, base, key);
            model = co_await pick(std::move(models), host_of(base), sources.interactive,
                                  std::move(choose));
        }
        choice.model = openai_model(base, key, model);
        choice.where = model + " at " + host_of(base);
        co_return choice;
    }
    std::vector<LocalServer> servers = co_await find_local_servers(transport);
    for (LocalServer& server : servers) {
        std::string model = id;
        if (model.empty()) {
            model = co_await pick(server.models, server.name, sources.interactive, choose);
        }
        choice.model = openai_model(server.base_url, std::string(), model);
        choice.where = model + " at " + server.name + " (" + host_of(server.base_url) + ")";
        choice.found_locally = true;
        co_return choice;
    }
    throw Error(
        ErrorCode::not_found,
        "no model: there is no OPENAI_API_KEY, nothing in the configuration, and no local server "
        "answers.\n"
        "  export OPENAI_API_KEY=...            use OpenAI\n"
        "  cubepi chat --base-url URL --model M any OpenAI-compatible server\n"
        "  ollama serve                         or a server on this machine\n"
        "  cubepi chat --offline                or the scripted offline model, to look around");
}

}  // namespace cubepi::app

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cubepi/core/json.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>

#include "commands.hpp"
#include "config/config_file.hpp"
#include "config/model_choice.hpp"
#include "config/model_list.hpp"
#include "config/paths.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "terminal/safe_json.hpp"
#include "terminal/style.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

std::string lower(std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

/// Keeps the models that have every word in their id or name.
void keep_matching(std::vector<OfferedModel>& models, const std::vector<std::string>& words) {
    std::erase_if(models, [&](const OfferedModel& model) {
        const std::string text = lower(model.id + " " + model.name);
        return !std::all_of(words.begin(), words.end(), [&](const std::string& word) {
            return text.find(lower(word)) != std::string::npos;
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

using Row = std::vector<std::string>;

Row row_of(const OfferedModel& model) {
    Row row;
    row.push_back(one_line(model.id, 120));
    row.push_back(model.context_window ? std::to_string(*model.context_window) : std::string());
    row.push_back(one_line(model.created, 10));
    row.push_back(one_line(model.name, 60));
    return row;
}

/// Columns at a terminal; elsewhere separated by tabs, for scripts.
void print_table(const std::vector<OfferedModel>& models) {
    const Style style = Style::of(STDOUT_FILENO);
    std::vector<Row> rows;
    for (const OfferedModel& model : models) rows.push_back(row_of(model));
    if (!style.terminal) {
        for (const Row& row : rows)
            out() << for_terminal(row[0] + "\t" + row[1] + "\t" + row[2] + "\t" + row[3]) << "\n";
        return;
    }
    const Row head{"MODEL", "CONTEXT", "SINCE", "NAME"};
    std::vector<std::size_t> width;
    for (std::size_t column = 0; column < head.size(); ++column) {
        std::size_t widest = 0;
        for (const Row& row : rows) widest = std::max(widest, row[column].size());
        // An empty column is omitted.
        width.push_back(widest == 0 ? 0 : std::max(widest, head[column].size()));
    }
    const auto print = [&](const Row& row) {
        std::string line;
        for (std::size_t column = 0; column < row.size(); ++column) {
            if (width[column] == 0) continue;
            line += row[column] + std::string(width[column] - row[column].size() + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        return for_terminal(line);
    };
    out() << style.bold() << print(head) << style.off() << "\n";
    for (const Row& row : rows) out() << print(row) << "\n";
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

int models_command(const CommandLine& line) { return run(list(line)); }

}  // namespace cubepi::app

// `cubepi onboard`: asks for the settings of a conversation, shows the changes, writes them, and tests them.

#include <cctype>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>

#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/net/http_client.hpp>

#include "commands.hpp"
#include "config/config_file.hpp"
#include "config/model_list.hpp"
#include "config/model_sources.hpp"
#include "config/paths.hpp"
#include "exit_code.hpp"
#include "failure.hpp"
#include "onboard/model_questions.hpp"
#include "onboard/terminal_onboarding_ui.hpp"
#include "program.hpp"
#include "signals.hpp"
#include "terminal/style.hpp"
#include "terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

void tell(const std::string& text) { out() << for_terminal(text) << "\n" << flush_now; }

bool is_secret(std::string_view name) {
    if (name.ends_with("_env")) return false;
    for (const char* word : {"key", "token", "secret", "password"}) {
        if (name.find(word) != std::string_view::npos) return true;
    }
    return false;
}

std::string shown(std::string_view name, const Json& value) {
    if (!value.is_string()) return is_secret(name) ? "set" : boost::json::serialize(value);
    std::string text(value.get_string());
    if (!is_secret(name)) return text;
    return text.size() < 12 ? "set" : "..." + text.substr(text.size() - 4);
}

/// Prints the changes, one per line.
void show_changes(const JsonObject& before, const JsonObject& wanted, const std::string& path) {
    for (const auto& [key, value] : before) {
        if (!wanted.contains(key)) tell("  " + path + std::string(key) + ": removed");
    }
    for (const auto& [key, value] : wanted) {
        const std::string name = path + std::string(key);
        const Json* old = before.if_contains(key);
        if (old && *old == value) continue;
        if (const JsonObject* object = value.if_object()) {
            const JsonObject* known = old ? old->if_object() : nullptr;
            show_changes(known ? *known : JsonObject(), *object, name + ".");
            continue;
        }
        std::string line = "  " + name + ": " + shown(key, value);
        if (old) line += " (was " + shown(key, *old) + ")";
        tell(line);
    }
}

std::string trimmed_input() {
    std::string key((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    while (!key.empty() && std::isspace(static_cast<unsigned char>(key.back()))) key.pop_back();
    key.erase(0, std::min(key.size(), key.find_first_not_of(" \t\r\n")));
    return key;
}

/// Tests the new configuration: lists the models of its endpoint.
Task<> try_it() {
    const ModelSources sources = model_sources(ModelFlags(), read_config(config_path()), false);
    const Endpoint endpoint = choose_endpoint(sources);
    const auto before_the_file = [](const std::string& who) {
        return !who.empty() && who != config_origin;
    };
    if (before_the_file(endpoint.from.base_url))
        tell("The address is taken from " + endpoint.from.base_url + ".");
    if (before_the_file(endpoint.from.api_key))
        tell("The key is taken from " + endpoint.from.api_key + ".");
    const std::string place = endpoint.provider + " (" + endpoint.host() + ")";
    if (endpoint.needs_key && endpoint.api_key.empty()) {
        tell("There is no key for " + place + " yet: export " + endpoint.key_variable + "=...");
        co_return;
    }
    std::exception_ptr failed;
    std::vector<OfferedModel> models;
    try {
        models = co_await list_models(transport_of(*Runtime::standard()), endpoint);
    } catch (const Error&) {
        failed = std::current_exception();
    }
    if (failed) {
        const FailureContext context = failure_context(endpoint);
        tell("The configuration was written, but: " + explain(failed, context).text);
        co_return;
    }
    bool listed = models.empty();
    for (const OfferedModel& model : models) listed = listed || model.id == endpoint.model;
    tell(place + " answers." +
         (listed ? std::string() : " It does not list " + endpoint.model + "."));
}

class Onboarding {
public:
    Onboarding(CommandLine line, std::shared_ptr<TerminalOnboardingUi> ui, std::string key)
        : line_(std::move(line)), ui_(std::move(ui)), key_(std::move(key)) {}

    Task<int> run() {
        const std::filesystem::path path = config_path();
        const JsonObject before = config_values(path);
        load_plugins(framework_, line_.plugins, options(read_config(path)));
        for (const bub::PluginStatus& plugin : framework_.plugin_status()) {
            if (!plugin.ok) tell("Plugin " + plugin.name + " failed: " + plugin.reason);
        }
        if (ui_) {
            ui_->say(
                "This sets up cubepi. Ctrl-C cancels; nothing is written before you confirm it.");
        }
        JsonObject wanted = co_await framework_.onboard(before, ui_.get());
        if (wanted == before) {
            tell("No changes to " + path.string() + ".");
        } else {
            tell("\nChanges to " + path.string() + ":");
            show_changes(before, wanted, {});
            if (ui_) {
                const bool agreed = co_await ui_->confirm("Write it?", true);
                if (!agreed) throw Error(ErrorCode::cancelled, "not agreed");
            }
            save_config(path, before, wanted);
            tell("Written.");
        }
        written_ = true;
        co_await try_it();
        tell("Next: cubepi chat");
        co_return exit_ok;
    }

    /// Returns whether all changes are written.
    bool written() const { return written_; }

private:
    bub::BuiltinOptions options(ConfigFile config) {
        bub::BuiltinOptions options;
        ModelQuestionsInput input;
        const bool asks = ui_ != nullptr;
        input.sources = model_sources(line_.conversation.model, config, asks);
        input.key = key_;
        input.transport = transport_of(*Runtime::standard());
        // The plugin stores the closure for its own lifetime.
        options.onboard =  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines)
            [input = std::move(input)](bub::OnboardCall& call) -> Task<std::optional<JsonObject>> {
            ModelQuestionsInput copy = input;
            std::optional<JsonObject> made = co_await ask_for_model(std::move(copy), call.ui);
            co_return made;
        };
        return options;
    }

    CommandLine line_;
    std::shared_ptr<TerminalOnboardingUi> ui_;
    std::string key_;
    bub::Framework framework_;
    bool written_ = false;
};

Task<int> onboard(CommandLine line, bool asks, std::string key) {
    const Executor executor = co_await this_executor;
    std::shared_ptr<TerminalOnboardingUi> ui;
    if (asks) ui = std::make_shared<TerminalOnboardingUi>(executor, Style::of(STDOUT_FILENO));
    Onboarding onboarding(std::move(line), std::move(ui), std::move(key));
    std::stop_source stop;
    const StopAtSignal signals(executor, stop);
    std::exception_ptr failure;
    int status = exit_failed;
    try {
        status = co_await cancel_on(stop.get_token(), onboarding.run());
    } catch (...) {
        failure = std::current_exception();
    }
    if (!failure) co_return status;
    if (onboarding.written()) co_return exit_ok;
    if (stop.stop_requested()) out() << "\n" << flush_now;
    err() << "cubepi: nothing was written.\n";
    try {
        std::rethrow_exception(failure);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::cancelled) throw;
    } catch (...) {
        if (!is_cancellation(failure)) throw;
    }
    co_return signals.signal() != 0 ? 128 + signals.signal() : exit_failed;
}

int refuse(const std::string& text) {
    err() << "cubepi: " << for_terminal(text) << "\n";
    return exit_usage;
}

}  // namespace

int onboard_command(const CommandLine& line) {
    const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    const bool asks = terminal && !line.conversation.yes;
    if (!terminal && !line.conversation.yes) {
        return refuse(
            "there is no terminal to ask the user.\n"
            "  Name everything: cubepi onboard --provider anthropic --model claude-sonnet-4-5 "
            "--yes\n"
            "  The key is taken from the environment, or with --key-stdin from standard input.");
    }
    std::string key;
    if (line.key_from_input) {
        if (isatty(STDIN_FILENO) == 1) {
            return refuse(
                "--key-stdin reads a key that is piped in; at a terminal, onboard asks for it.\n"
                "  Omit the flag: cubepi onboard");
        }
        key = trimmed_input();
        if (key.empty())
            return refuse(
                "no key on standard input.\n"
                "  Pipe one in: cubepi onboard --key-stdin --yes --provider NAME < key.txt");
    }
    return run(onboard(line, asks, std::move(key)));
}

}  // namespace cubepi::app

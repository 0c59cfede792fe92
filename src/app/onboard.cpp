#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <termios.h>
#include <unistd.h>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>
#include <bub/onboarding_ui.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/trimmed.hpp>
#include <cubepi/net/http_client.hpp>
#include <cubepi/net/utf8.hpp>

#include "channels/channel_kinds.hpp"
#include "config/config_file.hpp"
#include "config/model_sources.hpp"
#include "config/paths.hpp"
#include "failure.hpp"
#include "models.hpp"
#include "onboard/questions.hpp"
#include "process.hpp"
#include "program.hpp"
#include "terminal/job_control.hpp"
#include "terminal/prompter.hpp"
#include "terminal/terminal_stream.hpp"

// `cubepi onboard`: asks for the settings of a conversation, shows the changes, writes them, and tests them.

namespace cubepi::app {

namespace {

/// Asks at the terminal (standard input and output), one line per question. At the end of the input (Ctrl-D) a
/// question throws Error(cancelled). A cancelled question restores the terminal. One per process.
class TerminalOnboardingUi final : public bub::OnboardingUi {
public:
    TerminalOnboardingUi(Executor executor, Style style);

    void say(std::string text) override;
    Task<std::string> ask(std::string question, std::string default_value) override;
    Task<std::string> ask_secret(std::string question) override;
    Task<std::size_t> choose(std::string question, std::vector<std::string> options,
                             std::size_t default_value) override;
    Task<bool> confirm(std::string question, bool default_value) override;

private:
    Task<std::string> read_line(std::string prompt);

    LineInput input_;
    Style style_;
};

/// Disables the echo of typed characters during its lifetime.
class NoEcho {
public:
    NoEcho() {
        known_ = tcgetattr(STDIN_FILENO, &before_) == 0;
        if (!known_) return;
        termios quiet = before_;
        quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
        quiet.c_lflag |= ECHONL;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    }
    ~NoEcho() {
        // TCSANOW: a terminal that takes no output must not hold up the end.
        if (known_ && in_foreground(STDIN_FILENO)) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    NoEcho(const NoEcho&) = delete;
    NoEcho& operator=(const NoEcho&) = delete;

private:
    termios before_ = {};
    bool known_ = false;
};

TerminalOnboardingUi::TerminalOnboardingUi(Executor executor, Style style)
    : input_(std::move(executor)), style_(style) {}

void TerminalOnboardingUi::say(std::string text) {
    out() << for_terminal(text);
    if (!text.ends_with('\n')) out() << "\n" << flush_now;
}

Task<std::string> TerminalOnboardingUi::read_line(std::string prompt) {
    out() << for_terminal(prompt) << " > " << flush_now;
    std::optional<std::string> line = co_await input_.next();
    if (!line) {
        out() << "\n";
        throw Error(ErrorCode::cancelled, "the input has ended");
    }
    if (!is_utf8(*line)) line = replace_broken_utf8(*line);
    co_return std::string(detail::trimmed(*line));
}

Task<std::string> TerminalOnboardingUi::ask(std::string question, std::string default_value) {
    std::string prompt =
        default_value.empty() ? std::move(question) : question + " [" + default_value + "]";
    std::string answer = co_await read_line(std::move(prompt));
    if (answer.empty()) answer = std::move(default_value);
    co_return answer;
}

Task<std::string> TerminalOnboardingUi::ask_secret(std::string question) {
    const NoEcho hidden;
    std::string answer = co_await read_line(std::move(question));
    co_return answer;
}

Task<std::size_t> TerminalOnboardingUi::choose(std::string question,
                                               std::vector<std::string> options,
                                               std::size_t default_value) {
    out() << "\n" << style_.bold() << for_terminal(question) << style_.off() << "\n";
    for (std::size_t i = 0; i < options.size(); ++i)
        out() << (i < 9 ? TerminalView("   ") : TerminalView("  ")) << i + 1 << "  "
              << for_terminal(options[i]) << "\n";
    for (;;) {
        const std::string answer =
            co_await ask("name or number", std::to_string(default_value + 1));
        if (const std::optional<std::size_t> chosen = option_named(answer, options))
            co_return *chosen;
        out() << "Enter a number from 1 to " << options.size()
              << ", a name, or the beginning of one name only.\n";
    }
}

Task<bool> TerminalOnboardingUi::confirm(std::string question, bool default_value) {
    question += default_value ? " [Y/n]" : " [y/N]";
    for (;;) {
        const std::string answer = co_await read_line(question);
        if (answer.empty()) co_return default_value;
        if (answer == "y" || answer == "Y" || answer == "yes") co_return true;
        if (answer == "n" || answer == "N" || answer == "no") co_return false;
    }
}

void print_line(const std::string& text) { out() << for_terminal(text) << "\n" << flush_now; }

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
        print_line("The address is taken from " + endpoint.from.base_url + ".");
    if (before_the_file(endpoint.from.api_key))
        print_line("The key is taken from " + endpoint.from.api_key + ".");
    const std::string place = endpoint.provider + " (" + endpoint.host() + ")";
    if (endpoint.needs_key && endpoint.api_key.empty()) {
        print_line("There is no key for " + place + " yet: export " + endpoint.key_variable +
                   "=...");
        co_return;
    }
    print_line("Asking " + place + " ...");
    std::exception_ptr failed;
    std::vector<OfferedModel> models;
    try {
        models = co_await list_models(transport_of(*Runtime::standard()), endpoint);
    } catch (const Error&) {
        failed = std::current_exception();
    }
    if (failed) {
        const FailureContext context = failure_context(endpoint);
        print_line("The configuration was written, but: " + explain(failed, context).text);
        co_return;
    }
    bool listed = models.empty();
    for (const OfferedModel& model : models) listed = listed || model.id == endpoint.model;
    print_line(place + " answers." +
               (listed ? std::string() : " It does not list " + endpoint.model + "."));
}

/// Shows the changes and writes them, if the user agrees; without a user, at once. Throws Error(cancelled) if the user does not agree.
Task<> write_changes(bub::OnboardingUi* ui, JsonObject before, JsonObject wanted,
                     std::function<std::string(const std::string& text)> decorate) {
    const std::filesystem::path path = config_path();
    if (wanted == before) {
        print_line("No changes to " + path.string() + ".");
        co_return;
    }
    print_line("\nChanges to " + path.string() + ":");
    out() << for_terminal(settings_changes(before, wanted)) << flush_now;
    if (ui) {
        const bool agreed = co_await ui->confirm("Write it?", true);
        if (!agreed) throw Error(ErrorCode::cancelled, "not agreed");
    }
    save_config(path, before, wanted, decorate);
    print_line("Written.");
}

class Onboarding {
public:
    Onboarding(CommandLine line, std::shared_ptr<TerminalOnboardingUi> ui, std::string key)
        : line_(std::move(line)), ui_(std::move(ui)), key_(std::move(key)) {}

    Task<int> run() {
        const bool is_offered = line_.verb != Verb::onboard;
        if (is_offered) {
            const bool agreed = co_await ui_->confirm("Choose one now?", true);
            if (!agreed) co_return exit_no_model;
        }
        const std::filesystem::path path = config_path();
        const JsonObject before = config_values(path);
        load_plugins(framework_, line_.plugins, options(read_config(path)));
        for (const bub::PluginStatus& plugin : framework_.plugin_status()) {
            if (!plugin.ok) print_line("Plugin " + plugin.name + " failed: " + plugin.reason);
        }
        if (ui_) {
            ui_->say(
                "This sets up cubepi. Ctrl-C cancels; nothing is written before you confirm it.");
        }
        JsonObject wanted = co_await framework_.onboard(before, ui_.get());
        Task<> writing = write_changes(ui_.get(), before, std::move(wanted), {});
        co_await std::move(writing);
        written_ = true;
        co_await try_it();
        if (!is_offered) print_line("Next: cubepi chat");
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

/// Sets up a channel of the gateway.
class ChannelOnboarding {
public:
    ChannelOnboarding(const ChannelKind& kind, std::shared_ptr<TerminalOnboardingUi> ui)
        : kind_(kind), ui_(std::move(ui)) {}

    Task<int> run() {
        const JsonObject before = config_values(config_path());
        Task<JsonObject> asking = kind_.onboard(before, Runtime::standard(), *ui_);
        JsonObject wanted = co_await std::move(asking);
        std::function<std::string(const std::string&)> decorate =
            [&kind = kind_](const std::string& text) { return with_channel_comments(kind, text); };
        Task<> writing = write_changes(ui_.get(), before, std::move(wanted), std::move(decorate));
        co_await std::move(writing);
        written_ = true;
        print_line("Next: cubepi gateway");
        co_return exit_ok;
    }
    bool written() const { return written_; }

private:
    const ChannelKind& kind_;
    std::shared_ptr<TerminalOnboardingUi> ui_;
    bool written_ = false;
};

/// Runs an onboarding until it ends or the user cancels it. `is_offered`: another command begins after it, if the status is exit_ok.
template <class T>
Task<int> carry_out(T& onboarding, Executor executor, bool is_offered = false) {
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
    // The test of what was written is not needed.
    const int signal = is_offered ? signals.signal() : 0;
    if (onboarding.written()) co_return signal == 0 ? exit_ok : 128 + signal;
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

Task<int> onboard(CommandLine line, bool asks, std::string key) {
    const Executor executor = co_await this_executor;
    std::shared_ptr<TerminalOnboardingUi> ui;
    // A channel has no flags in place of the answers.
    if (asks || !line.channel.empty())
        ui = std::make_shared<TerminalOnboardingUi>(executor, Style::of(STDOUT_FILENO));
    for (const ChannelKind* kind : channel_kinds()) {
        if (kind->name != line.channel) continue;
        ChannelOnboarding onboarding(*kind, std::move(ui));
        co_return co_await carry_out(onboarding, executor);
    }
    const bool is_offered = line.verb != Verb::onboard;
    Onboarding onboarding(std::move(line), std::move(ui), std::move(key));
    co_return co_await carry_out(onboarding, executor, is_offered);
}

int refuse(const std::string& text) {
    err() << "cubepi: " << for_terminal(text) << "\n";
    return exit_usage;
}

}  // namespace

int onboard_command(const CommandLine& line) {
    const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    const bool asks = terminal && !line.conversation.yes;
    if (!line.channel.empty() && !terminal) {
        return refuse("onboard " + line.channel +
                      " needs a terminal, to ask.\n"
                      "  Or write the settings yourself: gateway." +
                      line.channel + " in the configuration file.");
    }
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

int offer_onboarding(const CommandLine& line, const std::string& reason) {
    err() << "cubepi: " << for_terminal(reason) << "\n";
    return run(onboard(line, true, std::string()));
}

}  // namespace cubepi::app

#include "questions.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/schema/json_text.hpp>

#include "../failure.hpp"
#include "../models.hpp"
#include "../terminal/terminal_stream.hpp"

namespace cubepi::app {

namespace {

constexpr std::size_t shown_at_once = 15;
constexpr const char* other_server = "Another OpenAI-compatible server (Chat Completions)";

[[noreturn]] void throw_usage_error(const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "onboard: " + what);
}

std::string ask_for_flag(const std::string& what) {
    return what +
           "\n  e.g. cubepi onboard --provider anthropic --model claude-sonnet-4-5 --yes"
           "\n  The key is taken from the environment, or with --key-stdin from standard input.";
}

bool is_url(const std::string& text) {
    return (text.starts_with("http://") && text.size() > 7) ||
           (text.starts_with("https://") && text.size() > 8);
}

/// A name for a new server: its host, without the port.
std::string name_for(const ConfigFile& config, const std::string& url) {
    for (const ProviderConfig& provider : config.providers) {
        if (provider.base_url == url) return provider.name;
    }
    Endpoint endpoint;
    endpoint.base_url = url;
    std::string host = endpoint.host();
    const std::size_t port = host.rfind(':');
    if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
    if (host.empty()) host = "server";
    std::string name = host;
    const auto taken = [&config](const std::string& candidate) {
        return known_provider(candidate) ||
               std::any_of(config.providers.begin(), config.providers.end(),
                           [&](const ProviderConfig& one) { return one.name == candidate; });
    };
    for (int count = 2; taken(name); ++count) name = host + "-" + std::to_string(count);
    return name;
}

std::string numbered(const std::vector<std::string>& models) {
    std::string text;
    const std::size_t count = std::min(models.size(), shown_at_once);
    for (std::size_t i = 0; i < count; ++i)
        text += "  " + std::to_string(i + 1) + "  " + one_line(visible(models[i]), 70) + "\n";
    if (models.size() > count) {
        text += "  and " + std::to_string(models.size() - count) +
                " more; enter part of a name to filter them\n";
    }
    return text;
}

/// The letters and digits of a name, in lower case. A name without ASCII letters stays as it is.
std::string letters_of(std::string_view name) {
    std::string letters;
    for (const char c : name) {
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
        if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    }
    return letters.empty() ? std::string(name) : letters;
}

class ModelQuestions {
public:
    ModelQuestions(ModelQuestionsInput input, bub::OnboardingUi* ui)
        : input_(std::move(input)), ui_(ui), flags_(input_.sources.flags) {
        input_.sources.flags = ModelFlags();
        file_.config = input_.sources.config;
    }

    Task<JsonObject> ask() {
        co_await ask_provider();
        co_await ask_address();
        leave_other_entry();
        meet();
        co_await ask_key();
        co_await ask_model();
        co_return patch();
    }

private:
    const ConfigFile& config() const { return input_.sources.config; }

    bool has_entry() const {
        return std::any_of(config().providers.begin(), config().providers.end(),
                           [&](const ProviderConfig& one) { return one.name == provider_; });
    }

    /// The configured endpoint, from any source; without a provider if nothing is configured.
    static Endpoint configured_now(const ModelSources& sources) {
        try {
            return choose_endpoint(sources);
        } catch (const Error&) {
            return Endpoint();  // it names a provider that no longer exists: the answers replace it
        }
    }

    Task<> ask_provider() {
        if (!flags_.provider.empty()) {
            provider_ = flags_.provider;
            (void)find_endpoint(input_.sources, provider_);  // throws if it is unknown
            co_return;
        }
        if (!flags_.base_url.empty()) {
            provider_ = name_for(config(), flags_.base_url);
            co_return;
        }
        const Endpoint now = configured_now(input_.sources);
        if (!ui_) {
            provider_ = now.provider;
            if (provider_.empty())
                throw_usage_error(
                    ask_for_flag("nothing is configured; name one with --provider or "
                                 "--base-url."));
            co_return;
        }
        const std::vector<LocalServer> servers = co_await find_local_servers(input_.transport);
        std::vector<std::string> names;
        std::vector<std::string> titles;
        std::size_t default_value = 0;
        list_providers(servers, names, titles);
        for (std::size_t i = 0; i < names.size(); ++i) {
            const bool found_here = now.provider.empty() && default_value == 0 &&
                                    !servers.empty() &&
                                    names[i] == servers.front().endpoint.provider;
            const bool configured = !now.provider.empty() && names[i] == now.provider;
            if (configured || found_here) default_value = i;
        }
        const std::size_t index = co_await ui_->choose("Which provider?", titles, default_value);
        provider_ = names.at(index);
    }

    /// An empty name stands for a new server.
    void list_providers(const std::vector<LocalServer>& servers, std::vector<std::string>& names,
                        std::vector<std::string>& titles) const {
        for (const KnownProvider& known : known_providers()) {
            std::string title(known.title);
            if (const std::string_view api = provider_kind(known.type).title; !api.empty())
                title += ", " + std::string(api);
            const Endpoint endpoint = find_endpoint(input_.sources, std::string(known.name));
            const bool answers = std::any_of(
                servers.begin(), servers.end(),
                [&](const LocalServer& server) { return server.endpoint.provider == known.name; });
            if (!endpoint.from.api_key.empty())
                title += " (key: " + endpoint.from.api_key + ")";
            else if (known.local)
                title += answers ? " (answers on this machine)" : " (local server)";
            names.emplace_back(known.name);
            titles.push_back(std::move(title));
        }
        for (const ProviderConfig& own : config().providers) {
            if (known_provider(own.name)) continue;
            Endpoint endpoint;
            endpoint.base_url = own.base_url;
            names.push_back(own.name);
            titles.push_back(own.name + (own.base_url.empty() ? "" : " (" + endpoint.host() + ")"));
        }
        names.emplace_back();
        titles.emplace_back(other_server);
    }

    Task<> ask_address() {
        if (!flags_.base_url.empty()) {
            url_ = flags_.base_url;
            if (!is_url(url_)) throw_usage_error("'" + url_ + "' is not an http(s) URL");
            co_return;
        }
        std::string default_value;
        bool has_known_url = false;
        if (!provider_.empty()) {
            const KnownProvider* known = known_provider(provider_);
            default_value = find_endpoint(input_.sources, provider_).base_url;
            has_known_url = known && !known->local && default_value == known->base_url;
        }
        if (!ui_ || has_known_url) {
            url_ = default_value;
            co_return;
        }
        for (;;) {
            std::string question = "Base URL, without /chat/completions";
            url_ = co_await ui_->ask(std::move(question), default_value);
            if (is_url(url_)) break;
            ui_->say("An address begins with http:// or https://.");
        }
        if (provider_.empty()) provider_ = name_for(config(), url_);
    }

    /// An entry belongs to its server: another address gets a new entry of the same type.
    void leave_other_entry() {
        for (const ProviderConfig& own : config().providers) {
            if (own.name != provider_) continue;
            const Endpoint known = find_endpoint(file_, provider_);
            if (known.base_url == url_) return;
            new_type_ = known.type;
            provider_ = name_for(config(), url_);
            return;
        }
    }

    /// Collects the settings of the selected endpoint.
    void meet() {
        const KnownProvider* known = known_provider(provider_);
        if (known || has_entry()) {
            in_file_ = find_endpoint(file_, provider_);
            endpoint_ = find_endpoint(input_.sources, provider_);
        }
        std::string owner = config().provider;  // of the top level of the file
        if (owner.empty()) owner = configured_now(file_).provider;
        if (owner.empty()) owner = "openai";
        same_address_ = in_file_.base_url == url_;
        is_configured_ = same_service(owner, provider_) && same_address_;
        if (endpoint_.base_url == url_) return;
        // The settings of the previous server do not apply to another one.
        Endpoint fresh;
        fresh.provider = provider_;
        fresh.base_url = url_;
        if (known || has_entry()) fresh.type = endpoint_.type;
        if (new_type_) fresh.type = *new_type_;
        if (known) {
            const Endpoint default_value = endpoint_of(*known, input_.sources.environment);
            fresh.offered_keys = default_value.offered_keys;
            fresh.bind_key();
            fresh.key_variable = default_value.key_variable;
            fresh.needs_key = url_ == known->base_url && !known->key_variable.empty();
            if (url_ == known->base_url) fresh.model = known->model;
        }
        endpoint_ = std::move(fresh);
    }

    bool key_is_of_the_file() const { return endpoint_.from.api_key == config_origin; }

    Task<> ask_key() {
        if (!input_.key.empty()) {
            take_key(input_.key);
            co_return;
        }
        if (!flags_.api_key_env.empty()) {
            take_variable(flags_.api_key_env);
            co_return;
        }
        if (!endpoint_.api_key.empty() && !key_is_of_the_file()) {
            if (ui_)
                ui_->say("The key is taken from " + endpoint_.from.api_key +
                         " and is not written.");
            co_return;
        }
        const KnownProvider* known = known_provider(provider_);
        const bool wants_none = known && known->local && endpoint_.api_key.empty();
        if (!ui_) {
            if (endpoint_.needs_key && endpoint_.api_key.empty()) {
                throw_usage_error(ask_for_flag("there is no key for " + provider_ + ": " +
                                               endpoint_.key_variable + " is not set."));
            }
            co_return;
        }
        if (wants_none) co_return;
        std::string question = "API key, not shown while you type";
        if (key_is_of_the_file()) {
            question += " (Enter: keep the configured one)";
        } else {
            question += endpoint_.needs_key ? " (Enter: set " + endpoint_.key_variable + " later)"
                                            : " (Enter: none)";
        }
        const std::string typed = co_await ui_->ask_secret(std::move(question));
        if (!typed.empty()) take_key(typed);
    }

    /// A variable that the user names for this address; its name is written, not the key.
    void take_variable(const std::string& name) {
        const auto found = input_.sources.environment.find(name);
        if (found == input_.sources.environment.end())
            throw_usage_error("--api-key-env: the variable " + name + " is not set\n  export " +
                              name + "=...");
        endpoint_.api_key = found->second;
        endpoint_.from.api_key = name;
        endpoint_.key_variable = name;
    }

    void take_key(const std::string& key) {
        new_key_ = key;
        endpoint_.api_key = key;
        endpoint_.from.api_key = config_origin;
    }

    /// Lists the models of the endpoint; empty, with a message, if that fails. Asks again for a key that is rejected.
    Task<std::vector<std::string>> offered() {
        std::vector<std::string> ids;
        for (;;) {
            std::exception_ptr failed;
            bool refused = false;
            if (ui_) ui_->say("Asking " + endpoint_.host() + " for its models ...");
            try {
                const std::vector<OfferedModel> models =
                    co_await list_models(input_.transport, endpoint_);
                for (const OfferedModel& model : models) ids.push_back(model.id);
            } catch (const Error& error) {
                if (error.code() == ErrorCode::cancelled) throw;
                failed = std::current_exception();
                refused = error.code() == ErrorCode::auth;
            }
            if (!failed || !ui_) co_return ids;
            const bool typed_wrong = refused && !new_key_.empty();
            ui_->say(complaint(failed, typed_wrong));
            if (!typed_wrong) co_return ids;
            std::string question = "API key again (Enter: keep this one)";
            const std::string typed = co_await ui_->ask_secret(std::move(question));
            if (typed.empty()) co_return ids;
            take_key(typed);
        }
    }

    /// A key that was just typed is not in a file or variable that the advice could name.
    std::string complaint(const std::exception_ptr& failed, bool typed_wrong) const {
        FailureContext context = failure_context(endpoint_);
        context.advise = !typed_wrong;
        return explain(failed, context).text;
    }

    Task<> ask_model() {
        if (!flags_.model.empty()) {
            model_ = flags_.model;
            co_return;
        }
        std::string default_value = endpoint_.model;
        if (!ui_ && !default_value.empty()) {
            model_ = default_value;
            co_return;
        }
        const bool can_answer = !endpoint_.needs_key || !endpoint_.api_key.empty();
        std::vector<std::string> models;
        if (can_answer) models = co_await offered();
        if (default_value.empty() && models.size() == 1) default_value = models.front();
        if (!ui_) {
            model_ = default_value;
            if (model_.empty())
                throw_usage_error(
                    ask_for_flag("name a model with --model; 'cubepi models' lists "
                                 "them."));
            co_return;
        }
        const bool listed = std::find(models.begin(), models.end(), default_value) != models.end();
        if (!models.empty() && !listed && !endpoint_.model_named) default_value.clear();
        model_ = co_await pick(std::move(models), std::move(default_value));
    }

    Task<std::string> pick(std::vector<std::string> models, std::string default_value) {
        std::vector<std::string> shown = models;
        if (!models.empty()) ui_->say(endpoint_.host() + " offers:\n" + numbered(shown));
        for (;;) {
            std::string question = models.empty() ? "Model" : "Model: a number, or its name";
            const std::string answer = co_await ui_->ask(std::move(question), default_value);
            if (answer.empty()) {
                ui_->say("A model is required; 'cubepi models' lists the models of a server.");
                continue;
            }
            char* end = nullptr;
            const std::size_t number = std::strtoul(answer.c_str(), &end, 10);
            if (*end == '\0' && number >= 1 && number <= std::min(shown.size(), shown_at_once))
                co_return shown[number - 1];
            if (models.empty() || answer == default_value) co_return answer;
            if (std::find(models.begin(), models.end(), answer) != models.end()) co_return answer;
            std::vector<std::string> matching;
            for (const std::string& id : models) {
                if (id.find(answer) != std::string::npos) matching.push_back(id);
            }
            if (matching.size() == 1 && matching.front().starts_with(answer))
                co_return matching.front();
            if (!matching.empty()) {
                shown = std::move(matching);
                ui_->say(numbered(shown));
                continue;
            }
            std::string doubt = "It does not list " + answer + ". Use it anyway?";
            const bool take = co_await ui_->confirm(std::move(doubt), false);
            if (take) co_return answer;
        }
    }

    JsonObject patch() const {
        const KnownProvider* known = known_provider(provider_);
        const bool own_address = known && known->base_url == url_;
        // The simple form stays in place; other addresses get an entry.
        const bool entry =
            has_entry() || !(own_address || (is_configured_ && config().base_url == url_));
        JsonObject top;
        top["provider"] = provider_;
        const bool keep_top = !entry && is_configured_;
        if (!keep_top) {
            for (const char* key : {"base_url", "api_key", "api_key_env", "thinking_tag"})
                top[key] = nullptr;
        }
        JsonObject own;
        JsonObject& place = entry ? own : top;
        if (entry) {
            own["base_url"] = own_address ? Json(nullptr) : Json(url_);
            if (new_type_ && *new_type_ != ModelApi::openai_chat && !has_entry())
                own["type"] = provider_kind(*new_type_).name;
            top["model"] = nullptr;
        }
        place["model"] = model_;
        if (entry && !same_address_) {
            own["api_key"] = nullptr;
            own["api_key_env"] = nullptr;
        }
        if (!new_key_.empty()) {
            place["api_key"] = new_key_;
            place["api_key_env"] = nullptr;
        }
        if (new_key_.empty() && !flags_.api_key_env.empty()) {
            place["api_key_env"] = flags_.api_key_env;
            place["api_key"] = nullptr;
        }
        if (entry) {
            JsonObject providers;
            providers[provider_] = std::move(own);
            top["providers"] = std::move(providers);
        }
        return top;
    }

    ModelQuestionsInput input_;
    bub::OnboardingUi* ui_;
    ModelFlags flags_;
    ModelSources file_;  // only the settings of the file
    std::string provider_;
    std::string url_;
    std::optional<ModelApi> new_type_;  // of the entry of another server
    Endpoint in_file_;                  // of that name, from the file
    Endpoint endpoint_;                 // with the key, from any source
    bool is_configured_ = false;
    bool same_address_ = false;
    std::string new_key_;
    std::string model_;
};

bool is_secret(std::string_view name) {
    if (name.ends_with("_env")) return false;
    for (const ChannelKind* kind : channel_kinds()) {
        for (const ChannelKey& key : kind->keys) {
            if (key.type == KeyType::secret && key.name() == name) return true;
        }
    }
    for (const char* word : {"key", "token", "secret", "password"}) {
        if (name.find(word) != std::string_view::npos) return true;
    }
    return false;
}

std::string shown(std::string_view name, const Json& value) {
    if (!value.is_string()) return is_secret(name) ? "set" : json_text(value);
    std::string text(value.get_string());
    if (!is_secret(name)) return text;
    return text.size() < 12 ? "set" : "..." + text.substr(text.size() - 4);
}

}  // namespace

Task<JsonObject> ask_for_model(ModelQuestionsInput input, bub::OnboardingUi* ui) {
    ModelQuestions questions(std::move(input), ui);
    co_return co_await questions.ask();
}

std::string settings_changes(const JsonObject& before, const JsonObject& wanted,
                             const std::string& path) {
    std::string text;
    for (const auto& [key, value] : before) {
        if (!wanted.contains(key)) text += "  " + path + std::string(key) + ": removed\n";
    }
    for (const auto& [key, value] : wanted) {
        const std::string name = path + std::string(key);
        const Json* old = before.if_contains(key);
        if (old && *old == value) continue;
        if (const JsonObject* object = value.if_object()) {
            const JsonObject* known = old ? old->if_object() : nullptr;
            text += settings_changes(known ? *known : JsonObject(), *object, name + ".");
            continue;
        }
        text += "  " + name + ": " + shown(key, value);
        if (old) text += " (was " + shown(key, *old) + ")";
        text += "\n";
    }
    return text;
}

std::string with_channel_comments(const ChannelKind& kind, const std::string& text) {
    const auto comment_of = [&kind](std::string_view name, bool is_inside) -> std::string_view {
        if (!is_inside) return name == kind.name ? kind.comment : std::string_view();
        for (const ChannelKey& key : kind.keys) {
            if (key.name() == name) return key.comment;
        }
        return {};
    };
    std::istringstream lines(text);
    std::string out;
    bool has_comment = false;
    bool is_inside = false;
    std::size_t depth = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
        const std::string name = line.substr(indent, line.find(':') - indent);
        const bool is_comment = line.substr(indent).starts_with('#');
        if (indent < line.size() && !is_comment && indent <= depth) is_inside = false;
        const std::string_view comment =
            indent > 0 && !is_comment ? comment_of(name, is_inside) : std::string_view();
        if (!comment.empty() && !has_comment)
            out += std::string(indent, ' ') + "# " + std::string(comment) + "\n";
        if (!is_inside && indent > 0 && name == kind.name) {
            is_inside = true;
            depth = indent;
        }
        has_comment = is_comment;
        out += line + "\n";
    }
    return out;
}

std::optional<std::size_t> option_named(const std::string& answer,
                                        const std::vector<std::string>& options) {
    const std::string asked = letters_of(answer);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < options.size(); ++i) {
        if (answer == std::to_string(i + 1)) return i;
        const std::string name = letters_of(options[i].substr(0, options[i].find(" (")));
        if (!asked.empty() && name == asked) return i;
        if (!asked.empty() && name.starts_with(asked)) found.push_back(i);
    }
    if (found.size() != 1) return std::nullopt;
    return found.front();
}

}  // namespace cubepi::app

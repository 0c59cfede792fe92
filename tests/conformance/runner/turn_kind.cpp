#include <chrono>
#include <memory>
#include <utility>

#include <bub/framework.hpp>
#include <cubepi/core/cancellation.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "loop_thread.hpp"
#include "reading.hpp"
#include "turn_builtin.hpp"
#include "turn_plugins.hpp"
#include "upper_case.hpp"

namespace conformance {

namespace {

using bub::Task;

/// README-turns.md, 2.4.
class ScriptedRouter final : public bub::OutboundChannelRouter {
public:
    explicit ScriptedRouter(std::string how) : how_(std::move(how)) {
        if (how_ != "none" && how_ != "upper" && how_ != "drop_errors" && how_ != "fail") {
            throw BadFile("unknown wrap \"" + how_ + "\"");
        }
    }

    bub::EventStream wrap_stream(const bub::Envelope&, bub::EventStream stream) override {
        ++wraps;
        if (how_ == "upper") return bub::EventStream::map(std::move(stream), upper);
        if (how_ == "drop_errors") return bub::EventStream::map(std::move(stream), no_error);
        if (how_ == "fail") return bub::EventStream::map(std::move(stream), fail);
        return stream;
    }

    Task<bool> dispatch_output(bub::TurnOutput output) override {
        dispatched.push_back(std::move(output.message));
        co_return true;
    }

    int wraps = 0;
    std::vector<bub::Envelope> dispatched;

private:
    static std::optional<bub::StreamEvent> upper(bub::StreamEvent event) {
        Json* delta = event.kind == "text" ? event.data.if_contains("delta") : nullptr;
        if (delta && delta->is_string()) *delta = upper_case(std::string(delta->get_string()));
        return event;
    }
    static std::optional<bub::StreamEvent> no_error(bub::StreamEvent event) {
        if (event.kind == "error") return std::nullopt;
        return event;
    }
    static std::optional<bub::StreamEvent> fail(bub::StreamEvent) {
        throw HookError("router failed");
    }

    std::string how_;
};

/// One turn of a scenario, and the values read afterwards.
class TurnPlay {
public:
    TurnPlay(const JsonObject& file, HookForm form)
        : file_(file),
          log_(std::make_shared<TurnLog>()),
          inbound_(std::make_shared<bub::Envelope>(as_object(file.at("inbound"), "inbound"))) {
        log_->form = form;
    }

    JsonObject perform();

private:
    void set_up();
    void add_plugins();
    Task<> play();
    Task<> turn();
    Task<> probe(std::string name);
    Json plugin_statuses() const;
    Json shown(const bub::Envelope& envelope) const;
    Json shown(const std::vector<bub::Envelope>& envelopes) const;

    const JsonObject& file_;
    std::shared_ptr<TurnLog> log_;
    std::shared_ptr<bub::Envelope> inbound_;
    std::unique_ptr<BuiltinStage> builtin_;
    std::unique_ptr<bub::Framework> framework_;
    std::shared_ptr<ScriptedRouter> router_;
    JsonObject result_;
};

void TurnPlay::set_up() {
    bub::FrameworkOptions options;
    if (const Json* spec = file_.if_contains("builtin")) {
        builtin_ = std::make_unique<BuiltinStage>(as_object(*spec, "builtin"), log_);
        options.workspace = builtin_->workspace();
        builtin_->prepare(*inbound_);
    }
    framework_ = std::make_unique<bub::Framework>(std::move(options));
    log_->workspace = framework_->workspace().string();
    framework_->add(observer_plugin(log_));
    if (builtin_) builtin_->add_to(*framework_);
    add_plugins();
    if (const Json* spec = file_.if_contains("router")) {
        const JsonObject& form = as_object(*spec, "router");
        only_keys(form, "router", {"wrap"});
        router_ = std::make_shared<ScriptedRouter>(text_or(form, "wrap", "none"));
        framework_->bind_router(router_);
    }
}

void TurnPlay::add_plugins() {
    for (const Json& item : as_array(file_.at("plugins"), "plugins")) {
        const JsonObject& spec = as_object(item, "plugins");
        only_keys(spec, "plugins", {"name", "hooks", "fails", "reason"});
        const std::string name = text_or(spec, "name", "");
        const std::string fails = text_or(spec, "fails", "");
        if (fails == "load") {
            framework_->note_broken(name, text_or(spec, "reason", ""));
        } else if (fails == "init") {
            const std::string reason = text_or(spec, "reason", "");
            framework_->load(name,
                             [reason](bub::Framework&) -> bub::Plugin { throw HookError(reason); });
        } else if (!fails.empty()) {
            throw BadFile("unknown way to fail \"" + fails + "\"");
        } else {
            bub::Plugin made = scripted_plugin(spec, log_);
            framework_->load(name, [&made](bub::Framework&) { return std::move(made); });
        }
    }
}

Task<> TurnPlay::turn() {
    const bool streams = flag_or(file_, "stream_output", false);
    bub::TurnResult result = co_await framework_->process_inbound(inbound_, streams);
    result_["session_id"] = result.session_id;
    result_["prompt"] = to_json(result.prompt);
    result_["model_output"] = result.model_output;
    result_["outbounds"] = shown(result.outbounds);
    if (!log_->state.is_null()) log_->state = state_form(result.state.values, log_->workspace);
}

Task<> TurnPlay::play() {
    for (const char* key : {"session_id", "prompt", "model_output", "outbounds", "raised"}) {
        result_[key] = nullptr;
    }
    std::exception_ptr failure;
    try {
        Task<> asked = turn();
        co_await cubepi::cancel_on(log_->abort.get_token(), std::move(asked));
    } catch (const BadFile&) {
        throw;
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure) result_["raised"] = error_form(failure).at("error");
    result_["trace"] = log_->trace;
    result_["state"] = log_->state;
    result_["errors"] = log_->errors;
    result_["inbound_after"] = bub::to_json(*inbound_);
    if (router_) result_["router_wraps"] = router_->wraps;
    if (builtin_) {
        for (Json& entry : result_["trace"].get_array()) {
            Json* message = entry.get_object().if_contains("message");
            if (message) BuiltinStage::trim(message->get_object());
        }
        if (router_) result_["router_dispatched"] = shown(router_->dispatched);
        co_await builtin_->report(result_, *inbound_);
    }
    const Json* probes = file_.if_contains("probe");
    if (!probes) co_return;
    for (const Json& name : as_array(*probes, "probe")) {
        std::string asked = as_text(name, "probe");
        co_await probe(std::move(asked));
    }
}

Task<> TurnPlay::probe(std::string name) {
    if (name == "plugins") {
        result_["plugins"] = plugin_statuses();
    } else if (name == "system_prompt") {
        bub::TurnState state;
        const bub::Prompt prompt("prompt");
        result_["system_prompt"] = co_await framework_->system_prompt(prompt, state);
    } else if (name == "channels") {
        bub::MessageHandler handler = [](bub::Envelope) -> Task<> { co_return; };
        std::vector<bub::ProvidedChannel> found =
            co_await framework_->collect_channels(std::move(handler));
        JsonArray list;
        for (const bub::ProvidedChannel& one : found) {
            JsonObject form;
            form["name"] = one.channel->name();
            form["plugin"] = one.plugin;
            list.push_back(std::move(form));
        }
        result_["channels"] = std::move(list);
    } else {
        throw BadFile("unknown probe \"" + name + "\"");
    }
}

Json TurnPlay::plugin_statuses() const {
    JsonArray list;
    for (const Json& item : as_array(file_.at("plugins"), "plugins")) {
        const JsonObject& spec = item.get_object();
        const std::string name = text_or(spec, "name", "");
        const std::string reason = text_or(spec, "reason", "");
        for (const bub::PluginStatus& status : framework_->plugin_status()) {
            if (status.name != name) continue;
            JsonObject form;
            form["name"] = name;
            form["ok"] = status.ok;
            if (!status.ok) {
                const bool says_so = status.reason.find(reason) != std::string::npos;
                form["reason"] = says_so ? reason : status.reason;
            }
            list.push_back(std::move(form));
            break;
        }
    }
    return list;
}

Json TurnPlay::shown(const bub::Envelope& envelope) const {
    JsonObject form = bub::to_json(envelope);
    if (builtin_) BuiltinStage::trim(form);
    return form;
}

Json TurnPlay::shown(const std::vector<bub::Envelope>& envelopes) const {
    JsonArray list;
    for (const bub::Envelope& envelope : envelopes) list.push_back(shown(envelope));
    return list;
}

JsonObject TurnPlay::perform() {
    set_up();
    if (!run_within(play(), std::chrono::seconds(30))) {
        throw std::runtime_error("hang: the turn did not come to its end");
    }
    return std::move(result_);
}

/// Pointers are all resolved before anything is removed, elements of lists from the back (section 1).
void remove_ignored(Json& value, std::vector<std::string> pointers) {
    std::sort(pointers.begin(), pointers.end(), [](const std::string& a, const std::string& b) {
        const std::string_view parent_a = std::string_view(a).substr(0, a.rfind('/') + 1);
        const std::string_view parent_b = std::string_view(b).substr(0, b.rfind('/') + 1);
        if (parent_a != parent_b) return parent_a > parent_b;
        return a.size() != b.size() ? a.size() > b.size() : a > b;
    });
    for (const std::string& pointer : pointers) remove_at(value, pointer);
}

void check_members(const JsonObject& file) {
    only_keys(file, "file",
              {"kind", "name", "about", "origin", "decisions", "python_differs", "ignore", "expect",
               "plugins", "inbound", "stream_output", "router", "builtin", "probe"});
}

}  // namespace

Json play_turn(const Json& content) {
    const JsonObject& file = as_object(content, "file");
    check_members(file);
    return TurnPlay(file, HookForm::plain).perform();
}

std::vector<std::string> check_turn(const Json& content) {
    const JsonObject& file = as_object(content, "file");
    check_members(file);
    std::vector<std::string> ignore;
    if (const Json* list = file.if_contains("ignore")) {
        for (const Json& pointer : as_array(*list, "ignore")) {
            ignore.push_back(as_text(pointer, "ignore"));
        }
    }
    Json want = file.at("expect");
    remove_ignored(want, ignore);
    std::vector<std::string> found;
    // The result must not depend on whether a hook waits.
    for (const HookForm form : {HookForm::plain, HookForm::task}) {
        Json got = TurnPlay(file, form).perform();
        remove_ignored(got, ignore);
        const std::string label = form == HookForm::plain ? "" : "hooks that wait: ";
        for (const std::string& difference : differences(want, got)) {
            found.push_back(label + difference);
        }
        if (!found.empty()) break;
    }
    return found;
}

}  // namespace conformance

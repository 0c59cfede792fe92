#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/framework.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/provider/faux.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "scenario.hpp"
#include "support.hpp"
#include "turn_plugins.hpp"

namespace conformance {

namespace {

using bub::Task;

/// The product's own builtin plugin on a scripted model (README-turns.md, 2.5), with a home and a workspace of its own.
class BuiltinStage {
public:
    BuiltinStage(const JsonObject& spec, std::shared_ptr<TurnLog> log);
    ~BuiltinStage();
    BuiltinStage(const BuiltinStage&) = delete;
    BuiltinStage& operator=(const BuiltinStage&) = delete;

    std::filesystem::path workspace() const;
    /// Sets the lifespan of the inbound, if the scenario has one.
    void prepare(bub::Envelope& inbound);
    void add_to(bub::Framework& framework);
    /// The results about model, tape and lifespan that the scenario requests.
    bub::Task<> report(JsonObject& result, const bub::Envelope& inbound);

    /// Removes the members of an envelope created by the plugin that the page does not name.
    static void trim(JsonObject& envelope);

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// A temporary directory, removed by the destructor.
class Directory {
public:
    Directory() {
        std::string name = (std::filesystem::temp_directory_path() / "cubepi-turn-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        path_ = name;
    }
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
};

class RecordedLifespan final : public bub::Lifespan {
public:
    Task<> open() override {
        JsonObject entry;
        entry["event"] = "open";
        entries.push_back(std::move(entry));
        co_return;
    }
    Task<> close(std::exception_ptr error) override {
        JsonObject entry;
        entry["event"] = "close";
        entry["error"] = error_form(error).at("error");
        entries.push_back(std::move(entry));
        co_return;
    }
    JsonArray entries;
};

std::vector<cubepi::FauxStep> steps_of(const JsonArray& replies) {
    std::vector<cubepi::FauxStep> steps;
    for (const Json& reply : replies) {
        if (const JsonObject* failing = reply.if_object()) {
            only_keys(*failing, "replies", {"throw"});
            cubepi::ErrorInfo info;
            info.code = cubepi::ErrorCode::bad_request;
            info.type = "ProviderBadRequest";
            steps.push_back(cubepi::faux_failure(text_or(*failing, "throw", ""), info));
        } else {
            steps.push_back(cubepi::faux_assistant_message(as_text(reply, "replies")));
        }
    }
    return steps;
}

/// README-turns.md, 2.7: text that the plugin adds before the inbound's content is not compared.
Json user_content(const bub::TapeEntry& entry, const std::string& content) {
    const Json* stored = entry.payload.if_contains("content");
    if (!stored) return nullptr;
    const auto* text = stored->if_string();
    if (text && std::string_view(*text).ends_with(content)) return Json(content);
    return *stored;
}

struct BuiltinStage::State {
    explicit State(std::shared_ptr<TurnLog> turn_log) : log(std::move(turn_log)) {}

    std::shared_ptr<TurnLog> log;
    Directory home;
    Directory workspace;
    cubepi::FauxProvider model;
    std::shared_ptr<RecordedLifespan> lifespan;
    bub::Framework* framework = nullptr;
};

BuiltinStage::BuiltinStage(const JsonObject& spec, std::shared_ptr<TurnLog> log)
    : state_(std::make_unique<State>(std::move(log))) {
    only_keys(spec, "builtin", {"replies", "lifespan"});
    state_->model.set_responses(steps_of(as_array(spec.at("replies"), "replies")));
    if (flag_or(spec, "lifespan", false)) state_->lifespan = std::make_shared<RecordedLifespan>();
}

BuiltinStage::~BuiltinStage() = default;

std::filesystem::path BuiltinStage::workspace() const { return state_->workspace.path(); }

void BuiltinStage::prepare(bub::Envelope& inbound) { inbound.lifespan = state_->lifespan; }

void BuiltinStage::add_to(bub::Framework& framework) {
    state_->framework = &framework;
    bub::BuiltinOptions options;
    options.model = state_->model.model("scripted");
    options.home = state_->home.path();
    options.with_user_skills = false;
    framework.add(bub::builtin_plugin(framework, std::move(options)));
}

Task<> BuiltinStage::report(JsonObject& result, const bub::Envelope& inbound) {
    result["model_calls"] = state_->model.call_count();
    if (state_->lifespan) result["lifespan"] = state_->lifespan->entries;
    const std::shared_ptr<bub::TapeStore> store = co_await state_->framework->tape_store();
    const std::string tape =
        bub::tape_name(state_->workspace.path(), inbound.session_id.value_or(""));
    const std::vector<bub::TapeEntry> entries = co_await store->fetch(tape, bub::TapeQuery());
    result["tape_written"] = !entries.empty();
    JsonArray messages;
    for (const bub::TapeEntry& entry : entries) {
        const Json* role = entry.payload.if_contains("role");
        if (entry.kind != bub::entry_kind::message || !role || *role != "user") continue;
        messages.push_back(user_content(entry, inbound.content_text()));
    }
    result["tape_user_messages"] = std::move(messages);
}

void BuiltinStage::trim(JsonObject& envelope) {
    for (const char* key : {"output_channel", "context", "media"}) envelope.erase(key);
}

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

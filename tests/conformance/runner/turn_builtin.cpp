#include "turn_builtin.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

#include <bub/builtin/builtin.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/provider/faux.hpp>

#include "reading.hpp"

namespace conformance {

namespace {

using bub::Task;

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

}  // namespace

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

}  // namespace conformance

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/schema/python_json.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "support.hpp"

// Tapes: README-turns.md, section 3.

namespace conformance {

namespace {

namespace fs = std::filesystem;
using namespace bub;
using cubepi::Task;

struct Directory {
    fs::path path;
    Directory() {
        std::string name = (fs::temp_directory_path() / "cubepi-tapes-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), name);
        path = name;
    }
    ~Directory() {
        std::error_code failed;
        fs::remove_all(path, failed);
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
};

Json entry_json(const TapeEntry& entry, bool with_id) {
    JsonObject json;
    if (with_id) json["id"] = entry.id;
    json["kind"] = entry.kind;
    json["payload"] = entry.payload;
    if (!entry.meta.empty()) json["meta"] = entry.meta;
    return json;
}

bool begins_json(std::string_view text) {
    return !text.empty() && (text.front() == '{' || text.front() == '[');
}

/// Parses JSON inside text (3.4).
Json shown(const JsonObject& message) {
    const Json* content = message.if_contains("content");
    if (!content || !content->is_string()) return message;
    const std::string_view text = content->get_string();
    const std::string role = text_or(message, "role", "");
    JsonObject json = message;
    constexpr std::string_view before = "[Anchor created: ";
    const std::size_t colon = text.find("]: ");
    if (text.starts_with(before) && colon != text.npos) {
        JsonObject anchor;
        anchor["name"] = text.substr(before.size(), colon - before.size());
        anchor["state"] = cubepi::parse_lenient(text.substr(colon + 3));
        json.erase("content");
        json["anchor"] = std::move(anchor);
    } else if (role == "tool" && begins_json(text)) {
        json["content_json"] = cubepi::parse_lenient(text);
        json.erase("content");
    }
    return json;
}

std::pair<std::string, std::string> pair_of(const Json& value, std::string_view where) {
    const JsonArray& list = as_array(value, where);
    if (list.size() != 2) throw BadFile(std::string(where) + ": two texts were expected");
    return {as_text(list[0], where), as_text(list[1], where)};
}

// NOLINTBEGIN(bugprone-use-after-move): what a setter moves from gets its value back
TapeQuery query_of(const JsonObject& op) {
    TapeQuery query;
    const auto use = [&](TapeQuery&& next) {
        TapeQuery made = std::move(next);
        query = std::move(made);
    };
    if (const Json* name = op.if_contains("after_anchor"))
        use(std::move(query).after_anchor(as_text(*name, "after_anchor")));
    if (flag_or(op, "last_anchor", false)) use(std::move(query).last_anchor());
    if (const Json* names = op.if_contains("between_anchors")) {
        auto [first, second] = pair_of(*names, "between_anchors");
        use(std::move(query).between_anchors(std::move(first), std::move(second)));
    }
    if (const Json* dates = op.if_contains("between_dates")) {
        auto [from, to] = pair_of(*dates, "between_dates");
        use(std::move(query).between_dates(std::move(from), std::move(to)));
    }
    if (op.contains("text")) use(std::move(query).text(text_or(op, "text", "")));
    if (const Json* kinds = op.if_contains("kinds")) {
        std::vector<std::string> names;
        for (const Json& kind : as_array(*kinds, "kinds")) names.push_back(as_text(kind, "kinds"));
        use(std::move(query).kinds(std::move(names)));
    }
    if (const Json* limit = op.if_contains("limit"))
        use(std::move(query).limit(static_cast<std::size_t>(as_number(*limit, "limit"))));
    return query;
}
// NOLINTEND(bugprone-use-after-move)

std::optional<JsonObject> object_of(const JsonObject& op, std::string_view key) {
    const Json* value = op.if_contains(key);
    if (!value || value->is_null()) return std::nullopt;
    return as_object(*value, key);
}

class TapePlay {
public:
    explicit TapePlay(const JsonObject& scenario) : tape_(text_or(scenario, "tape", "w__s")) {
        const std::string store = text_or(scenario, "store", "file");
        if (store != "file" && store != "memory") throw BadFile("unknown store \"" + store + "\"");
        in_memory_ = store == "memory";
        store_ = open();
    }

    Task<Json> play(JsonArray ops) {
        JsonArray results;
        for (const Json& op : ops) {
            Json result = co_await refusable(as_object(op, "op"));
            results.push_back(std::move(result));
        }
        JsonObject result;
        result["results"] = std::move(results);
        result["files"] = files();
        co_return result;
    }

private:
    std::shared_ptr<TapeStore> open() const {
        if (in_memory_) return std::make_shared<MemoryTapeStore>();
        return std::make_shared<FileTapeStore>(directory_.path);
    }

    Task<Json> refusable(JsonObject op) {
        const char* kind = nullptr;
        try {
            Json result = co_await perform(std::move(op));
            co_return result;
        } catch (const cubepi::Error& error) {
            if (error.code() == cubepi::ErrorCode::not_found) kind = "not_found";
            if (error.code() == cubepi::ErrorCode::invalid_argument) kind = "invalid_input";
            if (!kind) throw;
        }
        JsonObject refused;
        refused["error"] = kind;
        co_return refused;
    }

    std::shared_ptr<TapeStore> store_for(const JsonObject& op) const {
        const std::string fork = text_or(op, "in", "");
        if (!fork.empty()) return fork_of(fork);
        return flag_or(op, "fresh", false) && !in_memory_ ? open() : store_;
    }

    std::shared_ptr<TurnTransaction> fork_of(const std::string& id) const {
        const auto found = forks_.find(id);
        if (found == forks_.end()) throw BadFile("no open fork \"" + id + "\"");
        return found->second;
    }

    Task<Json> perform(JsonObject op) {
        const std::string name = as_text(op.at("op"), "op");
        const std::string file = text_or(op, "tape", tape_);
        const bool in_fork = op.contains("in");
        const Tape tape(store_for(op), file);
        if (name == "append" || name == "handoff" || name == "bootstrap" || name == "reset" ||
            name == "restart") {
            co_await change(name, op, tape);
        } else if (name == "fork") {
            forks_[as_text(op.at("id"), "id")] = tape.fork();
        } else if (name == "merge" || name == "discard") {
            co_await end_fork(name, text_or(op, "in", ""));
        } else if (name == "reopen") {
            forks_.clear();
            store_.reset();
            store_ = open();
        } else if (name == "cut") {
            const fs::path path = path_of(file);
            const auto bytes = static_cast<std::uintmax_t>(as_number(op.at("bytes"), "bytes"));
            fs::resize_file(path, fs::file_size(path) - bytes);
        } else if (name == "write") {
            write(op, path_of(file));
        } else {
            Json result = co_await look(name, op, tape, in_fork);
            co_return result;
        }
        co_return "ok";
    }

    Task<void> change(std::string name, JsonObject op, Tape tape) {
        JsonObject meta = object_of(op, "meta").value_or(JsonObject());
        if (name == "append") {
            const JsonObject& given = as_object(op.at("entry"), "entry");
            only_keys(given, "entry", {"kind", "payload", "meta"});
            TapeEntry entry = tape_entry(as_text(given.at("kind"), "kind"),
                                         as_object(given.at("payload"), "payload"),
                                         object_of(given, "meta").value_or(JsonObject()));
            co_await tape.append(std::move(entry));
        } else if (name == "handoff") {
            std::optional<JsonObject> state = object_of(op, "state");
            co_await tape.handoff(as_text(op.at("name"), "name"), std::move(state),
                                  std::move(meta));
        } else if (name == "bootstrap") {
            co_await tape.bootstrap();
        } else if (name == "reset") {
            co_await tape.store()->reset(tape.name());
        } else {
            co_await tape.restart();
        }
    }

    Task<void> end_fork(std::string name, std::string id) {
        const std::shared_ptr<TurnTransaction> fork = fork_of(id);
        forks_.erase(id);
        if (name == "merge") {
            co_await fork->merge();
        } else {
            co_await fork->discard();
        }
    }

    Task<Json> look(std::string name, JsonObject op, Tape tape, bool in_fork) {
        JsonObject result;
        if (name == "query") {
            TapeQuery query = query_of(op);
            std::vector<TapeEntry> entries = co_await tape.query(std::move(query));
            if (op.contains("text")) {
                std::sort(entries.begin(), entries.end(),
                          [](const TapeEntry& a, const TapeEntry& b) { return a.id < b.id; });
            }
            JsonArray list;
            for (const TapeEntry& entry : entries) list.push_back(entry_json(entry, !in_fork));
            result["entries"] = std::move(list);
        } else if (name == "context") {
            ContextStart start = start_of(op);
            const JsonArray messages = co_await tape.context(std::move(start));
            JsonArray list;
            for (const Json& message : messages) list.push_back(shown(message.get_object()));
            result["messages"] = std::move(list);
        } else if (name == "anchors") {
            const auto limit = static_cast<std::size_t>(number_or(op, "limit", 20));
            const std::vector<TapeAnchor> anchors = co_await tape.anchors(limit);
            JsonArray list;
            for (const TapeAnchor& anchor : anchors) {
                JsonObject one;
                one["name"] = anchor.name;
                one["state"] = anchor.state;
                list.push_back(std::move(one));
            }
            result["anchors"] = std::move(list);
        } else if (name == "info") {
            const TapeInfo info = co_await tape.info();
            result = info_json(info);
        } else if (name == "list") {
            const std::vector<std::string> names = co_await tape.store()->list_tapes();
            result["tapes"] = JsonArray(names.begin(), names.end());
        } else if (name == "name") {
            result["tape"] = tape_name(as_text(op.at("workspace"), "workspace"),
                                       as_text(op.at("session_id"), "session_id"));
        } else {
            throw BadFile("unknown op \"" + name + "\"");
        }
        co_return result;
    }

    static ContextStart start_of(const JsonObject& op) {
        const std::string from = text_or(op, "from", "last_anchor");
        if (from == "last_anchor") return ContextStart::last_anchor();
        if (from == "beginning") return ContextStart::beginning();
        if (from == "anchor") return ContextStart::anchor(text_or(op, "name", ""));
        throw BadFile("unknown start of a context \"" + from + "\"");
    }

    static JsonObject info_json(const TapeInfo& info) {
        JsonObject json;
        json["entries"] = info.entries;
        json["anchors"] = info.anchors;
        json["last_anchor"] = info.last_anchor ? Json(*info.last_anchor) : Json();
        json["entries_since_last_anchor"] = info.entries_since_last_anchor;
        json["last_token_usage"] = info.last_token_usage ? Json(*info.last_token_usage) : Json();
        json["last_token_cache_hit_rate"] =
            info.last_token_cache_hit_rate ? Json(*info.last_token_cache_hit_rate) : Json();
        return json;
    }

    fs::path path_of(const std::string& tape) const { return directory_.path / (tape + ".jsonl"); }

    static void write(const JsonObject& op, const fs::path& path) {
        const auto mode = flag_or(op, "replace", false) ? std::ios::trunc : std::ios::app;
        std::ofstream out(path, std::ios::binary | mode);
        for (const Json& line : as_array(op.at("lines"), "lines")) {
            if (const auto* text = line.if_string()) {
                out << std::string_view(*text);
            } else {
                out << boost::json::serialize(line) << '\n';
            }
        }
    }

    JsonObject files() const {
        std::map<std::string, JsonArray> found;
        for (const fs::directory_entry& file : fs::directory_iterator(directory_.path)) {
            if (file.path().extension() != ".jsonl") continue;
            JsonArray& entries = found[file.path().stem().string()];
            std::ifstream in(file.path(), std::ios::binary);
            for (std::string line; std::getline(in, line);) {
                if (std::optional<Json> entry = stored_entry(line))
                    entries.push_back(std::move(*entry));
            }
        }
        JsonObject json;
        for (auto& [name, entries] : found) json[name] = std::move(entries);
        return json;
    }

    static std::optional<Json> stored_entry(const std::string& line) {
        Json json;
        try {
            json = cubepi::parse_lenient(line);
        } catch (const cubepi::Error&) {
            return std::nullopt;
        }
        const JsonObject* object = json.if_object();
        if (!object || !object->contains("id") || !object->at("id").is_int64() ||
            !object->contains("kind") || !object->at("kind").is_string() ||
            !object->contains("payload") || !object->at("payload").is_object())
            return std::nullopt;
        JsonObject entry;
        entry["id"] = object->at("id");
        entry["kind"] = object->at("kind");
        entry["payload"] = object->at("payload");
        const Json* meta = object->if_contains("meta");
        if (meta && meta->is_object() && !meta->get_object().empty()) entry["meta"] = *meta;
        return entry;
    }

    Directory directory_;
    std::string tape_;
    bool in_memory_ = false;
    std::shared_ptr<TapeStore> store_;
    std::map<std::string, std::shared_ptr<TurnTransaction>> forks_;
};

/// Members that README-turns.md does not name are faults of the file (exit status 2).
void check_members(const JsonObject& scenario) {
    only_keys(scenario, "scenario",
              {"kind", "name", "about", "origin", "decisions", "python_differs", "ignore", "expect",
               "store", "tape", "ops"});
    for (const Json& op : as_array(scenario.at("ops"), "ops")) {
        only_keys(as_object(op, "op"), "op", {"op",
                                              "tape",
                                              "in",
                                              "fresh",
                                              "entry",
                                              "name",
                                              "state",
                                              "meta",
                                              "id",
                                              "from",
                                              "limit",
                                              "workspace",
                                              "session_id",
                                              "bytes",
                                              "lines",
                                              "replace",
                                              "last_anchor",
                                              "after_anchor",
                                              "between_anchors",
                                              "between_dates",
                                              "text",
                                              "kinds"});
    }
}

/// Removes from the back of lists, so that indexes keep their meaning.
void remove_ignored(Json& value, const JsonObject& scenario) {
    const Json* list = scenario.if_contains("ignore");
    if (!list) return;
    std::vector<std::string> pointers;
    for (const Json& pointer : as_array(*list, "ignore"))
        pointers.push_back(as_text(pointer, "ignore"));
    std::sort(pointers.begin(), pointers.end(), [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() > b.size() : a > b;
    });
    for (const std::string& pointer : pointers) remove_at(value, pointer);
}

Task<void> play_into(std::shared_ptr<TapePlay> play, JsonArray ops, std::shared_ptr<Json> result) {
    Json got = co_await play->play(std::move(ops));
    *result = std::move(got);
}

}  // namespace

Json play_tape(const Json& content) {
    const JsonObject& scenario = as_object(content, "scenario");
    check_members(scenario);
    const auto play = std::make_shared<TapePlay>(scenario);
    const auto result = std::make_shared<Json>();
    const JsonArray& ops = as_array(scenario.at("ops"), "ops");
    if (!run_within(play_into(play, ops, result), std::chrono::seconds(30)))
        throw std::runtime_error("not done after 30 s");
    return *result;
}

std::vector<std::string> check_tape(const Json& content) {
    Json got = play_tape(content);
    Json want = content.as_object().at("expect");
    remove_ignored(got, content.as_object());
    remove_ignored(want, content.as_object());
    return differences(want, got);
}

}  // namespace conformance

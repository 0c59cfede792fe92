#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/core/agent_event.hpp>

#include "scenario.hpp"

namespace conformance {

/// Texts that did not come from the framework: only they are compared word by word (README.md, section 3.4).
struct KnownTexts {
    std::set<std::string> results;  ///< of tool results that are errors, and of block reasons
    std::set<std::string> errors;   ///< error messages of the script
};

/// The names that run ids have in results: those of the scenario's history stay, others become r1, r2, ...
class RunNames {
public:
    void keep(const std::string& run_id) { names_.emplace(run_id, run_id); }
    std::string name_of(const std::string& run_id);

private:
    std::map<std::string, std::string> names_;
    int count_ = 0;
};

/// Where a message stands in the result decides which of its fields are shown.
enum class Place { event, call, history };

JsonObject message_form(const cubepi::Message& message, const KnownTexts& known, Place place,
                        RunNames* runs = nullptr);
JsonArray message_forms(const cubepi::MessageList& messages, const KnownTexts& known, Place place,
                        RunNames* runs = nullptr);
/// The blocks of an answer, none left out.
JsonArray block_forms(const cubepi::AssistantMessage& message);
/// Content of a tool's result, framework texts masked.
Json result_content_form(const cubepi::ContentList<cubepi::Content>& content, bool is_error,
                         std::string_view tool, const KnownTexts& known);

/// Each assistant message with n calls is followed at once by their n results, and there are no other results.
bool is_legal_request(const cubepi::MessageList& messages);

/// Writes the events of all agents in normal form (README.md, section 3.2), and checks the snapshots that they carry.
class Recorder {
public:
    Recorder(KnownTexts& known, RunNames& runs) : known_(known), runs_(runs) {}

    void on_event(const cubepi::AgentEvent& event);

    /// The events, with the pieces of a call's arguments joined.
    JsonArray events() const;
    /// "ok", or the numbers of the message updates whose snapshot was wrong.
    Json partials() const;
    JsonObject counts(const std::vector<std::string>& types) const;

private:
    struct Update {
        cubepi::StreamEvent event;
        JsonArray expected;
    };
    struct Pieces {
        std::size_t entry;
        std::string json;
    };

    JsonObject form(const cubepi::AgentEvent& event);
    void record_update(const cubepi::StreamEvent& event);
    void follow(const cubepi::StreamEvent& event);
    void add_request(JsonObject& form, const cubepi::HitlRequest& request);
    std::string question_name(const std::string& id) const;

    KnownTexts& known_;
    RunNames& runs_;
    JsonArray events_;
    std::vector<Pieces> pieces_;
    std::vector<Update> updates_;
    JsonArray answer_;  ///< what the stream events so far add up to
    std::map<std::string, std::int64_t> counts_;
    std::map<std::string, std::string> questions_;
    int question_count_ = 0;
};

/// The request part of `pending` and of hitl_request events.
void put_request(JsonObject& form, const cubepi::HitlRequest& request);

}  // namespace conformance

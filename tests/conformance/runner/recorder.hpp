#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <cubepi/core/agent_event.hpp>

#include "message_form.hpp"

namespace conformance {

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

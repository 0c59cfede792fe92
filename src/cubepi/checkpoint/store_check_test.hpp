// Helpers of the tests of checks: stores with what they find.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/checkpoint/store_report.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/checkpoint/stored_threads.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/message_json.hpp>

namespace cubepi {

/// The findings of a kind, one per line.
inline std::string findings(const StoreReport& report, StoreFinding::Kind kind) {
    std::string text;
    for (const StoreFinding& one : report.findings()) {
        if (one.kind == kind) text += one.where + ": " + one.what + "\n";
    }
    return text;
}
inline std::string damage_in(const StoreReport& report) {
    return findings(report, StoreFinding::Kind::damage);
}
inline std::string repairs_in(const StoreReport& report) {
    return findings(report, StoreFinding::Kind::repair);
}
inline std::string notes_in(const StoreReport& report) {
    return findings(report, StoreFinding::Kind::note);
}

inline std::string numbers_in(const StoreReport& report) {
    std::string text;
    for (const auto& [name, number] : report.counts())
        text += name + " " + std::to_string(number) + "; ";
    return text;
}

inline Message calling(const std::string& call_id, const std::string& run_id = {}) {
    JsonObject json = boost::json::parse(R"({"role": "assistant", "stop_reason": "tool_use",
        "content": [{"type": "tool_call", "name": "rm", "arguments": {}}]})")
                          .as_object();
    json["content"].as_array()[0].as_object()["id"] = call_id;
    return message_from_json(Json(std::move(json))).with_run_id(SharedString(run_id));
}

inline Message result_of(const std::string& call_id, const std::string& run_id = {}) {
    JsonObject json;
    json["role"] = "tool_result";
    json["tool_call_id"] = call_id;
    json["tool_name"] = "rm";
    json["content"] = JsonArray{JsonObject{{"type", "text"}, {"text", "done"}}};
    return message_from_json(Json(std::move(json))).with_run_id(SharedString(run_id));
}

inline MessageList list_of_messages(std::initializer_list<Message> messages) {
    MessageList list;
    for (const Message& message : messages) list.push_back(message);
    return list;
}

inline ClaimOwner owner_on_other_host() {
    ClaimOwner owner;
    owner.owner_id = "o1";
    owner.host = "elsewhere";
    owner.description = "pid 7 on elsewhere";
    return owner;
}

/// "sound": a finished call. "busy": a run in progress with an open call. "asks": a suspended run.
template <class Store>
void write_sound_threads(Store& store) {
    MessageList finished = list_of_messages({user("go"), calling("c"), result_of("c")});
    run(store.append("sound", std::move(finished), AppendOptions()));
    for (const char* thread : {"busy", "asks"}) {
        run(store.claim_run(thread, "r", owner_on_other_host(), ClaimKind::new_run));
        MessageList open = list_of_messages({user("go", "r"), calling("c", "r")});
        run(store.append(thread, std::move(open), AppendOptions()));
    }
    HitlRequest request;
    request.question_id = "c";
    request.created_at = 100;
    request.payload = ApproveRequest();
    run(store.save_pending_request("asks", "r", std::move(request)));
    run(store.release_claim("asks", "r", "o1"));
}

/// Three threads whose calls and results do not match.
template <class Store>
void write_unmatched_threads(Store& store) {
    run(store.append("cut", list_of_messages({user("go"), calling("a")}), AppendOptions()));
    run(store.append("stray", list_of_messages({user("go"), result_of("x")}), AppendOptions()));
    MessageList deep =
        list_of_messages({user("go"), calling("a"), user("more"), calling("b"), result_of("b")});
    run(store.append("deep", std::move(deep), AppendOptions()));
}

inline const char* const unmatched_repairs =
    "thread 'cut': 1 call has no result, and no run is in progress\n"
    "thread 'deep': 1 call has no result\n"
    "thread 'stray': 1 result has no call\n";

inline std::string sorted_lines(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t feed = text.find('\n', at);
        lines.push_back(text.substr(at, feed - at + 1));
        at = feed + 1;
    }
    std::sort(lines.begin(), lines.end());
    std::string sorted;
    for (const std::string& line : lines) sorted += line;
    return sorted;
}

}  // namespace cubepi

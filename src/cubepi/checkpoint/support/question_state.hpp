#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/thread_states.hpp>
#include <cubepi/core/json.hpp>

// The lists in the JSON object of a thread that ThreadStates reads and edits.

namespace cubepi::detail {

/// The end of the id of a note of a call: "ANSWER.INDEX.mcp" (D176).
inline constexpr std::string_view call_note_end = ".mcp";

/// Removes the elements for which `is` returns true, and returns their number.
template <class Is>
std::size_t erase_where(JsonArray& list, Is is) {
    const auto end_of_rest = std::remove_if(list.begin(), list.end(), is);
    const auto removed = static_cast<std::size_t>(list.end() - end_of_rest);
    list.erase(end_of_rest, list.end());
    return removed;
}

/// Returns the list with this name; an empty one if it is missing.
const JsonArray& list_of(const JsonObject& state, std::string_view name);
/// Returns the list with this name, creating it if missing.
JsonArray& edit_list(JsonObject& state, std::string_view name);
/// Removes empty lists.
void tidy_lists(JsonObject& state);

/// Returns true if the element of a list belongs to this run.
bool is_of_run(const Json& element, std::string_view run_id);
/// Removes the mark and all answers of a run that completes (D62).
void remove_answers_of_run(JsonObject& state, const std::string& run_id);
/// Removes the requests and answers of AppendOptions::settle(), the used answers too.
void remove_settled(JsonObject& state, const AppendOptions& options);

/// Reads records, of which some may be present twice.
std::vector<AnswerRecord> read_records(const JsonArray& records, const std::string& run_id);

/// Returns the requests that wait for a user: neither expired nor nested ones.
std::vector<QuestionEntry> pending_requests(const std::string& thread_id, const JsonObject& state);

}  // namespace cubepi::detail

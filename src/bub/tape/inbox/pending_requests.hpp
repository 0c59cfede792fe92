#pragma once

#include <string>
#include <vector>

#include <bub/tape/tape_entry.hpp>
#include <cubepi/agent/question_store.hpp>

// The requests in a tape's side state: the list "pending", with elements {"run_id", "request", "expired"}.

namespace bub::detail {

/// Reads an element of the list. An unreadable one has `damage`, and its ids and times as far as they can be read.
cubepi::QuestionEntry read_request(const std::string& tape, const Json& element);
/// Throws CheckpointCorruptionError for an unreadable request. `file` is that of the side state, if there is one.
[[noreturn]] void throw_damaged_request(const cubepi::QuestionEntry& entry,
                                        const std::string& file);
/// Returns true if QuestionStore::expire_due() has expired the request.
bool is_expired(const Json& element);
bool is_request(const Json& element, const std::string& run_id, const std::string& question_id);

/// Returns the requests that have not expired.
std::vector<cubepi::QuestionEntry> pending_requests(const std::string& tape,
                                                    const JsonObject& state);

}  // namespace bub::detail

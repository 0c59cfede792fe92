#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace conformance
